"""Maximum topics: keep brokers that may take more topics.

| load manager | a broker is removed                                              | if no broker is left    |
|--------------|------------------------------------------------------------------|-------------------------|
| modular      | above the maximum, topics of bundles about to arrive included    | the filter is ignored   |
| extensible   | at the maximum or above, by its report                           | there is no candidate   |

Worked example (maximum 50 000): a broker reports 49 990 topics and was just assigned a bundle of 11, so the modular
load manager removes it. Only the extensible one removes a broker with exactly 50 000.

When to use it: it is always on, so that no broker gets more topics than fit into its memory. When not: to balance
load; below the maximum it has no effect.

Source: Pulsar's `LoadManagerShared.filterBrokersWithLargeTopicCount`, `BrokerMaxTopicCountFilter`.
"""

from typing import Final

from pulsar_barycenter.load.filters.outcome import FilterOutcome, compare, narrowed
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

_KEYS: Final = ("loadBalancerBrokerMaxTopics",)


def max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove the candidates with more than `maximum` topics; the topics of bundles that are on their way to a broker
    count as well. If no candidate would be left, remove none.
    """
    if snapshot.brokers.most_topics + snapshot.on_their_way.most_topics <= maximum:
        return FilterOutcome(candidates, candidates, 0, Code.TOO_MANY_TOPICS, _KEYS)
    topics = snapshot.brokers.topics + snapshot.preallocated_topics
    kept = candidates & (topics <= maximum)
    if candidates.any() and not kept.any():
        return FilterOutcome(candidates, candidates, 0, Code.TOO_MANY_TOPICS, _KEYS, ignored=True)
    return _narrowed(candidates, kept, topics, ">", maximum)


def below_max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove the candidates that report `maximum` topics or more, even if no candidate is left. A broker of unknown
    load counts as one without topics.
    """
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
