"""The load of brokers, or of one bundle, in steps of time: the bounds of a question, and its answer.

A broker remembers recent loads, and tables hold older ones; this module combines both. Each step has a mean that is
weighted by time. A broker reports only changes, so a reported load *holds*: it counts as the load until the next
report, if that is not too far away. After a longer time without a report, the load is unknown.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, TypeAlias

import msgspec

MOST_STEPS: Final = 400
DEFAULT_STEPS: Final = 200
"""The most steps if the question does not give the length of a step."""
MOST_FIGURES: Final = 40_000
"""The most rows of brokers in all steps together."""
LONGEST_SPAN_MS: Final = 31 * 86_400_000
SHORTEST_STEP_MS: Final = 10_000
LONGEST_STEP_MS: Final = 86_400_000
LATEST_TIME_MS: Final = 253_402_214_400_000
"""The start of the last day of the year 9999."""
DEFAULT_SPAN_MS: Final = 3_600_000
COVERED_MS: Final = 60_000
"""Two moments that are at most this far apart cover all the time between them."""
_STEPS_S: Final = (10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


class LoadQuestionError(ValueError):
    """The time span or the step of a question for loads over time is out of bounds; the text says which."""


class BrokerLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The load of a broker at one moment, or in one step (a time span of fixed length); None for unknown values. An
    array in JSON.

    `usage` is that of the most used resource in percent, `msg_rate` in msg/s, `msg_throughput` in bytes/s, both in +
    out. In a step these values are means, and `bundles` is the maximum. In an answer about a bundle they are the values
    of the bundle, and `broker` is one of the brokers that reported the bundle.
    """

    broker: str
    usage: float | None
    msg_rate: float | None
    msg_throughput: float | None
    bundles: int | None


class Moment(msgspec.Struct, frozen=True):
    """The loads of the brokers at the time `at` (epoch ms), or in the step that begins at that time."""

    at: int
    brokers: tuple[BrokerLoad, ...]


@dataclass(frozen=True, slots=True)
class LoadQuestion:
    """A question for the load of all brokers, of one broker, or of one bundle, in steps of `step_ms`: from `since_ms`
    (inclusive) to `until_ms` (exclusive), both in epoch ms and multiples of `step_ms`. Create it with `load_question`,
    which checks its bounds.
    """

    since_ms: int
    until_ms: int
    step_ms: int
    broker: str = ""
    bundle: str = ""

    @property
    def steps(self) -> int:
        return (self.until_ms - self.since_ms) // self.step_ms

    def begin_of(self, at_ms: int) -> int | None:
        """Return the start of the step that contains the time `at_ms` (epoch ms); None if the time is outside of the
        time span of the question.
        """
        return at_ms // self.step_ms * self.step_ms if self.since_ms <= at_ms < self.until_ms else None

    def from_earlier(self, ms: int) -> "LoadQuestion":
        """Return the same question with an earlier start: earlier by `ms`, rounded up to a multiple of the step."""
        return replace(self, since_ms=self.since_ms + -ms // self.step_ms * self.step_ms)


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """What the tables of the pipeline (the Spark jobs that record load) answer to a question: the `loads`, by the start
    of their step (epoch ms). Loads before `whole_since_ms` may be missing, because only a limited number is read at
    once. `note` is a remark for the person who asked, or "".
    """

    loads: Mapping[int, Sequence[BrokerLoad]]
    whole_since_ms: int
    note: str = ""


LoadTables: TypeAlias = Callable[[LoadQuestion], RecordedLoad]
"""Answers a question from tables; raises OSError if no table can be read. The call blocks, for some seconds at most."""


class LoadOverTime(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The loads of brokers from `since` (inclusive) to `until` (exclusive), epoch ms, in steps of `step` ms. If `step`
    is 0, the loads are those at the times when they were measured.

    `moments`, oldest first, omit steps of unknown load. From `whole_since` on (epoch ms) no recorded load is missing;
    before it, some may be. `note` says why loads are missing, or why there are no recorded tables.
    """

    since: int
    until: int
    step: int
    whole_since: int
    note: str
    moments: list[Moment]


def load_question(
    since_ms: int,
    until_ms: int,
    step_ms: int = 0,
    *,
    brokers: int = 1,
    broker: str = "",
    bundle: str = "",
) -> LoadQuestion:
    """Return the question for the time from `since_ms` to `until_ms`, extended to whole steps. `step_ms` 0: choose the
    shortest step for which the answer is not too long with this number of `brokers`. `broker` and `bundle`: ask only
    for this broker, or this bundle; "" for all.

    Raises:
        LoadQuestionError: the span is empty or too long, or steps are too short, too long or too many.
    """
    span_ms = until_ms - since_ms
    if not 0 < span_ms <= LONGEST_SPAN_MS or since_ms < 0 or until_ms > LATEST_TIME_MS:
        days = LONGEST_SPAN_MS // 86_400_000
        raise LoadQuestionError(f"The time from since to until must be more than 0 ms and at most {days} days")
    most = DEFAULT_STEPS if broker or bundle else max(1, min(DEFAULT_STEPS, MOST_FIGURES // max(1, brokers)))
    if not step_ms:
        step_ms = next((s * 1000 for s in _STEPS_S if span_ms <= (most - 1) * s * 1000), LONGEST_STEP_MS)
    if not SHORTEST_STEP_MS <= step_ms <= LONGEST_STEP_MS:
        raise LoadQuestionError(f"A step must be {SHORTEST_STEP_MS} to {LONGEST_STEP_MS} ms long, not {step_ms}")
    question = LoadQuestion(
        since_ms // step_ms * step_ms, -(-until_ms // step_ms) * step_ms, step_ms, broker=broker, bundle=bundle
    )
    if question.steps > MOST_STEPS:
        raise LoadQuestionError(f"At most {MOST_STEPS} steps are possible: ask for less time or for longer steps")
    return question


def in_steps(question: LoadQuestion, moments: Iterable[Moment]) -> dict[int, list[BrokerLoad]]:
    """Return the loads of each step, by the start of the step (epoch ms): one row for each broker, sorted by name.

    A load is a mean of moments, weighted by the time for which each of them is valid. If the next moment is at most
    COVERED_MS later, a moment is valid until then, also in later steps. Otherwise it is valid for COVERED_MS, only
    within its own step. The last moment is valid for no time: it counts only in a step that has no other moment of its
    broker.
    """
    parts: dict[int, dict[str, list[tuple[int, BrokerLoad]]]] = defaultdict(lambda: defaultdict(list))
    ordered = sorted(moments, key=lambda moment: moment.at)
    for moment, until_ms in zip_longest(ordered, [following.at for following in ordered[1:]]):
        for begin, weight_ms in _steps_held(question.step_ms, moment.at, until_ms):
            if question.begin_of(begin) is not None:
                for load in moment.brokers:
                    if not question.broker or load.broker == question.broker:
                        parts[begin][load.broker].append((weight_ms, load))
    return {begin: [_mean(rows) for _, rows in sorted(brokers.items())] for begin, brokers in parts.items()}


def _steps_held(step_ms: int, at_ms: int, until_ms: int | None) -> Iterator[tuple[int, int]]:
    """Yield each step in which the loads of one moment are valid: the start of the step, and for how many ms of it they
    are valid. The step that contains the moment comes first.

    `until_ms` is the time of the next moment; None: this is the last one.
    """
    own = at_ms // step_ms * step_ms
    if until_ms is None:
        yield own, 0
    elif until_ms - at_ms > COVERED_MS:
        yield own, min(COVERED_MS, own + step_ms - at_ms)
    else:
        yield own, min(until_ms, own + step_ms) - at_ms
        for begin in range(own + step_ms, until_ms, step_ms):
            yield begin, min(until_ms, begin + step_ms) - begin


def untold(question: LoadQuestion, times_ms: Sequence[int]) -> LoadQuestion | None:
    """Return the question for those steps that must be read from the recorded tables, because the moments in memory do
    not cover them: `question`, shortened by the covered steps at its start and at its end. `times_ms` are the times of
    the moments in memory, oldest first. None: they cover all steps.
    """
    step_ms = question.step_ms
    whole = _covered(step_ms, times_ms)
    left = [begin for begin in range(question.since_ms, question.until_ms, step_ms) if begin not in whole]
    return replace(question, since_ms=left[0], until_ms=left[-1] + step_ms) if left else None


def _covered(step_ms: int, times_ms: Sequence[int]) -> set[int]:
    """Return the starts of the steps that moments at these times, oldest first, cover completely.

    A step is covered if there is no gap of more than COVERED_MS between moments, from its start to its end or to the
    last moment. So one moment covers a short step, but a few moments do not cover a step of an hour.
    """
    covered: set[int] = set()
    first = None
    for at, following in zip_longest(times_ms, times_ms[1:]):
        first = at if first is None else first
        if following is not None and following - at <= COVERED_MS:
            continue
        since = max(first // step_ms, -(-(first - COVERED_MS) // step_ms))
        until = at // step_ms + 1
        if following is not None:
            until = min(until, (at + COVERED_MS) // step_ms)
        covered.update(step * step_ms for step in range(since, until))
        first = None
    return covered


def over_time(
    question: LoadQuestion, remembered: Iterable[Moment], recorded: RecordedLoad | None, *, holds_ms: int
) -> LoadOverTime:
    """Return the answer to a question: the loads in memory (`remembered`), and for the steps that these do not cover,
    the loads of the tables (`recorded`; None: the tables were not read).

    A load of a broker is valid until the broker's next load, but at most for `holds_ms`; so loads from up to `holds_ms`
    before the question count as well. The load of a bundle is taken from the tables as it is, because they already know
    how long each report of the bundle is valid, and which broker has the bundle next. If there are more than
    MOST_FIGURES rows, the oldest are dropped.
    """
    if question.bundle:
        holds_ms = 0
    earlier = question.from_earlier(holds_ms)
    ordered = sorted(remembered, key=lambda moment: moment.at)
    known: dict[int, Sequence[BrokerLoad]] = {**in_steps(earlier, ordered)}
    whole = _covered(question.step_ms, [moment.at for moment in ordered])
    for begin, loads in ({} if recorded is None else recorded.loads).items():
        if earlier.begin_of(begin) == begin and not (begin in known and begin in whole):
            known[begin] = loads
    whole_since = question.since_ms if recorded is None else max(question.since_ms, recorded.whole_since_ms)
    note, moments, room = "" if recorded is None else recorded.note, list[Moment](), MOST_FIGURES
    for begin, loads in reversed(_held(known, question.step_ms, holds_ms)):
        if begin < question.since_ms:
            break
        room -= len(loads)
        if room < 0 and moments:
            whole_since, note = (
                max(whole_since, begin + question.step_ms),
                note or "There are more loads than fit into one answer; the oldest are missing.",
            )
            break
        moments.append(Moment(begin, tuple(loads)))
    return LoadOverTime(
        since=question.since_ms,
        until=question.until_ms,
        step=question.step_ms,
        whole_since=whole_since,
        note=note,
        moments=moments[::-1],
    )


def _held(known: Mapping[int, Sequence[BrokerLoad]], step_ms: int, holds_ms: int) -> list[tuple[int, list[BrokerLoad]]]:
    """Return the steps in which any broker has a load, oldest first, each with the loads of its brokers. `known` are
    the loads by the start of their step. Between two steps with a load of a broker, the earlier load is valid, if they
    are at most `holds_ms` apart.
    """
    steps: dict[int, dict[str, BrokerLoad]] = defaultdict(dict)
    last: dict[str, tuple[int, BrokerLoad]] = {}
    for begin in sorted(known):
        for load in known[begin]:
            before, held = last.get(load.broker, (begin, load))
            if begin - before <= holds_ms:
                for between in range(before + step_ms, begin, step_ms):
                    steps[between][load.broker] = held
            steps[begin][load.broker] = load
            last[load.broker] = begin, load
    return [(begin, [steps[begin][broker] for broker in sorted(steps[begin])]) for begin in sorted(steps)]


def _mean(rows: Sequence[tuple[int, BrokerLoad]]) -> BrokerLoad:
    return BrokerLoad(
        rows[0][1].broker,
        _mean_of([(weight, row.usage) for weight, row in rows], 1),
        _mean_of([(weight, row.msg_rate) for weight, row in rows], 2),
        _mean_of([(weight, row.msg_throughput) for weight, row in rows], 1),
        max((row.bundles for _, row in rows if row.bundles is not None), default=None),
    )


def _mean_of(values: Sequence[tuple[int, float | None]], digits: int) -> float | None:
    """Return the mean of the known values, weighted by the first item of each pair; their plain mean if all weights are
    0. None: no value is known.
    """
    known = [(weight, value) for weight, value in values if value is not None]
    if not known:
        return None
    total = sum(weight for weight, _ in known)
    if not total:
        return round(math.fsum(value for _, value in known) / len(known), digits)
    return round(math.fsum(weight * value for weight, value in known) / total, digits)
