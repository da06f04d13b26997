"""One bundle with six topics, cut by each algorithm."""

from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.request import SplitRequest, TopicLoad, TrafficLimits
from pulsar_barycenter.naming.bundle import BundleRange

rates = {0x00: 25_000, 0x05: 2_000, 0x10: 2_000, 0x15: 20_000, 0x20: 8_000, 0x25: 1_000}  # by hash, msg/s

bundle = SplitRequest(
    range=BundleRange(0x0000, 0x8000),
    hashes=tuple(rates),
    positions=(0x6000, 0x2000, 0x9000),
    loads=tuple(TopicLoad(hash_, rate, throughput=0) for hash_, rate in rates.items()),
    limits=TrafficLimits(max_rate=30_000),
)
for name in (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
):
    print(f"{name}: {', '.join(map(hex, split_algorithm(name)(bundle)))}")
