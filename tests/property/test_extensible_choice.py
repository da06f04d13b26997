"""The extensible load manager's filters, placement and transfers agree with slow, obvious versions of themselves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings, narrow
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.least_resource_usage_with_weight_extensible import (
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from support import extensible_choices as oracle
from support.extensible_choices import PLACES, ExtensibleCluster, extensible_clusters
from support.load_cases import bundle_name
from support.scripted_random import every_outcome
from support.short_forms import examples

places = st.sampled_from(PLACES)


def names(snapshot: LoadSnapshot, flags: Flags) -> set[str]:
    return {name for name, flag in zip(snapshot.brokers.names, flags, strict=True) if flag}


@given(extensible_clusters(), oracle.difference_settings, st.sets(st.integers(0, 5)))
def test_placement_draws_from_what_its_oracle_allows(
    case: ExtensibleCluster, difference: float, excluded: set[int]
) -> None:
    """It can draw each of them, and every other candidate has a reason."""
    snapshot = case.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    options = LeastResourceUsageWithWeight(difference)
    choices = every_outcome(lambda rng: options.decide(snapshot, candidates, "", rng, None)[0])
    among = names(snapshot, candidates)
    found = {None if choice.broker is None else snapshot.brokers.names[choice.broker] for choice in choices}
    assert found == (oracle.least_usage(among, case.ema, difference) if among else {None})
    for choice in choices:
        _, rejected = choice.figures()
        assert len(rejected) == choice.rejected_count == max(0, len(among) - 1)
        for alternative in rejected:
            assert (alternative.code is Code.EQUAL) == (alternative.name in found)
            assert alternative.name in case.ema or alternative.code in (Code.EQUAL, Code.NO_LOAD_DATA)


@settings(max_examples=examples(200))
@given(extensible_clusters(), oracle.selection_settings, places, st.booleans(), st.sets(st.integers(0, 5), max_size=2))
def test_filters_leave_what_their_oracle_leaves(
    case: ExtensibleCluster,
    options: ExtensibleFilterSettings,
    namespace: str,
    non_persistent: bool,
    lost: set[int],
) -> None:
    """The chosen broker is one of them; every live broker that is removed has one reason."""
    snapshot = case.snapshot()
    without = {f"b{number}:8080" for number in lost}
    live = set(snapshot.brokers.names) - case.gone - without
    among = np.array([name in live for name in snapshot.brokers.names], bool)
    request = PlacementRequest(bundle_name(9, namespace), non_persistent)
    expected, failed = oracle.narrowed(case, options, namespace, live, non_persistent=non_persistent)
    narrowed = narrow(snapshot, request, options, among)
    assert names(snapshot, narrowed.candidates) == expected
    assert bool(narrowed.failures) == failed
    for placement, _ in every_outcome(
        lambda rng: select_broker_extensible(
            snapshot, request, options, LeastResourceUsageWithWeight(0.1), rng, SelectionMemory(), without=without
        )
    ):
        assert (placement.broker in expected) if expected else placement.broker is None
        told = [alternative.name for alternative in placement.reason.alternatives]
        assert sorted(told) == sorted(live - {placement.broker})
        assert render(placement.reason)


@settings(max_examples=examples(200))
@given(
    extensible_clusters(),
    oracle.selection_settings,
    st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 5)), min_size=1, max_size=4),
)
def test_transfers_are_allowed_where_their_oracle_allows_them(
    case: ExtensibleCluster, options: ExtensibleFilterSettings, transfers: list[tuple[int, int | None]]
) -> None:
    """For any earlier questions, and for all bundles at once."""
    snapshot = case.snapshot()
    brokers, bundles = snapshot.brokers.names, snapshot.bundles.names
    allowed, rows = AllowedTransfers(snapshot, options), np.arange(len(bundles))
    for at, to in transfers:
        if not brokers:
            return
        source, destination = at % len(brokers), None if to is None else to % len(brokers)
        target = None if destination is None else brokers[destination]
        namespaces = [name.rpartition("/")[0] for name in bundles]
        assert allowed(rows, source, destination) == [
            oracle.transferable(case, options, namespace, brokers[source], target) for namespace in namespaces
        ]
