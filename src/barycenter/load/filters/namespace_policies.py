"""Which brokers the policies of a namespace allow: the candidates that every selection starts from.

Without an isolation policy these are the brokers that enable the kind of topics the bundle holds: non-persistent
ones if it holds any, else persistent ones.

Source: Pulsar's `LoadManagerShared.applyNamespacePolicies`.
"""

import numpy as np

from barycenter.load.filters.outcome import FilterOutcome, PlacementRequest
from barycenter.load.reasons import Code
from barycenter.load.snapshot import LoadSnapshot


def policy_candidates(snapshot: LoadSnapshot, request: PlacementRequest) -> FilterOutcome:
    """Return the live brokers that may serve the bundle."""
    enabled = snapshot.brokers.non_persistent if request.non_persistent else snapshot.brokers.persistent
    key = "enableNonPersistentTopics" if request.non_persistent else "enablePersistentTopics"
    everyone = np.ones(len(snapshot.brokers), bool)
    return FilterOutcome(everyone & enabled, everyone & ~enabled, Code.TOPIC_KIND_DISABLED, (key,))
