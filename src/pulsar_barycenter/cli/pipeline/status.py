"""`barycenter pipeline status`: shows the state of a data folder's pipeline, and what to do. Needs no Spark."""

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.pipeline.data_folder import opened
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.running.job_options import DataFolder, with_spark_settings
from pulsar_barycenter.pipeline.running.phases import PhaseTimes
from pulsar_barycenter.pipeline.running.status import PipelineStatus, read_status
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import QUARANTINE
from pulsar_barycenter.pipeline.storage.lock import is_running
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue
from pulsar_barycenter.standalone.restarts import Restart, read_restart

_WELL: Final = {"starting", "running", "stopped"}

_STATES: Final = {
    "starting": "is starting (process {pid})",
    "running": "is running (process {pid})",
    "retrying": "cannot fold a batch and tries again (process {pid})",
    "stopped": "was stopped in order",
    "failed": "FAILED and is not running",
    "killed": "is NOT running: process {pid} was killed or crashed",
    "restarting": "is being started again by `{by}` (process {supervisor}) since {since}, attempt {attempt}",
}

_WHOLE_TRIGGER: Final = "triggerExecution"
_STEADY_MS: Final = 10_000
"""If the newest report was younger than this at the last look, its age needs no explanation."""

_NEXT: Final = {
    "retrying": "fix the error above; the pipeline retries the batch itself, nothing is lost",
    "failed": "fix the error above, then run `barycenter pipeline run --data {data}`; it continues where it stopped",
    "restarting": "nothing if it runs again within a minute; else read {data}/logs/pipeline.log",
    "killed": "run `barycenter pipeline run --data {data}`; it continues, and nothing is lost or counted twice",
}


@click.command(name="status")
@click.option("--data", required=True, type=DataFolder(exists=True), metavar="DIR", help="Data folder of the cluster.")
@with_format("table", "json", json="one object")
@with_spark_settings
def command(data: str, form: str, conf: dict[str, str]) -> None:
    """Show the state of the pipeline of DIR.

    Exit code: 0 if it runs or was stopped in order; 1 if it failed, was killed, is being restarted, retries a batch, or
    never ran.
    """
    now_ms = time.time_ns() // 1_000_000
    with opened(data, conf, answers_a_program=form == "json") as storage:
        found = read_status(storage)
        alive = found is not None and is_running(storage, found.pid, now_ms=now_ms)
        restart = None if storage.local_root is None else read_restart(storage.local_root)
    if found is None:
        if form == "json":
            click.echo(msgspec.json.encode({"state": "none", "alive": False, "data": storage.address()}))
        else:
            click.echo(
                f"no pipeline has run on {storage.address()}; start it with `barycenter pipeline run --data {data}`"
            )
        sys.exit(1)
    state = _state(found, alive=alive, restart=restart)
    if form == "json":
        document = msgspec.to_builtins(found) | {
            "state": state,
            "alive": alive,
            "quarantine": storage.address(QUARANTINE),
            "restart": restart,
        }
        click.echo(msgspec.json.encode(document))
    else:
        click.echo("\n".join(_lines(found, state, storage, restart, now_ms)))
    sys.exit(0 if state in _WELL else 1)


def _state(found: PipelineStatus, *, alive: bool, restart: Restart | None) -> str:
    """Return the state of the pipeline that the command shows.

    It is `restarting` if a parent process restarts the pipeline and the pipeline does not read reports yet; `killed` if
    the process that wrote the state has ended; else the written state.
    """
    if restart is not None and not (alive and found.state in ("running", "retrying")):
        return "restarting"
    return "killed" if found.state in ("starting", "running", "retrying") and not alive else found.state


def _lines(found: PipelineStatus, state: str, storage: Storage, restart: Restart | None, now_ms: int) -> list[str]:
    if restart is not None and state == "restarting":
        since = f"{_utc(restart.since_ms)} ({_age(now_ms - restart.since_ms)} ago)"
        words = {"by": restart.by, "supervisor": restart.pid, "since": since, "attempt": restart.attempt}
        rows = [("pipeline", _STATES[state].format(**words)), ("why", restart.reason)]
    else:
        rows = [("pipeline", f"{_STATES[state].format(pid=found.pid)}; last change {_utc(found.updated_at)}")]
    if found.error:
        rows.append(("error", found.error))
    if found.looked_at:
        looked = f"{_utc(found.looked_at)} ({_age(now_ms - found.looked_at)} ago)"
        rows.append(("last look", f"{looked} for new load reports"))
    if found.as_of:
        rows.append(
            ("newest report", f"{_utc(found.as_of)} ({_age(now_ms - found.as_of)} ago){_why_old(found, state)}")
        )
    if found.lag_ms_p50 is not None and found.lag_ms_p99 is not None:
        lag = f"half of the batches within {found.lag_ms_p50 / 1000:.2f} s, 99 of 100 within"
        rows.append(("lag", f"{lag} {found.lag_ms_p99 / 1000:.2f} s (oldest report to publication)"))
    if found.batch_seconds_p50 is not None and found.batch_seconds_p99 is not None:
        rows.append(("a batch takes", f"{found.batch_seconds_p50:.2f} s; 99 of 100 {found.batch_seconds_p99:.2f} s"))
    if found.phases:
        rows.append(("of a trigger", _phases(found.phases)))
    folded = (count_of(found.batches, "batch"), count_of(found.reports, "report"), count_of(found.samples, "sample"))
    rows.append(("since its start", ", ".join(folded)))
    rows.append(("now", count_of(found.bundles, "bundle")))
    if found.late_reports or found.held_reports:
        held = f"{found.held_reports:,} held until the report before arrives"
        rows.append(("out of order", f"{count_of(found.late_reports, 'report')} came late, {held}"))
    if found.overdue_reports or found.overdue_decisions:
        reports, decisions = count_of(found.overdue_reports, "report"), count_of(found.overdue_decisions, "decision")
        rows.append(("overdue", f"{reports} and {decisions} came after the tables of their time were final"))
    if found.duplicate_reports:
        rows.append(("duplicates", f"{count_of(found.duplicate_reports, 'report')} left out"))
    refused = found.corrupt_reports + found.corrupt_decisions
    if refused:
        kinds = f"{count_of(found.corrupt_reports, 'report')} and {count_of(found.corrupt_decisions, 'decision')}"
        rows.append(("quarantined", f"{kinds} could not be read; copies and reasons: {storage.address(QUARANTINE)}"))
    if found.refold is not None:
        rows.append(("refold due", _refold(found.refold, storage.address())))
    if state != "running" and state in _NEXT:
        rows.append(("what to do", _NEXT[state].format(data=storage.address())))
    return [f"{name:<16} {text}" for name, text in rows]


def _phases(phases: Mapping[str, PhaseTimes]) -> str:
    """Return the phases of Spark's triggers as text, each with its median time over the triggers, longest first."""
    whole = phases.get(_WHOLE_TRIGGER)
    parts = sorted((times.ms_p50, phase) for phase, times in phases.items() if times.ms_p50 and phase != _WHOLE_TRIGGER)
    words = [f"{phase} {ms / 1000:.2f} s" for ms, phase in reversed(parts)]
    return ", ".join([*([f"{whole.ms_p50 / 1000:.2f} s in all"] if whole else []), *words])


def _refold(due: RefoldDue, data: str) -> str:
    """Return a text with the time range in which the tables are incomplete, and the command that computes them
    again.
    """
    what = f"{count_of(due.reports, 'report')} and {count_of(due.decisions, 'decision')}"
    return (
        f"averages, owners and balance from {_utc(due.since)} to {_utc(due.until)} lack {what} that came too late;"
        f" `barycenter pipeline check --data {data}` shows what differs, and `barycenter pipeline refold --from-logs"
        f" --data {data} --out DIR` computes them again, as far as the logs go back"
    )


def _why_old(found: PipelineStatus, state: str) -> str:
    """Return a text that says why there is no newer report than the newest one, if the pipeline runs and has looked for
    reports for long enough without finding any; otherwise "".
    """
    if state != "running" or found.looked_at - found.as_of < _STEADY_MS:
        return ""
    return "; none since: load is steady, brokers report a change or after loadBalancerReportUpdateMaxIntervalMinutes"


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _age(ms: int) -> str:
    seconds = max(0, ms) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
