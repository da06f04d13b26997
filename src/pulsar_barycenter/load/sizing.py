"""How many brokers a load needs, now and in each hour of the week. Pure.

Loads are in brokers: 2.5 is what two and a half brokers can carry without any head-room, in the resource that the load
needs most, without what a broker uses when it is idle. `head_room` is the fraction of a broker that stays free: with
0.3 a broker is full at 70 %. The load counts as evenly divided, which balancing has to achieve.

Worked example: load 2.5, idle 0.05, head-room 0.3: ceil(2.5 / (1 - 0.3 - 0.05)) = 4 brokers.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

HOURS: Final = 168
"""The hours of a week; hour 0 begins on Monday at 0:00 UTC."""
_HOUR_MS: Final = 3_600_000
_MONDAY_MS: Final = 4 * 24 * _HOUR_MS
"""The first Monday after the epoch, which was a Thursday."""
_METRIC: Final = "barycenter_balance_brokers_needed"


class SizingRule(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The rule that computes the number of brokers from a load. `head_room` (left free) and `idle` (used without any
    load) are fractions of a broker. `spare` brokers are added, so that the cluster can lose that number of brokers
    without harm.

    Raises:
        ValueError: a broker would be full when it is idle, or a value is out of its range.
    """

    head_room: float = 0.3
    idle: float = 0.0
    spare: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.head_room < 1 or not self.idle >= 0 or self.spare < 0:
            raise ValueError(
                f"head-room {self.head_room}, idle {self.idle}, spare {self.spare}:"
                " give fractions from 0 to 1 for head-room and idle, and 0 or more for spare"
            )
        if self.usable <= 0:
            raise ValueError(
                f"an idle broker uses {self.idle:.0%}, and a head-room of {self.head_room:.0%} leaves nothing for load;"
                " give a smaller head-room"
            )

    @property
    def usable(self) -> float:
        """How much load a broker may carry by this rule, as a fraction of the capacity of a broker."""
        return 1 - self.head_room - self.idle

    def needed(self, load: float) -> int:
        """Return the number of brokers that a load needs, at least 1, the spare ones included."""
        return max(1, math.ceil(load / self.usable - 1e-9)) + self.spare


class Week(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The number of brokers that each hour of the week needs, by the hour's greatest load; None for an hour without
    data.
    """

    needed: list[int | None]

    def at(self, at_ms: int) -> int | None:
        """Return the number of brokers that the hour of the week needs which contains the time `at_ms` (epoch ms); None
        without data.
        """
        return self.needed[hour_of_week(at_ms)]

    def saved_hours(self, brokers: int) -> int:
        """Return the broker-hours that a week saves if the cluster always has only the needed number of brokers,
        compared with `brokers` all the time. Negative: `brokers` are too few. Hours without data save nothing.
        """
        return sum(brokers - count for count in self.needed if count is not None)


def hour_of_week(at_ms: int) -> int:
    """Return the hour of the week (0 to 167, in UTC, 0 is Monday 00) that contains the time `at_ms` (epoch ms)."""
    return (at_ms - _MONDAY_MS) // _HOUR_MS % HOURS


def hour_name(hour: int) -> str:
    """Return an hour of the week as text, like `Mon 08`."""
    return datetime.fromtimestamp((_MONDAY_MS + hour * _HOUR_MS) / 1000, UTC).strftime("%a %H")


def week_of(loads: Iterable[tuple[int, float]], rule: SizingRule) -> Week:
    """Return how many brokers each hour of the week needs. `loads` are pairs of a time (epoch ms) and the load then, in
    any order.
    """
    greatest: dict[int, float] = {}
    for at_ms, load in loads:
        hour = hour_of_week(at_ms)
        greatest[hour] = max(greatest.get(hour, 0.0), load)
    return Week(needed=[rule.needed(greatest[hour]) if hour in greatest else None for hour in range(HOURS)])


def load_of(usages: Mapping[str, float], idle: float) -> float:
    """Return the load of a cluster from the usages of its brokers (fractions)."""
    return sum(max(0.0, usage - idle) for usage in usages.values())


def to_drain(usages: Mapping[str, float], wanted: int) -> list[str]:
    """Return the brokers to drain so that `wanted` brokers are left: the emptiest brokers first; of equally empty ones
    the smaller name first.
    """
    emptiest = sorted(usages, key=lambda broker: (usages[broker], broker))
    return emptiest[: max(0, len(usages) - max(1, wanted))]


def metric(load: float, rule: SizingRule, week: Week, now_ms: int) -> str:
    """Return in Prometheus's text format how many brokers the cluster needs now, and how many in an hour, for an
    autoscaler.

    KEDA's Prometheus scaler can use these metrics with the threshold 1. The number for an hour ahead is at least the
    present number; an hour without data needs the present number.
    """
    now = rule.needed(load)
    later = max(now, week.at(now_ms + _HOUR_MS) or 0, week.at(now_ms) or 0)
    return (
        f"# HELP {_METRIC} Brokers that the load needs at the head-room.\n# TYPE {_METRIC} gauge\n"
        f'{_METRIC}{{when="now"}} {now}\n{_METRIC}{{when="next_hour"}} {later}\n'
    )
