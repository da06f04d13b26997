"""flow_or_qps_equally_divide: split between topics so that no part carries more than a bundle may.

Worked example (limit 30 000 msg/s): topics at the hashes 0, 0x10, 0x20 and 0x30 carry 25 000, 4 000, 20 000 and 9 000
msg/s. In ascending order, the first two fit into one part. The third would make it 49 000, so the range is split
between 0x10 and 0x20, at 0x19, and the last two form a part of 29 000.

When to use it: a few hot topics among many quiet ones, where parts of equal width or of equal numbers of topics differ
in traffic. When not: one topic alone above the limit, since no split makes it smaller; or traffic that changes from
topic to topic, since the split follows the loads of one moment.

Source: Pulsar's `FlowOrQpsEquallyDivideBundleSplitAlgorithm` (2.11 and newer). Where we differ: topics of one hash,
which no split can separate, count as one with the sum of their loads; and there is no split at the end of all hashes.
"""

from itertools import pairwise
from typing import Final

from pulsar_barycenter.load.splitting.request import SplitRequest, TopicLoad

NAME: Final = "flow_or_qps_equally_divide"


def flow_or_qps_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Return the hashes at which to split the bundle into parts of about equal load, in ascending order. They may be
    more than one.

    The result is empty if fewer than two topics have load. It is also empty if both the message rate and the throughput
    of the bundle are below `limit * (1 + difference)` (see `TrafficLimits`).
    """
    topics, limits = _by_hash(request.loads), request.limits
    if len(topics) < 2:
        return ()
    rate = throughput = 0.0
    for topic in topics:
        rate += topic.rate
        throughput += topic.throughput
    enough = 1 + limits.difference
    if rate < limits.max_rate * enough and throughput < limits.max_bandwidth * enough:
        return ()
    cuts: list[int] = []
    rate, throughput = topics[0].rate, topics[0].throughput
    for before, topic in pairwise(topics):
        if rate + topic.rate > limits.max_rate or throughput + topic.throughput > limits.max_bandwidth:
            cuts.append(before.hash + (topic.hash - before.hash) // 2 + 1)
            rate, throughput = topic.rate, topic.throughput
        else:
            rate += topic.rate
            throughput += topic.throughput
    return tuple(cut for cut in cuts if cut < request.range.upper)


def _by_hash(loads: tuple[TopicLoad, ...]) -> list[TopicLoad]:
    """Return the topics that have load, sorted by hash. Topics with the same hash are merged into one, which has the
    sum of their loads.
    """
    found: dict[int, TopicLoad] = {}
    for load in sorted(loads, key=lambda load: (load.hash, load.rate, load.throughput)):
        if load.rate > 0 or load.throughput > 0:
            same = found.get(load.hash)
            rate, throughput = (0.0, 0.0) if same is None else (same.rate, same.throughput)
            found[load.hash] = TopicLoad(load.hash, rate + load.rate, throughput + load.throughput)
    return list(found.values())
