"""Converts traces to demand: each trace is the traffic of some topics, whose hashes put them in bundles of one
namespace.
"""

from collections.abc import Sequence

import numpy as np

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.replay.demand import Demand, check
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.demand import broker_names, bundle_names
from pulsar_barycenter.replay.traces import Trace


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
    """Return the demand of topics whose traffic follows `traces`, over the time that all traces cover. Each trace gives
    the traffic of `topics` topics.

    v events in a step of s seconds become v / s * `scale` msg/s, divided evenly among the trace's topics. The steps of
    the traces are divided into steps of `step_ms`, with the same rate. The owners of the bundles are drawn with `seed`.

    Raises:
        ReplayInputError: there are no traces, they have different steps or no common time, or their step is not a
            multiple of `step_ms`.
    """
    if not traces:
        raise ReplayInputError("there are no traces; give CSV files")
    step = traces[0].step_ms
    for trace in traces:
        if trace.step_ms != step:
            raise ReplayInputError(
                f"{trace.name} has steps of {trace.step_ms} ms, {traces[0].name} of {step} ms; give traces with "
                "equal steps"
            )
    start_ms, end_ms = max(each.start_ms for each in traces), min(each.end_ms for each in traces)
    count = (end_ms - start_ms) // step
    if count <= 0:
        raise ReplayInputError("the traces have no time in common; give traces of one period")
    if step % step_ms:
        raise ReplayInputError(
            f"the steps of the traces, {step} ms, cannot be divided into steps of {step_ms} ms; give a --step that "
            "divides them"
        )
    columns = []
    for trace in traces:
        first = -(-(start_ms - trace.start_ms) // step)
        columns.append(np.array(trace.values[first : first + count]) / (step / 1000) * scale / topics)
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
