"""How many brokers a load needs: enough and not one more, and rules that follow it over time."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.sizing import (
    HOURS,
    SizingRule,
    hour_name,
    hour_of_week,
    load_of,
    metric,
    to_drain,
    week_of,
)
from pulsar_barycenter.replay.right_sizing import Followed, right_sizing

HOUR_MS = 3_600_000
MONDAY_MS = 4 * 24 * HOUR_MS
loads = st.floats(0, 1_000)
rules = st.builds(SizingRule, head_room=st.floats(0, 0.6), idle=st.floats(0, 0.3), spare=st.integers(0, 3))


@settings(max_examples=25)
@given(loads, rules)
def test_the_brokers_needed_suffice_and_one_fewer_does_not(load: float, rule: SizingRule) -> None:
    count = rule.needed(load) - rule.spare
    assert load / count + rule.idle <= 1 - rule.head_room + 1e-6
    assert count == 1 or load / (count - 1) + rule.idle > 1 - rule.head_room - 1e-6


@settings(max_examples=25)
@given(loads, loads, rules)
def test_more_load_needs_no_fewer_brokers(one: float, other: float, rule: SizingRule) -> None:
    assert rule.needed(min(one, other)) <= rule.needed(max(one, other))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 10**13), loads), min_size=1, max_size=50), rules)
def test_an_hour_needs_what_its_greatest_load_needs(told: list[tuple[int, float]], rule: SizingRule) -> None:
    week = week_of(told, rule)
    assert len(week.needed) == HOURS
    for at_ms, load in told:
        needed = week.at(at_ms)
        assert needed is not None
        assert needed >= rule.needed(load)
    assert {hour for hour, count in enumerate(week.needed) if count is not None} == {
        hour_of_week(at_ms) for at_ms, _ in told
    }
    assert week == week_of(reversed(told), rule)


def test_the_week_begins_on_monday() -> None:
    assert hour_of_week(MONDAY_MS) == 0
    assert hour_of_week(MONDAY_MS - 1) == HOURS - 1
    assert (hour_name(0), hour_name(HOURS - 1)) == ("Mon 00", "Sun 23")


@settings(max_examples=25)
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=6), st.integers(0, 7))
def test_the_emptiest_brokers_are_drained_and_one_stays(usages: dict[str, float], wanted: int) -> None:
    drained = to_drain(usages, wanted)
    assert len(usages) - len(drained) == min(len(usages), max(1, wanted))
    kept = [usages[broker] for broker in usages.keys() - set(drained)]
    assert all(usages[broker] <= min(kept) for broker in drained)


@pytest.mark.parametrize(("head_room", "idle", "spare"), [(1.0, 0, 0), (-0.1, 0, 0), (0.5, 0.5, 0), (0.3, 0, -1)])
def test_a_rule_that_leaves_nothing_is_refused(head_room: float, idle: float, spare: int) -> None:
    with pytest.raises(ValueError, match="give"):
        SizingRule(head_room=head_room, idle=idle, spare=spare)


def test_the_metric_looks_an_hour_ahead() -> None:
    rule = SizingRule(head_room=0.5, idle=0.0)
    week = week_of([(MONDAY_MS, 0.5), (MONDAY_MS + HOUR_MS, 3.0)], rule)
    text = metric(load_of({"a": 0.3, "b": 0.5}, 0.1), rule, week, MONDAY_MS)
    assert 'barycenter_balance_brokers_needed{when="now"} 2\n' in text
    assert 'barycenter_balance_brokers_needed{when="next_hour"} 6\n' in text
    assert 'when="next_hour"} 2\n' in metric(0.6, rule, week, MONDAY_MS + 40 * HOUR_MS)


def day(hour: int) -> float:
    return 8.0 if 8 <= hour < 18 else 1.0


def days_of(count: int, step_ms: int = 60_000) -> list[float]:
    return [day(row * step_ms // HOUR_MS % 24) for row in range(count * 24 * HOUR_MS // step_ms)]


def followed(found: Followed | None) -> Followed:
    assert found is not None
    return found


def test_a_load_that_repeats_is_planned_and_a_cpu_rule_is_late() -> None:
    rule = SizingRule(head_room=0.3, idle=0.0)
    found = right_sizing(MONDAY_MS, 60_000, days_of(4), rule, today=12)
    plan, cpu, fixed = followed(found.plan), followed(found.cpu_rule), followed(found.fixed)
    assert found.hours == 24
    assert (found.least, found.most) == (rule.needed(1.0), rule.needed(8.0)) == (2, 12)
    assert found.saved == 4 * 14 * 10
    assert (plan.minutes_above, fixed.minutes_above) == (0, 0)
    assert cpu.minutes_above > 0
    assert fixed.broker_hours == pytest.approx(24 * 12)
    assert plan.broker_hours == pytest.approx(14 * 2 + 10 * 12, abs=3)


def test_a_week_is_replayed_by_the_week_before() -> None:
    rule = SizingRule(head_room=0.3)
    loads = [value if row // 288 % 7 < 5 else 1.0 for row, value in enumerate(days_of(14, 300_000))]
    found = right_sizing(MONDAY_MS, 300_000, loads, rule, today=12)
    assert found.hours == 168
    assert found.hours_known == HOURS
    assert followed(found.plan).minutes_above == 0
    assert followed(found.plan).broker_hours < followed(found.fixed).broker_hours / 1.5


def test_a_short_history_has_no_replay() -> None:
    found = right_sizing(MONDAY_MS, 60_000, days_of(1), SizingRule(), today=12)
    assert (found.plan, found.cpu_rule, found.hours) == (None, None, 0.0)
    assert found.hours_known == 24


@settings(max_examples=25)
@given(st.lists(st.floats(0, 50), min_size=48, max_size=48), st.integers(1, 20))
def test_a_plan_is_never_below_the_need_for_longer_than_a_start(loads: list[float], today: int) -> None:
    rule = SizingRule()
    found = right_sizing(MONDAY_MS, HOUR_MS, loads, rule, today)
    plan = followed(found.plan)
    assert plan.broker_hours >= 24 * min(map(rule.needed, loads)) - 1e-6 or today < min(map(rule.needed, loads))
    assert math.isfinite(plan.minutes_above)
    assert plan.minutes_above <= 24 * 60
