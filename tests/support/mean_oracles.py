"""Means weighted by time, computed slowly: for each tick, the report that is valid at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Sample:
    """A report of `thing` by `broker` at a whole tick."""

    thing: str
    broker: str
    at: int
    value: float


def value_at(samples: Sequence[Sample], reports: Mapping[str, Sequence[int]], tick: int, longest: int) -> float | None:
    """Return the value of the newest report by then, None if it is no longer valid. Of reports of one tick the
    broker with the greater name comes last."""
    before = [each for each in samples if each.at <= tick]
    if not before:
        return None
    newest = max(before, key=lambda each: (each.at, each.broker))
    replaced = any(newest.at < at <= tick for at in reports.get(newest.broker, ()))
    return None if replaced or tick - newest.at >= longest else newest.value


def mean_and_ticks(
    samples: Sequence[Sample], reports: Mapping[str, Sequence[int]], since: int, until: int, longest: int
) -> tuple[float | None, int]:
    """Return the mean over the ticks of [since, until) with a valid report, and the number of these ticks."""
    found = [value_at(samples, reports, tick, longest) for tick in range(since, until)]
    known = [Fraction(each) for each in found if each is not None]
    return (float(sum(known) / len(known)) if known else None), len(known)
