"""`barycenter plan`: what would become of a cluster from here on, and what if a broker left or load grew."""

from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.ask.decide import snapshot_given
from pulsar_barycenter.cli.ask.decision_tables import headline
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.load.managers import MANAGER_KEY
from pulsar_barycenter.load.reasons import SETTINGS_MARK, format_figure
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.what_if import (
    LONGEST_MINUTES,
    MOST_ADDED,
    BrokerForecast,
    Forecast,
    PlannedMove,
    Question,
    forecast,
)
from pulsar_barycenter.snapshots.decided_by import UNUSABLE, WrongWordError, configured, manager_of
from pulsar_barycenter.snapshots.settings_in_force import settings_in_words
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, Kind, print_table, printable

_MOST_MOVES: Final = 50
_WIDTH: Final = 160


@click.command(name="plan")
@click.argument("file", metavar="[SNAPSHOT]", required=False, type=click.Path(path_type=Path))
@click.option("--url", help="Ask the leader of a running cluster: web address of any broker.  [BARYCENTER_URL]")
@click.option("--at", default="", help="Of the pipeline's tables the state at this time: 15m, 2h, 2026-01-31T12:00.")
@click.option("--without", multiple=True, metavar="BROKER", help="What if this broker left; may be repeated.")
@click.option("--add-brokers", "added", default=0, type=click.IntRange(0, MOST_ADDED), help="What if so many joined.")
@click.option(
    "--scale-load",
    "scale",
    default=1.0,
    type=click.FloatRange(0.001, 1000),
    help="What if load were so many times what it is.",
)
@click.option("--strategy", help="A shedder or a placement; unless given, what is configured.")
@click.option("--placement", help="The placement of what is shed; unless given, what is configured.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A key of broker.conf; may be repeated.")
@click.option("--config", "conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A broker.conf.")
@click.option(
    "--minutes", default=30, show_default=True, type=click.IntRange(1, LONGEST_MINUTES), help="How far to look ahead."
)
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of draws.")
@click.option("--explain", is_flag=True, help="Print whole reasons.")
@with_client_conf
@with_format("table", "json", json="one object a line; `barycenter execute` takes it")
def command(
    file: Path | None,
    url: str | None,
    at: str,
    without: tuple[str, ...],
    added: int,
    scale: float,
    strategy: str | None,
    placement: str | None,
    changes: tuple[str, ...],
    conf: Path | None,
    minutes: int,
    seed: int,
    explain: bool,
    form: str,
) -> None:
    """Foresee what the leader would do with a cluster, round after round, and what would come of it.

    The cluster is that of a snapshot, as `barycenter decide` takes them: a file, a data folder at a time, or the one
    that runs at --url. Its load goes on as it is. --without, --add-brokers and --scale-load change it after two
    minutes. Nothing is carried out; `barycenter execute` carries out what --json prints.

    Ends with 0, with 1 if the snapshot or the configuration is not usable, with 2 for wrong usage.
    """
    try:
        found = snapshot_given(file, url, at)
        config = configured(found, conf, changes, strategy, placement)
        manager = manager_of(found, strategy)
        question = Question(without=without, added=added, scale=scale, minutes=minutes)
        foreseen = forecast(
            found.snapshot, with_overrides(config, {MANAGER_KEY: manager.class_name}), question, seed=seed
        )
    except WrongWordError as error:
        raise click.UsageError(str(error)) from error
    except (*UNUSABLE, ReplayInputError, ClusterError) as error:
        fail(in_words(error))
        return
    for warning in found.warnings:
        click.echo(f"barycenter: warning: {warning}", err=True)
    settings = settings_in_words(found, config.barycenter_pulsar_compatibility, conf, changes)
    if form == "json":
        click.echo(f"barycenter: by {settings}", err=True)
        _print_json(foreseen)
        return
    click.echo(headline(found, settings))
    _print_brokers_then(foreseen.brokers)
    _print_moves(foreseen.moves, explain=explain)
    click.echo(_verdict(foreseen, minutes))


def _print_brokers_then(brokers: tuple[BrokerForecast, ...]) -> None:
    columns = [Column("broker"), *(Column(title, Kind.FIGURE) for title in ("usage", "then", "msg/s", "then"))]
    rows = [
        [
            printable(each.broker),
            _percent(each.usage_before),
            _percent(each.usage_after),
            _rate(each.rate_before),
            _rate(each.rate_after),
        ]
        for each in brokers
    ]
    print_table(columns, rows, plain_width=_WIDTH)


def _print_json(foreseen: Forecast) -> None:
    splits = ({"kind": "split", **msgspec.to_builtins(each)} for each in foreseen.splits)
    brokers = ({"kind": "broker", **msgspec.to_builtins(each)} for each in foreseen.brokers)
    for line in (*foreseen.moves, *splits, *brokers):
        click.echo(msgspec.json.encode(line).decode())


def _print_moves(moves: tuple[PlannedMove, ...], *, explain: bool) -> None:
    if not moves:
        return
    columns = [Column("minute", Kind.FIGURE), Column("bundle"), Column("from"), Column("to")]
    columns += [Column("msg/s", Kind.FIGURE), Column("why", Kind.SENTENCE)]
    rows = [
        [
            str(each.minute),
            *map(printable, (each.bundle, each.source or "-", each.destination)),
            _rate(each.msg_rate),
            printable(each.sentence if explain else _in_short(each)),
        ]
        for each in moves[:_MOST_MOVES]
    ]
    click.echo()
    print_table(columns, rows, plain_width=_WIDTH)
    if len(moves) > _MOST_MOVES:
        click.echo(f"… and {len(moves) - _MOST_MOVES:,} more")


def _in_short(move: PlannedMove) -> str:
    """Return what is said of the bundle itself: without its name, what its broker's load is, and which keys matter."""
    told = move.sentence.partition("; because ")[0].partition(f"; {SETTINGS_MARK}")[0]
    return told.removeprefix(f"{move.bundle}: ")


def _verdict(foreseen: Forecast, minutes: int) -> str:
    """Return in a sentence what came of it."""
    after = {each.broker: each.usage_after for each in foreseen.brokers if each.usage_after is not None}
    fullest = max(after, key=lambda name: (after[name], name))
    moved, split = len(foreseen.moves), len(foreseen.splits)
    words = f"within {minutes} minutes {moved:,} {'bundle moves' if moved == 1 else 'bundles move'}"
    words += f", {split:,} {'is' if split == 1 else 'are'} split" if split else ""
    words += f"; then {fullest} is the fullest, at {_percent(after[fullest])}"
    over = [name for name, usage in after.items() if usage > foreseen.limit]
    if over:
        words += f"; {len(over)} of {count_of(len(after), 'broker')} would be above {_percent(foreseen.limit)}"
    return f"\n{words}"


def _percent(usage: float | None) -> str:
    return "-" if usage is None else f"{usage * 100:.1f} %"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else format_figure(rate, "msg/s").removesuffix(" msg/s")
