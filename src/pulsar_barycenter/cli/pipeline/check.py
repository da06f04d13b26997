"""`barycenter pipeline check`: compares the tables of a time range with tables computed from the logs."""

import sys
from datetime import UTC, datetime

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.moments import moment_ms
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.batch.check import TABLE_ERRORS, Checked, CheckedRange, check_tables
from pulsar_barycenter.pipeline.job import FELL_SHORT
from pulsar_barycenter.pipeline.running.job_options import DataFolder, SparkMaster, with_spark_settings
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.session import SPARK_ERRORS, create_session, tasks_of
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_progress, spark_start

TOLERANCE = 1e-9


@click.command(name="check")
@click.option("--data", required=True, type=DataFolder(), metavar="DIR", help="Data folder of the cluster.")
@click.option("--since", default="", help="Begin of the range: 15m, 2h, 1d ago, or 2026-01-31T12:00.")
@click.option("--until", default="", help="End of the range, exclusive; in the same form.")
@click.option("--master", type=SparkMaster(may_connect=True), metavar="URL", help="Spark master.  [default: local[2]]")
@click.option(
    "--history-gap-minutes",
    default=HISTORY_GAP_MS / 60_000,
    show_default=True,
    type=Number(0, min_open=True),
    help="Time without reports after which the history of a bundle starts again.",
)
@click.option("--driver-memory", default="1g", show_default=True, metavar="SIZE", help="Heap of the Java process.")
@with_spark_settings
def command(
    data: str,
    since: str,
    until: str,
    master: str | None,
    history_gap_minutes: float,
    driver_memory: str,
    conf: dict[str, str],
) -> None:
    """Compute the tables of DIR in a range of time from the logs again, and compare them with the recorded tables.

    Both must have the same rows; values may differ by rounding. By default the range is the whole time of the logs,
    which keep two days, and the newest averages are compared as well. The command writes nothing. It may run while the
    pipeline runs, if the range lies in the past.

    Exit code: 0 if all tables agree; 3 if a table differs; 1 if they cannot be compared.
    """
    begin, end = moment_ms("--since", since) or None, moment_ms("--until", until) or None
    if begin is not None and end is not None and begin >= end:
        raise click.UsageError(f"--since {since} is not before --until {until}")
    folder = local_folder(data)
    try:
        if folder is not None:
            check_load_folder(folder)
        with spark_start(answers_a_program=True):
            session = create_session("barycenter check", master, {"spark.driver.memory": driver_memory, **conf})
        tasks = tasks_of(session)
        every = check_tables(
            session,
            open_storage(data, session),
            since_ms=begin,
            until_ms=end,
            history_gap_ms=round(history_gap_minutes * 60_000),
            on_range=_print_range,
            progress=lambda what: spark_progress(tasks, what),
        )
        agreed = [_print_result(found) for found in every]
        session.stop()
    except (JavaNotFoundError, *TABLE_ERRORS, WrongFolderError, *SPARK_ERRORS) as error:
        fail(in_words(error))
    if not all(agreed):
        sys.exit(FELL_SHORT)


def _print_range(checked: CheckedRange) -> None:
    begin = f"from {_utc(checked.since_ms)}" if checked.since_ms else "from the first report"
    end = f"to {_utc(checked.until_ms)}" if checked.until_ms is not None else "to the newest report"
    why = "" if checked.are_logs_whole else "; the logs begin later than the tables, so averages are not compared"
    click.echo(f"checking     {begin} {end}{why}")


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _print_result(checked: Checked) -> bool:
    agrees, found = checked.agrees(TOLERANCE), checked.found
    words = f"{found.rows:,} rows computed, {checked.recorded:,} recorded, {found.matched:,} in both"
    if found.greatest is not None:
        most = found.greatest
        words += f"; greatest difference {most.relative:.1e}, {most.column} of {most.name}:"
        words += f" {most.recorded!r} recorded, {most.refolded!r} computed"
    click.echo(f"{checked.name:<14} {'agrees' if agrees else 'DIFFERS'}: {words}")
    return agrees
