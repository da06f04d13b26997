"""The bundles that a broker may give, and what each move costs.

A move costs 1, and SESSIONS more for the average number of sessions: these clients reconnect. Traffic costs nothing
more: a light bundle and a heavy one disturb as many clients, and the heavy one relieves its broker more.
"""

from collections.abc import Iterator
from math import nan
from typing import Final, NamedTuple

import numpy as np

from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads, blocks
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import Prediction
from pulsar_barycenter.load.shedding.ordering import by_group, heaviest_first
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot

SESSIONS: Final = 0.25
"""The cost of a move, in addition to 1, for the average number of sessions."""
MOST_LOOKED_AT: Final = 4_096
"""The most bundles of one broker that are considered."""
_SOON: Final = 32
"""The bundles of this many brokers are grouped by broker first, those of other brokers only if the search needs them:
the bundles of all brokers above the band may be a quarter of all bundles."""
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
    lightest first. `there` flags the bundles that the search has not moved away; `take` and `give_back` change it.
    """

    __slots__ = (
        "_first",
        "_limit",
        "_place",
        "_waiting",
        "cost",
        "heavy",
        "order",
        "relief",
        "rows",
        "there",
        "work",
        "worth",
    )

    def __init__(self, rows: Integers, recent: Floats, settled: Floats, cost: Floats, slope: float) -> None:
        self.rows = rows
        self.work = np.array([recent, settled])
        self.heavy = np.maximum(recent, settled)
        self.relief = slope * np.minimum(recent, settled)
        self.cost = cost
        self.worth = self.relief / cost
        self.there = self.heavy > 0
        # sorting by two keys takes several times as long, and few bundles have the same worth
        self.order = np.argsort(-self.worth)
        ordered = self.worth[self.order]
        if (ordered[1:] == ordered[:-1]).any():
            self.order = np.lexsort((self.heavy, -self.worth))
        # in `order`: the work of the bundles that are there; NaN, which never fits anywhere, of the others
        self._waiting = np.where(self.there, self.heavy, np.nan)[self.order]
        self._place = np.empty_like(self.order)
        self._place[self.order] = np.arange(len(self.order))
        # in `order`, all bundles before `_first` have been moved away, or are heavier than `_limit`
        self._first, self._limit = 0, np.inf

    def take(self, at: int) -> None:
        """Note that the bundle at this position is moved away."""
        self.there[at] = False
        self._waiting[self._place.item(at)] = nan

    def give_back(self, at: int) -> None:
        """Note that the bundle at this position is not moved away after all."""
        self.there[at] = True
        place = self._place.item(at)
        self._waiting[place] = self.heavy.item(at)
        self._first, self._limit = 0, np.inf

    def in_order(self, heaviest: float) -> Iterator[int]:
        """Yield the positions of the bundles that have not been moved away and whose work (load as one number) is at
        most `heaviest`, in `order`.
        """
        if heaviest > self._limit:
            self._first = 0
        self._limit = heaviest
        waiting, order, end = self._waiting, self.order, len(self.order)
        # the next ones one by one, as most searches end there
        near = min(self._first + _NEAR, end)
        is_first = True
        for place, work in enumerate(waiting[self._first : near].tolist(), self._first):
            if work <= heaviest:
                if is_first:
                    self._first, is_first = place, False
                yield order.item(place)
        for start in range(near, end, _AT_ONCE):
            places = start + np.flatnonzero(waiting[start : start + _AT_ONCE] <= heaviest)
            if is_first and len(places):
                self._first, is_first = places.item(0), False
            yield from order[places].tolist()
        if is_first:
            self._first = end

    def heaviest(self, most: int) -> Integers:
        """Return the positions of the `most` heaviest bundles that have not been moved away."""
        there = np.flatnonzero(self.there)
        return there[np.argsort(-self.heavy[there], kind="stable")[:most]]


def _looked_at(work: Floats) -> Integers | slice:
    """Return the positions of the bundles of a broker that the search examines: all of them, or about MOST_LOOKED_AT if
    there are more. `work` is the load of each bundle as one number.

    In that case half of them are the heaviest bundles, and the other half are bundles at equal distances in the order
    of their rows: the search also needs light bundles, for the last move of a broker.
    """
    if len(work) <= MOST_LOOKED_AT:
        return slice(None)
    half = MOST_LOOKED_AT // 2
    heaviest = np.sort(heaviest_first(work, half))
    others = len(work) - half
    light = np.arange(0, others, 1 + others // half)
    # so many others precede each of the heaviest; an other one comes after all heaviest that at most as many precede
    light += np.searchsorted(heaviest - np.arange(half), light, side="right")
    return np.sort(np.concatenate((heaviest, light)))


class _Batch(NamedTuple):
    """Brokers whose bundles are grouped at once: `rows` has the rows of their bundles, and maybe of others, `sessions`
    is the mean number of sessions by which the cost of a move is measured.
    """

    brokers: list[int]
    rows: Integers
    sessions: float


class Givers:
    """The bundles that brokers may give away: a `Giver` for each broker, by its row. A round is often full after a few
    of the brokers that should give, so the bundles of the first ones are grouped by broker before those of the others,
    and a giver is made when it is first asked for.

    `slope` is for each broker the usage that one unit of work (load as one number) takes.
    """

    def __init__(self, snapshot: LoadSnapshot, loads: BundleLoads, movable: Flags, slope: Floats) -> None:
        self._bundles, self._loads, self._movable, self._slope = snapshot.bundles, loads, movable, slope
        self._batches: dict[int, _Batch] = {}
        self._rows: dict[int, Integers] = {}
        self._made: dict[int, Giver] = {}

    def collect(self, brokers: Integers) -> None:
        """Collect the movable bundles of these brokers, except for brokers of which they have been collected already.
        It is fastest if `brokers` are in the order in which their givers will be asked for.

        The mean number of sessions, by which the cost of a move is measured, is that of the bundles collected at once.
        """
        new = [broker for broker in brokers.tolist() if broker not in self._batches]
        if not new:
            return
        rows = np.flatnonzero(self._flags_of(new, self._bundles.owner) & self._movable)
        sessions = sum(
            float(np.maximum(self._bundles.sessions[rows[block]], 0).sum(dtype=float)) for block in blocks(len(rows))
        )
        typical = max(1.0, sessions / len(rows)) if len(rows) else 1.0
        for part in (new[:_SOON], new[_SOON:]):
            batch = _Batch(part, rows, typical)
            self._batches |= dict.fromkeys(part, batch)
        if len(new) == 1:
            self._rows[new[0]] = rows

    def __getitem__(self, broker: int) -> Giver:
        """Return the giver of a broker of which the bundles have been collected."""
        found = self._made.get(broker)
        if found is None:
            batch = self._batches[broker]
            if broker not in self._rows:
                self._group(batch)
            rows = self._rows[broker]
            rows = rows[_looked_at(self._loads.recent[rows])]
            cost = 1.0 + SESSIONS * np.maximum(self._bundles.sessions[rows], 0) / batch.sessions
            recent, settled = self._loads.recent[rows], self._loads.settled[rows]
            found = self._made[broker] = Giver(rows, recent, settled, cost, self._slope.item(broker))
        return found

    def _group(self, batch: _Batch) -> None:
        """Group the bundles of these brokers by broker."""
        rows, owners = batch.rows, self._bundles.owner[batch.rows]
        of_batch = np.flatnonzero(self._flags_of(batch.brokers, owners))
        order, edges = by_group(owners[of_batch], len(self._slope))
        rows = rows[of_batch][order]
        for broker in batch.brokers:
            self._rows[broker] = rows[edges[broker] : edges[broker + 1]]

    def _flags_of(self, brokers: list[int], owner: Indices) -> Flags:
        """Flag the bundles that belong to `brokers`; `owner` has the broker of each bundle."""
        wanted, found = np.zeros(len(self._slope), bool), np.empty(len(owner), bool)
        wanted[brokers] = True
        for block in blocks(len(owner)):
            # without the check whether the rows of brokers are valid, which they are
            wanted.take(owner[block], out=found[block], mode="wrap")
        return found
