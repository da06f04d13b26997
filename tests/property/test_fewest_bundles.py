"""Placement without numpy: it allows the brokers that the columns of the filters allow, and takes one with the fewest
bundles.
"""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from property.test_policy_filters import names, placed, small_clusters, stored_policies
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.fewest_bundles import BrokerCount, allowed_brokers, fewest_bundles
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reasons import Code, render
from support.load_cases import Cluster, bundle_name
from support.short_forms import examples

drained = st.sets(st.integers(0, 7).map(lambda number: f"b{number}:8080"), max_size=8).map(frozenset)


def counts_of(cluster: Cluster) -> dict[str, BrokerCount]:
    return {
        name: BrokerCount(
            len(report.last_stats), report.persistent_topics_enabled, report.non_persistent_topics_enabled
        )
        for name, report in cluster.reports.items()
    }


@settings(max_examples=examples(400))
@given(small_clusters(), stored_policies(), placed, st.booleans(), drained)
def test_the_same_brokers_are_allowed_as_with_numpy(
    cluster: Cluster, stored: dict[str, Any], namespace: str, non_persistent: bool, emptied: frozenset[str]
) -> None:
    isolation, _ = IsolationPolicies.decode(stored)
    cluster.policies = policies = ClusterPolicies(isolation, drained=emptied)
    snapshot = cluster.snapshot()
    outcome = policy_candidates(snapshot, PlacementRequest(bundle_name(1, namespace), non_persistent))
    allowed = allowed_brokers(counts_of(cluster), policies, namespace, non_persistent=non_persistent)
    assert allowed == names(snapshot, outcome.kept)


@given(small_clusters(), stored_policies(), placed, st.booleans(), drained, st.integers())
def test_a_broker_with_the_fewest_bundles_is_drawn_of_those_allowed(
    cluster: Cluster, stored: dict[str, Any], namespace: str, non_persistent: bool, emptied: frozenset[str], seed: int
) -> None:
    isolation, _ = IsolationPolicies.decode(stored)
    policies, counts = ClusterPolicies(isolation, drained=emptied), counts_of(cluster)
    bundle = bundle_name(1, namespace)
    placement = fewest_bundles(bundle, counts, policies, namespace, random.Random(seed), non_persistent=non_persistent)
    allowed = allowed_brokers(counts, policies, namespace, non_persistent=non_persistent)
    assert (placement.broker is None) is (not allowed)
    if placement.broker is None:
        assert placement.reason.code is Code.NO_CANDIDATE
    else:
        assert placement.broker in allowed
        assert counts[placement.broker].bundles == min(counts[broker].bundles for broker in allowed)
        assert {other.name for other in placement.reason.alternatives} == allowed - {placement.broker}
        assert "numpy is not installed" in render(placement.reason)
