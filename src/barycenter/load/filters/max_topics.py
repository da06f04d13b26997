"""Maximum topics: keep brokers that have at most so many topics, those of bundles about to arrive included.

Worked example (maximum 50 000): a broker that reports 49 990 topics and was just given a bundle of 11 is left out, one
with exactly 50 000 is not.

Source: Pulsar's `LoadManagerShared.filterBrokersWithLargeTopicCount`.
"""

import numpy as np

from barycenter.load.filters.outcome import FilterOutcome
from barycenter.load.reasons import Code
from barycenter.load.snapshot import Flags, LoadSnapshot


def max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove brokers above `maximum`; if that leaves none, remove nobody."""
    topics = snapshot.brokers.topics + snapshot.preallocated_topics
    kept = candidates & (topics <= maximum)
    ignored = bool(candidates.any()) and not kept.any()
    if ignored:
        kept = candidates
    return FilterOutcome(
        kept=kept,
        removed=candidates & ~kept,
        code=Code.TOO_MANY_TOPICS,
        settings=("loadBalancerBrokerMaxTopics",),
        what="topics",
        figures=topics.astype(np.float64),
        against="maximum",
        limit=float(maximum),
        unit="topics",
        ignored=ignored,
    )
