"""The simple load manager, slow and obvious: one broker and one bundle after the other, from its reports."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceQuota, SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings, SimpleStrategy

Five = tuple[float, float, float, float, float]
"""Rates in and out, bandwidths in and out, memory."""


def five(quota: ResourceQuota) -> Five:
    return (quota.msg_rate_in, quota.msg_rate_out, quota.bandwidth_in, quota.bandwidth_out, quota.memory)


def smooth(old: float, new: float, least: float, most: float, past_ms: float) -> float:
    new = max(least, new)
    if most > 0:
        new = min(most, new)
    minutes = 30 if new >= old else 1440
    weight = min(1.0, max(0.0, past_ms / (minutes * 60_000)))
    return (1 - weight) * old + weight * new


LIMITS = ((5, 0), (5, 0), (10_000, 1_000_000), (10_000, 1_000_000), (2, 200))


@dataclass
class Learned:
    quotas: dict[str, ResourceQuota]
    default: ResourceQuota
    average: ResourceQuota
    cpu: float
    memory: float
    at_ms: int


def smooth_quota(old: ResourceQuota, now: Five, past_ms: float) -> ResourceQuota:
    if not old.dynamic:
        return old
    moved = [smooth(was, new, *limits, past_ms) for was, new, limits in zip(five(old), now, LIMITS, strict=True)]
    return ResourceQuota(
        msg_rate_in=moved[0],
        msg_rate_out=moved[1],
        bandwidth_in=moved[2],
        bandwidth_out=moved[3],
        memory=moved[4],
    )


def groups(stats: NamespaceBundleStats) -> int:
    return 1 + (stats.topics + stats.producer_count + stats.consumer_count) // 500


def learn(reports: Mapping[str, LoadReport], known: Learned) -> Learned:
    if not reports:
        return known
    bundles = [stats for report in reports.values() for stats in report.bundle_stats.values()]
    rate_in = sum(stats.msg_rate_in for stats in bundles)
    rate_out = sum(stats.msg_rate_out for stats in bundles)
    memory = sum(report.system_resource_usage.memory.usage for report in reports.values())
    cpu = sum(report.system_resource_usage.cpu.usage for report in reports.values())
    group_count = sum(groups(stats) for stats in bundles)
    newest = max(report.timestamp for report in reports.values())
    past = newest - known.at_ms
    cpu_factor, memory_factor, average = known.cpu, known.memory, known.average
    if rate_in + rate_out > 1000 and group_count > 30:
        cpu_factor = smooth(cpu_factor, cpu / (rate_in + rate_out), 0.01, 0.1, past)
        memory_factor = smooth(memory_factor, memory / group_count, 10, 50, past)
    if len(bundles) > 30:
        means = (
            rate_in,
            rate_out,
            sum(stats.msg_throughput_in for stats in bundles),
            sum(stats.msg_throughput_out for stats in bundles),
            memory,
        )
        average = smooth_quota(average, tuple(each / len(bundles) for each in means), past)  # type: ignore[arg-type]
    quotas = {}
    for broker in sorted(reports):
        for bundle, stats in reports[broker].bundle_stats.items():
            now = (
                stats.msg_rate_in,
                stats.msg_rate_out,
                stats.msg_throughput_in,
                stats.msg_throughput_out,
                groups(stats) * memory_factor,
            )
            quotas[bundle] = smooth_quota(known.quotas.get(bundle, known.default), now, past)
    return Learned(quotas, known.default, average, cpu_factor, memory_factor, newest)


@dataclass
class Ranked:
    """One broker as the oracle sees it; it changes as bundles are placed."""

    usage: SystemResourceUsage
    loaded: set[str]
    allocated: list[float]
    pending: set[str] = field(default_factory=set)
    coming: list[float] = field(default_factory=lambda: [0.0] * 5)
    rank: int = 0
    reported: frozenset[str] = frozenset()

    def shares(self, factor: float) -> dict[str, float]:
        """Estimated percentages."""
        a, p, u = self.allocated, self.coming, self.usage

        def share(used: float, allotted: float, coming: float, limit: float) -> float:
            return 0.0 if limit <= 0 else min(100.0, 100 * (max(used, allotted) + coming) / limit)

        direct = u.direct_memory
        return {
            "cpu": share(u.cpu.usage, factor * (a[0] + a[1]), factor * (p[0] + p[1]), u.cpu.limit),
            "memory": share(u.memory.usage, a[4], p[4], u.memory.limit),
            "in": share(u.bandwidth_in.usage, a[2] / 128, p[2] / 128, u.bandwidth_in.limit),
            "out": share(u.bandwidth_out.usage, a[3] / 128, p[3] / 128, u.bandwidth_out.limit),
            "direct": 0.0 if direct.limit <= 0 else min(100.0, 100 * direct.usage / direct.limit),
        }

    def load(self, factor: float) -> float:
        return max(self.shares(factor).values())

    def rate(self) -> float:
        return self.allocated[0] + self.allocated[1] + self.coming[0] + self.coming[1]

    def room(self, default: ResourceQuota, factor: float) -> int:
        u = self.usage
        return math.floor(
            max(
                0.0,
                min(
                    u.cpu.limit / factor / (default.msg_rate_in + default.msg_rate_out),
                    u.memory.limit / default.memory,
                    u.bandwidth_out.limit * 128 / default.bandwidth_out,
                    u.bandwidth_in.limit * 128 / default.bandwidth_in,
                ),
            )
        )


class SimpleOracle:
    """The leader of a small cluster."""

    def __init__(self, learned: Learned, settings: SimpleSettings) -> None:
        self.learned = learned
        self.settings = settings
        self.ranked: dict[str, Ranked] = {}
        self.cursor = 0

    def quota(self, bundle: str) -> ResourceQuota:
        return self.learned.quotas.get(bundle, self.learned.default)

    def report(self, reports: Mapping[str, LoadReport]) -> None:
        factor = self.learned.cpu
        before, self.ranked = self.ranked, {}
        for broker in sorted(reports):
            loaded = set(reports[broker].bundle_stats)
            pending = before[broker].pending - loaded if broker in before else set()
            made = Ranked(
                usage=reports[broker].system_resource_usage,
                loaded=loaded,
                allocated=self.total(loaded),
                pending=pending,
                coming=self.total(pending),
                reported=frozenset(loaded),
            )
            if self.settings.strategy is SimpleStrategy.LEAST_LOADED_SERVER:
                made.rank = math.trunc(made.load(factor))
            elif self.settings.strategy is SimpleStrategy.LEAST_MSG_PER_SECOND:
                made.rank = math.trunc(made.rate())
            else:
                free = (100 - made.load(factor)) / 100
                made.rank = math.trunc(made.room(self.learned.default, factor) * free * free)
            self.ranked[broker] = made

    def total(self, bundles: set[str]) -> list[float]:
        sums = [0.0] * 5
        for bundle in sorted(bundles):
            for row, figure in enumerate(five(self.quota(bundle))):
                sums[row] += figure
        return sums

    def candidates(self, bundle: str, allowed: set[str], live: set[str]) -> list[str]:
        """In the order in which they are examined."""
        namespace = bundle.rpartition("/")[0]

        def held(broker: str) -> int:
            one = self.ranked[broker]
            return sum(name.rpartition("/")[0] == namespace for name in one.reported | one.pending)

        of_policies = [broker for broker in self.ranked if broker in allowed]
        least = min(map(held, of_policies), default=0)
        left = [broker for broker in of_policies if held(broker) == least and broker in live]
        return sorted(left, key=lambda broker: (self.ranked[broker].rank, broker))

    def less(self, one: Ranked, other: Ranked) -> bool:
        factor = self.learned.cpu
        if self.settings.strategy is SimpleStrategy.LEAST_MSG_PER_SECOND:
            return one.rate() < other.rate()
        if abs(one.load(factor) - other.load(factor)) <= 5:
            mine, theirs = one.shares(factor), other.shares(factor)
            for resource in ("memory", "cpu", "in", "out"):
                if abs(mine[resource] - theirs[resource]) > 5:
                    return mine[resource] < theirs[resource]
        return one.load(factor) < other.load(factor)

    def place(self, bundle: str, allowed: set[str], live: set[str]) -> str | None:
        for broker, one in self.ranked.items():
            if bundle in one.pending:
                return broker
        factor, default = self.learned.cpu, self.learned.default
        by_rate = self.settings.strategy is SimpleStrategy.LEAST_MSG_PER_SECOND
        line = self.candidates(bundle, allowed, live)
        if not line:
            return None
        least, idle, roomy, most, least_load = None, None, None, -1, 101.0
        for broker in line:
            one = self.ranked[broker]
            if bundle in one.loaded:
                one.loaded.discard(bundle)
                for row, figure in enumerate(five(self.quota(bundle))):
                    one.allocated[row] -= figure
            load = one.load(factor)
            free = math.trunc(one.room(default, factor) * max(0.0, (100 - load) / 100))
            if free > most:
                most, roomy = free, broker
            if not one.loaded and not one.pending:
                idle = idle or broker
            elif least is None or self.less(one, self.ranked[least]):
                least, least_load = broker, load
        if (least_load > self.settings.underload and idle is not None) or least is None:
            chosen = idle
        elif least_load >= 100 and not by_rate:
            chosen = line[self.cursor % len(line)]
        elif least_load > self.settings.overload and not by_rate:
            chosen = roomy
        else:
            chosen = least
        assert chosen is not None
        self.cursor = (self.cursor + 1) % 1_000_000
        self.ranked[chosen].pending.add(bundle)
        for row, figure in enumerate(five(self.quota(bundle))):
            self.ranked[chosen].coming[row] += figure
        return chosen


def shed(
    reports: Mapping[str, LoadReport], settings: SimpleSettings, bound: set[str], recent: set[str]
) -> list[tuple[str, str]]:
    """Broker and bundle of each unload; every broker may serve every bundle."""

    def judged(usage: SystemResourceUsage) -> list[float]:
        return [each.percent for each in (usage.cpu, usage.direct_memory, usage.bandwidth_in, usage.bandwidth_out)]

    found = []
    for broker in sorted(reports):
        usage = reports[broker].system_resource_usage
        if not any(percent > settings.overload for percent in judged(usage)):
            continue
        bundles = {name: each for name, each in reports[broker].bundle_stats.items() if name not in bound}
        if len(bundles) < 2:
            continue
        kinds = [usage.cpu.percent, usage.memory.percent, usage.bandwidth_in.percent, usage.bandwidth_out.percent]
        kind = kinds.index(max(kinds))

        def key(
            name: str, bundles: Mapping[str, NamespaceBundleStats] = bundles, kind: int = kind
        ) -> tuple[object, ...]:
            stats = bundles[name]
            steps = [
                math.trunc((stats.msg_rate_in + stats.msg_rate_out) / 100),
                math.trunc((stats.topics + stats.consumer_count + stats.producer_count) / 500),
                math.trunc(stats.msg_throughput_in / 100_000),
                math.trunc(stats.msg_throughput_out / 100_000),
            ]
            return (-steps[kind], -steps[2], -steps[3], -steps[0], -steps[1], name)

        heaviest = min(bundles, key=key)
        room = any(
            all(percent < settings.comfort for percent in judged(other.system_resource_usage))
            and other.persistent_topics_enabled
            for other in reports.values()
        )
        if room and heaviest not in recent:
            found.append((broker, heaviest))
    return found
