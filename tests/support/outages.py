"""Outages of a whole cluster: rounds in which one, two or all brokers are killed or stopped, drawn from a seed.

The time from the last fault until a bundle is served again is measured twice: with a client that tries constantly,
and with the stock client, which tries less often the longer no broker served it.
"""

import enum
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from support.fault_schedule import percentile

BROKERS: Final = 3
_LASTS: Final = ((0.05, 0.7), (1.1, 2.5))
"""In session timeouts: what a session outlives, and what outlives a session."""
_PAUSES: Final = (0.0, 1.5)
"""In session timeouts, between two rounds."""


class Deed(enum.Enum):
    """The fault of a broker; the value is its name in a schedule."""

    KILL = "kill"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Round:
    """`deeds` maps the index of a broker to its fault; all come back after `for_sessions` session timeouts, and the
    next round begins `pause_sessions` later."""

    deeds: tuple[tuple[int, Deed], ...]
    for_sessions: float
    pause_sessions: float

    def __str__(self) -> str:
        what = ", ".join(f"{deed.value} {index}" for index, deed in self.deeds)
        return f"{what} for {self.for_sessions:g} sessions, then {self.pause_sessions:g} of peace"


@dataclass(frozen=True, slots=True)
class Outage:
    """Rounds that follow each other whether or not clients succeeded in between."""

    rounds: tuple[Round, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.rounds))


def drawn_outages(seed: int, rounds: int) -> list[Outage]:
    """Draw outages of one to four rounds, `rounds` in all; two of three rounds are of all brokers."""
    source = random.Random(seed)
    outages, left = [], rounds
    while left > 0:
        count = min(left, source.randint(1, 4))
        left -= count
        outages.append(Outage(tuple(_round(source) for _ in range(count))))
    return outages


def _round(source: random.Random) -> Round:
    count = source.choice((1, 2, BROKERS, BROKERS, BROKERS, BROKERS))
    brokers = sorted(source.sample(range(BROKERS), count))
    one = source.choice((Deed.KILL, Deed.STOP, None))
    deeds = tuple((index, one or source.choice((Deed.KILL, Deed.STOP))) for index in brokers)
    return Round(deeds, round(source.uniform(*source.choice(_LASTS)), 2), round(source.uniform(*_PAUSES), 2))


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from the last fault of an outage until all brokers were ready, until a client that tries constantly
    was served in every bundle, and until every producer of the stock client succeeded."""

    outage: Outage
    ready_s: float
    served_s: float
    through_s: float

    def __str__(self) -> str:
        times = f"ready {self.ready_s:.1f} s, served {self.served_s:.1f} s, through {self.through_s:.1f} s"
        return f"{times} after: {self.outage}"


def recovery_row(name: str, recoveries: Iterable[Recovery]) -> str:
    """Return a row of values: outages, rounds, and the median and the longest of each time."""
    found = list(recoveries)
    columns = [[each.ready_s for each in found], [each.served_s for each in found], [each.through_s for each in found]]
    times = " | ".join(f"{percentile(times, 50):.1f} | {max(times):.1f}" for times in columns)
    return f"| {name} | {len(found)} | {sum(len(each.outage.rounds) for each in found)} | {times} |"
