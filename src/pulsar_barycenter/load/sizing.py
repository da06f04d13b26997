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
    """The rule that computes the number of brokers for a load. `head_room` is the part of each broker that must stay
    free, `idle` the part that a broker uses without any load; both are fractions of a broker. `spare` brokers are added
    to the result, so that the load still fits when that number of brokers fails.

    Raises:
        ValueError: head-room and idle usage leave nothing of a broker for load, or a value is out of its range.
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
        """How much load each broker may have by this rule, as a fraction of a broker's capacity."""
        return 1 - self.head_room - self.idle

    def needed(self, load: float) -> int:
        """Return the number of brokers that `load` (in brokers: 1.0 is one broker that is full) needs: at least 1, plus
        the spare brokers.
        """
        return max(1, math.ceil(load / self.usable - 1e-9)) + self.spare


class Week(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How many brokers are needed in each hour of the week (Monday 00 UTC first), by the greatest load of that hour;
    None for an hour without data.
    """

    needed: list[int | None]

    def at(self, at_ms: int) -> int | None:
        """Return how many brokers are needed in the hour of the week that contains the time `at_ms` (epoch ms). None:
        there are no data for this hour.
        """
        return self.needed[hour_of_week(at_ms)]

    def saved_hours(self, brokers: int) -> int:
        """Return how many broker-hours a week saves if the cluster has in each hour the number of brokers that this
        hour needs, compared with always having `brokers`. Negative: `brokers` are too few. Hours without data count as
        0.
        """
        return sum(brokers - count for count in self.needed if count is not None)


def hour_of_week(at_ms: int) -> int:
    """Return the hour of the week (0 to 167, in UTC, 0 is Monday 00) that contains the time `at_ms` (epoch ms)."""
    return (at_ms - _MONDAY_MS) // _HOUR_MS % HOURS


def hour_name(hour: int) -> str:
    """Return an hour of the week as text, like `Mon 08`."""
    return datetime.fromtimestamp((_MONDAY_MS + hour * _HOUR_MS) / 1000, UTC).strftime("%a %H")


def week_of(loads: Iterable[tuple[int, float]], rule: SizingRule) -> Week:
    """Return how many brokers are needed in each hour of the week. `loads` are pairs, in any order: a time (epoch ms),
    and the load of the cluster at that time.
    """
    greatest: dict[int, float] = {}
    for at_ms, load in loads:
        hour = hour_of_week(at_ms)
        greatest[hour] = max(greatest.get(hour, 0.0), load)
    return Week(needed=[rule.needed(greatest[hour]) if hour in greatest else None for hour in range(HOURS)])


def load_of(usages: Mapping[str, float], idle: float) -> float:
    """Return the load of a cluster in brokers (1.0 is one full broker): the sum of the usages of its brokers
    (fractions), each without the part `idle` that a broker uses without load.
    """
    return sum(max(0.0, usage - idle) for usage in usages.values())


def to_drain(usages: Mapping[str, float], wanted: int) -> list[str]:
    """Return the brokers to drain so that `wanted` brokers are left, at least one: those with the lowest usage, lowest
    first; of equal usages the smaller name first. Empty if there are not more than `wanted` brokers.
    """
    emptiest = sorted(usages, key=lambda broker: (usages[broker], broker))
    return emptiest[: max(0, len(usages) - max(1, wanted))]


def metric(load: float, rule: SizingRule, week: Week, now_ms: int) -> str:
    """Return metrics for an autoscaler, in Prometheus's text format: how many brokers the cluster needs now, and how
    many in an hour.

    KEDA's Prometheus scaler can use them with the threshold 1. The second number is the largest of three: the first
    number, and what the present hour and the next hour of `week` need. An hour without data is left out.
    """
    now = rule.needed(load)
    later = max(now, week.at(now_ms + _HOUR_MS) or 0, week.at(now_ms) or 0)
    return (
        f"# HELP {_METRIC} Brokers that the load needs at the head-room.\n# TYPE {_METRIC} gauge\n"
        f'{_METRIC}{{when="now"}} {now}\n{_METRIC}{{when="next_hour"}} {later}\n'
    )
