"""LeastDisturbance by worked examples: what it moves, what it leaves, and what it learns."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.least_disturbance import LeastDisturbancePlacement
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.rounds.round import round_of
from pulsar_barycenter.load.shedding.least_disturbance.alignment import rows_before
from pulsar_barycenter.load.shedding.least_disturbance.assignment import EXCHANGED, RETURNED, RowMove
from pulsar_barycenter.load.shedding.least_disturbance.budget import Budget, made
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import first_loads, next_loads, part_of
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance import DisturbanceMemory, LeastDisturbance
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import MOVES_KEY, Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import reachable
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import next_lines
from pulsar_barycenter.load.shedding.least_disturbance.verdicts import DisturbancePlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import Cluster, bundle_name, equal_bundles

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000
FREE_MS = 10 * MINUTE_MS
PATIENT = Settings(band=0.08, patience_min=12.0)
"""What an operator sets where load comes and goes for minutes."""


def cluster(usages: Mapping[str, float], bundles: int = 10, limits: Mapping[str, float] | None = None) -> Cluster:
    """Return brokers of these usages in percent of one core, each point of it 1000 msg/s, in equal bundles."""
    found = Cluster()
    for number, (name, usage) in enumerate(usages.items()):
        held = equal_bundles(bundles, throughput=usage * 1e6, rate=usage * 1e3, first=100 * number) if usage else {}
        found.add(name, cpu=usage, cpu_limit=(limits or {}).get(name, 100.0), bundles=held)
    return found


def at(snapshot: LoadSnapshot, minute: float, *, reported: Mapping[str, float] | None = None) -> LoadSnapshot:
    """Return the snapshot of a minute, with reports of that minute unless given."""
    now_ms = START_MS + round(minute * MINUTE_MS)
    brokers = snapshot.brokers
    times = [START_MS + round((reported or {}).get(name, minute) * MINUTE_MS) for name in brokers.names]
    return replace(snapshot, brokers=replace(brokers, reported_at_ms=np.array(times)), taken_at_ms=now_ms)


def moves_of(plan: DisturbancePlan) -> list[tuple[str, str | None]]:
    return [(unload.source, unload.destination) for unload in plan]


def run(strategy: LeastDisturbance, snapshots: list[LoadSnapshot]) -> tuple[list[DisturbancePlan], DisturbanceMemory]:
    memory, plans = strategy.start(), []
    for minute, snapshot in enumerate(snapshots):
        plan, memory = strategy.decide(at(snapshot, minute), memory)
        plans.append(plan)
    return plans, memory


# ---- what moves ----


def test_newcomers_are_filled_in_their_first_round_by_their_strength() -> None:
    """80 points of 400 are a fifth: b1 keeps two of its bundles of 10, b3 takes twice as many as b2."""
    snapshot = cluster({"b1": 80, "b2": 0, "b3": 0}, bundles=8, limits={"b3": 200}).snapshot()
    plan, _ = LeastDisturbance().decide(snapshot, DisturbanceMemory())
    assert sorted(moves_of(plan)) == [("b1", "b2")] * 2 + [("b1", "b3")] * 4
    assert plan.reason.code is Code.ABOVE_BAND
    assert "reachable usage + band" in render(plan.reason)
    assert {unload.reason.code for unload in plan} == {Code.LEAST_DISTURBING}


def test_a_broker_within_the_band_gives_nothing_unless_another_is_out_of_it() -> None:
    """Levels 53 and 56: 60 is within 8 points of the one, 70 beyond those of the other, and 62 near their edge."""
    calm, _ = LeastDisturbance(PATIENT).decide(cluster({"b1": 60, "b2": 54, "b3": 45}).snapshot(), DisturbanceMemory())
    assert not moves_of(calm)
    assert calm.reason.code is Code.BALANCED
    busy, _ = LeastDisturbance(PATIENT).decide(cluster({"b1": 70, "b2": 62, "b3": 37}).snapshot(), DisturbanceMemory())
    assert {source for source, _ in moves_of(busy)} == {"b1", "b2"}
    assert busy.broker_reason(1).code is Code.GIVES_TOO


def test_the_fewest_bundles_leave() -> None:
    """Of bundles of 2, 3, 5, 10 and 40 the one of 10 is what b1 at 60 has too much compared with b2 at 40."""
    found = Cluster()
    sizes = [2, 3, 5, 10, 40]
    stats = {bundle_name(n): NamespaceBundleStats(msg_rate_in=1e3 * size, topics=1) for n, size in enumerate(sizes)}
    found.add("b1", cpu=60, bundles=stats)
    found.add("b2", cpu=40, bundles=equal_bundles(4, throughput=0, rate=4e4, first=10))
    plan, _ = LeastDisturbance().decide(found.snapshot(), DisturbanceMemory())
    assert [(unload.bundle, unload.destination) for unload in plan] == [(bundle_name(3), "b2")]


def test_of_like_bundles_the_one_with_fewer_sessions_leaves() -> None:
    found = Cluster()
    stats = {
        bundle_name(n): NamespaceBundleStats(msg_rate_in=1e4, topics=1, consumer_count=100 * (n != 2)) for n in range(6)
    }
    found.add("b1", cpu=60, bundles=stats)
    found.add("b2", cpu=40, bundles=equal_bundles(4, throughput=0, rate=4e4, first=10))
    plan, _ = LeastDisturbance().decide(found.snapshot(), DisturbanceMemory())
    assert [unload.bundle for unload in plan] == [bundle_name(2)]


def test_an_exchange_helps_where_nothing_fits() -> None:
    """b1 has two bundles of 30, b2 two of 18 and b3 two of 20: 60, 36 and 40, and the level 45. A bundle of 30 for one
    of 18 leaves 48 and 48."""
    found = Cluster()
    for number, (name, size) in enumerate([("b1", 30), ("b2", 18), ("b3", 20)]):
        found.add(name, cpu=2 * size, bundles=equal_bundles(2, throughput=0, rate=2e3 * size, first=10 * number))
    plan, _ = LeastDisturbance().decide(found.snapshot(), DisturbanceMemory())
    assert moves_of(plan) == [("b2", "b1"), ("b1", "b2")]
    assert [unload.reason.code for unload in plan] == [Code.GIVEN_IN_EXCHANGE, Code.EXCHANGED]
    assert plan.broker_reason(1).code is Code.TAKES_IN_EXCHANGE
    waits, _ = LeastDisturbance(Settings(most=1)).decide(found.snapshot(), DisturbanceMemory())
    assert len(waits) == 0
    assert (waits.reason.code, waits.reason.cause) == (Code.ROUND_FULL, plan.reason)


def test_a_bundle_that_is_too_much_for_anybody_is_left_alone_by_itself() -> None:
    """120 points in one bundle, 24 in others; the other brokers at 30. The two of 12 leave, the large one stays."""
    found = Cluster()
    large = {bundle_name(0): NamespaceBundleStats(msg_rate_in=1.2e5, topics=1)}
    found.add("b1", cpu=144, cpu_limit=200, bundles=large | equal_bundles(2, throughput=0, rate=2.4e4, first=1))
    for number in (2, 3):
        held = equal_bundles(4, throughput=0, rate=3e4, first=10 * number)
        found.add(f"b{number}", cpu=30, cpu_limit=200, bundles=held)
    plan, _ = LeastDisturbance(Settings(band=0.04)).decide(found.snapshot(), DisturbanceMemory())
    assert sorted(moves_of(plan)) == [("b1", "b2"), ("b1", "b3")]
    assert bundle_name(0) not in {unload.bundle for unload in plan}


def test_idle_bundles_are_spread_by_number() -> None:
    found = cluster({"b1": 30, "b2": 30})
    idle = {bundle_name(n, "pulsar/tx"): NamespaceBundleStats(topics=1) for n in range(16)}
    report = found.reports["b1"]
    found.add("b1", cpu=30, bundles={**report.last_stats, **idle})
    plan, _ = LeastDisturbance().decide(found.snapshot(), DisturbanceMemory())
    assert moves_of(plan) == [("b1", "b2")] * 8
    assert plan.reason.code is Code.TOO_MANY_IDLE


# ---- what does not ----


def test_a_spike_moves_nothing_and_what_lasts_does_after_the_patience() -> None:
    calm, high = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 80))
    plans, _ = run(LeastDisturbance(PATIENT), [calm] * 3 + [high] * 10 + [calm] * 20)
    assert not any(len(plan) for plan in plans)
    assert plans[8].broker_reason(0).code is Code.MAY_NOT_LAST
    lasting, _ = run(LeastDisturbance(PATIENT), [calm] * 3 + [high] * 14)
    acted = [minute for minute, plan in enumerate(lasting) if len(plan)]
    assert acted[0] == 3 + 11, "the twelfth minute"


def test_by_default_a_spike_of_two_minutes_moves_nothing_and_a_longer_one_what_the_budget_allows() -> None:
    """After the first ten minutes, thirty moves an hour make five in ten minutes."""
    calm, high = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 80))
    short, _ = run(LeastDisturbance(), [calm] * 12 + [high] * 2 + [calm] * 20)
    assert not any(len(plan) for plan in short)
    longer, _ = run(LeastDisturbance(), [calm] * 12 + [high] * 10)
    assert 1 <= sum(map(len, longer)) <= 5
    assert max(map(len, longer)) == 1
    assert next(minute for minute, plan in enumerate(longer) if len(plan)) == 12 + 2, "the third minute"


def test_an_overloaded_broker_is_believed_sooner() -> None:
    calm, high = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 90))
    plans, _ = run(LeastDisturbance(PATIENT), [calm] * 3 + [high] * 8)
    acted = [minute for minute, plan in enumerate(plans) if len(plan)]
    assert acted[0] == 3 + 5, "half of the patience"


@pytest.mark.parametrize("period", [1, 2, 4])
def test_load_that_comes_and_goes_moves_nothing(period: int) -> None:
    low, calm, high = (cluster({"b1": usage, "b2": 50, "b3": 50}).snapshot() for usage in (25, 50, 75))
    waves = [high if minute // period % 2 else low for minute in range(120)]
    assert not any(len(plan) for plan in run(LeastDisturbance(PATIENT), [calm, *waves])[0])
    if period <= 2:
        assert not any(len(plan) for plan in run(LeastDisturbance(), [calm, *waves])[0])


def test_a_broker_whose_report_is_old_neither_gives_nor_takes() -> None:
    snapshot = cluster({"b1": 80, "b2": 10, "b3": 60}).snapshot()
    plan, _ = LeastDisturbance().decide(at(snapshot, 20, reported={"b2": 0}), DisturbanceMemory())
    assert "b2" not in {broker for move in moves_of(plan) for broker in move}
    reason = plan.broker_reason(1)
    assert reason.code is Code.OUTDATED_LOAD_DATA
    assert reason.compared[0].value == 1200


def test_a_broker_of_one_report_takes_nothing_until_the_second() -> None:
    """Windows of one sample contain no more than the newest values."""
    built = cluster({"b1": 80, "b2": 20}).snapshot()
    once = replace(built, bundles=replace(built.bundles, short_samples=np.ones(len(built.bundles), np.int64)))
    strategy = LeastDisturbance()
    first, memory = strategy.decide(at(once, 0), DisturbanceMemory())
    assert not len(first)
    again, memory = strategy.decide(at(once, 1, reported={"b1": 0, "b2": 0}), memory)
    assert not len(again)
    assert again.broker_reason(1).code is Code.TOO_LITTLE_KNOWN
    second, _ = strategy.decide(at(once, 2), memory)
    assert len(second)


def test_what_came_to_a_broker_rests_and_does_not_go_back() -> None:
    """The bundles of b2, which went, come to b1. They stay for the grace period; then b2, which is back, gets none."""
    there = cluster({"b1": 40, "b2": 40, "b3": 40}).snapshot()
    gone = cluster({"b1": 40, "b3": 40}).snapshot()
    held = Cluster()
    own = equal_bundles(10, throughput=4e7, rate=4e4)
    came = equal_bundles(10, throughput=4e7, rate=4e4, first=100)
    held.add("b1", cpu=80, bundles=own | came)
    held.add("b2", cpu=0)
    held.add("b3", cpu=40, bundles=equal_bundles(10, throughput=4e7, rate=4e4, first=200))
    back = held.snapshot()
    strategy, memory, movers = LeastDisturbance(), DisturbanceMemory(), dict[int, list[str]]()
    for minute, snapshot in enumerate([there, gone, *[back] * 40]):
        plan, memory = strategy.decide(at(snapshot, minute), memory)
        movers[minute] = [unload.bundle for unload in plan]
        for unload in plan:
            assert not (unload.bundle in came and unload.destination == "b2")
    assert movers[2]
    assert set(movers[2]) <= set(own)
    assert any(set(names) & set(came) for minute, names in movers.items() if minute >= 32) or movers[2]


def test_a_namespace_that_is_excluded_stays() -> None:
    settings = Settings(excluded_namespaces=frozenset({"t/ns"}))
    plan, _ = LeastDisturbance(settings).decide(cluster({"b1": 80, "b2": 0}).snapshot(), DisturbanceMemory())
    assert not len(plan)
    assert plan.broker_reason(0).code is Code.NO_SHEDDABLE_BUNDLE


def test_a_move_on_its_way_is_not_decided_again() -> None:
    """A preallocated bundle counts for its destination, though the source still reports it."""
    found = cluster({"b1": 80, "b2": 0}, bundles=8)
    plan, memory = LeastDisturbance().decide(at(found.snapshot(), 0), DisturbanceMemory())
    moved = [unload.bundle for unload in plan]
    found.preallocated = {"b2": {name: found.data[name] for name in moved}}
    found.recently_unloaded = set(moved)
    assert len(moved) == 4
    again, _ = LeastDisturbance().decide(at(found.snapshot(), 1, reported={"b1": 0, "b2": 0}), memory)
    assert not len(again)


# ---- what is learnt ----


def test_the_estimates_of_a_bundle_that_doubles() -> None:
    """As in the module's docstring: 19.6 and 10.1 after five minutes, both 20.0 in the twelfth."""
    calm, high = (cluster({"b1": usage, "b2": 50}, bundles=1).snapshot() for usage in (10, 20))
    loads, settings, never = first_loads(calm), PATIENT, np.zeros(2, bool)
    unit = loads.recent[0] / 10
    for minute in range(1, 13):
        loads = next_loads(loads, high, 1.0, START_MS + minute * MINUTE_MS, never, never, np.zeros(2), settings)
        if minute == 5:
            assert loads.recent[0] / unit == pytest.approx(19.64, abs=0.01)
            assert loads.settled[0] / unit == pytest.approx(10.08, abs=0.01)
    assert loads.recent[0] / unit == pytest.approx(20.0, abs=0.01)
    assert loads.settled[0] == loads.recent[0]


def test_the_line_of_a_broker_that_pays_more() -> None:
    """As in the module's docstring: of the 39 points above its line 8 are background, 31 the slope's."""
    snapshot = cluster({"b1": 20, "b2": 80}, bundles=1).snapshot()
    loads, settings = first_loads(snapshot), Settings()
    lines = next_lines(None, snapshot, loads.units, 0.0, settings)
    plain = replace(
        lines,
        background=np.full(2, 0.01),
        slope=np.ones(2),
        variance=np.array([[0.05**2] * 2, [0.0] * 2, [0.25] * 2]),
        reports=np.zeros(2, np.int64),
    )
    reported = cluster({"b1": 60, "b2": 80}, bundles=1).snapshot()
    reported = replace(reported, brokers=replace(reported.brokers, latest=snapshot.brokers.latest))
    learnt = next_lines(plain, reported, loads.units, 1.0, settings)
    assert learnt.background[0] - 0.01 == pytest.approx(0.077, abs=0.002)
    assert learnt.slope[0] == pytest.approx(2.55, abs=0.02)


def test_a_broker_that_is_full_says_nothing_of_what_its_work_would_take() -> None:
    snapshot = cluster({"b1": 100, "b2": 0}, bundles=1).snapshot()
    loads, settings = first_loads(snapshot), Settings()
    lines = next_lines(None, snapshot, loads.units, 0.0, settings)
    assert np.sqrt(lines.variance[2, 0]) == pytest.approx(0.5 * lines.slope[0], rel=1e-3)


def test_what_can_be_reached_leaves_out_whose_background_is_above_it() -> None:
    """Usages 90 (85 of it background), 10 and 20: the last two share 30 points, and what the first could give is 5."""
    background, slope = np.array([0.85, 0.0, 0.0]), np.ones(3)
    assert reachable(np.array([0.9, 0.1, 0.2]), background, slope) == pytest.approx(0.175)
    assert reachable(np.zeros(0), np.zeros(0), np.zeros(0)) == 0


def test_a_part_has_its_share_of_the_whole() -> None:
    whole = "t/ns/0x00000000_0x80000000"
    assert part_of("t/ns/0x00000000_0x20000000", whole) == 0.25
    assert part_of("t/ns/0x60000000_0x80000000", whole) == 0.25
    assert part_of("t/ns/0x60000000_0xa0000000", whole) == 0
    assert part_of("t/other/0x00000000_0x20000000", whole) == 0


def test_rows_are_found_where_they_were() -> None:
    before, names = list("abdfgh"), list("abcdgz")
    found = rows_before(before, names)
    assert found is not None
    assert found.tolist() == [0, 1, -1, 2, 4, -1]
    assert rows_before(before, list(before)) is None


# ---- placement ----


def choose(snapshot: LoadSnapshot, bundle: str, *gone: int) -> tuple[str, Code]:
    placer = LeastDisturbancePlacement()
    candidates = np.array([row not in gone for row in range(len(snapshot.brokers))], bool)
    choice, _ = placer.decide(snapshot, candidates, bundle, random.Random(0), placer.start())
    assert choice.broker is not None
    return snapshot.brokers.names[choice.broker], choice.code


def test_a_new_bundle_goes_where_usage_with_it_is_the_least() -> None:
    """b1 at 50 % of 100 would have 55 with a bundle of 5, b2 at 52 % of 400 points 53.25."""
    found = cluster({"b1": 50, "b2": 208}, limits={"b2": 400})
    assert choose(found.snapshot(), bundle_name(0, "other/ns")) == ("b2", Code.LEAST_PREDICTED)
    assert choose(found.snapshot(), bundle_name(0, "other/ns"), 1) == ("b1", Code.LEAST_PREDICTED)


def test_new_bundles_are_shared_out_as_they_come() -> None:
    """Each counts where it went, with what bundles carry on average."""
    config = with_overrides(
        BrokerConfig(),
        dict.fromkeys(("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"), "LeastDisturbance"),
    )
    cycle = round_of(config, ManagerKind.MODULAR)
    snapshot = cluster({"b1": 30, "b2": 30, "b3": 20}).snapshot()
    names = [bundle_name(number, "new/ns") for number in range(9)]
    placed = [each.broker for each in cycle.selection.place(snapshot, names, random.Random(1))]
    assert {name: placed.count(name) for name in ("b1", "b2", "b3")} == {"b1": 2, "b2": 2, "b3": 5}


def test_a_planned_bundle_goes_where_it_was_planned_and_stays_if_nobody_would_be_less_loaded() -> None:
    snapshot = cluster({"b1": 80, "b2": 0, "b3": 78}, bundles=8).snapshot()
    plan, _ = LeastDisturbance().decide(snapshot, DisturbanceMemory())
    placer = LeastDisturbancePlacement()
    memory = placer.planned(plan, placer.start())
    unload = next(unload for unload in plan if unload.source == "b1")
    everyone, no_b2 = np.ones(3, bool), np.array([True, False, True])
    choice, _ = placer.decide(snapshot, everyone, unload.bundle, random.Random(0), memory)
    assert (choice.broker, choice.code) == (1, Code.PLANNED)
    choice, _ = placer.decide(snapshot, no_b2, unload.bundle, random.Random(0), memory)
    assert (choice.broker, choice.code) == (0, Code.PLANNED_IS_GONE)
    assert not placer.tried(plan, memory).plan


def test_a_broker_whose_report_is_old_gets_a_bundle_only_if_all_are() -> None:
    snapshot = cluster({"b1": 80, "b2": 10}).snapshot()
    assert choose(at(snapshot, 20, reported={"b2": 0}), bundle_name(0, "new/ns"))[0] == "b1"
    assert choose(at(snapshot, 20, reported={"b1": 0, "b2": 0}), bundle_name(0, "new/ns"))[0] == "b2"


def test_settings_follow_the_configuration() -> None:
    config = msgspec.structs.replace(
        BrokerConfig(),
        barycenter_least_disturbance_band_percentage=4.0,
        barycenter_least_disturbance_patience_minutes=20.0,
        barycenter_least_disturbance_moves_per_hour=7,
        load_balancer_report_update_max_interval_minutes=5.0,
    )
    settings = LeastDisturbance.of(config).settings
    assert (settings.band, settings.patience_min, settings.stale_ms) == (0.04, 20.0, 7 * MINUTE_MS)
    assert settings.moves_of_an_hour(100) == 7
    assert [Settings().moves_of_an_hour(brokers) for brokers in (3, 100)] == [30, 50]


def test_traffic_of_next_to_nothing_counts_as_none() -> None:
    """Units of a sum near the smallest number there is would be infinite, and work then no number."""
    given = Cluster()
    given.add("a", cpu=0.0, bundles={bundle_name(0): NamespaceBundleStats(msg_rate_in=5e-324)})
    given.add("b", cpu=0.0, bundles={bundle_name(1): NamespaceBundleStats()})
    plan, seen = LeastDisturbance().decide(given.snapshot(), DisturbanceMemory())
    assert seen.lines is not None
    assert np.isfinite(seen.lines.background).all()
    assert "nan" not in render(plan.reason)


# ---- the budget ----


def test_a_budget_grows_with_time_and_is_not_saved_up_for_long() -> None:
    """30 moves an hour: one in two minutes, and 1.5 at most."""
    budget = Budget()
    assert [budget.grown(30, minutes, Settings()).moves(0) for minutes in (1, 2, 60)] == [0, 1, 1]
    assert Budget().grown(600, 60, Settings()).moves(0) == 30
    spent = Budget().grown(30, 2, Settings()).spent(1, 0)
    assert spent.grown(30, 1, Settings()).moves(0) == 0
    assert spent.grown(30, 2, Settings()).moves(0) == 1


def test_moves_are_free_for_ten_minutes_after_a_change() -> None:
    budget = Budget(left=0.5).freed(0, Settings())
    assert budget.moves(FREE_MS - 1) > 1_000
    assert budget.spent(50, FREE_MS - 1).left == 0.5
    assert budget.moves(FREE_MS) == 0


def test_the_times_of_the_budget_and_of_the_recent_estimate_count_rounds() -> None:
    """With a round each five minutes: 50 minutes, and what 15 minutes give. A sample of five minutes counts as one of a
    minute does with a round each minute."""
    slow = LeastDisturbance.of(
        msgspec.structs.replace(BrokerConfig(), load_balancer_shedding_interval_minutes=5)
    ).settings
    assert slow.free_ms == 50 * MINUTE_MS
    assert Budget().freed(0, slow).is_free(50 * MINUTE_MS - 1)
    assert Budget().begun(0, slow).is_unlimited(50 * MINUTE_MS - 1)
    assert Budget().grown(30, 60, slow).left == 7.5
    patient = replace(slow, patience_min=60)
    assert patient.recent_weight(5) == replace(patient, round_min=1.0).recent_weight(1)


def test_until_all_brokers_are_known_moves_do_not_need_the_budget() -> None:
    settings = Settings(patience_min=3)
    budget = Budget().freed(0, Settings())
    later = budget.still_unlimited(FREE_MS - 1, settings)
    assert not later.is_free(FREE_MS)
    assert later.moves(FREE_MS + settings.soon_ms - 1) > 1_000
    assert later.spent(50, FREE_MS).left == 0
    assert later.moves(FREE_MS + settings.soon_ms) == 0
    assert budget.still_unlimited(0, settings) == budget


def test_a_full_broker_of_a_new_leader_is_relieved_once_the_others_have_reported_twice() -> None:
    """Load is steady, so the brokers report again only a quarter of an hour after the start."""
    found = cluster({"b1": 90, "b2": 10, "b3": 10}).snapshot()
    bundles = replace(found.bundles, short_samples=np.ones(len(found.bundles), np.int64))
    strategy, moved = LeastDisturbance(), []
    memory = strategy.start()
    for minute in range(18):
        reported = dict.fromkeys(found.brokers.names, minute // 15 * 15)
        plan, memory = strategy.decide(at(replace(found, bundles=bundles), minute, reported=reported), memory)
        moved.append(len(plan))
    assert not sum(moved[:15])
    assert max(moved) >= 3


def test_an_exchange_is_made_whole_or_not_at_all() -> None:
    returned, exchanged = (RowMove(0, 0, 1, 0.0, 0.0, 0.0, why) for why in (RETURNED, EXCHANGED))
    assert made((returned, exchanged), 1, Settings()) == 2
    assert made((returned, exchanged), 1, Settings(most=1)) == 0
    assert made((returned, exchanged), 0, Settings()) == 0


def test_a_broker_that_joins_is_filled_at_once_and_other_load_by_the_budget() -> None:
    """An hour after the leader started, b3 joins; or b2 loses two thirds of its load."""
    old, joined = (cluster(usages).snapshot() for usages in ({"b1": 60, "b2": 60}, {"b1": 60, "b2": 60, "b3": 0}))
    plans, _ = run(LeastDisturbance(), [old] * 60 + [joined])
    assert len(plans[-1]) >= 4
    changed = cluster({"b1": 60, "b2": 20}).snapshot()
    plans, _ = run(LeastDisturbance(), [old] * 60 + [changed] * 5)
    assert max(map(len, plans)) == 1


# ---- the price ----


def test_a_small_gain_moves_a_bundle_once_it_has_lasted_and_says_why() -> None:
    """b1 is 5 points above the mean, within the band: a bundle moves for its price."""
    even, uneven = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 47))
    plans, _ = run(LeastDisturbance(), [even] * 12 + [uneven] * 20)
    acted = [minute for minute, plan in enumerate(plans) if len(plan)]
    assert acted[0] > 12 + 3
    before, plan = plans[acted[0] - 1], plans[acted[0]]
    assert before.broker_reason(0).code is Code.GAIN_TOO_NEW
    assert plan.broker_reason(0).code is Code.EVENS_OUT
    (unload,) = plan
    assert unload.reason.code is Code.WORTH_ITS_PRICE
    gain, missed = unload.reason.compared[:2]
    assert gain.value > gain.limit == Settings().least_gain
    assert missed.value >= missed.limit == pytest.approx(100 * Settings().price)


def test_a_broker_far_above_gives_the_bundles_that_gain_most_as_the_budget_allows() -> None:
    """b1 rises to 30 points above the mean. Its change counts after the patience, and the budget has saved a move: two
    rounds in a row make a single move, because its gain was missed for the patience already."""
    even, uneven = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 80))
    plans, _ = run(LeastDisturbance(), [even] * 30 + [uneven] * 8)
    acted = [minute for minute, plan in enumerate(plans) if len(plan)]
    assert acted[1] == acted[0] + 1
    for minute in acted[:2]:
        (unload,) = plans[minute]
        assert unload.reason.code is Code.WORTH_ITS_PRICE
        missed = unload.reason.compared[1]
        assert missed.value > missed.limit == pytest.approx(100 * Settings().price)


def test_a_move_names_the_best_moves_of_other_brokers() -> None:
    even = cluster({"b1": 40, "b2": 40, "b3": 40, "b4": 40}).snapshot()
    uneven = cluster({"b1": 56, "b2": 55, "b3": 30, "b4": 30}).snapshot()
    plans, _ = run(LeastDisturbance(), [even] * 12 + [uneven] * 20)
    reasons = [unload.reason for plan in plans for unload in plan if unload.reason.code is Code.WORTH_ITS_PRICE]
    others = [other for reason in reasons for other in reason.alternatives]
    assert others
    assert {other.code for other in others} == {Code.GAINS_TOO_LITTLE}


def test_what_the_budget_forbids_names_the_key_of_the_budget() -> None:
    even, uneven = (cluster({"b1": usage, "b2": 40, "b3": 40, "b4": 40}).snapshot() for usage in (40, 90))
    plans, _ = run(LeastDisturbance(Settings(moves_an_hour=1)), [even] * 12 + [uneven] * 20)
    told = [plan.reason for plan in plans if plan.reason.code is Code.BUDGET_USED]
    assert told
    assert {reason.settings for reason in told} == {(MOVES_KEY,)}


def test_a_broker_that_a_full_round_did_not_come_to_is_not_said_to_have_nothing_to_give() -> None:
    usages = {f"b{number}": 90 for number in range(4)} | {f"b{number}": 10 for number in range(4, 8)}
    settings = Settings(most=2)
    plan, _ = LeastDisturbance(settings).decide(cluster(usages).snapshot(), DisturbanceMemory())
    assert len(plan) == 2
    codes = [plan.broker_reason(broker).code for broker in range(4)]
    assert Code.NO_SHEDDABLE_BUNDLE not in codes
    assert codes.count(Code.ROUND_FULL) >= 2


def test_a_bundle_that_fills_a_weak_broker_goes_to_a_stronger_one() -> None:
    """It takes 90 % of b1 and would take less than a third of b2, which has four times the cores."""
    found = Cluster()
    found.add("b1", cpu=90, bundles={bundle_name(0): NamespaceBundleStats(msg_rate_in=9e4, topics=1)})
    for number, name in enumerate(("b2", "b3"), 1):
        small = {bundle_name(10 * number + at): NamespaceBundleStats(msg_rate_in=4e4, topics=1) for at in range(4)}
        found.add(name, cpu=160, cpu_limit=400, bundles=small)
    plan, _ = LeastDisturbance().decide(found.snapshot(), DisturbanceMemory())
    assert [unload.bundle for unload in plan][:1] == [bundle_name(0)]


# ---- reports that are missing ----


def swinging(missing: Callable[[int], bool], minutes: int = 80) -> list[LoadSnapshot]:
    """Return snapshots of six brokers that swing between 36 and 60 % from minute to minute; b1 is three points above.

    It has not reported in the minutes that `missing` names: its values are those of the minute before.
    """
    others = [f"b{number}" for number in range(2, 7)]
    made = {
        (b1, usage): cluster({"b1": b1 + 3} | dict.fromkeys(others, usage)).snapshot()
        for b1 in (36, 60)
        for usage in (36, 60)
    }
    found = []
    for minute in range(minutes):
        usage, before = (60, 36) if minute % 2 else (36, 60)
        lost = minute > 0 and missing(minute)
        snapshot = made[before if lost else usage, usage]
        found.append(at(snapshot, minute, reported={"b1": minute - 1} if lost else None))
    return found


def test_a_missing_report_of_a_broker_that_reports_every_minute_moves_nothing() -> None:
    """By its last report b1 is 27 points above the others, or 21 below them, for a minute in ten."""
    strategy = LeastDisturbance()
    for phase in (4, 5):
        memory, moved = strategy.start(), 0
        for snapshot in swinging(lambda minute, phase=phase: minute >= 20 and minute % 10 == phase):
            plan, memory = strategy.decide(snapshot, memory)
            moved += len(plan)
        assert not moved


@pytest.mark.parametrize(
    ("age_min", "doubt"),
    [(lambda minute: 0, 0.0), (lambda minute: minute % 10 == 9, 0.9), (lambda minute: minute % 3, 0.0)],
    ids=["always", "one of ten is missing", "one of three"],
)
def test_the_doubt_is_how_regularly_a_broker_reports(age_min: Callable[[int], int], doubt: float) -> None:
    """In the last of 120 minutes there is no report, except with a broker that always reports."""
    calm = cluster({"b1": 40, "b2": 40}).snapshot()
    strategy, memory = LeastDisturbance(), DisturbanceMemory()
    for minute in range(120):
        _, memory = strategy.decide(at(calm, minute, reported={"b1": minute - age_min(minute)}), memory)
    assert memory.lines is not None
    assert memory.lines.doubt[0] == pytest.approx(doubt, abs=0.07)
    assert memory.lines.doubt[1] == 0


def test_a_report_that_arrives_late_is_not_on_time() -> None:
    calm = cluster({"b1": 40, "b2": 40}).snapshot()
    strategy, memory = LeastDisturbance(), DisturbanceMemory()
    for minute, reported in enumerate([0, 1, 2, 2, 2, 3]):
        _, memory = strategy.decide(at(calm, minute, reported={"b1": reported}), memory)
    assert memory.lines is not None
    assert memory.lines.on_time.tolist() == [False, True]


# ---- what waits ----


def test_after_the_first_round_of_a_leader_moves_have_a_price() -> None:
    """b2 loses load in the second minute: a plan would move three bundles at once."""
    calm, changed = (cluster({"b1": 60, "b2": usage}, bundles=30).snapshot() for usage in (60, 44))
    plans, _ = run(LeastDisturbance(), [calm] + [changed] * 9)
    assert max(map(len, plans)) == 1
    assert sum(map(len, plans)) >= 2
