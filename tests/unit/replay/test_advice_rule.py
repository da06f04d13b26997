"""How an advice is weighed: parts of a history, costs, gains and noise, notches, and the search on synthetic values."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.config.broker_conf import keys, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.lab.advising.board import print_advice
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY
from pulsar_barycenter.replay.advice.candidate_settings import (
    OF_PLACER,
    OF_SHEDDER,
    OF_SIMPLE,
    changes_of,
    identity,
    neighbours,
    start,
    text_of,
)
from pulsar_barycenter.replay.advice.document import AdviceVerdict, Observed
from pulsar_barycenter.replay.advice.parts import CHOOSING, TELLING, Parts, Trial, parts_of
from pulsar_barycenter.replay.advice.search import Question, candidate, checked, knobs_given, wanted
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.advice.weighing import TIE, Gain, Weighed, Weights, gain, least
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import CONFIGURED, Scenario
from pulsar_barycenter.replay.measures import Measures
from pulsar_barycenter.replay.scenario import BENCHED
from pulsar_barycenter.replay.synthetic.demand import Shape, generated

LOW = "loadBalancerAvgShedderLowThreshold"
HITS = "loadBalancerAvgShedderHitCountLowThreshold"
MINUTE_MS = 60_000


def measures(regret: float, sessions: int = 0, unloads: int = 0) -> Measures:
    return Measures(
        max_over_mean=1 + regret,
        deviation=0.0,
        spread=0.0,
        overloaded_s=0.0,
        area=0.0,
        regret=regret,
        even_after_s=(0.0,),
        unloads=unloads,
        assignments=0,
        splits=0,
        sessions_disturbed=sessions,
        unserved_topic_s=0.0,
        moved_messages=0.0,
        flaps=0,
        wrong_placements=0,
        last_unload_s=None,
        rate_max_over_mean=1.0,
        thrash=0.0,
        failed_unloads=0,
    )


def trial(scenario: Scenario, seed: int, choosing: Measures, telling: Measures | None = None) -> Trial:
    told = telling or choosing
    return Trial(
        scenario=msgspec.structs.replace(scenario, seed=seed),
        settling=choosing,
        choosing=(choosing,) * CHOOSING,
        telling=(told,) * TELLING,
        held_out=told,
        whole=choosing,
    )


def question(
    strategies: Sequence[str] = BENCHED, sets: Sequence[str] = (), base: dict[str, str] | None = None
) -> Question:
    weights = Weights(
        price=5.0,
        sessions=1000,
        bundles=10,
        choosing_hours=(1.0,) * CHOOSING,
        telling_hours=(1.0,) * TELLING,
    )
    return Question(
        base=base or {}, strategies=tuple(strategies), given=knobs_given(sets), weights=weights, whole=(0, 100)
    )


def known_by(asked: Question, of: Callable[[Scenario], Measures]) -> tuple[dict[str, list[Trial]], list[int]]:
    """Return all requested runs, with values by the scenario, and their number each time."""
    known: dict[str, list[Trial]] = {}
    counts = []
    while batch := wanted(asked, known):
        assert not {each.name for each in batch} & set(known)
        counts.append(len(batch))
        known |= {each.name: [trial(each, seed, of(each)) for seed in (1, 2)] for each in batch}
    return known, counts


# ---- parts ----


@pytest.mark.parametrize("steps", [60, 61, 179, 1440, 100_000])
def test_what_is_held_out_is_used_for_nothing_else_and_nothing_is_left_out(steps: int) -> None:
    parts = parts_of(steps, MINUTE_MS)
    every = [parts.settling, *parts.choosing, *parts.telling]
    used = [step for first, end in every for step in range(first, end)]
    assert used == list(range(steps))
    assert max(end for _, end in parts.choosing) <= parts.held_out[0]
    assert (len(parts.choosing), len(parts.telling)) == (CHOOSING, TELLING)
    assert parts.settling[1] <= 1440


@pytest.mark.parametrize(("steps", "step_ms"), [(59, MINUTE_MS), (39, 5 * MINUTE_MS), (0, MINUTE_MS)])
def test_a_short_history_is_refused(steps: int, step_ms: int) -> None:
    with pytest.raises(ReplayInputError, match="too short"):
        parts_of(steps, step_ms)
    assert isinstance(parts_of(60, MINUTE_MS), Parts)


# ---- costs and gains ----


def test_a_cost_is_regret_and_the_price_of_disturbance() -> None:
    weights = question().weights
    assert weights.cost(measures(0.08, 300), 12.0) == pytest.approx(8 + 5 * 0.6)
    blind = msgspec.structs.replace(weights, sessions=0)
    assert blind.cost(measures(0.0, 300, unloads=5), 24.0) == pytest.approx(5 * 5 / 10)


def test_the_noise_of_a_gain_is_that_of_parts_or_of_seeds() -> None:
    saved = np.array([[3.0, 5.0], [3.0, 5.0]])
    assert gain(saved, np.zeros((2, 2))) == Gain(points=4.0, noise=pytest.approx(2.0))
    assert gain(saved.T, np.zeros((2, 2))) == Gain(points=4.0, noise=pytest.approx(2.0))
    assert gain(np.full((2, 2), 4.0), np.zeros((2, 2))).noise == 0


@pytest.mark.parametrize(
    ("points", "noise", "counts"), [(0.9, 0.0, False), (1.0, 0.0, True), (3.0, 3.0, False), (3.1, 3.0, True)]
)
def test_a_gain_counts_above_noise_and_a_point(points: float, noise: float, counts: bool) -> None:
    assert Gain(points=points, noise=noise).counts is counts


def test_of_equally_good_ones_the_calmer_is_taken_then_the_one_with_fewer_keys() -> None:
    def weigh(found: tuple[float, float, int, str]) -> Weighed:
        cost, unloads, changed, title = found
        return Weighed(cost=cost, unloads=unloads, changed_keys=changed, title=title)

    near = 1.0 + TIE / 2
    assert least([(1.0, 5, 0, "a"), (near, 4, 9, "b"), (1.0 + TIE, 0, 0, "c")], weigh)[3] == "b"
    assert least([(1.0, 5, 2, "a"), (near, 5, 1, "b")], weigh)[3] == "b"
    assert least([(1.0, 5, 1, "b"), (near, 5, 1, "a")], weigh)[3] == "a"


# ---- settings ----


def test_every_value_worth_trying_is_within_its_bounds_and_in_order() -> None:
    every = [*(knob for knobs in (*OF_SHEDDER.values(), *OF_PLACER.values(), OF_SIMPLE) for knob in knobs)]
    for knob in every:
        row = keys()[knob.key]
        values = [row.parse(text) for text in knob.values]
        assert values == sorted(values), knob.key
        assert len(set(values)) == len(values) > 1
        assert [text_of(with_overrides(BrokerConfig(), {knob.key: text}), knob.key) for text in knob.values] == list(
            knob.values
        )


def test_a_notch_is_the_next_value_and_todays_stands_among_them() -> None:
    at = Scenario(strategy="AvgShedder")
    found = [each.settings for each in neighbours(at, (), {LOW: "12"}) if LOW in each.settings]
    assert found == [{LOW: "10"}, {LOW: "15"}]
    lower = Scenario(strategy="AvgShedder", settings={LOW: "10"})
    around = [each.settings for each in neighbours(lower, (), {LOW: "12"})]
    assert {LOW: "5"} in around
    assert {} in around  # a notch higher is today's value, which is not said


def test_given_settings_are_varied_alone_and_as_given() -> None:
    given = knobs_given([f"{LOW}=30,20,10"])
    assert start("AvgShedder", given, {}).settings == {LOW: "30"}
    assert start(CONFIGURED, given, {}).settings == {}
    found = neighbours(Scenario(strategy="AvgShedder", settings={LOW: "20"}), given, {})
    assert [each.settings for each in found] == [{LOW: "30"}, {LOW: "10"}]
    assert start("AvgShedder", given, {LOW: "20"}).settings == {}


def test_balancing_that_is_off_today_is_on_in_all_others() -> None:
    off = {"loadBalancerSheddingEnabled": "false"}
    assert start("AvgShedder", (), off).settings == {"loadBalancerSheddingEnabled": "true"}
    assert start(CONFIGURED, (), off).settings == {}


def test_configurations_are_alike_that_decide_alike() -> None:
    avg = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    one, other = (
        with_overrides(BrokerConfig(), {SHEDDING_KEY: name, PLACEMENT_KEY: name}) for name in (avg, "AvgShedder")
    )
    assert identity(one) == identity(other)
    assert not changes_of(one, other)
    extensible = [
        with_overrides(BrokerConfig(), {MANAGER_KEY: ManagerKind.EXTENSIBLE.class_name, SHEDDING_KEY: name})
        for name in (avg, "ThresholdShedder")
    ]
    assert identity(extensible[0]) == identity(extensible[1])


def test_going_to_the_extensible_load_manager_names_its_shedder_for_pulsar() -> None:
    after = Scenario(strategy="extensible").config({})
    assert changes_of(BrokerConfig(), after)[SHEDDING_KEY][1].endswith("extensions.scheduler.TransferShedder")


# ---- the search ----


def test_the_search_begins_with_every_strategy_once() -> None:
    asked = question()
    first = wanted(asked, {})
    # AvgShedder is today's by default
    assert {each.strategy for each in first} == {CONFIGURED, *BENCHED} - {"AvgShedder"}


def test_the_search_goes_up_to_the_best_setting_and_looks_around_it() -> None:
    asked = question(["AvgShedder"])

    def of(scenario: Scenario) -> Measures:
        low, hits = (int(text_of(scenario.config({}), key)) for key in (LOW, HITS))
        return measures(0.10 + abs(low - 5) / 100 + abs(hits - 4) / 100)

    known, counts = known_by(asked, of)
    best = candidate(asked, known)
    assert best.settings == {LOW: "5", HITS: "4"}
    around = {each.name for each in asked.around(best)}
    assert around <= set(known)
    assert len(counts) <= 6


def test_a_configuration_that_is_best_by_less_than_a_point_is_not_advised() -> None:
    asked = question()
    known, _ = known_by(asked, lambda scenario: measures(0.05 if scenario == asked.today else 0.0405))
    assert candidate(asked, known) == asked.today


def test_no_balancing_is_never_advised_unless_it_is_todays() -> None:
    asked = question()
    known, _ = known_by(asked, lambda scenario: measures(0.0 if scenario.strategy == "no-op" else 0.3))
    assert candidate(asked, known) == asked.today


def test_what_is_held_out_does_not_change_the_choice() -> None:
    asked = question(["extensible", "UniformLoadShedder+LeastLongTermMessageRate"])
    known, _ = known_by(asked, lambda scenario: measures(0.05 if scenario.strategy == "extensible" else 0.2))
    worse = {
        name: [trial(each.scenario, each.scenario.seed, each.choosing[0], measures(0.9)) for each in trials]
        for name, trials in known.items()
    }
    assert candidate(asked, known) == candidate(asked, worse) != asked.today


@pytest.mark.parametrize(
    ("held_out", "verdict"),
    [(0.05, AdviceVerdict.CHANGE), (0.195, AdviceVerdict.UNCONFIRMED), (0.9, AdviceVerdict.UNCONFIRMED)],
)
def test_a_gain_that_is_not_confirmed_by_what_was_held_out_changes_nothing(
    held_out: float, verdict: AdviceVerdict
) -> None:
    asked = question(["extensible"])

    def of(scenario: Scenario, seed: int) -> Trial:
        better = scenario.strategy == "extensible"
        return trial(scenario, seed, measures(0.05 if better else 0.2), measures(held_out if better else 0.2))

    known: dict[str, list[Trial]] = {}
    while batch := wanted(asked, known):
        known |= {each.name: [of(each, seed) for seed in (1, 2)] for each in batch}
    told = advice_of(asked, known, parts_of(100, MINUTE_MS), generated(Shape(brokers=2, bundles=4, steps=100), 0))
    assert told.verdict is verdict
    assert bool(told.changes) is (told.advised is not None) is (verdict is AdviceVerdict.CHANGE)
    assert told.best is not None
    assert told.best.title == "extensible"
    if verdict is AdviceVerdict.UNCONFIRMED:
        assert told.sentence.startswith("Keep today's configuration (AvgShedder): the extensible load manager looked")
        assert ("worse by 70 points" if held_out > 0.2 else "better by 0.5 points") in told.sentence


@pytest.mark.parametrize(("chosen", "held_out"), [(0.3, 0.3), (0.05, 0.3), (0.3, 0.05), (0.05, 0.05)])
def test_a_cluster_is_well_set_up_if_it_is_even_at_all_times(chosen: float, held_out: float) -> None:
    asked = question(["extensible"])
    known: dict[str, list[Trial]] = {}
    while batch := wanted(asked, known):
        known |= {each.name: [trial(each, 1, measures(chosen), measures(held_out))] * 2 for each in batch}
    told = advice_of(asked, known, parts_of(100, MINUTE_MS), generated(Shape(brokers=2, bundles=4, steps=100), 0))
    well = f"Keep today's configuration (AvgShedder), although the fullest broker was {100 * held_out:.1f} %"
    assert told.sentence.startswith("This cluster is well set up" if max(chosen, held_out) < 0.1 else well)


@pytest.mark.parametrize(
    ("today", "then", "told"),
    [
        (0, 0, "no client would have been disturbed with either configuration."),
        (500, 500, "the average client would have been disturbed {} times a day with either configuration."),
        (500, 0, "the average client would have been disturbed 0 times a day instead of {}."),
    ],
)
def test_what_clients_gain_is_only_told_if_it_differs(today: int, then: int, told: str) -> None:
    asked = question(["extensible"])

    def of(scenario: Scenario) -> Measures:
        better = scenario.strategy == "extensible"
        return measures(0.05 if better else 0.2, then if better else today)

    advice = advice_of(
        asked, known_by(asked, of)[0], parts_of(100, MINUTE_MS), generated(Shape(brokers=2, bundles=4, steps=100), 0)
    )
    assert advice.sentence.endswith(told.format(f"{advice.today.held_out.disturbed_a_day:.2g}"))
    reasons = " ".join(change.why for change in advice.changes)
    assert ("no client disturbed with either" in reasons) is (today == then == 0)
    assert ("times a day with either" in reasons) is (today == then == 500)


@pytest.mark.parametrize(
    ("observed", "told"),
    [
        (Observed(max_over_mean=1.41), ["max / mean: 1.41 recorded, 1.2 replayed"]),
        (Observed(max_over_mean=1.39), []),
        (Observed(max_over_mean=1.0), []),
        (Observed(deviation=0.031), ["deviation, % of a broker: 3.1 recorded, 0 replayed"]),
        (Observed(deviation=0.029), []),
        (Observed(moves=61), ["bundles moved by the leader: 61 recorded, 30 replayed"]),
        (Observed(moves=60), []),
        (Observed(moves=14), ["bundles moved by the leader: 14 recorded, 30 replayed"]),
        (Observed(splits=90, flaps=90), []),
        (Observed(moves=61, max_over_mean=3.0), ["in 2 values (", "61 recorded", "3 recorded"]),
    ],
)
def test_a_replay_that_differs_much_from_the_recording_is_told(
    observed: Observed, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = question(["extensible"])
    known, _ = known_by(asked, lambda _: measures(0.2, unloads=30))
    load = generated(Shape(brokers=2, bundles=4, steps=100), 0)
    advice = advice_of(asked, known, parts_of(100, MINUTE_MS), load, observed=observed)
    assert ("differs much from the recorded history" in advice.warnings[0]) is bool(told)
    assert all(each in advice.warnings[0] for each in told)
    print_advice(advice)
    first = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
    assert first == " ".join([advice.sentence, f"Mind: {advice.warnings[0]}."][: 1 + bool(told)])


def test_a_few_moves_more_are_no_difference() -> None:
    asked = question(["extensible"])
    known, _ = known_by(asked, lambda _: measures(0.2, unloads=10))
    load = generated(Shape(brokers=2, bundles=4, steps=100), 0)
    advice = advice_of(asked, known, parts_of(100, MINUTE_MS), load, observed=Observed(moves=0))
    assert "differs much" not in " ".join(advice.warnings)


def test_nothing_to_choose_from_is_refused() -> None:
    with pytest.raises(ReplayInputError, match="nothing to choose from"):
        checked(question(["AvgShedder"], [f"{LOW}=15"]), [f"{LOW}=15"])
    with pytest.raises(ReplayInputError, match="nothing to choose from"):
        checked(question(["no-op"], ["minUnloadMessage=1000"]), ["minUnloadMessage=1000"])
    with pytest.raises(ReplayInputError, match="is a key that --strategy sets"):
        knobs_given([f"{SHEDDING_KEY}=AvgShedder"])
    assert checked(question(["AvgShedder"]), [])
