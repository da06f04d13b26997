"""Selects the bundles that leave a drained broker, and their destinations.

With Barycenter, the dynamic key DRAINED_KEY keeps a drained broker empty. Apache Pulsar has no such key: there the
bundles are spread over the other brokers, and some may come back, because bundles without an owner go to the broker
with the least load. An isolation policy prevents this: it reserves the broker for a namespace that does not exist. Such
a policy matches brokers by host, and does not apply to namespaces that another policy assigns to this broker.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pulsar_barycenter.load.policies import IsolationPolicies
from pulsar_barycenter.naming.bundle import may_leave_its_broker
from pulsar_barycenter.operations.plan import PlannedMove

_NO_NAMESPACE: Final = "nobody/nothing"
"""A namespace that does not exist."""


def keeping_policy(cluster: str, broker: str, brokers: Collection[str]) -> tuple[str, str] | None:
    """Return the commands that set and delete an isolation policy that keeps a broker of Apache Pulsar empty.

    Return None if another broker has the same host: the policy would keep that broker empty, too.
    """
    host = broker.rpartition(":")[0]
    if any(other != broker and other.rpartition(":")[0] == host for other in brokers):
        return None
    policy = f"barycenter admin ns-isolation-policy {{}} {shlex.quote(cluster)} {shlex.quote(f'drained-{host}')}"
    regex = shlex.quote(host.replace(".", "[.]"))
    limits = "--auto-failover-policy-type min_available --auto-failover-policy-params min_limit=1,usage_threshold=100"
    return f"{policy.format('set')} --namespaces {_NO_NAMESPACE} --primary {regex} {limits}", policy.format("delete")


def to_move(owned: Iterable[str]) -> list[str]:
    """Return the bundles that can leave a broker, sorted: all that the broker serves (`owned`) except those of its own
    namespaces, such as the heartbeat.
    """
    return sorted(filter(may_leave_its_broker, owned))


def spread(
    source: str, bundles: Iterable[str], counts: Mapping[str, int], isolation: IsolationPolicies
) -> tuple[list[PlannedMove], dict[str, str]]:
    """Return moves of bundles from `source`, each to the broker with the fewest bundles of those that the policies
    `isolation` allow; and for each bundle that cannot move, why.

    `counts` are the numbers of bundles of all registered brokers. If several brokers have the fewest bundles, the one
    with the smaller name is chosen. A chosen move counts as done for the choices after it. Anti-affinity groups and
    load are ignored.
    """
    left = {broker: count for broker, count in sorted(counts.items()) if broker != source}
    moves, stay = [], {}
    for bundle in bundles:
        allowed = allowed_brokers(bundle.rpartition("/")[0], tuple(left), isolation)
        if not allowed:
            stay[bundle] = "no other broker may serve it"
            continue
        broker = min(allowed, key=lambda name: (left[name], name))
        sentence = f"of the brokers that may serve it, {broker} has the fewest bundles: {left[broker]:,}"
        left[broker] += 1
        moves.append(PlannedMove(bundle=bundle, source=source, destination=broker, sentence=sentence))
    return moves, stay


def allowed_brokers(namespace: str, brokers: tuple[str, ...], isolation: IsolationPolicies) -> list[str]:
    """Return those of `brokers`, the live brokers, that the isolation policy of a namespace allows. If the namespace
    has no policy, these are the brokers that are primary in no isolation policy.
    """
    hosts = isolation.hosts(brokers)
    policy = isolation.of_namespace(namespace)
    if policy is None:
        kept = hosts.matching(isolation.primary)
        return [broker for row, broker in enumerate(brokers) if row not in kept]
    rows = hosts.matching(policy.primary)
    if len(rows) < policy.min_limit:
        rows |= hosts.matching(policy.secondary)
    return [brokers[row] for row in sorted(rows)]
