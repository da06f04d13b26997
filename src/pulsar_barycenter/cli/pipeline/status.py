"""`barycenter pipeline status`: how the pipeline of a data folder fares, and what to do about it."""

import sys
import time
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.pipeline.data_folder import opened
from pulsar_barycenter.pipeline.running.job_options import DataFolder, with_spark_settings
from pulsar_barycenter.pipeline.running.status import PipelineStatus, read_status
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import QUARANTINE
from pulsar_barycenter.pipeline.storage.lock import is_running

_WELL: Final = {"starting", "running", "stopped"}

_STATES: Final = {
    "starting": "is starting (process {pid})",
    "running": "is running (process {pid})",
    "retrying": "cannot fold a batch and tries again (process {pid})",
    "stopped": "was stopped in order",
    "failed": "FAILED and is not running",
    "killed": "is NOT running: process {pid} was killed or crashed",
}

_NEXT: Final = {
    "retrying": "mend the error above; the batch is tried again by itself, nothing is lost",
    "failed": "mend the error above, then `barycenter pipeline run --data {data}`; it goes on where it was",
    "killed": "`barycenter pipeline run --data {data}`; it goes on where it was, nothing is lost or counted twice",
}


@click.command(name="status")
@click.option("--data", required=True, type=DataFolder(exists=True), metavar="DIR", help="Data folder of the cluster.")
@with_format("table", "json", json="one object")
@with_spark_settings
def status_command(data: str, form: str, conf: dict[str, str]) -> None:
    """Say how the pipeline of DIR fares.

    Ends with 0 if it runs or was stopped in order, with 1 if it failed, was killed, tries a batch again and again, or
    never ran.
    """
    with opened(data, conf) as storage:
        found = read_status(storage)
        alive = found is not None and is_running(storage, found.pid, now_ms=time.time_ns() // 1_000_000)
    if found is None:
        if form == "json":
            click.echo(msgspec.json.encode({"state": "none", "alive": False, "data": storage.address()}))
        else:
            click.echo(
                f"no pipeline has run on {storage.address()}; start it with `barycenter pipeline run --data {data}`"
            )
        sys.exit(1)
    state = _state(found, alive=alive)
    if form == "json":
        document = msgspec.to_builtins(found) | {
            "state": state,
            "alive": alive,
            "quarantine": storage.address(QUARANTINE),
        }
        click.echo(msgspec.json.encode(document))
    else:
        click.echo("\n".join(_lines(found, state, storage)))
    sys.exit(0 if state in _WELL else 1)


def _state(found: PipelineStatus, *, alive: bool) -> str:
    """The state written, or `killed` if the process that wrote it can no longer tell."""
    return "killed" if found.state in ("starting", "running", "retrying") and not alive else found.state


def _lines(found: PipelineStatus, state: str, storage: Storage) -> list[str]:
    told = f"{datetime.fromtimestamp(found.updated_at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    rows = [("pipeline", f"{_STATES[state].format(pid=found.pid)}; last word {told}")]
    if found.error:
        rows.append(("error", found.error))
    if found.as_of:
        newest = f"{datetime.fromtimestamp(found.as_of / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        rows.append(("newest report", newest))
    if found.lag_ms_p50 is not None and found.lag_ms_p99 is not None:
        lag = f"half of the batches within {found.lag_ms_p50 / 1000:.2f} s, 99 of 100 within"
        rows.append(("lag", f"{lag} {found.lag_ms_p99 / 1000:.2f} s (oldest report to publication)"))
    if found.batch_seconds_p50 is not None and found.batch_seconds_p99 is not None:
        rows.append(("a batch takes", f"{found.batch_seconds_p50:.2f} s; 99 of 100 {found.batch_seconds_p99:.2f} s"))
    rows.append(("since its start", f"{found.batches:,} batches, {found.reports:,} reports, {found.samples:,} samples"))
    rows.append(("now", f"{found.bundles:,} bundles"))
    if found.late_reports or found.held_reports:
        held = f"{found.held_reports:,} wait for one before them"
        rows.append(("out of order", f"{found.late_reports:,} reports came late, {held}"))
    if found.duplicate_reports:
        rows.append(("duplicates", f"{found.duplicate_reports:,} reports were there already and were left out"))
    refused = found.corrupt_reports + found.corrupt_decisions
    if refused:
        kinds = f"{found.corrupt_reports:,} reports and {found.corrupt_decisions:,} decisions could not be read"
        rows.append(("quarantined", f"{kinds}; they and why: {storage.address(QUARANTINE)}"))
    if state != "running" and state in _NEXT:
        rows.append(("what to do", _NEXT[state].format(data=storage.address())))
    return [f"{name:<16} {text}" for name, text in rows]
