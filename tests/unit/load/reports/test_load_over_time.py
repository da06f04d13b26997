"""Loads in steps: bounds of a question, means, memory before tables, reports that stay valid."""

from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.reports.load_over_time import (
    COVERED_MS,
    DEFAULT_STEPS,
    LONGEST_SPAN_MS,
    MOST_FIGURES,
    BrokerLoad,
    LoadQuestion,
    LoadQuestionError,
    Moment,
    RecordedLoad,
    in_steps,
    load_question,
    over_time,
    untold,
)

HOUR, STEP = 3_600_000, 60_000
QUESTION = LoadQuestion(10 * STEP, 30 * STEP, STEP)


def load(broker: str, usage: float, bundles: int = 1) -> BrokerLoad:
    return BrokerLoad(broker, usage, usage, usage, bundles)


def moment(at: int, *loads: BrokerLoad) -> Moment:
    return Moment(at, loads)


@given(
    since=st.integers(0, 10**13),
    span=st.integers(1, LONGEST_SPAN_MS),
    brokers=st.integers(0, 5_000),
)
def test_a_question_without_a_step_gets_the_shortest_whose_figures_fit(since: int, span: int, brokers: int) -> None:
    question = load_question(since, since + span, brokers=brokers)
    assert question.since_ms <= since < since + span <= question.until_ms
    assert question.since_ms % question.step_ms == question.until_ms % question.step_ms == 0
    assert 1 <= question.steps <= DEFAULT_STEPS
    assert question.steps * brokers <= MOST_FIGURES or question.step_ms == 86_400_000


@pytest.mark.parametrize(
    ("since", "until", "step"),
    [(5, 5, 0), (6, 5, 0), (0, LONGEST_SPAN_MS + 1, 0), (0, HOUR, 9_999), (0, HOUR, 86_400_001), (0, 2 * HOUR, 10_000)],
)
def test_a_question_out_of_bounds_is_refused(since: int, until: int, step: int) -> None:
    with pytest.raises(LoadQuestionError):
        load_question(since, until, step)


SAMPLES = st.lists(
    st.tuples(st.integers(0, 40 * STEP), st.sampled_from("abc"), st.floats(0, 200)),
    max_size=60,
    unique_by=lambda s: s[0],
)


@given(st.dictionaries(st.integers(0, 40 * STEP // 1000), st.tuples(st.sampled_from("abc"), st.floats(0, 200))))
def test_each_step_has_the_mean_of_the_time_for_which_moments_hold(samples: dict[int, tuple[str, float]]) -> None:
    """Compared with a table of all seconds: a moment is valid until the next one, or for a minute of its own step."""
    times = sorted(samples)
    seconds: dict[int, dict[str, list[float]]] = {}
    moments_of: dict[int, dict[str, list[float]]] = {}
    for number, at in enumerate(times):
        broker, usage = samples[at]
        own = at * 1000 - at * 1000 % STEP
        moments_of.setdefault(own, {}).setdefault(broker, []).append(usage)
        if number + 1 == len(times):
            break
        gap = times[number + 1] - at
        for second in range(at, at + min(gap, COVERED_MS // 1000)):
            begin = second * 1000 - second * 1000 % STEP
            if begin == own or gap * 1000 <= COVERED_MS:
                seconds.setdefault(begin, {}).setdefault(broker, []).append(usage)
    expected = {
        begin: {
            broker: fmean(seconds.get(begin, {}).get(broker) or moments_of[begin][broker])
            for broker in {**seconds.get(begin, {}), **moments_of.get(begin, {})}
        }
        for begin in range(QUESTION.since_ms, QUESTION.until_ms, STEP)
    }
    found = in_steps(QUESTION, [moment(at * 1000, load(*sample)) for at, sample in samples.items()])
    assert {begin: [row.broker for row in rows] for begin, rows in found.items()} == {
        begin: sorted(brokers) for begin, brokers in expected.items() if brokers
    }
    for begin, rows in found.items():
        for row in rows:
            assert row.usage == pytest.approx(expected[begin][row.broker], abs=0.051)


def test_many_moments_of_a_short_time_do_not_outweigh_the_rest_of_a_step() -> None:
    """A page that was open for half a minute every five seconds, and then one that asks once a minute."""
    question = LoadQuestion(0, 10 * STEP, 10 * STEP)
    often = [moment(at, load("a", 100.0)) for at in range(0, 30_000, 5_000)]
    seldom = [moment(at, load("a", 10.0)) for at in range(30_000, 10 * STEP, STEP)]
    told = in_steps(question, [*often, *seldom])
    assert told == {0: [BrokerLoad("a", 14.7, 14.74, 14.7, 1)]}  # (30 × 100 + 540 × 10) / 570


def is_covered(begin: int, times: list[int], step: int = STEP) -> bool:
    """Return whether moments are in a step, and leave no long part of it uncovered until the last of them."""
    inside = [at for at in times if begin <= at < begin + step]
    spanned = any(b - a <= COVERED_MS and a < begin + step and b >= begin for a, b in pairwise(times))
    if not inside and not spanned:
        return False
    points = [begin, *inside, min(begin + step, times[-1])]
    return all(b - a <= COVERED_MS for a, b in pairwise(points))


@given(SAMPLES, SAMPLES, st.integers(0, 12 * STEP))
def test_what_is_remembered_comes_first_and_what_is_between_two_loads_holds(
    remembered: list[tuple[int, str, float]], recorded: list[tuple[int, str, float]], holds_ms: int
) -> None:
    """Against a table of all steps, filled one cell at a time."""
    moments = [moment(at, load(broker, usage)) for at, broker, usage in sorted(remembered)]
    earlier = QUESTION.from_earlier(holds_ms)
    tables = in_steps(earlier, [moment(at, load(broker, usage)) for at, broker, usage in recorded])
    told = over_time(QUESTION, moments, RecordedLoad(tables, QUESTION.since_ms), holds_ms=holds_ms)

    steps_told = in_steps(earlier, moments)
    whole = {begin: rows for begin, rows in steps_told.items() if is_covered(begin, [each.at for each in moments])}
    known = {**steps_told, **tables, **whole}
    cells = {(begin, row.broker): row for begin, rows in known.items() for row in rows}
    expected: dict[int, list[BrokerLoad]] = {}
    for begin in range(QUESTION.since_ms, QUESTION.until_ms, STEP):
        for broker in "abc":
            of_broker = sorted(at for at, name in cells if name == broker)
            before = max((at for at in of_broker if at <= begin), default=None)
            after = min((at for at in of_broker if at >= begin), default=None)
            if before is not None and after is not None and (before == after or after - before <= holds_ms):
                expected.setdefault(begin, []).append(cells[before, broker])
    assert {each.at: list(each.brokers) for each in told.moments} == expected
    assert [each.at for each in told.moments] == sorted(expected)


TIMES = st.one_of(
    st.lists(st.integers(0, 40 * STEP), unique=True, max_size=40).map(sorted),
    st.lists(st.sampled_from((5_000, 30_000, COVERED_MS, COVERED_MS + 1)), max_size=60).map(
        lambda gaps: [*accumulate(gaps)]
    ),
)


@given(TIMES, st.sampled_from((STEP // 2, STEP, STEP * 2, STEP * 5)))
def test_what_moments_do_not_cover_is_asked_for_and_nothing_beside(times: list[int], step_ms: int) -> None:
    question = LoadQuestion(10 * STEP, 30 * STEP, step_ms)
    steps = range(question.since_ms, question.until_ms, step_ms)
    silent = [begin for begin in steps if not is_covered(begin, times, step_ms)]
    left = untold(question, times)
    assert left == (replace(question, since_ms=silent[0], until_ms=silent[-1] + step_ms) if silent else None)


def test_some_moments_of_a_long_step_do_not_outweigh_what_tables_know_of_all_of_it() -> None:
    """A leader that was elected at the end of the first of two long steps."""
    question = LoadQuestion(0, 20 * STEP, 10 * STEP)
    moments = [moment(at, load("a", 90.0)) for at in range(9 * STEP, 15 * STEP, 5_000)]
    assert untold(question, [each.at for each in moments]) == replace(question, until_ms=10 * STEP)
    recorded = RecordedLoad({0: [load("a", 10.0)], 10 * STEP: [load("a", 20.0)]}, 0)
    told = over_time(question, moments, recorded, holds_ms=0)
    assert told.moments == [moment(0, load("a", 10.0)), moment(10 * STEP, load("a", 90.0))]


def test_one_broker_is_told_of_alone() -> None:
    told = over_time(
        replace(QUESTION, broker="b"), [moment(12 * STEP, load("a", 1.0), load("b", 2.0, 7))], None, holds_ms=0
    )
    assert told.moments == [Moment(12 * STEP, (load("b", 2.0, 7),))]


def test_a_bundle_is_told_of_as_tables_say_and_not_in_the_steps_between() -> None:
    """It moved from a to b and back, and no broker reported it for a step."""
    owners = {10: "a", 11: "b", 13: "a"}
    tables = {step * STEP: [load(broker, 1.0)] for step, broker in owners.items()}
    question = replace(QUESTION, bundle="t/n/0x00000000_0xffffffff")
    told = over_time(question, [], RecordedLoad(tables, QUESTION.since_ms), holds_ms=5 * STEP)
    assert told.moments == [moment(step * STEP, load(broker, 1.0)) for step, broker in owners.items()]


def test_of_more_figures_than_fit_the_newest_are_told_and_from_when_on() -> None:
    names = [f"b{number:05}" for number in range(MOST_FIGURES // 4)]
    tables = {step * STEP: [load(name, 1.0) for name in names] for step in range(10, 30)}
    told = over_time(QUESTION, [], RecordedLoad(tables, QUESTION.since_ms), holds_ms=0)
    assert [each.at for each in told.moments] == [step * STEP for step in range(26, 30)]
    assert told.whole_since == 26 * STEP
    assert told.note
