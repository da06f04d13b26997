"""How evenly brokers are used, by worked examples and properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.rounds.balance import EVEN_ABOVE_MEAN, Balance, BalanceState, balance_of
from support.load_cases import Cluster, bundle_name, bundle_stats, equal_bundles, percentages

CONFIG = BrokerConfig()


def cluster(*brokers: tuple[float, int]) -> Cluster:
    """Return brokers of a usage in percent, in so many equal bundles; a point of usage is 1000 msg/s."""
    found = Cluster()
    for number, (usage, count) in enumerate(brokers):
        held = equal_bundles(count, throughput=usage * 1e6, rate=usage * 1e3, first=100 * number) if count else {}
        found.add(f"b{number}:1", cpu=usage, bundles=held)
    return found


def balance(*brokers: tuple[float, int], config: BrokerConfig = CONFIG) -> Balance:
    return balance_of(cluster(*brokers).snapshot(), config)


def test_nearly_idle_brokers_of_unlike_traffic_are_balanced() -> None:
    """The issue's cluster: 1.4 MiB/s, 535 and 352 KiB/s at a few percent of a processor."""
    found = Cluster()
    for number, (usage, traffic) in enumerate([(7.0, 1.4e6), (4.0, 535e3), (4.0, 352e3)]):
        found.add(f"b{number}:1", cpu=usage, bundles=equal_bundles(4, throughput=traffic, first=100 * number))
    told = balance_of(found.snapshot(), CONFIG)
    assert told.state is BalanceState.BALANCED
    assert (told.fullest, told.usage, told.mean, told.above_mean) == ("b0:1", 0.07, 0.05, 0.02)
    assert told.sentence.startswith(
        "Balanced: b0:1 has the highest usage, 7 %, 2 points above the mean of 5 %; up to 10 points is balanced."
    )


def test_a_broker_far_above_the_mean_is_uneven_and_what_moves_reach_is_told() -> None:
    told = balance((80, 8), (10, 1), (0, 0))
    assert told.state is BalanceState.UNEVEN
    assert told.above_mean == 0.5
    assert told.moves > 0
    assert told.reachable_above_mean <= 0.05
    assert f"{told.moves} moves could bring it to" in told.sentence


def test_a_bundle_that_nobody_can_part_is_as_even_as_it_gets() -> None:
    told = balance((60, 1), (0, 0))
    assert told.state is BalanceState.AS_EVEN_AS_BUNDLES_ALLOW
    assert (told.above_mean, told.reachable_above_mean, told.moves) == (0.3, 0.3, 0)
    assert "split the heaviest bundle" in told.sentence


def test_three_equal_bundles_on_two_brokers_are_as_even_as_they_get() -> None:
    told = balance((80, 2), (40, 1))
    assert told.state is BalanceState.AS_EVEN_AS_BUNDLES_ALLOW
    assert told.moves == 0


def test_a_drained_broker_does_not_count() -> None:
    drained = BrokerConfig(barycenter_drained_brokers=("b2:1",))
    assert balance((40, 4), (44, 4), (0, 0)).state is BalanceState.UNEVEN
    told = balance((40, 4), (44, 4), (0, 0), config=drained)
    assert (told.state, told.brokers, told.fullest, told.above_mean) == (BalanceState.BALANCED, 2, "b1:1", 0.02)


def test_a_bundle_that_policies_keep_is_not_said_to_be_movable() -> None:
    policies = {
        "p": {
            "namespaces": ["t/ns"],
            "primary": ["b0.*"],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    }
    bound = cluster((80, 8), (0, 0))
    bound.policies = ClusterPolicies(IsolationPolicies.decode(policies)[0], {}, {})
    assert balance_of(bound.snapshot(), CONFIG).state is BalanceState.AS_EVEN_AS_BUNDLES_ALLOW


def test_an_outdated_report_does_not_count() -> None:
    snapshot = cluster((80, 8), (10, 1), (0, 0)).snapshot()
    times = snapshot.brokers.reported_at_ms.copy()
    times[:] = 10_000_000
    times[0] = 0
    late = replace(snapshot, taken_at_ms=10_000_000, brokers=replace(snapshot.brokers, reported_at_ms=times))
    assert balance_of(late, CONFIG).fullest == "b1:1"
    assert balance_of(late, CONFIG).brokers == 2


@pytest.mark.parametrize("count", [0, 1])
def test_balance_needs_two_brokers(count: int) -> None:
    told = balance(*[(50.0, 2)] * count)
    assert (told.state, told.brokers, told.fullest) == (BalanceState.UNKNOWN, count, "")
    assert told.sentence.startswith("Balance needs two brokers")


loads = st.lists(st.tuples(percentages, st.lists(bundle_stats(), max_size=5)), max_size=6)


def drawn(brokers: list[tuple[float, list[NamespaceBundleStats]]]) -> Cluster:
    found = Cluster()
    for number, (cpu, held) in enumerate(brokers):
        names = [bundle_name(100 * number + each) for each in range(len(held))]
        found.add(f"b{number}:1", cpu=cpu, bundles=dict(zip(names, held, strict=True)))
    return found


@given(loads)
def test_moves_never_make_it_worse_and_states_follow_the_measure(
    brokers: list[tuple[float, list[NamespaceBundleStats]]],
) -> None:
    found = drawn(brokers)
    told = balance_of(found.snapshot(), CONFIG)
    assert told == balance_of(found.turned().snapshot(), CONFIG)
    assert 0 <= told.reachable_above_mean <= told.above_mean + 1e-9
    if told.state is BalanceState.BALANCED:
        assert told.above_mean <= EVEN_ABOVE_MEAN + 1e-4
    elif told.state is not BalanceState.UNKNOWN:
        assert told.above_mean > EVEN_ABOVE_MEAN - 1e-4
        assert (told.moves > 0) is (told.state is BalanceState.UNEVEN)
