"""`barycenter plan`: predicts the next decisions and loads of a cluster, also if a broker leaves or load grows."""

from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.ask.decide import snapshot_given
from pulsar_barycenter.cli.ask.decision_tables import headline
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.load.managers import MANAGER_KEY
from pulsar_barycenter.load.reasons import SETTINGS_MARK, format_figure
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.what_if import (
    LONGEST_MINUTES,
    MOST_ADDED,
    SETTLED,
    BrokerForecast,
    Forecast,
    PlannedMove,
    Question,
    forecast,
)
from pulsar_barycenter.snapshots.decided_by import UNUSABLE, WrongWordError, configured, manager_of
from pulsar_barycenter.snapshots.settings_in_force import settings_in_words
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, Kind, print_table, print_text, printable

_MAX_MOVES: Final = 50
_WIDTH: Final = 160


@click.command(name="plan")
@click.argument("file", metavar="[SNAPSHOT]", required=False, type=click.Path(path_type=Path))
@click.option("--url", help="A running cluster: the web address of any broker.  [BARYCENTER_URL]")
@click.option(
    "--at", default="", help="The state at this time, from the pipeline's tables: 15m (ago), 2h, 2026-01-31T12:00."
)
@click.option("--without", multiple=True, metavar="BROKER", help="Assume that this broker leaves; may be repeated.")
@click.option(
    "--add-brokers",
    "added",
    default=0,
    type=click.IntRange(0, MOST_ADDED),
    help="Assume that this number of brokers joins.",
)
@click.option(
    "--scale-load",
    "scale",
    default=1.0,
    type=Number(0.001, 1000),
    help="Assume that the load grows by this factor.",
)
@click.option("--strategy", help="A shedding or placement strategy.  [default: the configured one]")
@click.option("--placement", help="The placement strategy for shed bundles.  [default: the configured one]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Override a key of broker.conf; may be repeated."
)
@click.option("--config", "conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A broker.conf.")
@click.option(
    "--minutes",
    default=30,
    show_default=True,
    type=click.IntRange(1, LONGEST_MINUTES),
    help="The predicted time span, in minutes.",
)
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of random choices.")
@click.option("--explain", is_flag=True, help="Print complete reasons.")
@with_client_conf
@with_format("table", "json", json="one object on each line, the input of `barycenter execute`")
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
    """Predict what the leader would do with a cluster, round after round, and the load that results.

    The cluster comes from a snapshot as for `barycenter decide`: a file, a data folder at a time, or a running cluster
    at --url. Its load stays constant. --without, --add-brokers and --scale-load change the cluster after two minutes.
    The command moves nothing; `barycenter execute` carries out the output of --json.

    Exit code: 0; 1 if the snapshot or the configuration cannot be used; 2 for wrong usage.
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
    if scale != 1:
        print_text(
            f'from minute {SETTLED} on, the load is × {scale:g}: in the columns "after", and for bundles that move'
            " from then on; reasons compare what the leader knows at that time, in part averages that begin earlier",
            plain_width=_WIDTH,
        )
    _print_brokers_then(foreseen.brokers)
    _print_moves(foreseen.moves, explain=explain)
    click.echo(_verdict(foreseen, minutes))


def _print_brokers_then(brokers: tuple[BrokerForecast, ...]) -> None:
    titles = ("usage now", "usage after", "msg/s now", "msg/s after")
    columns = [Column("broker"), *(Column(title, Kind.FIGURE) for title in titles)]
    rows = [
        [
            printable(forecast.broker),
            _percent(forecast.usage_before),
            _percent(forecast.usage_after),
            _rate(forecast.rate_before),
            _rate(forecast.rate_after),
        ]
        for forecast in brokers
    ]
    print_table(columns, rows, plain_width=_WIDTH)


def _print_json(foreseen: Forecast) -> None:
    splits = ({"kind": "split", **msgspec.to_builtins(split)} for split in foreseen.splits)
    brokers = ({"kind": "broker", **msgspec.to_builtins(broker)} for broker in foreseen.brokers)
    for line in (*foreseen.moves, *splits, *brokers):
        click.echo(msgspec.json.encode(line).decode())


def _print_moves(moves: tuple[PlannedMove, ...], *, explain: bool) -> None:
    if not moves:
        return
    columns = [Column("minute", Kind.FIGURE), Column("bundle"), Column("from"), Column("to")]
    columns += [Column("msg/s", Kind.FIGURE), Column("why", Kind.SENTENCE)]
    rows = [
        [
            str(move.minute),
            *map(printable, (move.bundle, move.source or "-", move.destination)),
            _rate(move.msg_rate),
            printable(move.sentence if explain else _in_short(move)),
        ]
        for move in moves[:_MAX_MOVES]
    ]
    click.echo()
    print_table(columns, rows, plain_width=_WIDTH)
    if len(moves) > _MAX_MOVES:
        click.echo(f"… and {len(moves) - _MAX_MOVES:,} more moves")


def _in_short(move: PlannedMove) -> str:
    """Return the part of a move's reason that is about the bundle itself: without the bundle's name, the broker's load,
    and the settings.
    """
    about_bundle = move.sentence.partition("; because ")[0].partition(f"; {SETTINGS_MARK}")[0]
    return about_bundle.removeprefix(f"{move.bundle}: ")


def _verdict(foreseen: Forecast, minutes: int) -> str:
    """Return a sentence that sums up the forecast."""
    after = {broker.broker: broker.usage_after for broker in foreseen.brokers if broker.usage_after is not None}
    fullest = max(after, key=lambda name: (after[name], name))
    moved, split = len(foreseen.moves), len(foreseen.splits)
    words = f"within {minutes} minutes {moved:,} {'bundle moves' if moved == 1 else 'bundles move'}"
    words += f", {split:,} {'is' if split == 1 else 'are'} split" if split else ""
    words += f"; then {fullest} has the highest usage, {_percent(after[fullest])}"
    over = [name for name, usage in after.items() if usage > foreseen.limit]
    if over:
        words += f"; {len(over)} of {count_of(len(after), 'broker')} would be above {_percent(foreseen.limit)}"
    return f"\n{words}"


def _percent(usage: float | None) -> str:
    return "-" if usage is None else f"{usage * 100:.1f} %"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else format_figure(rate, "msg/s").removesuffix(" msg/s")
