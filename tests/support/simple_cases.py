"""Random clusters of brokers with the simple load manager; whole numbers, so that sums do not depend on their order."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    NamespaceBundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemResourceUsage,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.shedding import ResourceType, bottlenecks
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings, SimpleStrategy
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from support.load_cases import bundle_name

NAMESPACES = ("t/a", "t/a", "t/b")
STEPS: Mapping[str, Any] = {
    "CPU": lambda stats: (stats.msg_rate_in + stats.msg_rate_out) / 100,
    "Memory": lambda stats: (stats.topics + stats.consumer_count + stats.producer_count) // 500,
    "BandwidthIn": lambda stats: stats.msg_throughput_in / 100_000,
    "BandwidthOut": lambda stats: stats.msg_throughput_out / 100_000,
}
"""What bundles are sorted by; rates and throughputs are drawn as whole steps, on which all versions agree."""


def usage(rng: random.Random, limits: Sequence[float] = (100.0, 800.0, 1600.0)) -> ResourceUsage:
    """A usage of 0 to 130 %, often a round one; sometimes unknown, negative or without a limit."""
    limit = rng.choice(limits)
    if rng.random() < 0.06:
        return rng.choice((ResourceUsage(-1, -1), ResourceUsage(0, 0), ResourceUsage(-1, limit), ResourceUsage(5, -1)))
    share = rng.choice((0, 10, 30, 45, 50, 55, 60, 64, 65, 66, 84, 85, 86, 90, 100, 120)) if rng.random() < 0.6 else 0
    return ResourceUsage(limit * (share or rng.randint(0, 130)) / 100, limit)


def system_usage(rng: random.Random) -> SystemResourceUsage:
    calm = rng.random() < 0.5  # so that some brokers are below the comfort level
    known = usage(rng)
    low = ResourceUsage(rng.randint(0, 60), 100)
    return SystemResourceUsage(
        cpu=known,
        memory=usage(rng, (500, 4000)),
        direct_memory=low if calm else usage(rng),
        bandwidth_in=low if calm else usage(rng, (10_000, 1_000_000)),
        bandwidth_out=low if calm else usage(rng, (10_000, 1_000_000)),
    )


def stats(rng: random.Random) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=rng.choice((0, 1, 40, 99, 100, 15_000, rng.randint(0, 40_000))),
        msg_rate_out=rng.choice((0, 1, 120, 15_000, rng.randint(0, 40_000))),
        msg_throughput_in=rng.choice((0, 100_000, 99_999, 5_000_000, rng.randint(0, 200_000_000))),
        msg_throughput_out=rng.choice((0, 100_000, 300_000, 5_000_000, rng.randint(0, 200_000_000))),
        topics=rng.choice((0, 1, 2, 3, 499, 500, 1000, 1001)),
        consumer_count=rng.choice((0, 1, 500, 1000)),
        producer_count=rng.choice((0, 1, 2, 500)),
    )


def report(rng: random.Random, name: str, bundles: Sequence[str], at_ms: int) -> LoadReport:
    return complete(
        LoadReport(
            name=name,
            timestamp=at_ms,
            load_manager_class_name=ManagerKind.SIMPLE.class_name,
            persistent_topics_enabled=rng.random() < 0.9,
            system_resource_usage=system_usage(rng),
            bundle_stats={bundle: stats(rng) for bundle in bundles},
        )
    )


def bundle_names(rng: random.Random, count: int) -> list[str]:
    return [bundle_name(index, rng.choice(NAMESPACES)) for index in range(count)]


def cluster(rng: random.Random, *, at_ms: int = 1_000_000, most_brokers: int = 7) -> dict[str, LoadReport]:
    """Return reports of 1 to 7 brokers with 0 to 60 bundles; some brokers have none."""
    brokers = [f"b{number:02}:8080" for number in rng.sample(range(100), rng.randint(1, most_brokers))]
    owners = rng.sample(brokers, rng.randint(1, len(brokers)))
    held: dict[str, list[str]] = {broker: [] for broker in brokers}
    for bundle in bundle_names(rng, rng.choice((0, 1, 2, 5, 12, 40, 60))):
        held[rng.choice(owners)].append(bundle)
    return {broker: report(rng, broker, held[broker], at_ms - rng.choice((0, 0, 7000))) for broker in brokers}


def later(
    rng: random.Random, before: dict[str, LoadReport], placed: dict[str, str], *, by_ms: int
) -> dict[str, LoadReport]:
    """Return the reports some time later: other values, some placed bundles loaded, maybe a broker fewer or more."""
    names = [name for name in before if rng.random() < 0.9] or list(before)
    if rng.random() < 0.2:
        names.append("b-new:8080")
    found = {}
    for name in names:
        kept = [] if name not in before else list(before[name].bundle_stats)
        arrived = [bundle for bundle, broker in placed.items() if broker == name and rng.random() < 0.7]
        newest = max(report.timestamp for report in before.values())
        found[name] = report(rng, name, sorted({*kept, *arrived}), newest + by_ms)
    return found


def turned(reports: Mapping[str, LoadReport]) -> dict[str, LoadReport]:
    """Return the same reports, listed in another order."""
    return {
        name: msgspec.structs.replace(report, bundle_stats=dict(reversed(report.bundle_stats.items())))
        for name, report in reversed(list(reports.items()))
    }


def quota(rng: random.Random) -> ResourceQuota:
    """A quota of powers of two, so that sums and differences are exact."""
    return ResourceQuota(
        msg_rate_in=float(2 ** rng.randint(2, 12)),
        msg_rate_out=float(2 ** rng.randint(2, 12)),
        bandwidth_in=float(2 ** rng.randint(13, 20)),
        bandwidth_out=float(2 ** rng.randint(13, 20)),
        memory=float(2 ** rng.randint(1, 8)),
        dynamic=rng.random() < 0.9,
    )


def settings(rng: random.Random, *strategies: SimpleStrategy) -> SimpleSettings:
    return SimpleSettings(
        strategy=rng.choice(strategies or tuple(SimpleStrategy)),
        overload=rng.choice((85, 85, 70, 99, 0)),
        underload=rng.choice((50, 50, 1, 80, 100)),
        comfort=rng.choice((65, 65, 30, 90)),
    )


def document(report: LoadReport) -> dict[str, Any]:
    """Return the fields that a reader of the report needs, for the JVM side."""
    return {
        "name": report.name,
        "timestamp": report.timestamp,
        "systemResourceUsage": report.system_resource_usage,
        "bundleStats": report.bundle_stats,
        "persistentTopicsEnabled": report.persistent_topics_enabled,
    }


def documents(reports: Mapping[str, LoadReport]) -> dict[str, Any]:
    return {name: document(report) for name, report in reports.items()}


def overrides(settings: SimpleSettings) -> dict[str, Any]:
    return {
        "loadBalancerPlacementStrategy": settings.strategy.value,
        "loadBalancerBrokerOverloadedThresholdPercentage": settings.overload,
        "loadBalancerBrokerUnderloadedThresholdPercentage": settings.underload,
        "loadBalancerBrokerComfortLoadLevelPercentage": settings.comfort,
    }


def in_steps(stats: NamespaceBundleStats) -> NamespaceBundleStats:
    """Return values in whole multiples of Pulsar's resolution (4.2 rounds, the newest truncates)."""
    return msgspec.structs.replace(
        stats,
        msg_rate_in=stats.msg_rate_in // 100 * 100,
        msg_rate_out=stats.msg_rate_out // 100 * 100,
        msg_throughput_in=stats.msg_throughput_in // 100_000 * 100_000,
        msg_throughput_out=stats.msg_throughput_out // 100_000 * 100_000,
    )


def stepped(report: LoadReport) -> LoadReport:
    stats = {name: in_steps(each) for name, each in report.bundle_stats.items()}
    return complete(msgspec.structs.replace(report, bundle_stats=stats))


def bottleneck(report: LoadReport) -> str:
    (kind,) = bottlenecks(build_simple_snapshot({"b": report}).brokers.percent)
    found: ResourceType = tuple(ResourceType)[kind]
    return found.value
