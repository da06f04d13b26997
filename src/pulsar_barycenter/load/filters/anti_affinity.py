"""Anti-affinity groups: keep the brokers that have the fewest namespaces of the bundle's group.

With `failureDomainsEnabled`, and if failure domains are defined, it first keeps the domains whose candidates together
have the fewest. Brokers without a domain form the domain `default`.

Worked example: domain d1 has b1 with 2 namespaces of the group and b2 with 1, d2 has b3 with 2 and b4 with 1, d3 has
b5 and b6 with 2 each. The domains have 3, 3 and 4, so d3 is removed. Of the others b2 and b4 remain, with 1 each.

It spreads namespaces, not bundles: a second bundle of a namespace may join the first. If all brokers have the same
number of namespaces of the group, even distribution decides as if there were no group.

Source: Pulsar's `LoadManagerShared.filterAntiAffinityGroupOwnedBrokers`, `shouldAntiAffinityNamespaceUnload`.
"""

from functools import lru_cache

import numpy as np

from pulsar_barycenter.load.filters.outcome import FilterOutcome, compare, narrowed
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reasons import Code, Compared
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot

ANTI_AFFINITY_SETTING = "namespaceAntiAffinityGroup"
_DOMAINS_SETTING = "failureDomainsEnabled"


def group_counts(snapshot: LoadSnapshot, namespace: str) -> Integers | None:
    """Return for each broker how many namespaces of the anti-affinity group of `namespace` have a bundle there. None:
    `namespace` is in no group.

    A namespace also counts for a broker if one of its bundles is on its way there. With the extensible load manager,
    the result is instead the number of the group's bundles that each broker owns by its ownership records.
    """
    members = snapshot.policies.members_of(namespace)
    if members is None:
        return None
    group = snapshot.policies.groups[namespace]
    reported = counts = _reported(snapshot, group, members)
    arriving = snapshot.on_their_way.arriving
    if snapshot.extensible is not None or not arriving:
        return counts
    memo, key = snapshot.bundles.memo, ("group with arriving", group)
    before = memo.get(key)  # a bundle that is to leave needs it twice: for the veto and for its destination
    if before is not None and before[0] is arriving and before[1] is reported:
        found: Integers = before[2]
        return found
    first: list[int] = []
    for name in members if len(members) <= arriving.most else [name for name in arriving if name in set(members)]:
        coming = arriving.get_or_none(name)
        if coming:
            row = snapshot.namespace_row(name)
            here = () if row is None else snapshot.bundles.holding(row, len(counts))
            first += [broker for broker in coming if broker not in here]
    if first:
        counts = counts + np.bincount(first, minlength=len(counts))
    memo[key] = arriving, reported, counts
    return counts


def _reported(snapshot: LoadSnapshot, group: str, members: tuple[str, ...]) -> Integers:
    """Return the result of `group_counts` without the bundles that are on their way to a broker. The result is cached:
    the caller must not change it.
    """
    bundles, brokers = snapshot.bundles, len(snapshot.brokers)
    owned = None if snapshot.extensible is None else snapshot.extensible.owned
    before = bundles.memo.get(("group", group))
    if before is not None and before[0] is members and before[1] is owned:
        counts: Integers = before[2]
        return counts
    namespaces = [row for name in members if (row := snapshot.namespace_row(name)) is not None]
    rows = np.concatenate([np.zeros(0, np.int64), *map(bundles.rows_of_namespace, namespaces)])
    if owned is not None:
        holders = bundles.owner[rows[owned[rows]]]
    else:
        # one number for each pair of broker and namespace, so that a namespace counts once per broker
        width = len(snapshot.namespaces)
        holders = np.unique(bundles.owner[rows].astype(np.int64) * width + bundles.namespace[rows]) // max(1, width)
    counts = np.bincount(holders, minlength=brokers)
    bundles.memo["group", group] = (members, owned, counts)
    return counts


def anti_affinity(
    snapshot: LoadSnapshot, candidates: Flags, namespace: str, *, failure_domains: bool
) -> tuple[FilterOutcome, ...]:
    """Keep the failure domains whose candidates have the lowest sum of `group_counts`, and then, of the remaining
    brokers, those with the lowest count. Remove all other candidates. So the namespaces of an anti-affinity group
    spread over domains and brokers.

    Returns one outcome for the step of domains, if `failure_domains` is set and the cluster has failure domains, and
    then one for the step of brokers; the last outcome has the brokers that remain. Returns no outcome if `namespace`
    has no group, or if there is no candidate.
    """
    counts = group_counts(snapshot, namespace)
    if counts is None or not candidates.any():
        return ()
    outcomes = []
    if failure_domains and snapshot.policies.domains:
        domain = _domain_rows(snapshot.brokers.names, snapshot.policies)
        sums = np.bincount(domain[candidates], weights=counts[candidates], minlength=int(domain.max()) + 1)
        outcomes.append(
            _fewest(
                candidates,
                sums[domain].astype(np.float64),
                Code.GROUP_IN_DOMAIN,
                (ANTI_AFFINITY_SETTING, _DOMAINS_SETTING),
            )
        )
        candidates = outcomes[0].kept
    outcomes.append(_fewest(candidates, counts, Code.GROUP_ON_BROKER, (ANTI_AFFINITY_SETTING,)))
    return tuple(outcomes)


def _fewest(candidates: Flags, values: Floats | Integers, code: Code, settings: tuple[str, ...]) -> FilterOutcome:
    least = float(values[candidates].min())
    return narrowed(
        candidates,
        candidates & (values == least),
        code,
        settings,
        lambda brokers: compare(brokers, "namespaces of the group", values, ">", ("fewest", least)),
    )


@lru_cache(maxsize=4)
def _domain_rows(brokers: tuple[str, ...], policies: ClusterPolicies) -> Indices:
    """Return a number for each broker; brokers of the same failure domain have the same number."""
    names = [policies.domain_of(broker) for broker in brokers]
    row_of = {name: row for row, name in enumerate(sorted(set(names)))}
    return np.array([row_of[name] for name in names], np.int32)


def anti_affinity_veto(snapshot: LoadSnapshot, allowed: Flags, namespace: str) -> Compared | None:
    """Return why a bundle of `namespace` may not be unloaded, as a comparison of numbers; None if it may be unloaded.

    `allowed` flags the brokers that policies allow. A bundle must not be unloaded if all these brokers have the same
    number of namespaces of its anti-affinity group, and that number is at least 1. Then the bundle would probably come
    back to the broker that it left.
    """
    counts = group_counts(snapshot, namespace)
    if counts is None or not counts.any():
        return None
    of_allowed = counts[allowed]
    if len(of_allowed) and (of_allowed.min() == 0 or of_allowed.min() < of_allowed.max()):
        return None
    least, most = (int(of_allowed.min()), int(of_allowed.max())) if len(of_allowed) else (0, 0)
    return Compared("most namespaces of the group on a broker", float(most), "=", "fewest", float(least))
