"""Derives the moves of bundles from the intervals of their owners, and the bundles that moved too often."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

FLAP_WITHIN: Final = timedelta(minutes=30)
"""A bundle that moves again within this time (inclusive) counts as a flap."""


class Owned(NamedTuple):
    """An interval of the table `ownership`, in which `broker` owned `bundle`: from `since`, inclusive, to `until`,
    exclusive. `ended` says why it ended. `until` and `ended` are None while the broker owns the bundle.
    """

    bundle: str
    broker: str
    since: datetime
    until: datetime | None = None
    ended: str | None = None


class Move(NamedTuple):
    """A bundle moved from the broker `source` to the broker `destination`, which first reported it at `at`.

    `ended` is why the source lost the bundle: "moved", "split" or "broker gone". `since_last` is the time since the
    bundle's previous move; None if no earlier move is known. `is_back`: the bundle returned to the broker from which
    the previous move took it. `unreported` is the time between the source's loss and `at`, in which no broker reported
    the bundle. It depends on when reports are sent, so it is not the interruption that clients see.
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
    """A bundle that flapped: a load manager moved it again soon after its previous move. `moves` is the number of all
    its moves, `flaps` the number of moves that came too soon, and `back` how many of the flaps returned the bundle to
    the broker that it had just left.

    `soonest` is the shortest time between a flap and the move before it. `first` and `last` are the times of the first
    and the last flap. `brokers` are all brokers that owned the bundle, sorted by name.
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
    """Return the bundles that flapped, by the number of flaps (most first), then by name. A flap is a move at most
    `within` after the bundle's previous move.

    `moves` are oldest first. `is_manual` returns whether an operator requested a move. Such a move is not a flap, and
    neither is the bundle's next move after it.
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
    """Return the moves of all bundles, oldest first. `intervals` are intervals of ownership, in any order. If the next
    owner of a bundle is the same broker again, for example after a restart, that is not a move.
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
