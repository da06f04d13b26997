"""The top bundles: the heaviest bundles that each broker of the extensible load manager reports, in list order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from pulsar_barycenter.load.shedding.ordering import by_group
from pulsar_barycenter.load.shedding.transfer_plan import extensible_load
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot


@dataclass(frozen=True, slots=True)
class BundleLists:
    """Rows of bundles and their traffic (bytes/s), grouped by broker: the bundles of broker b are at the indexes from
    `edges[b]` (inclusive) to `edges[b + 1]` (exclusive).
    """

    rows: Integers
    traffic: Floats
    edges: Sequence[int]

    def count(self, broker: int) -> int:
        return self.edges[broker + 1] - self.edges[broker]

    def of(self, broker: int) -> tuple[Integers, list[float]]:
        """Return the rows of a broker's bundles in the order in which the broker lists them, and the traffic of each
        bundle (bytes/s).
        """
        one = slice(self.edges[broker], self.edges[broker + 1])
        return self.rows[one], self.traffic[one].tolist()

    def only(self, flags: Flags) -> "BundleLists":
        if flags.all():
            return self
        before = np.concatenate(([0], np.cumsum(flags)))
        return BundleLists(self.rows[flags], self.traffic[flags], before[self.edges].tolist())


class TopBundles:
    """The top bundles of all brokers. The top bundles of a broker are its heaviest bundles, in the list that it
    publishes.

    `movable` has the bundles that their broker owns, whose namespace is not excluded, and that were not unloaded
    recently. `offered` has the bundles whose traffic is not 0: those that a destination can give in exchange. Traffic
    can be negative in reports with errors; `is_any_negative` is then True.
    """

    def __init__(self, snapshot: LoadSnapshot, excluded_namespaces: Collection[str]) -> None:
        load, bundles = extensible_load(snapshot), snapshot.bundles
        rows = np.flatnonzero(load.top >= 0)
        # sort by place in the list, then by broker: two radix sorts are faster than one sort by both
        rows = rows[by_group(load.top[rows], int(load.top.max(initial=0)) + 1)[0]]
        order, edges = by_group(bundles.owner[rows], len(snapshot.brokers))
        rows = rows[order]
        traffic = bundles.short.throughput_in[rows] + bundles.short.throughput_out[rows]
        self.listed = BundleLists(rows, traffic, edges.tolist())
        movable: Flags = load.owned[rows] & ~bundles.recently_unloaded[rows]
        if excluded_namespaces:
            excluded = [row for row, name in enumerate(snapshot.namespaces) if name in excluded_namespaces]
            movable &= ~np.isin(bundles.namespace[rows], excluded)
        self.movable = self.listed.only(movable)
        self.offered = self.listed.only(traffic != 0)
        self.is_any_negative = bool((traffic < 0).any())
