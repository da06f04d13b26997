"""Reads workload files of the OpenMessaging benchmark, with which the performance of Apache Pulsar is measured.

A workload is a constant load. The demand uses the numbers of topics, partitions, producers and consumers, and the
rates. Keys that make no difference to it (payloads, distribution of keys, warm-up, backlog) are ignored.

Source: the files in `workloads` of github.com/openmessaging/benchmark, and its `Workload` class.
"""

from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.replay.demand import Demand, check
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names

MOST_PARTITIONS: Final = 1_000_000
_SUFFIX: Final = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"))

_Some = Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)]
_Any = Annotated[int, Meta(ge=0, le=MOST_PARTITIONS)]


class Workload(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A workload of the OpenMessaging benchmark. `producer_rate` is msg/s of all topics together, `message_size` is in
    bytes.

    Each subscription of a topic gets all its messages.
    """

    name: str = ""
    topics: _Some
    partitions_per_topic: _Some = 1
    message_size: Annotated[int, Meta(ge=0, le=1 << 30)] = 1024
    subscriptions_per_topic: _Any = 1
    producers_per_topic: _Any = 1
    consumer_per_subscription: _Any = 1
    producer_rate: Annotated[float, Meta(ge=0, le=1e12)]
    test_duration_minutes: Annotated[float, Meta(gt=0, le=1e6)] = 60.0


def workload_of(name: str, content: bytes) -> Workload:
    """Return the workload that `content`, a YAML file of the OpenMessaging benchmark, describes. `name` is the file's
    name for messages.

    Raises:
        ReplayInputError: the file is not a workload, has too many partitions, or its rate is 0, which means as much as
            brokers can take.
    """
    try:
        found = msgspec.yaml.decode(content, type=Workload)
    except msgspec.DecodeError as error:
        raise ReplayInputError(f"{name} is not a workload of the OpenMessaging benchmark: {error}") from None
    if found.producer_rate == 0:
        raise ReplayInputError(
            f"{name}: producerRate 0 means the maximum that brokers can take, which a replay does not know; set"
            " producerRate to a rate in msg/s"
        )
    if found.topics * found.partitions_per_topic > MOST_PARTITIONS:
        raise ReplayInputError(f"{name}: more than {MOST_PARTITIONS:,} partitions; give fewer topics")
    return found


def demand_of_workload(
    workload: Workload, *, brokers: int = 5, bundles: int = 64, step_ms: int = 60_000, seed: int = 0
) -> Demand:
    """Return the demand of a workload for its test duration. The owners of bundles are drawn with `seed`.

    Topics get names as in the benchmark, with a random part that is drawn with `seed`; the name of a topic determines
    its bundle.

    Raises:
        ReplayInputError: the demand cannot be replayed.
    """
    names = bundle_names(bundles)
    space = Bundle.parse(names[0]).namespace
    rng = np.random.default_rng([seed, 4])
    hashes = []
    for topic in range(workload.topics):
        base = f"test-topic-{topic:07d}-{''.join(rng.choice(_SUFFIX, 7).tolist())}"
        for partition in range(workload.partitions_per_topic):
            local = base if workload.partitions_per_topic == 1 else f"{base}-partition-{partition}"
            hashes.append(TopicName.of("persistent", space, local).hash32)
    count = len(hashes)
    steps = max(1, round(workload.test_duration_minutes * 60_000 / step_ms))
    rate_in = np.full((steps, count), workload.producer_rate / count)
    rate_out = rate_in * workload.subscriptions_per_topic
    sessions = workload.producers_per_topic + workload.subscriptions_per_topic * workload.consumer_per_subscription
    lower = np.array([Bundle.parse(name).range.lower for name in names], np.int64)
    every = broker_names(brokers)
    demand = Demand(
        START_MS,
        step_ms,
        names,
        np.searchsorted(lower, np.array(hashes, np.int64), side="right") - 1,
        np.array(hashes, np.int64),
        rate_in,
        rate_out,
        rate_in * workload.message_size,
        rate_out * workload.message_size,
        np.full(count, sessions, np.int64),
        np.ones(count, np.int64),
        tuple(every[row] for row in rng.integers(0, brokers, len(names)).tolist()),
    )
    check(demand)
    return demand
