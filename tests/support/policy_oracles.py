"""A slow and obvious version of policies: one broker after the other, as in the reference."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from support.load_cases import Cluster

Stored = Mapping[str, Any]
"""Isolation policies as JSON holds them."""


def policy_of(stored: Stored, namespace: str) -> Any:
    for policy in stored.values():
        for regex in policy["namespaces"]:
            if re.fullmatch(regex, namespace):
                return policy
    return None


def host_matches(regexes: Sequence[str], broker: str) -> bool:
    """Match host names; a regex with a colon matches the port, too."""
    host = broker[: broker.rindex(":")]
    return any(re.fullmatch(regex, host) or (":" in regex and re.fullmatch(regex, broker)) for regex in regexes)


def candidates(cluster: Cluster, stored: Stored, namespace: str, *, non_persistent: bool) -> set[str]:
    policy = policy_of(stored, namespace)
    primaries, others = set(), set()
    for broker, report in cluster.reports.items():
        if policy is not None:
            if host_matches(policy["primary"], broker):
                primaries.add(broker)
            elif host_matches(policy["secondary"], broker):
                others.add(broker)
            continue
        enabled = report.non_persistent_topics_enabled if non_persistent else report.persistent_topics_enabled
        if enabled and not any(host_matches(each["primary"], broker) for each in stored.values()):
            others.add(broker)
    if policy is None:
        return others
    limit = int(policy["auto_failover_policy"]["parameters"]["min_limit"])
    return primaries | others if len(primaries) < limit else primaries


def group_counts(cluster: Cluster, groups: Mapping[str, str], namespace: str) -> dict[str, int] | None:
    """Return the number of namespaces of the group on each broker; brokers without any are left out."""
    if not groups.get(namespace, "").strip():
        return None
    counts: dict[str, int] = {}
    for broker, report in cluster.reports.items():
        bundles = {*report.bundles, *report.last_stats, *cluster.preallocated.get(broker, {})}
        held = {bundle.rpartition("/")[0] for bundle in bundles}
        same = [name for name in held if groups.get(name, "").lower() == groups[namespace].lower()]
        if same:
            counts[broker] = len(same)
    return counts


def keep_fewest(
    counts: Mapping[str, int] | None, among: set[str], domains: Mapping[str, str], *, failure_domains: bool
) -> set[str]:
    if counts is None or not among:
        return set(among)
    kept = set(among)
    if failure_domains and domains:
        sums: dict[str, int] = {}
        for broker in among:
            domain = domains.get(broker, "default")
            sums[domain] = sums.get(domain, 0) + counts.get(broker, 0)
        kept = {broker for broker in among if sums[domains.get(broker, "default")] == min(sums.values())}
    least = min(counts.get(broker, 0) for broker in kept)
    return {broker for broker in kept if counts.get(broker, 0) == least}


def may_unload(counts: Mapping[str, int] | None, allowed: set[str], source: str) -> bool:
    if not counts:
        return True
    least = min((counts.get(broker, 0) for broker in allowed), default=1 << 31)
    here = counts.get(source, 0) if source in allowed else 0
    if least == 0 or here > least:
        return True
    return len(allowed) != sum(1 for broker in allowed if counts.get(broker, 0) == least)
