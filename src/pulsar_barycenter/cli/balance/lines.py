"""Prints what a balancer does: lines for people, or an object a line."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from pulsar_barycenter.balancer.judging.moves_seen import SeenMove, Whose
from pulsar_barycenter.balancer.judging.scoring import Side
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.terminal.tables import printable

_MAX_SHOWN: Final = 10
"""The number of moves of a round that are printed."""


def printer(*, as_json: bool) -> Callable[[RoundRecord | str], None]:
    """Return a function that prints the records of rounds, and sentences, on standard output as text. With `as_json` it
    prints the records as JSON objects, and the sentences on standard error.
    """

    def tell(found: RoundRecord | str) -> None:
        if isinstance(found, str):
            click.echo(printable(f"barycenter: {found}" if as_json else found), err=as_json)
        elif as_json:
            click.echo(msgspec.json.encode(found))
        else:
            for line in lines_of(found):
                click.echo(printable(line))

    return tell


def lines_of(record: RoundRecord) -> list[str]:
    """Return the lines of a round: its state, the moves that were seen, the moves that it decides on, and the score."""
    at = datetime.fromtimestamp(record.at / 1000, UTC)
    sizes = f"{count_of(record.brokers, 'broker')}, {count_of(record.bundles, 'bundle')}"
    lines = [f"{at:%Y-%m-%d %H:%M:%S} UTC  {record.state}  {sizes}  {record.balance}"]
    lines += [f"  no report: {broker}: {why}" for broker, why in record.failed.items()]
    if record.held_up:
        lines.append(f"  nothing moves: {record.held_up}")
    lines += _shortened([_seen(move) for move in record.seen], "move")
    would = "would move" if record.mode is Mode.OBSERVE else "moves"
    lines += _shortened([_decided(move, would) for move in record.decided], "decision")
    split = "would split" if record.mode is Mode.OBSERVE else "splits"
    lines += _shortened(
        [_reasoned(f"  {split}: {one.bundle}", one.bundle, one.sentence) for one in record.splits], "split"
    )
    lines += _shortened(
        [f"  too large, stays whole: {bundle}: {why}" for bundle, why in record.whole.items()], "bundle"
    )
    score = record.score
    lines.append(f"  so far: the cluster {_side(score.cluster)}; ours {_side(score.ours)}")
    return lines


def _shortened(lines: list[str], noun: str) -> list[str]:
    more = len(lines) - _MAX_SHOWN
    return lines if more <= 0 else [*lines[:_MAX_SHOWN], f"  … and {count_of(more, f'more {noun}')}"]


_WORDS: Final = {Whose.OURS: "moved by us", Whose.FAILOVER: "moved because its broker left", Whose.FOREIGN: "moved"}


def _seen(move: SeenMove) -> str:
    return f"  {_WORDS[move.whose]}: {move.bundle} from {move.source} to {move.destination}"


def _decided(move: PlannedMove, would: str) -> str:
    return _reasoned(f"  {would}: {move.bundle} from {move.source} to {move.destination}", move.bundle, move.sentence)


def _reasoned(text: str, bundle: str, sentence: str) -> str:
    why = short_reason(sentence).removeprefix(f"{bundle}: ")
    return f"{text}: {why}" if why else text


def _side(side: Side) -> str:
    return f"{count_of(side.moves, 'move')}, {100 * side.mean:.1f} points above the mean"
