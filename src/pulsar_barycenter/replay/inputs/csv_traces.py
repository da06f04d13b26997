"""Traces of one column: CSV of `timestamp,value`, each value a count of events in the step that its time begins.

Each trace drives some topics, which stand by their hashes in the bundles of one namespace.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.replay.demand import Demand, ReplayInputError, check
from pulsar_barycenter.replay.inputs.generated import broker_names, bundle_names

_NO_COLUMNS = "line 1 must name the columns timestamp and value"


@dataclass(frozen=True, slots=True)
class Trace:
    """`values[i]` events happened in the step that begins at `start_ms + i * step_ms`."""

    name: str
    start_ms: int
    step_ms: int
    values: Floats

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.step_ms * len(self.values)


def read_trace(name: str, lines: Iterable[str]) -> Trace:
    """Return the trace in the lines of a CSV file; a time without offset is UTC.

    Raises:
        ReplayInputError: a column, a time or a value is wrong, or times are not in order and equally far apart.
    """
    rows = csv.DictReader(lines)
    if rows.fieldnames is None or not {"timestamp", "value"} <= set(rows.fieldnames):
        raise ReplayInputError(f"{name}: {_NO_COLUMNS}")
    times: list[int] = []
    values: list[float] = []
    for row in rows:
        where = f"{name}: line {rows.line_num}"
        try:
            at, value = datetime.fromisoformat(row["timestamp"]), float(row["value"])
        except (TypeError, ValueError) as error:
            raise ReplayInputError(f"{where}: {error}") from error
        if not (value >= 0 and math.isfinite(value)):
            raise ReplayInputError(f"{where}: a count is a number of 0 or more, not {value:g}")
        times.append(round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
        values.append(value)
        if len(times) > 1 and times[-1] <= times[-2]:
            raise ReplayInputError(f"{where}: {row['timestamp']} is not after the time before; sort the rows by time")
        if len(times) > 2 and times[-1] - times[-2] != times[1] - times[0]:
            apart, usual = (times[-1] - times[-2]) / 1000, (times[1] - times[0]) / 1000
            raise ReplayInputError(
                f"{where}: {apart:g} s after the row before, where rows are {usual:g} s apart; fill the gap, or choose"
                " a part of the file without one"
            )
    if len(times) < 2:
        raise ReplayInputError(f"{name}: a trace needs two rows or more")
    return Trace(name, times[0], times[1] - times[0], np.array(values))


def demand_of(
    traces: Sequence[Trace],
    *,
    brokers: int = 5,
    bundles: int = 64,
    topics: int = 4,
    scale: float = 1.0,
    bytes_a_message: float = 1024.0,
    step_ms: int = 60_000,
    seed: int = 0,
) -> Demand:
    """Return the demand of all traces over the time that all of them cover, bundles drawn over the brokers.

    A trace of v events in a step of s seconds is v / s * `scale` msg/s, shared evenly by `topics` topics. Steps of the
    traces are cut into steps of `step_ms`, at which the rate stays.

    Raises:
        ReplayInputError: the traces have different steps, or no time in common, or cannot be cut so.
    """
    if not traces:
        raise ReplayInputError("there are no traces; give CSV files")
    step = traces[0].step_ms
    for trace in traces:
        if trace.step_ms != step:
            raise ReplayInputError(f"{trace.name} has steps of {trace.step_ms} ms, {traces[0].name} of {step} ms")
    start_ms, end_ms = max(each.start_ms for each in traces), min(each.end_ms for each in traces)
    count = (end_ms - start_ms) // step
    if count <= 0:
        raise ReplayInputError("the traces have no time in common; give those of one period")
    if step % step_ms:
        raise ReplayInputError(f"steps of {step} ms cannot be cut into steps of {step_ms} ms")
    columns = []
    for trace in traces:
        first = -(-(start_ms - trace.start_ms) // step)
        columns.append(trace.values[first : first + count] / (step / 1000) * scale / topics)
    steps = min(map(len, columns))
    rates = np.repeat(np.array([column[:steps] for column in columns]).T, step // step_ms, axis=0)
    names = bundle_names(bundles)
    space = Bundle.parse(names[0]).namespace
    hashes = [
        TopicName.of("persistent", space, f"{trace.name}-{number}").hash32
        for trace in traces
        for number in range(topics)
    ]
    lower = np.array([Bundle.parse(name).range.lower for name in names], np.int64)
    of = np.searchsorted(lower, np.array(hashes, np.int64), side="right") - 1
    per_topic = np.repeat(rates, topics, axis=1)
    draws = np.random.default_rng([seed, 1]).integers(0, brokers, len(names)).tolist()
    every = broker_names(brokers)
    ones = np.ones(len(hashes), np.int64)
    demand = Demand(
        start_ms,
        step_ms,
        names,
        of,
        np.array(hashes, np.int64),
        per_topic,
        per_topic,
        per_topic * bytes_a_message,
        per_topic * bytes_a_message,
        ones * 2,
        ones,
        tuple(every[row] for row in draws),
    )
    check(demand)
    return demand
