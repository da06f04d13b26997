"""Traces: the number of events in each time step, read from CSV files with the columns `timestamp,value`.

This module does not use NumPy, because the demo's client processes use it, too.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

from pulsar_barycenter.replay.errors import ReplayInputError

_NO_COLUMNS = "line 1 must name the columns timestamp and value"


@dataclass(frozen=True, slots=True)
class Trace:
    """A count of events over time, recorded or generated: `values[i]` is the number of events in the step from
    `start_ms + i * step_ms` (epoch ms), inclusive, to the begin of the next step, exclusive.
    """

    name: str
    start_ms: int
    step_ms: int
    values: tuple[float, ...]

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.step_ms * len(self.values)

    @property
    def step_s(self) -> float:
        return self.step_ms / 1000

    @property
    def length_s(self) -> float:
        return self.step_s * len(self.values)

    def rate_at(self, at_s: float) -> float:
        """Return the events per second at `at_s` seconds after the start of the trace. After its end, the trace begins
        again.
        """
        return self.values[int(at_s / self.step_s) % len(self.values)] / self.step_s


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    timestamp: str
    at_ms: int
    value: float


def read_trace(name: str, lines: Iterable[str]) -> Trace:
    """Return the trace in the lines of a CSV file with the columns timestamp and value. A timestamp without an offset
    is UTC. `name` is the name of the trace, which messages show.

    Raises:
        ReplayInputError: a column, a timestamp or a value is wrong, or timestamps are not in order and equally far
            apart.
    """
    times: list[int] = []
    values: list[float] = []
    for row in _rows(name, lines):
        times.append(row.at_ms)
        values.append(row.value)
        if len(times) > 1 and times[-1] <= times[-2]:
            raise ReplayInputError(
                f"{row.where}: {row.timestamp} is not after the time of the row before; sort the rows by time"
            )
        if len(times) > 2 and times[-1] - times[-2] != times[1] - times[0]:
            apart, usual = (times[-1] - times[-2]) / 1000, (times[1] - times[0]) / 1000
            raise ReplayInputError(
                f"{row.where}: {apart:g} s after the row before, but rows are {usual:g} s apart; fill the gap, or"
                " choose a part of the file that has no gap"
            )
    _check_length(name, times)
    return Trace(name, times[0], times[1] - times[0], tuple(values))


def read_trace_with_gaps(name: str, lines: Iterable[str]) -> Trace:
    """Return the trace in the lines of a CSV file whose timestamps may be unequally far apart.

    The step of the trace is the median of the differences between consecutive timestamps. Each value takes one step, so
    gaps in the file are left out.

    Raises:
        ReplayInputError: a column, a timestamp or a value is wrong, or that median is not positive.
    """
    rows = list(_rows(name, lines))
    times = [row.at_ms for row in rows]
    _check_length(name, times)
    step_ms = round(median(later - earlier for earlier, later in pairwise(times)))
    if step_ms <= 0:
        raise ReplayInputError(f"{name}: the timestamps must increase")
    return Trace(name, times[0], step_ms, tuple(row.value for row in rows))


def _rows(name: str, lines: Iterable[str]) -> Iterator[_Row]:
    rows = csv.DictReader(lines)
    if rows.fieldnames is None or not {"timestamp", "value"} <= set(rows.fieldnames):
        raise ReplayInputError(f"{name}: {_NO_COLUMNS}")
    for row in rows:
        where = f"{name}: line {rows.line_num}"
        try:
            at, value = datetime.fromisoformat(row["timestamp"]), float(row["value"])
        except (TypeError, ValueError) as error:
            raise ReplayInputError(f"{where}: {error}") from error
        if not (value >= 0 and math.isfinite(value)):
            raise ReplayInputError(f"{where}: a count must be a number of at least 0, not {value:g}")
        at_ms = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        yield _Row(where, row["timestamp"], at_ms, value)


def _check_length(name: str, times: Sequence[int]) -> None:
    if len(times) < 2:
        raise ReplayInputError(f"{name}: a trace needs two rows or more")


def unique_names(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Check that no two traces have the same name, because the name of a trace becomes the name of a topic; return
    `traces`.

    Raises:
        ReplayInputError: two traces have the same name.
    """
    names = [trace.name for trace in traces]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ReplayInputError(
            f"two traces are named {doubled[0]}; each trace becomes a topic, so rename one of the two traces"
        )
    return traces
