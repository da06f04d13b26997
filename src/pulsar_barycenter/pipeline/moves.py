"""Derives the moves of bundles from the intervals of their owners, and the bundles that moved too often."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

FLAP_WITHIN: Final = timedelta(minutes=30)
"""A bundle that moves again within this time (inclusive) counts as a flap."""


class Owned(NamedTuple):
    """An interval of the table `ownership`, in which a broker owned a bundle: `until` and `ended` are None while the
    broker still owns the bundle.
    """

    bundle: str
    broker: str
    since: datetime
    until: datetime | None = None
    ended: str | None = None


class Move(NamedTuple):
    """A bundle that moved from `source` to `destination`, which first reported it at `at`.

    `ended` is why the bundle left: moved, or broker gone. `since_last` is the time since its previous move, None if
    this is the first known one; `is_back` says that the bundle returned to the source of that move. `unreported` is how
    long no broker reported the bundle. This is about the interval between reports, not the interruption that clients
    see.
    """

    bundle: str
    at: datetime
    source: str
    destination: str
    ended: str
    unreported: timedelta
    since_last: timedelta | None
    is_back: bool

    def is_flap(self, within: timedelta = FLAP_WITHIN) -> bool:
        return self.since_last is not None and self.since_last <= within


class Flapping(NamedTuple):
    """A bundle that moved again too soon: `moves` is the number of its moves, `flaps` of them came too soon, and `back`
    of these flaps returned to the broker that the bundle had just left.

    `soonest` is the shortest time between a flap and the move before it, `first` and `last` are the times of the first
    and the last flap, `brokers` are all owners, by name.
    """

    bundle: str
    moves: int
    flaps: int
    back: int
    soonest: timedelta
    first: datetime
    last: datetime
    brokers: tuple[str, ...]


def _by_nobody(_move: Move) -> bool:
    return False


def flapping_of(
    moves: Iterable[Move], within: timedelta = FLAP_WITHIN, is_manual: Callable[[Move], bool] = _by_nobody
) -> list[Flapping]:
    """Return the bundles that moved again at most `within` after a move, by the number of flaps (most first), then
    name.

    `moves` are oldest first. Only moves of load managers count: a move that `is_manual`, which an operator requested,
    is not a flap, nor is the next move after it.
    """
    by_bundle: dict[str, list[Move]] = {}
    for move in moves:
        by_bundle.setdefault(move.bundle, []).append(move)
    found = []
    for bundle, of_bundle in by_bundle.items():
        chosen = [is_manual(move) for move in of_bundle]
        flaps = [
            move
            for move, manual, after_manual in zip(of_bundle, chosen, [False, *chosen], strict=False)
            if move.is_flap(within) and not manual and not after_manual
        ]
        if flaps:
            times = sorted(move.at for move in flaps)
            brokers = {broker for move in of_bundle for broker in (move.source, move.destination)}
            found.append(
                Flapping(
                    bundle,
                    len(of_bundle),
                    len(flaps),
                    sum(move.is_back for move in flaps),
                    min(move.since_last for move in flaps if move.since_last is not None),
                    times[0],
                    times[-1],
                    tuple(sorted(brokers)),
                )
            )
    found.sort(key=lambda flapping: (-flapping.flaps, flapping.bundle))
    return found


def moves_of(intervals: Iterable[Owned]) -> list[Move]:
    """Return the moves, oldest first. If the next owner of a bundle is the same broker again, such as after a restart,
    that is not a move.
    """
    ordered = sorted(intervals, key=attrgetter("bundle", "since", "broker"))
    found = [move for _, owned in groupby(ordered, attrgetter("bundle")) for move in _of_bundle(owned)]
    found.sort(key=attrgetter("at", "bundle"))
    return found


def _of_bundle(owned: Iterator[Owned]) -> Iterator[Move]:
    last: Move | None = None
    for before, after in pairwise(owned):
        if before.broker == after.broker:
            continue
        last = Move(
            before.bundle,
            after.since,
            before.broker,
            after.broker,
            before.ended or "moved",
            max(timedelta(0), after.since - (before.until or after.since)),
            None if last is None else after.since - last.at,
            last is not None and after.broker == last.source,
        )
        yield last
