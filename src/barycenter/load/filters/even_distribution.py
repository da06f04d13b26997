"""Even distribution: keep the brokers with the fewest bundles of the namespace.

Worked example: three brokers hold 2, 1 and 1 bundles of `public/default`: only the last two stay.

When to use it: namespaces of many bundles that carry alike, spread by number before anything is known of their load.
When not: a cluster about as large as the namespace has bundles, where few candidates are left and the placement
strategy hardly chooses; or bundles that weigh unlike, since a broker that shed one has the fewest of the namespace
and may only keep the others. `loadBalancerDistributeBundlesEvenlyEnabled=false` switches it off.

Source: Pulsar's `LoadManagerShared.removeMostServicingBrokersForNamespace`.
"""

import numpy as np

from barycenter.load.filters.outcome import FilterOutcome
from barycenter.load.reasons import Code
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot


def even_distribution(snapshot: LoadSnapshot, candidates: Flags, namespace: str) -> FilterOutcome:
    """Remove brokers with more bundles of `namespace`, reported or preallocated, than the one with the fewest."""
    counts = snapshot.bundles_of_namespace(namespace)
    least = int(counts[candidates].min()) if np.count_nonzero(candidates) else 0
    fewest = counts == least
    return FilterOutcome(
        among=candidates,
        kept=candidates & fewest,
        code=Code.NOT_FEWEST_BUNDLES,
        settings=("loadBalancerDistributeBundlesEvenlyEnabled",),
        what=f"bundles of {namespace}",
        figures=counts,
        against="fewest",
        limit=float(least),
        unit="bundles",
    )
