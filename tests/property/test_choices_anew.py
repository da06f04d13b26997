"""What is cached from one choice of a round to the next changes none: each equals that of a snapshot without a
cache."""

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reports.load_report import default_bundle_data
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.selection.unload_veto import unload_veto
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot, Preallocations
from pulsar_barycenter.load.strategies import BOTH, PLACER_NAMES
from support.load_cases import Cluster, bundle_name, clusters
from support.snapshot_cases import a_policy

NAMESPACES = ("t/a", "t/b", "t/new")
POLICIES = (
    ClusterPolicies(),
    ClusterPolicies(groups={"t/a": "g", "t/b": "g", "t/new": "g"}),
    ClusterPolicies(a_policy("p", "t/a", "b[0-2]").isolation, {"b0:8080": "d"}, {"t/b": "g", "t/new": "g"}),
)
steps = st.lists(st.tuples(st.sampled_from(NAMESPACES), st.integers(0, 9), st.integers(0, 3)), max_size=12)


def anew(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return the same snapshot without cached values."""
    bundles, held = replace(snapshot.bundles), snapshot.on_their_way
    made = Preallocations.of(held.long_rate.copy(), held.topics.copy(), list(held.pairs), bundles)
    return replace(snapshot, brokers=replace(snapshot.brokers), bundles=bundles, preallocations=made)


@pytest.mark.parametrize("name", sorted(PLACER_NAMES))
@settings(max_examples=30, deadline=None)
@given(cluster=clusters(), policies=st.sampled_from(POLICIES), chosen=steps, failure_domains=st.booleans())
def test_a_choice_after_others_is_that_of_a_snapshot_made_anew(
    cluster: Cluster,
    policies: ClusterPolicies,
    chosen: list[tuple[str, int, int]],
    failure_domains: bool,
    name: str,
) -> None:
    """Broker, reason, and whether a bundle may leave; sometimes from an earlier snapshot, as if others grew from it."""
    config = msgspec.structs.replace(
        default_config("4.x"),
        load_balancer_load_placement_strategy=name,
        load_balancer_load_shedding_strategy=name if name in BOTH else "ThresholdShedder",
        failure_domains_enabled=failure_domains,
    )
    selection = FilteredSelection.of(config)
    memory, snapshots = selection.start(), [replace(cluster.snapshot(), policies=policies)]
    for seed, (namespace, number, back) in enumerate(chosen):
        snapshot = snapshots[-1] if back else snapshots[0]
        request = PlacementRequest(bundle_name(number, namespace))
        expected, _ = selection.choose(anew(snapshot), request, random.Random(seed), memory)
        found, memory = selection.choose(snapshot, request, random.Random(seed), memory)
        assert found == expected
        for source in snapshot.brokers.names:
            assert unload_veto(snapshot, request, source) == unload_veto(anew(snapshot), request, source)
        row = snapshot.bundles.row_with_windows(request.bundle)
        if found.broker is None or snapshot.is_on_its_way(request.bundle, found.broker):
            continue
        if row is None:
            grown = snapshot.adding_preallocation(found.broker, request.bundle, default_bundle_data())
        else:
            grown = snapshot.moving(row, found.broker)
        snapshots.append(grown)
