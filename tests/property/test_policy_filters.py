"""Isolation policies and anti-affinity groups agree with a slow, obvious version of themselves."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.filters.anti_affinity import anti_affinity, anti_affinity_veto, group_counts
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies, group_key
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, default_bundle_data
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from support import policy_oracles as oracle
from support.filter_outcomes import assert_narrows
from support.load_cases import Cluster, bundle_name
from support.short_forms import examples

PLACES = ["t/a", "t/b", "t/c", "t/d", "pulsar/system"]
broker_regexes = st.sampled_from(
    ["b.*", "b3", "b4:8080", "(b)5", "b[0-2]", "b[02468]", "b.", "b1|b2.*", "b", ".*", "x", "b[3-5]", "b0"]
)
namespace_regexes = st.sampled_from(
    ["t/a", "(t)/b", "(.)/[ab]", "(?:t)/[^b]", "t/.*", ".*/b", "pulsar/.*", "t", ".*", "t/[ab]"]
)
placed = st.sampled_from(PLACES)
group_names = st.sampled_from(["g", "g", "G", "h", "", " "])


@st.composite
def small_clusters(draw: st.DrawFn) -> Cluster:
    """Draw up to eight brokers with a few bundles of a few namespaces, some of them in transition."""
    cluster = Cluster()
    bundles = st.lists(st.tuples(st.integers(0, 1), placed), max_size=4)
    for number in draw(st.lists(st.integers(0, 7), unique=True, max_size=8)):
        name = f"b{number}:8080"
        cluster.add(name, bundles={bundle_name(*key): NamespaceBundleStats() for key in draw(bundles)})
        arriving = [bundle_name(*key) for key in draw(st.just([]) | bundles)]
        cluster.preallocated[name] = {bundle: default_bundle_data() for bundle in arriving}
        cluster.reports[name] = msgspec.structs.replace(
            cluster.reports[name],
            persistent_topics_enabled=draw(st.sampled_from([True, True, False])),
            non_persistent_topics_enabled=draw(st.sampled_from([True, False])),
        )
    return cluster


@st.composite
def stored_policies(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["p", "q", "r"]), unique=True, max_size=3))
    return {
        name: {
            "namespaces": draw(st.lists(namespace_regexes, min_size=1, max_size=2)),
            "primary": draw(st.lists(broker_regexes, min_size=1, max_size=2)),
            "secondary": draw(st.lists(broker_regexes, max_size=2)),
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": str(draw(st.integers(0, 3))), "usage_threshold": "80"},
            },
        }
        for name in names
    }


groups = st.lists(group_names, min_size=len(PLACES), max_size=len(PLACES)).map(
    lambda drawn: dict(zip(PLACES, drawn, strict=True))
)
domains = st.dictionaries(
    st.integers(0, 7).map(lambda number: f"b{number}:8080"), st.sampled_from(["d1", "d2", "default"]), max_size=8
)


def known(groups: dict[str, str]) -> dict[str, str]:
    return {name: key for name, group in groups.items() if (key := group_key(group)) is not None}


def names(snapshot: LoadSnapshot, flags: Flags) -> set[str]:
    return {name for name, flag in zip(snapshot.brokers.names, flags, strict=True) if flag}


@settings(max_examples=examples(400))
@given(small_clusters(), stored_policies(), placed, st.booleans())
def test_policies_allow_what_their_oracle_allows(
    cluster: Cluster, stored: dict[str, Any], namespace: str, non_persistent: bool
) -> None:
    """Every removed broker has its own reason."""
    isolation, errors = IsolationPolicies.decode(stored)
    assert not errors
    cluster.policies = ClusterPolicies(isolation)
    snapshot = cluster.snapshot()
    outcome = policy_candidates(snapshot, PlacementRequest(bundle_name(1, namespace), non_persistent))
    assert names(snapshot, outcome.kept) == oracle.candidates(cluster, stored, namespace, non_persistent=non_persistent)
    assert_narrows(snapshot, snapshot.brokers.everyone, outcome)


@settings(max_examples=examples(400))
@given(small_clusters(), groups, domains, placed, st.booleans(), st.sets(st.integers(0, 7)))
def test_anti_affinity_keeps_what_its_oracle_keeps(
    cluster: Cluster,
    stored: dict[str, str],
    domain_of: dict[str, str],
    namespace: str,
    failure_domains: bool,
    excluded: set[int],
) -> None:
    cluster.policies = ClusterPolicies(domains=domain_of, groups=known(stored))
    snapshot = cluster.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    kept = candidates
    for outcome in anti_affinity(snapshot, candidates, namespace, failure_domains=failure_domains):
        assert_narrows(snapshot, kept, outcome)
        kept = outcome.kept
    counts = oracle.group_counts(cluster, stored, namespace)
    expected = oracle.keep_fewest(counts, names(snapshot, candidates), domain_of, failure_domains=failure_domains)
    assert names(snapshot, kept) == expected
    found = group_counts(snapshot, namespace)
    if counts is None:
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == [counts.get(broker, 0) for broker in snapshot.brokers.names]


@settings(max_examples=examples(400))
@given(small_clusters(), groups, placed, st.sets(st.integers(0, 7)), st.integers(0, 7))
def test_anti_affinity_forbids_to_unload_where_its_oracle_does(
    cluster: Cluster, stored: dict[str, str], namespace: str, excluded: set[int], source: int
) -> None:
    """The shedding broker need not be among the allowed brokers."""
    cluster.policies = ClusterPolicies(groups=known(stored))
    snapshot = cluster.snapshot()
    allowed = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    counts = oracle.group_counts(cluster, stored, namespace)
    if not len(snapshot.brokers):
        return
    here = snapshot.brokers.names[source % len(snapshot.brokers)]
    expected = oracle.may_unload(counts, names(snapshot, allowed), here)
    assert (anti_affinity_veto(snapshot, allowed, namespace) is None) == expected
