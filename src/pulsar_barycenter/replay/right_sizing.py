"""How many brokers a recorded load needs over the week, and what following that would have cost, next to a CPU rule.

Both rules are replayed over the last part of the history, which the plan has not seen. A new broker serves `START_MS`
after it was asked for; a broker is given back at once, since `drain` moves its bundles before it ends.

- The plan: what this hour and the hour in which a new broker would serve need by the earlier part of the history, or
  what the load needs now, if that is more.
- The CPU rule: more brokers as soon as the mean usage is above 70 %, as many as bring it to 70 %; fewer if that was
  enough for the last 5 minutes. This is the rule of Kubernetes' autoscaler with its defaults.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.sizing import SizingRule, Week, hour_of_week, week_of
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.capacity import KBIT, Capacity, CapacityModel
from pulsar_barycenter.replay.demand import FIGURES, Demand

CPU_RULE: Final = 0.7
START_MS: Final = 180_000
_CALM_MS: Final = 300_000
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000


class Followed(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What would have happened if the number of brokers had always been the one that a rule wants. `minutes_above` is
    for how many minutes the mean usage was above the limit that leaves the required head-room. `added` and `drained`
    are the numbers of brokers that were added and removed.
    """

    broker_hours: float
    minutes_above: float
    added: int
    drained: int


class RightSizing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How many brokers the hours of a week need. `today` is the present number of brokers. `saved` is how many
    broker-hours a week would take less if each hour had only the brokers that it needs, instead of `today` brokers.
    `least` and `most` are the smallest and the greatest need of an hour.

    Three replays over the last `hours` hours of the history follow, each with another number of brokers over time:
    `plan` has in each hour the brokers that the week needs, `cpu_rule` adds and removes brokers by a threshold of the
    measured CPU, `fixed` always has `today` brokers. None: the history is shorter than two days.
    """

    rule: SizingRule
    today: int
    least: int
    most: int
    saved: int
    hours_known: int
    week: Week
    hours: float = 0.0
    plan: Followed | None = None
    cpu_rule: Followed | None = None
    fixed: Followed | None = None


def loads_over_time(demand: Demand, model: CapacityModel, brokers: Sequence[Capacity]) -> tuple[Floats, float]:
    """Return two results: the load of all brokers at each step, in numbers of average brokers that it fills, and the
    usage of an idle average broker (a fraction).

    `brokers` must not be empty.
    """
    cores = sum(each.cores for each in brokers) / len(brokers)
    network = sum(each.network_kbits for each in brokers) / len(brokers)
    rate_in, rate_out, bytes_in, bytes_out = (np.asarray(getattr(demand, name).sum(axis=1), float) for name in FIGURES)
    cpu = model.cpu_per_message * (rate_in + rate_out) + model.cpu_per_byte * (bytes_in + bytes_out)
    needs = np.array([cpu / (cores * 100), bytes_in / KBIT / network, bytes_out / KBIT / network])
    return needs.max(axis=0), model.idle_cpu / (cores * 100)


def right_sizing(start_ms: int, step_ms: int, loads: Sequence[float], rule: SizingRule, today: int) -> RightSizing:
    """Return how many brokers the hours of a week need, and replays of the rules that choose the number of brokers.
    `loads` has the load at each step, in numbers of brokers that it fills; `today` is the present number of brokers.

    The replays are over the last week if `loads` span two weeks or more; else over the last day if they span two days
    or more; else there are none.
    """
    times = [start_ms + row * step_ms for row in range(len(loads))]
    week = week_of(zip(times, loads, strict=True), rule)
    known = [count for count in week.needed if count is not None]
    found = RightSizing(
        rule=rule,
        today=today,
        least=min(known),
        most=max(known),
        saved=week.saved_hours(today),
        hours_known=len(known),
        week=week,
    )
    whole_ms = len(loads) * step_ms
    if whole_ms < 2 * _DAY_MS:
        return found
    part_ms = 7 * _DAY_MS if whole_ms >= 14 * _DAY_MS else _DAY_MS
    first = len(loads) - part_ms // step_ms
    plan = _planned(list(zip(times[:first], loads[:first], strict=True)), rule, part_ms)
    late = times[first:], loads[first:]
    return msgspec.structs.replace(
        found,
        hours=part_ms / _HOUR_MS,
        plan=_follow(*late, step_ms, rule, today, _by_plan(plan, rule, _lead_ms(step_ms))),
        cpu_rule=_follow(*late, step_ms, rule, today, _ByCpu(rule, step_ms)),
        fixed=_follow(*late, step_ms, rule, today, lambda _at_ms, _load, _brokers: today),
    )


def _planned(before: list[tuple[int, float]], rule: SizingRule, part_ms: int) -> Callable[[int], int]:
    """Return a function that returns the planned number of brokers for a time (epoch ms), from the loads `before` the
    replay. If the replay is over a week (`part_ms`), the plan has a number for each hour of the week, else for each
    hour of the day. 0: nothing is known about that hour.
    """
    if part_ms > _DAY_MS:
        week = week_of(before, rule)
        return lambda at_ms: week.at(at_ms) or 0
    greatest: dict[int, float] = {}
    for at_ms, load in before:
        hour = hour_of_week(at_ms) % 24
        greatest[hour] = max(greatest.get(hour, 0.0), load)
    needed = {hour: rule.needed(load) for hour, load in greatest.items()}
    return lambda at_ms: needed.get(hour_of_week(at_ms) % 24, 0)


_Wanting = Callable[[int, float, int], int]
"""Returns the wanted number of brokers; the arguments are the time (epoch ms), the load, and the present number."""


def _lead_ms(step_ms: int) -> int:
    """Return the time in ms from the decision to add a broker until the broker serves, rounded up to whole steps."""
    return -(-START_MS // step_ms) * step_ms


def _by_plan(plan: Callable[[int], int], rule: SizingRule, lead_ms: int) -> _Wanting:
    return lambda at_ms, load, _brokers: max(plan(at_ms), plan(at_ms + lead_ms), rule.needed(load))


class _ByCpu:
    def __init__(self, rule: SizingRule, step_ms: int) -> None:
        self._idle = rule.idle
        self._kept = max(1, -(-_CALM_MS // step_ms))
        self._recent: list[int] = []

    def __call__(self, _at_ms: int, load: float, brokers: int) -> int:
        usage = load / brokers + self._idle
        self._recent = [*self._recent, max(1, math.ceil(brokers * usage / CPU_RULE - 1e-9))][-self._kept :]
        return max(self._recent)


def _follow(
    times: Sequence[int], loads: Sequence[float], step_ms: int, rule: SizingRule, today: int, wanting: _Wanting
) -> Followed:
    delay = _lead_ms(step_ms) // step_ms
    serving, asked = today, [(0, today)]
    hours, minutes, added, drained = 0.0, 0.0, 0, 0
    for row, (at_ms, load) in enumerate(zip(times, loads, strict=True)):
        due = [count for when, count in asked if when <= row]
        serving = due[-1] if due else serving
        asked = [each for each in asked if each[0] > row]
        wanted = wanting(at_ms, load, serving)
        coming = asked[-1][1] if asked else serving
        if wanted > coming:
            added += wanted - coming
            asked.append((row + delay, wanted))
        elif wanted < serving and not asked:
            drained += serving - wanted
            serving = wanted
        hours += max(serving, asked[-1][1] if asked else 0) * step_ms / _HOUR_MS
        minutes += (load / serving > rule.usable + 1e-9) * step_ms / 60_000
    return Followed(broker_hours=hours, minutes_above=minutes, added=added, drained=drained)
