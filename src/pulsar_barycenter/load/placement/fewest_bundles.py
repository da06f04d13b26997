"""Assigns a bundle to the broker with the fewest bundles, of those that policies allow; needs no numpy.

A broker without numpy places by this rule, whatever strategy is configured: it follows the policies of administrators,
but it does not compare loads.

| brokers                                     | are candidates                                                   |
|---------------------------------------------|------------------------------------------------------------------|
| drained                                     | if no other broker may serve the bundle                          |
| of an isolation policy of the namespace     | primary ones; secondary ones too while fewer than `min_limit` live |
| primary in a policy of other namespaces     | no                                                               |
| that do not serve the kind of the topics    | no; with an isolation policy the kind does not matter            |

`filters.namespace_policies` has the same rules on columns; a property test compares both. Anti-affinity groups do not
count here.

Worked example: b1 has 3 bundles, b2 has 1, and b3, which is drained, has none. The bundle goes to b2.
"""

import random
from collections.abc import Mapping
from typing import Final

import msgspec

from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.policies import ClusterPolicies, host_of_broker
from pulsar_barycenter.load.reasons import Alternative, Code, Compared, Reason

_NAME: Final = "FewestBundles"
_MAX_ALTERNATIVES: Final = 10


class BrokerCount(msgspec.Struct, frozen=True, gc=False):
    """The number of bundles that a broker has or is about to get, and whether the broker serves persistent topics and
    non-persistent topics.
    """

    bundles: int = 0
    persistent: bool = True
    non_persistent: bool = True


def allowed_brokers(
    brokers: Mapping[str, BrokerCount], policies: ClusterPolicies, namespace: str, *, non_persistent: bool
) -> frozenset[str]:
    """Return which of the registered `brokers` policies allow to serve a bundle of `namespace`.

    `non_persistent`: the bundle has non-persistent topics.
    """
    drained = policies.drained & brokers.keys()
    if drained and drained != brokers.keys():
        spared = {broker: count for broker, count in brokers.items() if broker not in drained}
        found = _allowed(spared, policies, namespace, non_persistent=non_persistent)
        if found:
            return found
    return _allowed(brokers, policies, namespace, non_persistent=non_persistent)


def _allowed(
    brokers: Mapping[str, BrokerCount], policies: ClusterPolicies, namespace: str, *, non_persistent: bool
) -> frozenset[str]:
    isolation = policies.isolation
    names = tuple(brokers)
    policy = isolation.of_namespace(namespace)
    if policy is not None:
        hosts = isolation.hosts(names)
        primary = hosts.matching(policy.primary)
        rows = primary | hosts.matching(policy.secondary) if len(primary) < policy.min_limit else primary
        return frozenset(names[row] for row in rows)
    serving = {
        broker
        for broker, count in brokers.items()
        if (count.non_persistent if non_persistent else count.persistent)
        and (not isolation or host_of_broker(broker) is not None)
    }
    reserved = isolation.hosts(names).matching(isolation.primary) if isolation else frozenset()
    return frozenset(serving - {names[row] for row in reserved})


def fewest_bundles(
    bundle: str,
    brokers: Mapping[str, BrokerCount],
    policies: ClusterPolicies,
    namespace: str,
    rng: random.Random,
    *,
    non_persistent: bool = False,
) -> Placement:
    """Return the placement of a bundle of `namespace` on the allowed broker with the fewest bundles; of several such
    brokers, `rng` draws one. It is used without numpy, when loads cannot be compared.

    The placement's broker is None if policies allow no broker.
    """
    allowed = allowed_brokers(brokers, policies, namespace, non_persistent=non_persistent)
    if not allowed:
        reason = Reason(code=Code.NO_CANDIDATE, strategy=_NAME, subject=bundle)
        return Placement.because(reason, bundle, None)
    least = min(brokers[broker].bundles for broker in allowed)
    chosen = rng.choice(sorted(broker for broker in allowed if brokers[broker].bundles == least))
    others = sorted(allowed - {chosen}, key=lambda broker: (brokers[broker].bundles, broker))
    reason = Reason(
        code=Code.FEWEST_BUNDLES,
        strategy=_NAME,
        subject=chosen,
        detail="numpy is not installed on the broker that decides, so loads are not compared",
        alternatives=tuple(
            _not_chosen(broker, brokers[broker].bundles, least) for broker in others[:_MAX_ALTERNATIVES]
        ),
        more_alternatives=max(0, len(others) - _MAX_ALTERNATIVES),
    )
    return Placement.because(reason, bundle, chosen)


def _not_chosen(broker: str, bundles: int, least: int) -> Alternative:
    if bundles == least:
        return Alternative(broker, Code.EQUAL)
    return Alternative(broker, Code.MORE_BUNDLES, Compared("bundles", float(bundles), ">", "fewest", float(least)))
