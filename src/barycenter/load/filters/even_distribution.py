"""Even distribution: keep the brokers with the fewest bundles of the namespace.

Worked example: three brokers hold 2, 1 and 1 bundles of `public/default`: only the last two stay.

When to use it: namespaces of many bundles that carry alike, spread by number before anything is known of their load.
When not: a cluster about as large as the namespace has bundles, where few candidates are left and the placement
strategy hardly chooses; or bundles that weigh unlike, since a broker that shed one has the fewest of the namespace
and may only keep the others. `loadBalancerDistributeBundlesEvenlyEnabled=false` switches it off.

Source: Pulsar's `LoadManagerShared.removeMostServicingBrokersForNamespace`.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from barycenter.load.filters.outcome import FilterOutcome, compare
from barycenter.load.reasons import Code, Compared
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

_KEYS: Final = ("loadBalancerDistributeBundlesEvenlyEnabled",)


def even_distribution(snapshot: LoadSnapshot, candidates: Flags, namespace: str) -> FilterOutcome:
    """Remove brokers with more bundles of `namespace`, reported or preallocated, than the one with the fewest."""
    counts = snapshot.bundles_of_namespace(namespace)
    count = int(np.count_nonzero(candidates))
    least, kept = 0, candidates & (counts == 0)
    left = int(np.count_nonzero(kept))
    if count and not left:
        least = int(counts[candidates].min())
        kept = candidates & (counts == least)
        left = int(np.count_nonzero(kept))

    def compared(brokers: Sequence[int]) -> list[Compared]:
        return compare(brokers, f"bundles of {namespace}", counts, ">", ("fewest", float(least)), "bundles")

    return FilterOutcome(candidates, kept, count - left, Code.NOT_FEWEST_BUNDLES, _KEYS, compared)
