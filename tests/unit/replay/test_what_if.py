"""The future of a cluster: it begins as in the snapshot, and the requested change happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.what_if import LONGEST_MINUTES, Forecast, Question, forecast
from support.load_cases import Cluster, bundle_name, clusters, equal_bundles

STILL = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}
BY_USAGE = {
    **STILL,
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
    "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
    "loadBalancerDistributeBundlesEvenlyEnabled": "false",
}


def three() -> Cluster:
    """CPU of 80, 40 and 40 % for four, two and two bundles of 1,000 msg/s each."""
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8, rate=4000))
    cluster.add("b:1", cpu=40, bundles=equal_bundles(2, throughput=2e8, rate=2000, first=8))
    return cluster.add("c:1", cpu=40, bundles=equal_bundles(2, throughput=2e8, rate=2000, first=16))


def ask(cluster: Cluster, texts: dict[str, str], **question: object) -> Forecast:
    config = with_overrides(BrokerConfig(), texts)
    return forecast(cluster.snapshot(), config, Question(**question))  # type: ignore[arg-type]


def usages(found: Forecast) -> list[tuple[str, float | None, float | None]]:
    def percent(usage: float | None) -> float | None:
        return None if usage is None else round(usage * 100, 1)

    return [(each.broker, percent(each.usage_before), percent(each.usage_after)) for each in found.brokers]


def test_a_cluster_begins_as_its_brokers_reported_and_stays_so_if_nobody_acts() -> None:
    found = ask(three(), STILL)
    assert usages(found) == [("a:1", 80.0, 80.0), ("b:1", 40.0, 40.0), ("c:1", 40.0, 40.0)]
    assert [each.rate_after for each in found.brokers] == pytest.approx([4000, 2000, 2000])
    assert not found.moves


def test_a_broker_that_leaves_has_its_bundles_placed() -> None:
    found = ask(three(), STILL | {"loadBalancerLoadPlacementStrategy": "LeastLongTermMessageRate"}, without=("a:1",))
    assert [(move.kind, move.source, move.minute) for move in found.moves] == [("unload", "a:1", 2)] * 4
    assert sorted(move.bundle for move in found.moves) == [bundle_name(index) for index in range(4)]
    assert sorted(move.destination for move in found.moves) == ["b:1", "b:1", "c:1", "c:1"]
    assert usages(found)[0] == ("a:1", 80.0, None)
    assert [each.rate_after for each in found.brokers[1:]] == pytest.approx([4000, 4000])


def test_the_heartbeat_of_a_broker_goes_nowhere() -> None:
    heartbeat = {"pulsar/a:1/0x00000000_0xffffffff": NamespaceBundleStats(msg_rate_in=1.0, topics=1)}
    found = ask(three().add("d:1", cpu=1, bundles=heartbeat), STILL, without=("d:1",))
    assert not found.moves
    with pytest.raises(ReplayInputError, match="no bundle that can move"):
        ask(Cluster().add("a:1", bundles=heartbeat), STILL)


def test_a_broker_that_joins_is_given_load_by_whoever_has_too_much() -> None:
    found = ask(three(), BY_USAGE | {"loadBalancerBrokerThresholdShedderPercentage": "20"}, added=1)
    (added,) = [each for each in found.brokers if each.broker.startswith("added")]
    assert added.usage_before is None
    assert added.usage_after is not None
    fullest = max(each.usage_after or 0 for each in found.brokers)
    assert fullest < 0.8
    assert found.moves
    assert all(move.sentence for move in found.moves)


def test_load_grows_by_as_much_as_is_asked() -> None:
    found = ask(three(), STILL, scale=1.5)
    assert [each.rate_after for each in found.brokers] == pytest.approx([6000, 3000, 3000])
    after = [each.usage_after or 0 for each in found.brokers]
    assert after[0] > 1 > found.limit > after[1] > 0.4


def test_a_bundle_that_moves_to_and_fro_is_told_once_or_not_at_all() -> None:
    cluster = three()
    found = ask(cluster, BY_USAGE | {"loadBalancerSheddingGracePeriodMinutes": "1"}, minutes=60)
    owners = {name: broker for broker, report in cluster.reports.items() for name in report.last_stats}
    assert len({move.bundle for move in found.moves}) == len(found.moves)
    assert all(owners[move.bundle] == move.source != move.destination for move in found.moves)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({"without": ("z:1",)}, "z:1 is not a registered broker; the brokers are a:1, b:1, c:1"),
        ({"without": ("a:1", "b:1", "c:1")}, "no broker would be left"),
        ({"scale": 0.0}, "scaled by more than 0 and at most 1000"),
        ({"added": 10_000}, "at most 1000 brokers"),
        ({"minutes": LONGEST_MINUTES + 1}, "give 1 to 1440"),
    ],
)
def test_what_cannot_be_asked_is_refused(question: dict[str, object], text: str) -> None:
    with pytest.raises(ReplayInputError, match=text):
        ask(three(), STILL, **question)


def test_a_snapshot_without_load_cannot_be_gone_on_with() -> None:
    with pytest.raises(ReplayInputError, match="no bundle that can move"):
        ask(Cluster().add("a:1"), STILL)


@settings(max_examples=40, deadline=None)
@given(cluster=clusters(), kind=st.sampled_from([ManagerKind.MODULAR, ManagerKind.SIMPLE]), added=st.integers(0, 2))
def test_any_snapshot_has_a_forecast_that_adds_up(cluster: Cluster, kind: ManagerKind, added: int) -> None:
    """All load is still there at the end, on whichever broker; every bundle with an owner has one."""
    snapshot = cluster.snapshot()
    if snapshot.bundles.broker_bound.all() or not len(snapshot.brokers):
        return
    found = forecast(
        snapshot,
        with_overrides(BrokerConfig(), {"loadManagerClassName": kind.class_name}),
        Question(added=added, minutes=5),
    )
    assert len(found.brokers) == len(snapshot.brokers) + added
    before = sum(each.rate_before or 0 for each in found.brokers)
    assert sum(each.rate_after or 0 for each in found.brokers) == pytest.approx(before, rel=1e-6)
    assert all(each.usage_after is not None and each.usage_after >= 0 for each in found.brokers)
