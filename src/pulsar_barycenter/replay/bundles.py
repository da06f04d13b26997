"""The bundles of a replayed cluster: their load, their owners, and how they are split.

A bundle has shares of the demand's sources. If a bundle is split, the source of a topic goes as a whole to the part
that contains its hash. A source that is spread over its bundle, or over a span of it, is divided by width.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats, Indices, Integers
from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.request import (
    SplitRefusedError,
    SplitRequest,
    TopicLoad,
    TrafficLimits,
    can_divide,
)
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.replay.demand import SPREAD, Demand

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NOBODY: Final = -1
_LIKE_TOPICS: Final = 64
"""A split algorithm gets at most this many topics for a spread source, even if the source has more."""


def summed(places: Indices | Integers, values: Floats | Integers, count: int) -> Floats:
    """Return an array of `count` sums. The item with the index i is the sum of those `values` that have i at the same
    index in `places`.
    """
    return np.bincount(places, values, count).astype(np.float64)


class Bundles:
    """All bundles of the simulated cluster, one row each, sorted by name. `owner` has for each bundle the row number of
    its broker, or NOBODY.

    `figures` has the four rates of each bundle: msg/s in and out, bytes/s in and out. They are those of the step that
    `advance` was last called with. `sessions` and `topics` are numbers per bundle.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self.names: list[str] = list(demand.bundles)
        self.owner: Indices = np.full(len(self.names), NOBODY, np.int32)
        self._source: Integers = np.arange(demand.sources)
        self._row: Integers = demand.bundle_of.copy()
        self._share: Floats = np.ones(demand.sources)
        self.figures: Floats = np.zeros((4, len(self.names)))
        self._step = 0
        self._count()

    def __len__(self) -> int:
        return len(self.names)

    def advance(self, step: int) -> None:
        """Set `figures`, the four rates of each bundle, to the values of the step `step`."""
        self._step = step
        self.figures = self.at(step)

    def at(self, step: int) -> Floats:
        """Return the four rates (msg/s in and out, bytes/s in and out) that the present bundles have at the step
        `step`: one row for each rate, one column for each bundle. `step` may be any step, also a future one.
        """
        wanted = self._demand.figures(step)[:, self._source] * self._share
        return np.array([summed(self._row, each, len(self)) for each in wanted])

    def _count(self) -> None:
        """Compute `sessions`, `topics` and the namespaces of the bundles again, after a change of the bundles. The
        numbers of a bundle are rounded to integers.
        """
        for name in ("sessions", "topics"):
            parts = getattr(self._demand, name)[self._source] * self._share
            setattr(self, name, np.rint(summed(self._row, parts, len(self))).astype(np.int64))
        spaces = [name.rpartition("/")[0] for name in self.names]
        self.namespaces: tuple[str, ...] = tuple(sorted(set(spaces)))
        places = {name: place for place, name in enumerate(self.namespaces)}
        self.namespace: Indices = np.array([places[each] for each in spaces], np.int32)

    sessions: Integers
    topics: Integers

    def row_of(self, name: str) -> int:
        """Return the row of the bundle `name`, which must exist."""
        return bisect_left(self.names, name)

    def is_there(self, name: str) -> bool:
        row = bisect_left(self.names, name)
        return row < len(self.names) and self.names[row] == name

    def least_share(self) -> Floats:
        """Return for each bundle the fraction of its traffic that no split can divide: the traffic of its largest
        topic. 0 for a bundle without traffic.

        If only the number of topics is known, they are assumed to have equal load: the largest of ten topics has a
        tenth.
        """
        found: Floats = np.zeros(len(self))
        sources, spread = self._source, self._demand.hashes[self._source] == SPREAD
        if spread.all() and len(sources) == len(self):
            found[self._row] = 1 / np.maximum(self._demand.topics[sources] * self._share, 1)
            return found
        rate = self._demand.figures(self._step)[:, sources].sum(axis=0) * self._share
        least = rate / np.where(spread, np.maximum(self._demand.topics[sources] * self._share, 1), 1)
        np.maximum.at(found, self._row, least)
        total = summed(self._row, rate, len(self))
        return np.divide(found, total, out=np.zeros(len(self)), where=total > 0)

    # ---- splits ----

    def cuts(self, name: str, config: "BrokerConfig") -> tuple[int, ...]:
        """Return the hashes at which the split algorithm of the configuration `config` would divide a bundle. Empty if
        it would not, or cannot, divide it.
        """
        bundle_range = Bundle.parse(name).range
        if not can_divide(bundle_range):
            return ()
        loads = self._topic_loads(self.row_of(name), bundle_range)
        request = SplitRequest(
            bundle_range, tuple(load.hash for load in loads), loads=loads, limits=TrafficLimits.of(config)
        )
        try:
            cuts = split_algorithm(config.default_namespace_bundle_split_algorithm)(request)
        except SplitRefusedError:
            return ()
        return tuple(cut for cut in cuts if bundle_range.lower < cut < bundle_range.upper)

    def _topic_loads(self, row: int, within: BundleRange) -> tuple[TopicLoad, ...]:
        found = []
        figures = self._demand.figures(self._step)
        for place in np.flatnonzero(self._row == row).tolist():
            source, share = int(self._source[place]), float(self._share[place])
            rate_in, rate_out, bytes_in, bytes_out = (figures[:, source] * share).tolist()
            where = int(self._demand.hashes[source])
            topics = max(1, round(int(self._demand.topics[source]) * share))
            hashes = [where] if where != SPREAD else _even(self._span(source, within), min(topics, _LIKE_TOPICS))
            part = 1 / len(hashes)
            found += [TopicLoad(each, (rate_in + rate_out) * part, (bytes_in + bytes_out) * part) for each in hashes]
        return tuple(found)

    def split(self, name: str, cuts: Sequence[int]) -> list[str]:
        """Split a bundle at the hashes `cuts`, which must be strictly inside its range. Return the names of its parts,
        in the order of their ranges.

        All arrays have one row for each bundle. The row of the bundle is replaced by the rows of its parts, so the row
        numbers of all bundles after it change. The parts get the bundle's owner, and the traffic that belongs to their
        ranges.
        """
        bundle, row = Bundle.parse(name), self.row_of(name)
        edges = [bundle.range.lower, *sorted(set(cuts)), bundle.range.upper]
        ranges = [BundleRange(lower, upper) for lower, upper in pairwise(edges)]
        children = [str(Bundle(bundle.namespace, each)) for each in ranges]
        # a new list, because snapshots keep the old one
        self.names = [*self.names[:row], *children, *self.names[row + 1 :]]
        self.owner = np.insert(self.owner, row, np.repeat(self.owner[row], len(children) - 1))
        here = self._row == row
        mine, more = np.flatnonzero(here), len(children) - 1
        sources, shares = self._source[mine], self._share[mine]
        rows = np.where(self._row > row, self._row + more, self._row)[~here]
        kept = [(self._source[~here], rows, self._share[~here])]
        for number, each in enumerate(ranges):
            part = np.array([self._part(source, bundle.range, each) for source in sources.tolist()])
            inside = part > 0
            kept.append((sources[inside], np.full(int(inside.sum()), row + number), (shares * part)[inside]))
        self._source, self._row, self._share = (np.concatenate(each) for each in zip(*kept, strict=True))
        self._count()
        self.advance(self._step)
        return children

    def _span(self, source: int, within: BundleRange) -> BundleRange:
        """Return the hash range of a source of traffic, limited to the range `within`."""
        if self._demand.spans is None:
            return within
        lower, upper = self._demand.spans[:, source].tolist()
        return BundleRange(max(lower, within.lower), min(upper, within.upper))

    def _part(self, source: int, whole: BundleRange, part: BundleRange) -> float:
        """Return the fraction of the source's traffic in the bundle with the range `whole` that belongs to the range
        `part` inside it.
        """
        where = int(self._demand.hashes[source])
        if where != SPREAD:
            return float(part.contains(where))
        span = self._span(source, whole)
        return max(0, min(span.upper, part.upper) - max(span.lower, part.lower)) / span.width


def _even(within: BundleRange, count: int) -> list[int]:
    """Return `count` hashes at equal distances in the hash range `within`, none of them at its ends."""
    return [within.lower + (2 * number + 1) * within.width // (2 * count) for number in range(count)]
