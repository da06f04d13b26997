"""A broker emptied, and kept so: who is drained, what it still serves, and where that goes.

On Barycenter the dynamic key DRAINED_KEY keeps a drained broker empty. Apache Pulsar has none: there its bundles are
spread over the other brokers, and some may come back, as a bundle without an owner goes where the least load is. What
keeps them away there is an isolation policy by which the broker is for a namespace alone that does not exist. It knows
brokers by their hosts, and does not bind namespaces that another policy sends to this one.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pulsar_barycenter.load.policies import IsolationPolicies
from pulsar_barycenter.naming.bundle import may_leave_its_broker
from pulsar_barycenter.operations.plan import PlannedMove

_NOBODYS: Final = "nobody/nothing"
"""A namespace that is not there."""


def keeping_policy(cluster: str, broker: str, brokers: Collection[str]) -> tuple[str, str] | None:
    """Return the commands that set and delete an isolation policy which keeps bundles from a broker of Apache Pulsar;
    None where another broker has the same host, and would be kept empty, too."""
    host = broker.rpartition(":")[0]
    if any(other != broker and other.rpartition(":")[0] == host for other in brokers):
        return None
    policy = f"barycenter admin ns-isolation-policy {{}} {shlex.quote(cluster)} {shlex.quote(f'drained-{host}')}"
    regex = shlex.quote(host.replace(".", "[.]"))
    limits = "--auto-failover-policy-type min_available --auto-failover-policy-params min_limit=1,usage_threshold=100"
    return f"{policy.format('set')} --namespaces {_NOBODYS} --primary {regex} {limits}", policy.format("delete")


def to_move(owned: Iterable[str]) -> list[str]:
    """Return which of the bundles that a broker serves can go elsewhere, sorted: all but those of its own."""
    return sorted(filter(may_leave_its_broker, owned))


def spread(
    source: str, bundles: Iterable[str], counts: Mapping[str, int], isolation: IsolationPolicies
) -> tuple[list[PlannedMove], dict[str, str]]:
    """Return moves of bundles from `source`, each to the broker with the fewest bundles that policies allow; and why
    others stay.

    `counts` are the bundles of each registered broker. Ties fall to the smaller name. Anti-affinity groups and load are
    not looked at.
    """
    left = {broker: count for broker, count in sorted(counts.items()) if broker != source}
    moves, stay = [], {}
    for bundle in bundles:
        allowed = _allowed(bundle.rpartition("/")[0], tuple(left), isolation)
        if not allowed:
            stay[bundle] = "no other broker may serve it"
            continue
        broker = min(allowed, key=lambda name: (left[name], name))
        sentence = f"{broker} has the fewest bundles of those that may serve it, {left[broker]:,}"
        left[broker] += 1
        moves.append(PlannedMove(bundle=bundle, source=source, destination=broker, sentence=sentence))
    return moves, stay


def _allowed(namespace: str, brokers: tuple[str, ...], isolation: IsolationPolicies) -> list[str]:
    """Return which of the live brokers a namespace's isolation policy allows, or that none keeps for others."""
    hosts = isolation.hosts(brokers)
    policy = isolation.of_namespace(namespace)
    if policy is None:
        kept = hosts.matching(isolation.primary)
        return [broker for row, broker in enumerate(brokers) if row not in kept]
    rows = hosts.matching(policy.primary)
    if len(rows) < policy.min_limit:
        rows |= hosts.matching(policy.secondary)
    return [brokers[row] for row in sorted(rows)]
