"""Clusters under load, in a short notation or drawn by hypothesis."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
from hypothesis import strategies as st

from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reports.load_report import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    TimeAverageMessageData,
    with_stats,
)
from pulsar_barycenter.load.reports.windows import broker_averages
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot, counted

MEBIBYTE = 1_048_576
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


def bundles_of_namespace(snapshot: LoadSnapshot, namespace: str) -> Integers:
    """Return how many bundles of `namespace` each broker reports or will get (each bundle once)."""
    arriving = snapshot.on_their_way.arriving.get_or_none(namespace) or {}
    return counted(snapshot.bundles, snapshot.namespace_row(namespace), len(snapshot.brokers), arriving)


def bundle_name(index: int, namespace: str = "t/ns") -> str:
    return f"{namespace}/0x{index << 16:08x}_0x{(index + 1) << 16:08x}"


def window(max_samples: int, figures: NamespaceBundleStats) -> TimeAverageMessageData:
    return TimeAverageMessageData(
        max_samples=max_samples,
        num_samples=max_samples,
        msg_rate_in=figures.msg_rate_in,
        msg_rate_out=figures.msg_rate_out,
        msg_throughput_in=figures.msg_throughput_in,
        msg_throughput_out=figures.msg_throughput_out,
    )


def steady(figures: NamespaceBundleStats) -> BundleData:
    """Return the windows of a bundle that always had these values."""
    return BundleData(
        short_term_data=window(SHORT_SAMPLES, figures),
        long_term_data=window(LONG_SAMPLES, figures),
        topics=figures.topics,
    )


@dataclass
class Cluster:
    """The input of a snapshot; change it and call `snapshot`."""

    reports: dict[str, LocalBrokerData] = field(default_factory=dict)
    data: dict[str, BundleData] = field(default_factory=dict)
    recently_unloaded: set[str] = field(default_factory=set)
    preallocated: dict[str, dict[str, BundleData]] = field(default_factory=dict)
    policies: ClusterPolicies = NO_POLICIES

    def add(
        self,
        broker: str,
        *,
        cpu: float = 0.0,
        bundles: Mapping[str, NamespaceBundleStats] | None = None,
        cpu_limit: float = 100.0,
        version: str | None = "4.0.0",
    ) -> "Cluster":
        """Add a broker whose usage is `cpu` percent; its bundles' windows are steady."""
        plain = LocalBrokerData(
            broker_id=broker,
            cpu=ResourceUsage(cpu, cpu_limit),
            load_manager_class_name=MODULAR,
            broker_version_string=version,
        )
        self.reports[broker] = with_stats(plain, bundles or {})
        for name, stats in (bundles or {}).items():
            self.data[name] = steady(stats)
        return self

    def turned(self) -> "Cluster":
        """Return the same load, listed in another order."""
        reports = {
            name: msgspec.structs.replace(
                report, last_stats=dict(reversed(report.last_stats.items())), bundles=tuple(reversed(report.bundles))
            )
            for name, report in reversed(self.reports.items())
        }
        return replace(
            self,
            reports=reports,
            data=dict(reversed(self.data.items())),
            preallocated=dict(reversed(self.preallocated.items())),
        )

    def snapshot(self) -> LoadSnapshot:
        averages = {name: broker_averages(report.last_stats, self.data) for name, report in self.reports.items()}
        built = build_snapshot(
            self.reports,
            self.data,
            averages,
            preallocated=self.preallocated,
            recently_unloaded=self.recently_unloaded,
        )
        return replace(built, policies=self.policies)


def equal_bundles(
    count: int, *, throughput: float, first: int = 0, rate: float = 0.0
) -> dict[str, NamespaceBundleStats]:
    """Return `count` equal bundles that share `throughput` bytes/s and `rate` msg/s, all incoming."""
    return {
        bundle_name(first + index): NamespaceBundleStats(
            msg_throughput_in=throughput / count, msg_rate_in=rate / count, topics=2
        )
        for index in range(count)
    }


# few different numbers, so that ties and thresholds are met often
percentages = st.sampled_from(
    [0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 80.0, 85.0, 90.0, 100.0, 140.0, -1.0]
) | st.floats(0, 150, allow_nan=False)
limits = st.sampled_from([100.0, 100.0, 100.0, 300.0, 0.0, -1.0])
traffics = (
    st.sampled_from([0.0, 0.0, 1.0, 1e6, 5e6, 1e7, 2e7, 1e8, -3.0]) | st.just(0.0) | st.floats(0, 1e9, allow_nan=False)
)
rates = st.sampled_from([0.0, 1.0, 50.0, 100.0, 30_000.0, 40_000.0]) | st.floats(0, 1e6, allow_nan=False)
counts = st.sampled_from([0, 1, 2, 999, 1000, 1001, 60_000])


@st.composite
def bundle_stats(draw: st.DrawFn) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=draw(rates),
        msg_rate_out=draw(rates),
        msg_throughput_in=draw(traffics),
        msg_throughput_out=draw(traffics),
        topics=draw(counts),
        consumer_count=draw(counts),
        producer_count=draw(counts),
    )


namespaces = st.sampled_from(["t/a", "t/b", "pulsar/system", "pulsar/127.0.0.1:8080"])

# made once: to make and check a strategy takes longer than to draw from it
_STATS = bundle_stats()
_KEYS = st.lists(st.tuples(st.integers(0, 30), namespaces), unique=True, max_size=6)
_VERSIONS = st.sampled_from(["4.0.0", "4.1.0", "4.1.0-rc.1", "weird"])
_PERSISTENT = st.sampled_from([True, True, True, False])
_ONE_OF_TEN = st.integers(0, 9)


@st.composite
def clusters(draw: st.DrawFn, max_brokers: int = 6) -> Cluster:
    """Draw a cluster, including degenerate ones: no brokers, no bundles, no data of a bundle."""
    cluster = Cluster()
    names = draw(st.lists(st.integers(0, 99), unique=True, max_size=max_brokers))
    for number in names:
        keys = draw(_KEYS)
        bundles = {bundle_name(index, namespace): draw(_STATS) for index, namespace in keys}
        plain = LocalBrokerData(
            broker_id=f"b{number}:8080",
            cpu=ResourceUsage(draw(percentages), draw(limits)),
            bandwidth_in=ResourceUsage(draw(percentages), draw(limits)),
            direct_memory=ResourceUsage(draw(percentages), draw(limits)),
            load_manager_class_name=MODULAR,
            broker_version_string=draw(_VERSIONS),
            persistent_topics_enabled=draw(_PERSISTENT),
        )
        cluster.reports[f"b{number}:8080"] = with_stats(plain, bundles)
        for name in bundles:
            if draw(_ONE_OF_TEN):
                cluster.data[name] = BundleData(
                    short_term_data=window(SHORT_SAMPLES, draw(_STATS)),
                    long_term_data=window(LONG_SAMPLES, draw(_STATS)),
                    topics=draw(counts),
                )
    known = sorted(cluster.data)
    if known:
        one_known = st.sampled_from(known)
        cluster.recently_unloaded = set(draw(st.lists(one_known, max_size=3)))
        some_known = st.lists(one_known, max_size=2)
        for broker in names:
            chosen = draw(some_known)
            cluster.preallocated[f"b{broker}:8080"] = {name: cluster.data[name] for name in chosen}
    return cluster


histories = st.dictionaries(st.integers(0, 99).map(lambda n: f"b{n}:8080"), st.floats(0, 1.5), max_size=8)
