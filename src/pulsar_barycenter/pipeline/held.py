"""For how long each load report is valid ("holds"), and means that are weighted by this time: docs/measures.md,
"Weighted by time". Pure.

A report holds from its own time until the earliest of these: the next report of its broker, the next report of the same
thing by any broker, LONGEST_HELD after it, the end of the period. A mean leaves out times for which no report holds;
they count as not covered, not as zero. Times are µs.

Example with a period of 0 to 100 s: broker a reports a bundle with 3,000 msg/s at 0 s, broker b reports it with 1,000
msg/s at 90 s. The first report holds for 90 s, the second for 10 s. The mean is 2,800 msg/s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

LONGEST_HELD: Final = timedelta(minutes=16)
"""A broker with steady load reports at its first check after `loadBalancerReportUpdateMaxIntervalMinutes` (15 by
default)."""

Times: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Held:
    """The time in which each report is valid ("holds"), from `since`, inclusive, to `until`, exclusive. Both are arrays
    with one item per report, in epoch µs. A report with `until` not later than `since` is never valid.
    """

    since: Times
    until: Times

    @property
    def seconds(self) -> Floats:
        seconds: Floats = np.maximum(self.until - self.since, 0) / 1e6
        return seconds


def held(things: Indices, brokers: Indices, at: Times, reports: Mapping[int, Times], since: int, until: int) -> Held:
    """Return for each row the time in which its report is valid ("holds"), that is, in which the report gives the load
    of the thing (a bundle or a broker). The rule is in the docstring of the module.

    `things` and `brokers` have a number for each row, which identifies the reported thing and the reporting broker;
    `at` has its time. Rows are sorted by thing, then by time. `reports` has the sorted times of all reports of each
    broker, by its number. Times are epoch µs. Validity is limited to `since`, inclusive, to `until`, exclusive.
    """
    end = np.full(len(at), _NEVER)
    if len(at) > 1:
        same = things[1:] == things[:-1]
        end[:-1] = np.where(same, at[1:], _NEVER)
    for broker in np.unique(brokers):
        mine = np.flatnonzero(brokers == broker)
        times = np.append(reports.get(int(broker), np.empty(0, np.int64)), _NEVER)
        end[mine] = np.minimum(end[mine], times[np.searchsorted(times[:-1], at[mine], side="right")])
    longest = round(LONGEST_HELD.total_seconds() * 1e6)
    end = np.minimum(np.minimum(end, at + longest), until)
    return Held(np.maximum(at, since), end)


def weighted_means(groups: Indices, count: int, weights: Floats, values: Floats) -> Floats:
    """Return the weighted mean of each of `count` groups; `groups` has the group of each row.

    A group whose weights are all 0 gets the plain mean, a group without rows NaN.
    """
    total = np.bincount(groups, weights, count)
    rows = np.bincount(groups, minlength=count)
    weighted = np.bincount(groups, weights * values, count)
    plain = np.bincount(groups, values, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, weighted / total, plain / rows)


def in_intervals(found: Held, width: int) -> tuple[Indices, Indices, Floats]:
    """Divide the time in which each report is valid at all whole multiples of `width` µs.

    Return three arrays with one item for each piece: the index of its report in `found`, the begin of the interval of
    `width` µs that contains the piece (epoch µs), and the length of the piece in seconds.
    """
    first = found.since // width
    last = (np.maximum(found.until, found.since + 1) - 1) // width
    counts = last - first + 1
    rows = np.repeat(np.arange(len(first)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = (first[rows] + place) * width
    seconds = np.minimum(found.until[rows], starts + width) - np.maximum(found.since[rows], starts)
    return rows, starts, np.maximum(seconds, 0) / 1e6
