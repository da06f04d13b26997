"""Generates the load reports of a cluster of any size for any time; the same seed gives the same reports.

Each bundle has its own mean rate and a shape over time: a traffic trace, or a daily swing with noise. Bundles stay on
the brokers to which they were assigned by hash, as in a cluster without balancing. Each report can be generated alone,
in any order.

The resources of brokers follow from the rates, by the constants below. Example: a bundle of 100 msg/s in has 200 msg/s
out (two subscriptions), 100 KiB/s in and 200 KiB/s out; it takes 300 × 10 µs = 0.3 % of a core.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    max_resource_usage,
    with_stats,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.replay.synthetic.shapes import DAY_S, Distribution, daily_swing, drawn_sizes
from pulsar_barycenter.replay.traces import Trace

TENANT: Final = "generated"
BUNDLES_OF_NAMESPACE: Final = 64
MESSAGE_BYTES: Final = 1024.0
SUBSCRIPTIONS: Final = 2
CPU_S_PER_MESSAGE: Final = 10e-6
"""The seconds of one core that a message takes when it comes in, and again each time that it goes out."""
CORES: Final = 8
NETWORK_KBIT_S: Final = 10_000_000.0
MEMORY_MIB: Final = 8192.0
DIRECT_MEMORY_MIB: Final = 4096.0
MEMORY_MIB_PER_TOPIC: Final = 0.05
BUFFERED_S: Final = 0.5
"""A broker keeps the traffic of this many seconds in direct memory."""

SWING: Final = 0.5
NOISE: Final = 0.1
_IDLE_MEMORY_MIB: Final = 512.0


@dataclass(frozen=True, slots=True)
class NamespaceTraces:
    """A namespace and its traces (counts of events over time), one for each of its topics."""

    namespace: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The parameters of generated load reports.

    `bundles` is the number of bundles in the whole cluster, `interval_ms` the time between two reports of a broker.
    `mean_rate` is the msg/s into a bundle, as a mean over bundles and time. In traces and in the daily swing, time
    passes `speedup` times as fast as in the reports. If `namespaces` is empty, bundles follow no traces, only a daily
    swing.
    """

    brokers: int
    bundles: int
    interval_ms: int
    start_ms: int
    seed: int = 1
    distribution: Distribution = Distribution.LOGNORMAL
    mean_rate: float = 100.0
    speedup: float = 1.0
    namespaces: tuple[NamespaceTraces, ...] = ()

    def __post_init__(self) -> None:
        if self.brokers < 1 or self.bundles < max(1, len(self.namespaces)):
            raise ValueError("a plan needs at least one broker, and at least one bundle per namespace")
        if self.interval_ms < 1:
            raise ValueError("the interval between reports must be at least 1 ms")


class LoadGenerator:
    """Generates the load reports that a `LoadPlan` describes."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        chance = np.random.default_rng([plan.seed, 0])
        self._names, self._shapes = _bundles(plan)
        self._topics = np.array([max(1, len(shape)) for shape in self._shapes])
        spread = drawn_sizes(plan.distribution, plan.bundles, chance)
        self._means = plan.mean_rate * (spread / spread.mean())
        self._shift_s = chance.uniform(0.0, DAY_S, plan.bundles)
        owners = np.array([zlib.crc32(name.encode()) % plan.brokers for name in self._names])
        self._owned = [np.flatnonzero(owners == broker) for broker in range(plan.brokers)]
        self._scale = _trace_scale(self._shapes)

    def broker_id(self, broker: int) -> str:
        return f"broker-{broker}:8080"

    def reports_until(self, end_ms: int) -> int:
        """Return how many reports, of all brokers together, have a time before `end_ms` (epoch ms, exclusive)."""
        plan = self.plan
        return sum(max(0, -(-(end_ms - self.time_of(broker)) // plan.interval_ms)) for broker in range(plan.brokers))

    def time_of(self, number: int) -> int:
        """Return the time (epoch ms) of the report with the index `number`. The reports of all brokers are counted
        together from 0, oldest first; brokers report in turn, at equal distances.
        """
        turn, broker = divmod(number, self.plan.brokers)
        return self.plan.start_ms + turn * self.plan.interval_ms + broker * self.plan.interval_ms // self.plan.brokers

    def report(self, number: int) -> LocalBrokerData:
        """Return the generated report with the index `number`, counted as in `time_of`."""
        plan = self.plan
        turn, broker = divmod(number, plan.brokers)
        at = self.time_of(number)
        owned = self._owned[broker]
        chance = np.random.default_rng([plan.seed, 1, number])
        rates = self._means[owned] * self._shape(owned, (at - plan.start_ms) / 1000 * plan.speedup)
        rates = rates * chance.lognormal(-(NOISE**2) / 2, NOISE, len(owned))
        stats = {
            self._names[i]: _stats(rate, int(self._topics[i]))
            for i, rate in zip(owned.tolist(), rates.tolist(), strict=True)
        }
        host = self.broker_id(broker).partition(":")[0]
        report = LocalBrokerData(
            broker_id=self.broker_id(broker),
            web_service_url=f"http://{host}:8080",
            pulsar_service_url=f"pulsar://{host}:6650",
            bundles=tuple(self._names[i] for i in owned) if turn else (),
            start_timestamp=plan.start_ms,
            incarnation=f"{plan.start_ms:013d}-{plan.seed}",
            sequence=turn + 1,
            last_update=at,
        )
        return with_usage(with_stats(report, stats))

    def _shape(self, owned: NDArray[np.int64], at_s: float) -> Floats:
        """Return the factors by which the rates of bundles differ from their means at a time. `owned` are the indexes
        of the bundles; `at_s` is the time in the traces or in the daily swing, in seconds from the start.
        """
        if not self.plan.namespaces:
            return daily_swing(at_s + self._shift_s[owned], SWING)
        return np.array([self._followed(index, at_s) for index in owned.tolist()])

    def _followed(self, index: int, at_s: float) -> float:
        traces = self._shapes[index]
        return self._scale * sum(trace.rate_at(at_s + shift) for trace, shift in traces)


def with_usage(report: LocalBrokerData) -> LocalBrokerData:
    """Return `report` with the usage of all resources that its rates cause. The constants of this module say how much
    that is.
    """
    messages = report.msg_rate_in + report.msg_rate_out
    traffic = report.msg_throughput_in + report.msg_throughput_out
    cpu = ResourceUsage(100 * messages * CPU_S_PER_MESSAGE, 100.0 * CORES)
    used = msgspec.structs.replace(
        report,
        cpu=cpu,
        memory=ResourceUsage(_IDLE_MEMORY_MIB + MEMORY_MIB_PER_TOPIC * report.num_topics, MEMORY_MIB),
        direct_memory=ResourceUsage(BUFFERED_S * traffic / 2**20, DIRECT_MEMORY_MIB),
        bandwidth_in=ResourceUsage(report.msg_throughput_in * 8 / 1000, NETWORK_KBIT_S),
        bandwidth_out=ResourceUsage(report.msg_throughput_out * 8 / 1000, NETWORK_KBIT_S),
    )
    return msgspec.structs.replace(used, max_resource_usage=max_resource_usage(used))


def _stats(rate: float, topics: int) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=rate,
        msg_rate_out=rate * SUBSCRIPTIONS,
        msg_throughput_in=rate * MESSAGE_BYTES,
        msg_throughput_out=rate * SUBSCRIPTIONS * MESSAGE_BYTES,
        topics=topics,
        producer_count=topics,
        consumer_count=SUBSCRIPTIONS * topics,
    )


_Shape = Sequence[tuple[Trace, float]]
"""Traces whose rates are added, each with the seconds by which it is shifted."""


def _bundles(plan: LoadPlan) -> tuple[list[str], list[_Shape]]:
    """Return two lists with one item for each bundle: its name, and the traces that it follows (none if the plan has no
    traces).

    With traces, bundles are distributed evenly over the namespaces of the traces; without, over as many namespaces as
    are needed for at most 64 bundles each.
    """
    followed = plan.namespaces
    count = len(followed) or -(-plan.bundles // BUNDLES_OF_NAMESPACE)
    names: list[str] = []
    shapes: list[_Shape] = []
    for place in range(count):
        share = plan.bundles // count + (place < plan.bundles % count)
        local = followed[place].namespace if followed else f"load-{place}"
        bundles = NamespaceBundles.equal(NamespaceName.of(TENANT, local), share).bundles
        names += [str(bundle) for bundle in bundles]
        shapes += _shared(followed[place].traces, share) if followed else [()] * share
    return names, shapes


def _shared(traces: Sequence[Trace], bundles: int) -> list[_Shape]:
    """Return for each of `bundles` bundles the traces that it follows, each with a shift in seconds. Bundle i gets the
    traces i, i + `bundles`, i + 2 × `bundles` and so on, without a shift.

    If there are fewer traces than bundles, the other bundles use the same traces again, each time shifted further.
    """
    shapes: list[_Shape] = []
    for place in range(bundles):
        if place < len(traces):
            shapes.append([(trace, 0.0) for trace in traces[place::bundles]])
        else:
            again, which = divmod(place, len(traces))
            rounds = -(-bundles // len(traces))
            shapes.append([(traces[which], traces[which].length_s * again / rounds)])
    return shapes


def _trace_scale(shapes: Sequence[_Shape]) -> float:
    """Return the factor by which the rates of `shapes` must be multiplied so that their mean over bundles and time is
    1.
    """
    total = sum(sum(trace.values) / trace.length_s for shape in shapes for trace, _ in shape)
    return len(shapes) / total if total > 0 else 1.0
