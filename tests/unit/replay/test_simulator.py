"""What happens to brokers in a replay, and how their leader reacts."""

from dataclasses import replace as changed

import numpy as np
import pytest

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import (
    BrokerAdded,
    BrokerCrashed,
    BrokerRemoved,
    BrokerSlowed,
    Event,
    LeaderLost,
    ReportsLost,
    SettingChanged,
)
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import START_MS, Shape, broker_names, bundle_names, generated

MINUTE_MS = 60_000
AVG = {SHEDDING_KEY: "AvgShedder", PLACEMENT_KEY: "AvgShedder", "loadBalancerAutoBundleSplitEnabled": "false"}


def steady(brokers: int, bundles: int, steps: int, rate: float, *, on: int = 0, topics: int = 10) -> Demand:
    """Return like bundles of a steady rate (msg/s in of each), shared out over the first `on` brokers."""
    names = bundle_names(bundles)
    owners = tuple(broker_names(brokers)[row % (on or brokers)] for row in range(bundles))
    rates = np.full((steps, bundles), rate)
    return Demand.of_bundles(
        START_MS, MINUTE_MS, names, rates, owners=owners, topics=np.full(bundles, topics, np.int64)
    )


def cluster(count: int) -> Cluster:
    return Cluster(dict.fromkeys(broker_names(count), Capacity()))


def run(demand: Demand, brokers: int, *events: Event, **settings: str) -> Outcome:
    return replay(demand, cluster(brokers), with_overrides(BrokerConfig(), {**AVG, **settings}), events)


def test_an_even_cluster_is_left_alone() -> None:
    outcome = run(steady(4, 16, 60, 20_000), 4)
    assert not outcome.moves
    np.testing.assert_allclose(outcome.usage, (5 + 0.002 * 160_000) / 800)


def test_a_new_broker_gets_its_part_after_as_many_rounds_as_hits_are_asked() -> None:
    joins = BrokerAdded(START_MS + 5 * MINUTE_MS, "broker-0005:8080")
    outcome = run(steady(4, 64, 60, 9_000), 4, joins)
    first = outcome.moves[0]
    assert first.destination == "broker-0005:8080"
    assert (first.at_ms - START_MS) // MINUTE_MS == 6  # a gap of more than 40 points, twice
    assert outcome.live[:, 4].sum() == 55
    assert outcome.usage[-1].max() - outcome.usage[-1].min() < 0.15


def test_bundles_of_a_crashed_broker_are_without_service_until_its_session_ends() -> None:
    demand = steady(4, 16, 10, 10_000, topics=7)
    crash = BrokerCrashed(START_MS + 5 * MINUTE_MS, "broker-0002:8080")
    outcome = run(demand, 4, crash)
    assert {move.source for move in outcome.moves} == {"broker-0002:8080"}
    assert [move.kind for move in outcome.moves] == ["assign"] * 4
    assert outcome.unserved_topic_s == 4 * 7 * 31
    assert not outcome.live[5:, 1].any()
    in_order = run(demand, 4, BrokerRemoved(crash.at_ms, crash.broker))
    assert in_order.unserved_topic_s == 4 * 7 * 1


def test_a_session_that_lasts_steps_leaves_bundles_alone_for_these() -> None:
    demand = steady(4, 16, 10, 10_000, topics=7)
    slow = changed(cluster(4), session_ms=150_000)
    crash = BrokerCrashed(START_MS + 5 * MINUTE_MS, "broker-0002:8080")
    outcome = replay(demand, slow, with_overrides(BrokerConfig(), AVG), [crash])
    assert (outcome.unserved > 0).tolist() == [False] * 5 + [True] * 2 + [False] * 3
    assert outcome.moves[0].at_ms == START_MS + 7 * MINUTE_MS
    assert outcome.unserved_topic_s == pytest.approx(4 * 7 * 151)


def test_a_slowed_broker_gives_bundles_away() -> None:
    slowed = BrokerSlowed(START_MS + MINUTE_MS, "broker-0001:8080", 2.0)
    by_usage = {SHEDDING_KEY: "ThresholdShedder", PLACEMENT_KEY: "LeastResourceUsageWithWeight"}
    outcome = run(steady(4, 64, 40, 9_000), 4, slowed, **by_usage)
    assert {move.source for move in outcome.moves} == {"broker-0001:8080"}
    # of the two by usage and by traffic: AvgShedder moves half the difference in traffic, and there is none
    assert not run(steady(4, 64, 40, 9_000), 4, slowed).moves


def test_a_broker_whose_reports_are_lost_is_not_seen_to_fill_up() -> None:
    names = broker_names(2)
    demand = steady(2, 16, 12, 12_000)
    demand.rate_in[2:, ::2] *= 3
    assert run(demand, 2, minUnloadMessage="0").moves
    lost = ReportsLost(START_MS + MINUTE_MS, names[0], START_MS + 20 * MINUTE_MS)
    assert not run(demand, 2, lost, minUnloadMessage="0").moves


def test_a_setting_counts_from_its_time() -> None:
    demand = steady(4, 32, 30, 12_000, on=2)
    off = SettingChanged(START_MS, "loadBalancerSheddingEnabled", "false")
    on = SettingChanged(START_MS + 15 * MINUTE_MS, "loadBalancerSheddingEnabled", "true")
    outcome = run(demand, 4, off, on)
    assert outcome.moves[0].at_ms >= START_MS + 15 * MINUTE_MS


def test_a_bundle_that_is_too_large_is_split_and_its_load_divided() -> None:
    demand = steady(2, 2, 12, 40_000)
    settings = {"loadBalancerAutoBundleSplitEnabled": "true", "loadBalancerNamespaceBundleMaxMsgRate": "50000"}
    outcome = run(demand, 2, **settings)
    assert outcome.bundles == 4
    assert len(outcome.splits) == 2
    assert outcome.splits[0].parts == (
        "public/ns-0000/0x00000000_0x40000000",
        "public/ns-0000/0x40000000_0x80000000",
    )
    np.testing.assert_allclose(outcome.rate.sum(axis=1), 160_000)


def test_a_topic_goes_whole_to_the_part_of_its_hash() -> None:
    name = bundle_names(1)
    rates = np.full((6, 2), 40_000.0)
    one = np.ones(2, np.int64)
    demand = Demand(
        START_MS, MINUTE_MS, name, np.zeros(2, np.int64), np.array([5, 2**31 + 5]), *([rates] * 4), one, one, ("",)
    )
    settings = {"loadBalancerAutoBundleSplitEnabled": "true", PLACEMENT_KEY: "LeastLongTermMessageRate"}
    outcome = run(demand, 2, **settings)
    assert outcome.bundles == 2
    assert sorted({move.rate for move in outcome.moves if move.kind == "split"}) == [80_000.0]


def test_the_extensible_load_manager_splits_what_was_too_large_three_times() -> None:
    demand = steady(2, 2, 12, 40_000)
    outcome = replay(
        demand, cluster(2), with_overrides(BrokerConfig(), {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name})
    )
    assert outcome.splits
    assert (outcome.splits[0].at_ms - START_MS) // MINUTE_MS == 3
    np.testing.assert_allclose(outcome.rate.sum(axis=1), 160_000)


def test_moves_explain_themselves() -> None:
    outcome = run(steady(4, 32, 30, 12_000, on=2), 4)
    assert all(move.why for move in outcome.moves)
    assert "AvgShedder" in outcome.moves[0].why


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (BrokerRemoved(START_MS, "nobody:8080"), "this broker does not exist"),
        (BrokerSlowed(START_MS, "broker-0001:8080", 0), "the factor must be more than 0"),
        (BrokerRemoved(START_MS - 1, "broker-0001:8080"), "before the begin of the load"),
        (
            SettingChanged(START_MS, "loadManagerClassName", ManagerKind.EXTENSIBLE.class_name),
            "cannot change to or from the extensible load manager",
        ),
    ],
)
def test_events_that_do_not_fit_are_refused(event: Event, text: str) -> None:
    with pytest.raises(ReplayInputError, match=text):
        run(steady(2, 4, 3, 1.0), 2, event)


def test_owners_have_to_be_there() -> None:
    demand = steady(3, 4, 3, 1.0)
    with pytest.raises(ReplayInputError, match="is on broker-0003:8080, which is not a broker of the cluster"):
        run(demand, 2)


def test_demand_is_checked() -> None:
    good = generated(Shape(steps=3, bundles=4), 0)
    names = good.bundles
    with pytest.raises(ReplayInputError, match=r"rate_in of .* is -1.0 at step 1"):
        Demand.of_bundles(0, MINUTE_MS, names, np.array([[0, 0, 0, 0], [0, 0, -1, 0]], float))
    with pytest.raises(ReplayInputError, match="is nan at step 0"):
        Demand.of_bundles(0, MINUTE_MS, names, np.full((1, 4), np.nan))
    with pytest.raises(ReplayInputError, match="the input has no load"):
        Demand.of_bundles(0, MINUTE_MS, names, np.zeros((0, 4)))
    with pytest.raises(ReplayInputError, match="although its name is not greater"):
        Demand.of_bundles(0, MINUTE_MS, names[::-1], np.zeros((1, 4)))
    with pytest.raises(ReplayInputError, match="is not within the"):
        good.period(2, 2)
    with pytest.raises(ReplayInputError, match="is not a bundle"):
        Demand.of_bundles(0, MINUTE_MS, ("x",), np.zeros((1, 1)))


def test_what_moved_and_what_was_divided_is_told_with_what_it_carried() -> None:
    demand = generated(Shape(brokers=3, bundles=24, steps=300, rate=500_000, spread=1.2), 4)
    outcome = run(demand, 3, loadBalancerAutoBundleSplitEnabled="true")
    carried, rate = outcome.carried, demand.rate_in + demand.rate_out
    assert {move.bundle for move in outcome.moves} <= set(carried.bundles)
    assert carried.steps == tuple(range(0, 300, 3))
    divided = {split.bundle: split for split in outcome.splits}
    assert divided
    for split in outcome.splits:
        step = (split.at_ms - START_MS) // MINUTE_MS
        after = np.array(carried.steps) > step
        whole = carried.rate[:, carried.bundles.index(split.bundle)]
        assert np.isnan(whole[after]).all()
        for part in split.parts:
            assert np.isnan(carried.rate[~after, carried.bundles.index(part)]).all()
    for place, bundle in enumerate(carried.bundles):
        if bundle in demand.bundles and bundle not in divided:
            expected = rate[list(carried.steps), demand.bundles.index(bundle)]
            np.testing.assert_allclose(carried.rate[:, place], expected, rtol=1e-6)


def test_bundles_that_were_only_placed_at_the_start_are_not_told_of() -> None:
    demand = changed(steady(3, 12, 10, 100), owners=("",) * 12)
    outcome = run(demand, 3)
    assert len(outcome.moves) == 12
    assert not outcome.carried.bundles


def test_a_lost_leader_does_nothing_and_its_successor_begins_anew() -> None:
    joins = BrokerAdded(START_MS + 5 * MINUTE_MS, "broker-0005:8080")
    stays = run(steady(4, 64, 60, 9_000), 4, joins)
    first_ms = stays.moves[0].at_ms
    lost = LeaderLost(first_ms - MINUTE_MS, first_ms + 2 * MINUTE_MS)
    changes = run(steady(4, 64, 60, 9_000), 4, joins, lost)
    hits_ms = first_ms - joins.at_ms
    assert changes.moves[0].at_ms >= lost.until_ms + hits_ms - MINUTE_MS


def test_the_share_of_unloads_that_fail_is_a_share() -> None:
    with pytest.raises(ReplayInputError, match=r"1\.5 is not a valid share of unloads that fail; give 0 to 1"):
        Cluster({}, failing=1.5)
