"""`barycenter history`: queries the recorded history of a cluster."""

import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from typing import Final, get_args

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.cli.moments import Seconds, moment_ms
from pulsar_barycenter.cli.pipeline.data_folder import opened
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.cluster_logs.decision_log import Kind
from pulsar_barycenter.load.bundle_load import IN_AND_OUT
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.history import (
    END_OF_TIME,
    PERSON,
    UNKNOWN,
    History,
    NoHistoryError,
    NoTablesError,
    Ranking,
)
from pulsar_barycenter.pipeline.local_sql import QueryError, run_local_sql, tables_in
from pulsar_barycenter.pipeline.running.job_options import DataFolder, with_spark_settings
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.time_travel import TimeTravelError, batch_as_of
from pulsar_barycenter.questions.history_rows import PLAIN_WIDTH, Rows, one_owner_at_a_time, print_rows, trend
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_progress, spark_start, with_progress
from pulsar_barycenter.terminal.tables import output_width, printable

_LOAD: Final = "load"
_OWNERS: Final = "owners"
_TITLES: Final = {
    _LOAD: "load, in + out, weighted by time",
    _OWNERS: "owners; the times are those of load reports",
}
_EVERY: Final = {"1m": 1, "5m": 5, "15m": 15, "1h": 60, "1d": 1440}

Command = Callable[..., None]
Conf = dict[str, str]


def _common(command: Command) -> Command:
    """Add the options that all subcommands of `barycenter history` have to a command."""
    for option in reversed(
        (
            click.option(
                "--data",
                required=True,
                type=DataFolder(exists=True),
                metavar="DIR",
                help="Data folder of the cluster: a path, or an address that Spark reaches.",
            ),
            click.option("--since", default="", help="Begin of the period: 15m, 2h, 3d ago, or 2026-01-31T12:00."),
            click.option("--until", default="", help="End of the period, exclusive; in the same form."),
            with_format("table", "json", "csv", json="one object on each line"),
            with_spark_settings,
        )
    ):
        command = option(command)
    return command


@click.group(name="history", cls=CommandGroup)
def command() -> None:
    """Query the recorded history of a cluster.

    The pipeline stores it as tables in the data folder (docs/tables.md). Exit code: 0; 1 if there is nothing to show; 2
    for wrong usage.
    """


@command.command(name="top")
@_common
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="The number of bundles.")
@click.option("--by", type=click.Choice(["rate", "throughput"]), default="rate", show_default=True)
def top(data: str, conf: Conf, since: str, until: str, form: str, limit: int, by: str) -> None:
    """Show the bundles with the greatest mean load over the period, in + out, weighted by time.

    docs/measures.md defines the load of a bundle. The mean leaves out times for which no broker reported the bundle;
    the column `covered` is the share of the period that reports cover.
    """
    ranking = Ranking.MSG_RATE if by == "rate" else Ranking.MSG_THROUGHPUT

    def ask() -> Rows:
        rows = history.top_bundles(limit, by=ranking)
        if form == "table":
            said = f"{IN_AND_OUT}, mean weighted by time; covered: the share of the period that reports cover"
            click.echo(textwrap.fill(said, output_width(PLAIN_WIDTH)) + "\n")
        return rows

    with _history(data, conf, since, until, form) as history:
        _answer(form, ask)


_MANAGERS: Final = (*(str(kind) for kind in ManagerKind if kind is not ManagerKind.NOOP), PERSON, UNKNOWN)


def _with_manager(command: Command) -> Command:
    option = click.option(
        "--manager",
        type=click.Choice(_MANAGERS),
        help="Only decisions of this load manager; person: requested by an operator; unknown: not in the log.",
    )
    return option(command)


@command.command(name="decisions")
@_common
@_with_manager
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Only decisions of this kind.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1), help="Show this number of the last decisions."
)
def decisions(
    data: str, conf: Conf, since: str, until: str, form: str, manager: str | None, kind: str | None, limit: int
) -> None:
    """Show the decisions, with load manager, strategy and reason."""
    with _history(data, conf, since, until, form) as history:
        _answer(form, lambda: history.decisions(limit, manager=manager or "", kind=kind or ""))


@command.command(name="bundle")
@_common
@_with_manager
@click.argument("bundle", metavar="TOPIC|BUNDLE")
@click.option("--every", type=click.Choice(list(_EVERY)), default="15m", show_default=True, help="Means per interval.")
def bundle_life(
    data: str, conf: Conf, since: str, until: str, form: str, manager: str | None, bundle: str, every: str
) -> None:
    """Show the life of a bundle: its owners, the decisions about it, and its load.

    For a topic (orders, tenant/namespace/orders, or the full name), the last bundle of the topic is shown. The times of
    owners come from load reports. In the table an owner ends when the next one begins; JSON and CSV have the times of
    the reports.
    """
    with _history(data, conf, since, until, form) as history:
        name = _bundle(history, bundle)
        try:
            life = history.bundle_life(name, every=timedelta(minutes=_EVERY[every]), manager=manager or "")
        except NoHistoryError as error:
            fail(str(error))
            return
    for title, rows in ((_OWNERS, life.owners), ("decisions", life.decisions), (_LOAD, life.load)):
        shown = rows
        if not len(rows):
            continue
        if form == "table":
            click.echo("\n" + trend(_TITLES.get(title, title), rows, title))
            if title == _OWNERS:
                shown = one_owner_at_a_time(rows, is_to_the_end=not until)
        print_rows(shown, form, kind=title)


def _bundle(history: History, name: str) -> str:
    """Return the bundle that `name` names; for a topic, print and return the topic's last bundle. End the program if
    there is none.
    """
    try:
        return str(Bundle.parse(name))
    except InvalidNameError:
        pass
    try:
        topic = TopicName.parse(name)
    except InvalidNameError:
        raise click.UsageError(
            f"{name}: give a bundle as tenant/namespace/range, or a topic by a name that clients use"
        ) from None
    try:
        bundle = history.bundle_of(topic)
    except NoTablesError as error:
        fail(str(error))
    except NoHistoryError as error:
        fail(f"topic {topic} was in no bundle that had an owner: {error}")
    click.echo(printable(f"topic {topic} is in {bundle}"), err=True)
    return bundle


@command.command(name="moves")
@_common
@click.option("--bundle", default="", metavar="TOPIC|BUNDLE", help="Only moves of this bundle, or of a topic's bundle.")
@click.option("--broker", default="", metavar="HOST:PORT", help="Only moves from or to this broker.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1), help="Show this number of the last moves."
)
def moves(data: str, conf: Conf, since: str, until: str, form: str, bundle: str, broker: str, limit: int) -> None:
    """Show the moves of bundles from broker to broker, and why.

    The load reports show which broker had the bundle. The reason is that of the decision to unload the bundle; the
    principal is the operator who requested it, if one did. A bundle whose broker failed has no reason.
    """
    with _history(data, conf, since, until, form) as history:
        name = _bundle(history, bundle) if bundle else ""
        _answer(form, lambda: history.moves(limit, bundle=name, broker=broker), none="no bundle moved")


@command.command(name="flapping")
@_common
@click.option(
    "--within", type=Seconds(1), default="30m", show_default=True, help="The time within which the next move counts."
)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="Show this number of bundles, worst first."
)
def flapping(data: str, conf: Conf, since: str, until: str, form: str, within: float, limit: int) -> None:
    """Show the bundles that load managers moved again soon after a move, and how often back to a former owner.

    Moves that an operator requested (a drain, its undo, a move) do not count, and neither does the next move of the
    bundle.
    """
    with _history(data, conf, since, until, form) as history:
        _answer(
            form,
            lambda: history.flapping(limit, within=timedelta(seconds=within)),
            none="no bundle moved again within this time",
        )


@command.command(name="brokers")
@_common
@click.option("--over", default=85.0, show_default=True, help="The threshold, in percent of weighted usage.")
def brokers(data: str, conf: Conf, since: str, until: str, form: str, over: float) -> None:
    """Show the brokers whose usage was above a threshold, and for which share of the time that their reports cover."""
    with _history(data, conf, since, until, form) as history:
        _answer(form, lambda: history.brokers_over(over / 100), none="no broker was above the threshold")


@command.command(name="imbalance")
@_common
def imbalance(data: str, conf: Conf, since: str, until: str, form: str) -> None:
    """Show how evenly the brokers were loaded, interval by interval."""

    def ask() -> Rows:
        rows = history.imbalance()
        if form == "table":
            click.echo(trend("greatest over mean rate", rows, "balance") + "\n")
        return rows

    with _history(data, conf, since, until, form) as history:
        _answer(form, ask)


@command.command(name="sql")
@click.argument("query")
@click.option(
    "--data",
    required=True,
    type=DataFolder(exists=True),
    metavar="DIR",
    help="Data folder of the cluster: a path, or an address that Spark reaches.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    help="The SQL engine.  [default: duckdb; spark for an address that only Spark reaches, or with --master or --conf]",
)
@click.option("--master", metavar="URL", help="Spark master.  [default: local[*]]")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.option("--limit", default=10_000, show_default=True, type=click.IntRange(1), help="The maximum number of rows.")
@click.option("--as-of-batch", type=click.IntRange(0), metavar="N", help="Read the tables as batch N left them.")
@click.option(
    "--as-of", default="", metavar="TIME", help="The same, for the newest batch with reports up to TIME, such as 2h."
)
@with_spark_settings
def sql(
    query: str,
    data: str,
    engine: str | None,
    master: str | None,
    form: str,
    limit: int,
    as_of_batch: int | None,
    as_of: str,
    conf: Conf,
) -> None:
    """Run SQL over the tables; each is a view of its name (docs/tables.md has examples).

    For example: barycenter history sql --data DIR "select broker, max(cpu_percent) from broker_usage group by broker"

    DuckDB reads a folder on this machine; it answers in about a second, with at most 1 GiB of memory, and cannot write.
    Spark takes seconds to start; it has Spark's SQL and reads any storage that Spark reaches.
    """
    folder = local_folder(data)
    wants_spark = folder is None or master is not None or bool(conf)
    if engine == "duckdb" and wants_spark:
        raise click.UsageError(
            f"DuckDB reads folders on this machine, and {data} is not one; leave out --engine duckdb"
            if folder is None
            else "--master and --conf are for Spark; leave out --engine duckdb, or these"
        )
    at_ms = moment_ms("--as-of", as_of)
    if at_ms and as_of_batch is not None:
        raise click.UsageError("give --as-of-batch or --as-of, not both")
    if (at_ms or as_of_batch is not None) and (wants_spark or engine == "spark"):
        raise click.UsageError("Spark cannot read earlier batches: use --engine duckdb, on a folder of this machine")
    try:
        if folder is not None:
            check_load_folder(folder)
        if folder is None or wants_spark or engine == "spark":
            rows = _asked_of_spark(data, query, master or "local[*]", limit, conf, form)
        else:
            layout = PipelineLayout.of(folder)
            batch = batch_as_of(layout, at_ms) if at_ms else as_of_batch
            rows = run_local_sql(layout, query, limit=limit, as_of_batch=batch)
    except (OSError, QueryError, TimeTravelError, WrongFolderError) as error:
        fail(in_words(error))
        return
    print_rows(rows, form)


def _asked_of_spark(data: str, query: str, master: str, limit: int, conf: Conf, form: str) -> Rows:
    from pulsar_barycenter.pipeline.running.small_work import compilers_for_tables
    from pulsar_barycenter.pipeline.spark.java_options import Compilers
    from pulsar_barycenter.pipeline.spark.sql import run_sql

    with ExitStack() as starting:
        on_phase = starting.enter_context(spark_start(answers_a_program=form != "table"))

        def asking(tasks: Callable[[], tuple[int, int]]) -> AbstractContextManager[None]:
            starting.close()
            return spark_progress(tasks, "asking")

        folder = local_folder(data)
        compilers = Compilers.BOTH
        if folder is not None:
            compilers = compilers_for_tables(PipelineLayout.of(folder), tables_in(query))
        return run_sql(
            *(data, query),
            master=master,
            limit=limit,
            conf=conf,
            compilers=compilers,
            on_phase=on_phase,
            progress=asking,
        )


@contextmanager
def _history(data: str, conf: Conf, since: str, until: str, form: str) -> Iterator[History]:
    begin, end = moment_ms("--since", since), moment_ms("--until", until) or END_OF_TIME
    if begin >= end:
        raise click.UsageError(f"--since {since} is not before --until {until}")
    with opened(data, conf, answers_a_program=form != "table") as storage:
        now_ms = time.time_ns() // 1_000_000
        yield History(storage, since_ms=begin, until_ms=end, now_ms=now_ms, progress=_reading)


def _reading(files: Sequence[str], table: str) -> Iterator[str]:
    return with_progress(files, f"reading {table}")


def _answer(form: str, ask: Callable[[], Rows], *, none: str = "nothing") -> None:
    try:
        rows = ask()
    except NoHistoryError as error:
        fail(str(error))
        return
    if not len(rows) and form == "table":
        click.echo(none)
    else:
        print_rows(rows, form)
