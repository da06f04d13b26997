"""The bundles that a broker may give, and what each move costs.

A move costs 1, and SESSIONS more for the average number of sessions: these clients reconnect. Traffic costs nothing
more: a light bundle and a heavy one disturb as many clients, and the heavy one relieves its broker more.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import Prediction
from pulsar_barycenter.load.shedding.ordering import by_group
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

SESSIONS: Final = 0.25
"""The cost of a move, in addition to 1, for the average number of sessions."""
MOST_LOOKED_AT: Final = 4_096
"""The most bundles of one broker that are considered."""
_NEAR: Final = 8
_AT_ONCE: Final = 256
"""How many bundles a search of a broker's bundles looks at one by one, and then at once."""


def movable_rows(
    snapshot: LoadSnapshot, loads: BundleLoads, view: Prediction, settings: Settings, now_ms: int
) -> Flags:
    """Flag the rows of the bundles that may move. They have load data, their owner is the broker of this row and no
    move of them is under way; they have not moved recently, are not bound to a broker, and are not in an excluded
    namespace.
    """
    bundles = snapshot.bundles
    found = bundles.listed & ~bundles.broker_bound & ~bundles.recently_unloaded & ~bundles.suspect
    if snapshot.extensible is None:
        found &= bundles.has_windows | bundles.sampled
    else:
        found &= bundles.sampled
    if view.owner is not bundles.owner:
        found &= view.owner == bundles.owner
    found &= loads.moved_at_ms <= now_ms - settings.grace_ms
    if settings.excluded_namespaces:
        named = np.array([name in settings.excluded_namespaces for name in snapshot.namespaces], bool)
        found &= ~named[bundles.namespace]
    return found


class Giver:
    """The bundles that one broker may give away; for each of them, what it costs to move it, and how much usage the
    broker then saves (`relief`).

    `order` has the positions of the bundles, sorted by worth (relief / cost), the highest first; of equal ones the
    lightest first. `there` flags the bundles that the search has not moved away. `first` is an index in `order`: all
    bundles before it have been moved away.
    """

    __slots__ = ("cost", "first", "heavy", "order", "relief", "rows", "there", "work", "worth")

    def __init__(self, rows: Integers, recent: Floats, settled: Floats, cost: Floats, slope: float) -> None:
        self.rows = rows
        self.work = np.array([recent, settled])
        self.heavy = self.work.max(axis=0)
        self.relief = slope * self.work.min(axis=0)
        self.cost = cost
        self.worth = self.relief / cost
        self.there = self.heavy > 0
        # sorting by two keys takes several times as long, and few bundles have the same worth
        self.order = np.argsort(-self.worth)
        ordered = self.worth[self.order]
        if (ordered[1:] == ordered[:-1]).any():
            self.order = np.lexsort((self.heavy, -self.worth))
        self.first = 0

    def in_order(self, heaviest: float) -> Iterator[int]:
        """Yield the positions of the bundles that have not been moved away and whose work (load as one number) is at
        most `heaviest`, in `order`.
        """
        end = len(self.order)
        while self.first < end and not self.there.item(self.order.item(self.first)):
            self.first += 1
        # the first ones one by one, as most searches end there
        near = min(self.first + _NEAR, end)
        for at in self.order[self.first : near].tolist():
            if self.there.item(at) and self.heavy.item(at) <= heaviest:
                yield at
        for start in range(near, end, _AT_ONCE):
            places = self.order[start : start + _AT_ONCE]
            yield from places[self.there[places] & (self.heavy[places] <= heaviest)].tolist()

    def heaviest(self, most: int) -> Integers:
        """Return the positions of the `most` heaviest bundles that have not been moved away."""
        there = np.flatnonzero(self.there)
        return there[np.argsort(-self.heavy[there], kind="stable")[:most]]


def _looked_at(work: Floats) -> Flags | slice:
    """Return which bundles of a broker the search examines: all of them, or about MOST_LOOKED_AT if there are more.
    `work` is the load of each bundle as one number.

    In that case half of them are the heaviest bundles, and the other half are bundles at equal distances in the order
    of work: the search also needs light bundles, for the last move of a broker.
    """
    if len(work) <= MOST_LOOKED_AT:
        return slice(None)
    half = MOST_LOOKED_AT // 2
    least = np.partition(work, len(work) - half)[len(work) - half]
    chosen: Flags = work > least
    chosen[np.flatnonzero(work == least)[: half - int(chosen.sum())]] = True
    rest = np.flatnonzero(~chosen)
    chosen[rest[:: 1 + len(rest) // half]] = True
    return chosen


def collect(
    snapshot: LoadSnapshot, loads: BundleLoads, movable: Flags, wanted: Flags, slope: Floats
) -> dict[int, Giver]:
    """Return, by the row of the broker, a `Giver` with the `movable` bundles of each broker that `wanted` flags.
    `slope` is for each broker the usage that one unit of work (load as one number) takes.
    """
    bundles = snapshot.bundles
    rows = np.flatnonzero(movable & wanted.take(bundles.owner))
    if np.count_nonzero(wanted) == 1:
        edges = np.where(np.arange(len(wanted) + 1) > wanted.argmax(), len(rows), 0)
    else:
        order, edges = by_group(bundles.owner[rows], len(wanted))
        rows = rows[order]
    sessions, recent = np.maximum(bundles.sessions[rows], 0), loads.recent[rows]
    typical = max(1.0, float(sessions.mean())) if len(rows) else 1.0
    found = {}
    for broker in np.flatnonzero(wanted).tolist():
        own = slice(edges[broker], edges[broker + 1])
        looked_at = _looked_at(recent[own])
        mine, work = rows[own][looked_at], recent[own][looked_at]
        cost = 1.0 + SESSIONS * sessions[own][looked_at] / typical
        found[broker] = Giver(mine, work, loads.settled[mine], cost, slope.item(broker))
    return found
