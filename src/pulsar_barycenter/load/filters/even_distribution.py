"""Even distribution: keep the brokers with the fewest bundles of the namespace.

Worked example: three brokers hold 2, 1 and 1 bundles of `public/default`: only the last two stay.

When to use it: namespaces of many bundles that carry alike, spread by number before anything is known of their load.
When not: a cluster about as large as the namespace has bundles, where few candidates are left and the placement
strategy hardly chooses; or bundles that weigh unlike, since a broker that shed one has the fewest of the namespace
and may only keep the others. `loadBalancerDistributeBundlesEvenlyEnabled=false` switches it off.

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
    """Remove brokers with more bundles of `namespace`, reported or preallocated, than the one with the fewest."""
    bundles, row, brokers = snapshot.bundles, snapshot.namespace_row(namespace), len(candidates)
    arriving = snapshot.on_their_way.arriving.get_or_none(namespace) or {}
    count, least = int(np.count_nonzero(candidates)), 0
    kept = candidates.copy()
    if row is not None:
        kept[bundles.holders(row, brokers)] = False
    for broker in arriving:
        kept[broker] = False
    left = int(np.count_nonzero(kept))
    if count and not left:  # nobody has none
        counts = counted(bundles, row, brokers, arriving)
        least = int(counts[candidates].min())
        kept = candidates & (counts == least)
        left = int(np.count_nonzero(kept))
    compared = _Counts(bundles, namespace, row, brokers, arriving, least)
    return FilterOutcome(candidates, kept, count - left, Code.NOT_FEWEST_BUNDLES, _KEYS, compared, counted=left)


class _Counts(msgspec.Struct, frozen=True, gc=False):
    """Says how many bundles of a namespace, which has that `row`, brokers have; the candidates at least `least`."""

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
