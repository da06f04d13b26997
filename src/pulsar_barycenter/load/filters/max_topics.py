"""Maximum topics: keep brokers that may take more topics.

| load manager | a broker is left out                                             | when that leaves nobody |
|--------------|------------------------------------------------------------------|-------------------------|
| modular      | above the maximum, topics of bundles about to arrive included    | the filter is ignored   |
| extensible   | at the maximum or above, by its report                           | nobody is left          |

Worked example (maximum 50 000): a broker that reports 49 990 topics and was just given a bundle of 11 is left out by
the modular load manager, one with exactly 50 000 by the extensible one only.

When to use it: it is always on, as a guard against more topics than a broker has memory for. When not: to balance;
below the maximum it makes no difference.

Source: Pulsar's `LoadManagerShared.filterBrokersWithLargeTopicCount`, `BrokerMaxTopicCountFilter`.
"""

from typing import Final

from pulsar_barycenter.load.filters.outcome import FilterOutcome, compare, narrowed
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

_KEYS: Final = ("loadBalancerBrokerMaxTopics",)


def max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove brokers above `maximum`; if that leaves none, remove nobody."""
    if snapshot.brokers.most_topics + snapshot.on_their_way.most_topics <= maximum:
        return FilterOutcome(candidates, candidates, 0, Code.TOO_MANY_TOPICS, _KEYS)
    topics = snapshot.brokers.topics + snapshot.preallocated_topics
    kept = candidates & (topics <= maximum)
    if candidates.any() and not kept.any():
        return FilterOutcome(candidates, candidates, 0, Code.TOO_MANY_TOPICS, _KEYS, ignored=True)
    return _narrowed(candidates, kept, topics, ">", maximum)


def below_max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove brokers at `maximum` or above, all if need be. A broker whose load is not known has no topics."""
    topics = snapshot.brokers.topics
    return _narrowed(candidates, candidates & (topics < maximum), topics, ">=", maximum)


def _narrowed(candidates: Flags, kept: Flags, topics: Integers, relation: str, maximum: int) -> FilterOutcome:
    return narrowed(
        candidates,
        kept,
        Code.TOO_MANY_TOPICS,
        _KEYS,
        lambda brokers: compare(brokers, "topics", topics, relation, ("maximum", float(maximum)), "topics"),
    )
