"""Complete advice on small clusters with known problems, by real runs."""

from collections.abc import Sequence

import msgspec
import numpy as np

from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice, AdviceVerdict
from pulsar_barycenter.replay.advice.parts import attempt, parts_of
from pulsar_barycenter.replay.advice.search import wanted
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.scenario import balanced, like_brokers, of_rates, rate_of_usage, sizes, steady
from pulsar_barycenter.replay.simulator import replay
from pulsar_barycenter.replay.synthetic.demand import broker_names
from support.advised import advised, question_of, tried

LOW = "loadBalancerAvgShedderLowThreshold"
HITS = "loadBalancerAvgShedderHitCountLowThreshold"
BROKERS = broker_names(4)
HASTY = {LOW: "5", HITS: "1", "loadBalancerSheddingGracePeriodMinutes": "0"}


def restless(seed: int) -> Demand:
    """Return bundles that are busy for three minutes, now this, now that one: what is moved was moved for nothing."""
    rng, count, steps = np.random.default_rng([seed, 9]), 16, 66
    busy = np.repeat(rng.choice([0.3, 3.0], size=(steps // 3, count), p=[0.7, 0.3]), 3, axis=0)
    return of_rates(
        busy * rate_of_usage(0.4, brokers=4) / count / 1.11, tuple(BROKERS[row % 4] for row in range(count))
    )


def level(seed: int) -> Demand:
    share = sizes(32, seed)
    return of_rates(steady(share, rate_of_usage(0.5, brokers=4), 60, seed), balanced(share, BROKERS))


def lopsided(seed: int) -> Demand:
    share = sizes(32, seed)
    owners = tuple(BROKERS[0] if row % 2 else BROKERS[1 + row // 2 % 3] for row in range(32))
    return of_rates(steady(share, rate_of_usage(0.4, brokers=4), 60, seed), owners)


def two(make: object) -> Sequence[Demand]:
    assert callable(make)
    return [make(seed) for seed in (0, 1)]


def test_a_cluster_where_avg_shedder_flaps_is_told_to_wait_for_more_hits() -> None:
    told = advised(two(restless), like_brokers(4), HASTY, ["AvgShedder"], [f"{HITS}=1,2,4,8"])
    assert told.today.measures["flaps"] > 10
    assert told.verdict is AdviceVerdict.CHANGE
    (change,) = told.changes
    assert (change.key, change.today, change.is_dynamic) == (HITS, "1", True)
    assert int(change.advised) > 1
    assert told.advised is not None
    assert told.advised.measures["flaps"] < told.today.measures["flaps"] / 2
    assert told.sentence.startswith(f"Set {HITS}={change.advised} and keep AvgShedder: ")
    # it is calmer and less even, which is not kept back
    assert {each.measure for each in told.worse} >= {"deviation", "spread"}
    assert "unloads" in {each.measure for each in told.better}


def test_who_prefers_balance_is_advised_otherwise() -> None:
    words = (two(restless), like_brokers(4), HASTY, ["AvgShedder"], [f"{HITS}=1,2,4,8"])
    calm, even = (advised(*words, prefer=each) for each in ("calm", "balance"))
    assert calm.advised is not None
    hits = [int(each.advised.settings.get(HITS, "1")) if each.advised else 1 for each in (calm, even)]
    assert hits[0] >= hits[1]
    assert calm.rule.price > even.rule.price


def test_a_cluster_that_is_even_is_told_that_it_is_well_set_up() -> None:
    told = advised(two(level), like_brokers(4), {}, ["UniformLoadShedder+LeastLongTermMessageRate"])
    assert told.verdict is AdviceVerdict.KEEP
    assert told.sentence.startswith("This cluster is well set up (AvgShedder): ")
    assert not told.changes
    assert told.advised is None
    assert fragment(told).endswith("# There is nothing to change.\n")
    assert "pulsar-admin" not in commands(told)
    assert all(each.stands for each in told.sensitivity)


def test_a_cluster_whose_balancing_is_off_is_told_to_turn_it_on() -> None:
    off = {"loadBalancerSheddingEnabled": "false"}
    told = advised(two(lopsided), like_brokers(4), off, ["AvgShedder"], [f"{LOW}=15,20"])
    assert told.verdict is AdviceVerdict.CHANGE
    assert [(each.key, each.advised) for each in told.changes] == [("loadBalancerSheddingEnabled", "true")]
    assert told.advised is not None
    assert told.advised.going_over.unloads > told.today.going_over.unloads == 0
    lines = fragment(told).splitlines()
    assert "loadBalancerSheddingEnabled=true" in lines
    assert (
        "pulsar-admin brokers update-dynamic-config --config loadBalancerSheddingEnabled --value true"
        in commands(told).splitlines()
    )


def test_a_change_that_needs_a_restart_says_so_before_any_command() -> None:
    off = {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.NoopLoadManager"}
    told = advised(two(lopsided), like_brokers(4), off, ["extensible"], ["loadBalancerBrokerLoadTargetStd=0.15"])
    assert told.verdict is AdviceVerdict.CHANGE
    by_key = {each.key: each for each in told.changes}
    assert not by_key["loadManagerClassName"].is_dynamic
    assert by_key["loadBalancerBrokerLoadTargetStd"].is_dynamic
    script = commands(told)
    assert script.index("restart the brokers one by one") < script.index("pulsar-admin")
    assert "--config loadManagerClassName" not in script
    assert "loadManagerMigrationEnabled=true" in script.replace("\n# ", " ")


def test_the_choice_knows_nothing_of_what_is_held_out() -> None:
    demands = two(restless)
    parts = parts_of(demands[0].steps, demands[0].step_ms)
    question = question_of(demands[0], HASTY, ["AvgShedder"], [f"{HITS}=1,8"])
    known = tried(question, demands, like_brokers(4))
    later = [msgspec.json.decode(msgspec.json.encode(each), type=type(each)) for each in known[question.today.name]]
    for seed, demand in enumerate(demands):
        for figure in (demand.rate_in, demand.rate_out):
            figure[parts.held_out[0] :] *= 2.5
        again = attempt(later[seed].scenario, demand, like_brokers(4), (), question.base, parts)
        assert again.choosing == later[seed].choosing
        assert again.telling != later[seed].telling


def test_overload_is_judged_by_todays_limit_whatever_is_tried() -> None:
    demand = lopsided(0)
    question = question_of(demand, {})
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    parts = parts_of(demand.steps, demand.step_ms)
    idle = [
        attempt(each, demand, like_brokers(4), (), question.base, parts)
        for each in (
            Scenario(strategy="no-op", period=question.whole),
            Scenario(strategy="no-op", settings={key: "10"}, period=question.whole),
        )
    ]
    assert idle[0].whole == idle[1].whole
    plain = replay(demand, like_brokers(4), idle[0].scenario.config(question.base))
    assert idle[0].whole.overloaded_s == (plain.usage > 0.85).sum() * 60 != (plain.usage > 0.5).sum() * 60


def test_the_same_question_has_the_same_answer_to_the_byte() -> None:
    def once() -> bytes:
        told: Advice = advised(two(restless), like_brokers(4), HASTY, ["AvgShedder"], [f"{HITS}=1,8"])
        return msgspec.json.encode(told, order="sorted")

    assert once() == once()


def test_nothing_more_is_wanted_once_all_is_known() -> None:
    demands = two(level)
    question = question_of(demands[0], {}, ["AvgShedder"], [f"{LOW}=10,15"])
    known = tried(question, demands, like_brokers(4))
    assert wanted(question, known) == []
    parts = parts_of(demands[0].steps, demands[0].step_ms)
    told = advice_of(question, known, parts, demands[0], warnings=["a warning"])
    assert "a warning" in told.warnings
    assert told.seeds == [0, 1]
    assert told.choosing.until_ms == told.held_out.since_ms
