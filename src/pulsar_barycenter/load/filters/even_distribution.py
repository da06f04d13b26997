"""Even distribution: keep the brokers with the fewest bundles of the namespace.

Worked example: three brokers have 2, 1 and 1 bundles of `public/default`, so only the last two remain candidates.

When to use it: namespaces with many bundles of similar load: it spreads them by number before their load is known.
When not: a namespace with about as many bundles as the cluster has brokers, since few candidates remain for placement;
or bundles of different weight, since a broker that shed one then has the fewest, so that the bundle comes back.
`loadBalancerDistributeBundlesEvenlyEnabled=false` switches it off.

Source: Pulsar's `LoadManagerShared.removeMostServicingBrokersForNamespace`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.filters.outcome import FilterOutcome, compare
from pulsar_barycenter.load.reasons import Code, Compared
from pulsar_barycenter.load.snapshot.load_snapshot import BundleTable, Flags, LoadSnapshot, counted

_KEYS: Final = ("loadBalancerDistributeBundlesEvenlyEnabled",)


def even_distribution(snapshot: LoadSnapshot, candidates: Flags, namespace: str) -> FilterOutcome:
    """Remove all candidates except those with the fewest bundles of `namespace`. A bundle counts for a broker if the
    broker reports it, or if it was assigned to the broker and is on its way there.
    """
    bundles, row, brokers = snapshot.bundles, snapshot.namespace_row(namespace), len(candidates)
    arriving = snapshot.on_their_way.arriving.get_or_none(namespace) or {}
    count, least = int(np.count_nonzero(candidates)), 0
    kept = candidates.copy()
    if row is not None:
        kept[bundles.holders(row, brokers)] = False
    for broker in arriving:
        kept[broker] = False
    left = int(np.count_nonzero(kept))
    if count and not left:  # every candidate has at least one
        counts = counted(bundles, row, brokers, arriving)
        least = int(counts[candidates].min())
        kept = candidates & (counts == least)
        left = int(np.count_nonzero(kept))
    compared = _Counts(bundles, namespace, row, brokers, arriving, least)
    return FilterOutcome(candidates, kept, count - left, Code.NOT_FEWEST_BUNDLES, _KEYS, compared, counted=left)


class _Counts(msgspec.Struct, frozen=True, gc=False):
    """Builds comparisons for a reason: the number of bundles of one namespace that a broker has, compared with `least`,
    the lowest such number of all candidates. `row` is the row of the namespace in the snapshot.
    """

    bundles: BundleTable
    namespace: str
    row: int | None
    brokers: int
    arriving: Mapping[int, int]
    least: int

    def __call__(self, brokers: Sequence[int]) -> list[Compared]:
        counts = counted(self.bundles, self.row, self.brokers, self.arriving)
        fewest = "fewest", float(self.least)
        return compare(brokers, f"bundles of {self.namespace}", counts, ">", fewest, "bundles")
