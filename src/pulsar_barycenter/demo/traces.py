"""Rates of topics over time: read from CSV files, or a stated synthetic mix."""

import csv
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median


class TraceError(ValueError):
    """A trace file is not of the form `timestamp,value`; the text names the file and the line."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events counted in steps of equal length: `values[i]` events happened in step i, which lasts `step_s`."""

    name: str
    step_s: float
    values: tuple[float, ...]

    def rate_at(self, at_s: float) -> float:
        """Return the events per second of trace time at `at_s` from its start; a trace repeats itself."""
        return self.values[int(at_s / self.step_s) % len(self.values)] / self.step_s

    @property
    def length_s(self) -> float:
        return self.step_s * len(self.values)


def read_trace(path: Path) -> Trace:
    """Read a CSV file with the columns `timestamp,value`; the step is the usual distance of its timestamps.

    Raises:
        TraceError: a column is missing, a value is no number or negative, or there are fewer than two rows.
    """
    times: list[datetime] = []
    values: list[float] = []
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is None or not {"timestamp", "value"} <= set(rows.fieldnames):
            raise TraceError(f"{path}: line 1 must name the columns timestamp and value")
        for row in rows:
            try:
                times.append(datetime.fromisoformat(row["timestamp"]))
                value = float(row["value"])
            except (TypeError, ValueError) as error:
                raise TraceError(f"{path}: line {rows.line_num}: {error}") from error
            if not (value >= 0 and math.isfinite(value)):
                raise TraceError(f"{path}: line {rows.line_num}: a count is a number of 0 or more, not {value:g}")
            values.append(value)
    if len(values) < 2:
        raise TraceError(f"{path}: a trace needs two rows or more")
    step_s = median((later - earlier).total_seconds() for earlier, later in pairwise(times))
    if step_s <= 0:
        raise TraceError(f"{path}: the timestamps must grow")
    return Trace(path.stem, step_s, tuple(values))


SYNTHETIC_TOPICS = 12
_STEP_S = 300.0
_STEPS_OF_A_DAY = 288
_BUSIEST_PER_STEP = 120.0
_BURST_CHANCE = 0.01
_BURST_FACTOR = 6.0


def synthetic_traces(seed: int, *, topics: int = SYNTHETIC_TOPICS, days: int = 2) -> list[Trace]:
    """Make a mix as busy clusters see it: skewed, with a daily swing and bursts.

    Topic k (from 1) has 1/k of the busiest topic's mean of 120 events in 5 minutes (Zipf's law), swings by
    ±60 % over the day with a phase of its own, and bursts to six times its rate in one of a hundred steps.
    """
    chance = random.Random(seed)
    return [_synthetic_trace(rank, chance, days) for rank in range(1, topics + 1)]


def _synthetic_trace(rank: int, chance: random.Random, days: int) -> Trace:
    phase = chance.random() * 2 * math.pi
    values = []
    for step in range(days * _STEPS_OF_A_DAY):
        swing = 1 + 0.6 * math.sin(2 * math.pi * step / _STEPS_OF_A_DAY + phase)
        burst = _BURST_FACTOR if chance.random() < _BURST_CHANCE else 1.0
        values.append(_BUSIEST_PER_STEP / rank * swing * burst * chance.uniform(0.8, 1.2))
    return Trace(f"synthetic-{rank:02d}", _STEP_S, tuple(values))


def unique_names(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Return `traces` if their names differ, since each names a topic.

    Raises:
        TraceError: two files have the same name.
    """
    names = [trace.name for trace in traces]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise TraceError(f"two traces are named {doubled[0]}; each trace is a topic of its own name")
    return traces
