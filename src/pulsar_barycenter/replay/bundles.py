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
    """Return an array of `count` sums: item p is the sum of the `values` whose item in `places` is p, added in their
    order.
    """
    return np.bincount(places, values, count).astype(np.float64)


class Bundles:
    """All bundles of the simulated cluster, one row each, sorted by name. `owner` has the row of each bundle's broker,
    or NOBODY.

    `figures` (four rows), `sessions` and `topics` are those of the step of the last call of `advance`.
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
        """Set `figures` (rates), `sessions` and `topics` to the values of the step `step`."""
        self._step = step
        self.figures = self.at(step)

    def at(self, step: int) -> Floats:
        """Return the four rates (msg/s and bytes/s, in and out) of the bundles that exist now, at the step `step`."""
        wanted = self._demand.figures(step)[:, self._source] * self._share
        return np.array([summed(self._row, each, len(self)) for each in wanted])

    def _count(self) -> None:
        """Compute `sessions`, `topics` and the namespaces again from the sources of the bundles. Counts of a bundle are
        rounded to integers.
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
        """Return, for each bundle, the share of its traffic that no split can divide: that of its largest topic.

        A source of several topics that are spread over the bundle has topics of equal load: each of ten topics has a
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
        """Return the hashes at which the configured algorithm would split a bundle; empty if it would not split it."""
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
        """Split a bundle at hashes strictly inside it, and return the names of its parts.

        In the arrays, which have one row for each bundle, the parts are in the place of the bundle, so the rows of all
        bundles after it change. The parts get the bundle's owner, and the traffic that belongs to their ranges.
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
        """Return the part of a source's hash range that is inside the range `within`."""
        if self._demand.spans is None:
            return within
        lower, upper = self._demand.spans[:, source].tolist()
        return BundleRange(max(lower, within.lower), min(upper, within.upper))

    def _part(self, source: int, whole: BundleRange, part: BundleRange) -> float:
        """Return the share of a source's traffic in the bundle `whole` that belongs to its range `part`."""
        where = int(self._demand.hashes[source])
        if where != SPREAD:
            return float(part.contains(where))
        span = self._span(source, whole)
        return max(0, min(span.upper, part.upper) - max(span.lower, part.lower)) / span.width


def _even(within: BundleRange, count: int) -> list[int]:
    """Return `count` hashes that are evenly spaced in the hash range `within`."""
    return [within.lower + (2 * number + 1) * within.width // (2 * count) for number in range(count)]
