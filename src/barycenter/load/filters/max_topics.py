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

from barycenter.load.filters.outcome import FilterOutcome
from barycenter.load.reasons import Code
from barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

_KEY = "loadBalancerBrokerMaxTopics"


def max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove brokers above `maximum`; if that leaves none, remove nobody."""
    topics = snapshot.brokers.topics + snapshot.preallocated_topics
    above = topics > maximum
    kept = candidates & ~above if above.any() else candidates
    ignored = kept is not candidates and not kept.any() and bool(candidates.any())
    return _outcome(candidates, candidates if ignored else kept, topics, ">", maximum, ignored=ignored)


def below_max_topics(snapshot: LoadSnapshot, candidates: Flags, maximum: int) -> FilterOutcome:
    """Remove brokers at `maximum` or above, all if need be. A broker whose load is not known has no topics."""
    topics = snapshot.brokers.topics
    return _outcome(candidates, candidates & (topics < maximum), topics, ">=", maximum)


def _outcome(
    candidates: Flags, kept: Flags, topics: Integers, relation: str, maximum: int, *, ignored: bool = False
) -> FilterOutcome:
    return FilterOutcome(
        among=candidates,
        kept=kept,
        code=Code.TOO_MANY_TOPICS,
        settings=(_KEY,),
        what="topics",
        figures=topics,
        relation=relation,
        against="maximum",
        limit=float(maximum),
        unit="topics",
        ignored=ignored,
    )
