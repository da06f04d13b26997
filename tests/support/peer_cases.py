"""Random clusters, including degenerate ones, in the forms of Pulsar's classes and of ours.

Half of the values are drawn from a few round numbers, so that ties and thresholds occur often, half freely.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
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
from support.load_cases import MODULAR, Cluster, bundle_name

T = TypeVar("T")

MEBIBYTE: Final = 1_048_576
NAMESPACES: Final = ("t/a", "t/a", "t/b", "other/c", "pulsar/system", "pulsar/127.0.0.1:8080", "pulsar/prop:8080")


def drawn(rng: random.Random, count: int, draw: Callable[[random.Random], T]) -> Iterator[tuple[int, T]]:
    """Yield `count` cases with their seeds; each can be drawn again from its seed alone."""
    first = rng.getrandbits(62)
    for seed in range(first, first + count):
        yield seed, draw(random.Random(seed))


def pick(rng: random.Random, few: Sequence[float], low: float, high: float) -> float:
    """Return one of a few round values, or any between `low` and `high`."""
    return rng.choice(few) if rng.random() < 0.5 else rng.uniform(low, high)


def usage(rng: random.Random) -> ResourceUsage:
    limit = rng.choice((100.0, 100.0, 100.0, 800.0, 300.0, 1e6, 0.0, -1.0)) if rng.random() < 0.9 else rng.random() * 3
    share = pick(rng, (0, 5, 10, 12.5, 25, 30, 40, 50, 75, 80, 85, 90, 100, 140, -1), 0, 130)
    return ResourceUsage(share * max(limit, 1.0) / 100, limit)


def stats(rng: random.Random, scale: float = 1.0) -> NamespaceBundleStats:
    few = (0.0, 0.0, 1.0, 1e6, 5e6, float(10 * MEBIBYTE), 1e8)
    return NamespaceBundleStats(
        msg_rate_in=pick(rng, (0, 1, 50, 15_000, 30_000), 0, 4e4),
        msg_rate_out=pick(rng, (0, 1, 50, 15_000, 30_000), 0, 4e4),
        msg_throughput_in=pick(rng, few, 0, 2e8) * scale,
        msg_throughput_out=pick(rng, few, 0, 2e8) * scale,
        topics=rng.choice((0, 1, 2, 3, 10, 999, 1000, 1001)),
        consumer_count=rng.choice((0, 1, 500, 999, 1000)),
        producer_count=rng.choice((0, 1, 2, 500)),
        cache_size=rng.choice((0, 1 << 20)),
    )


def window(rng: random.Random, most: int) -> TimeAverageMessageData:
    figures = stats(rng)
    return TimeAverageMessageData(
        max_samples=most,
        num_samples=rng.choice((0, 1, most - 1, most, rng.randint(0, most))),
        msg_throughput_in=figures.msg_throughput_in,
        msg_throughput_out=figures.msg_throughput_out,
        msg_rate_in=figures.msg_rate_in,
        msg_rate_out=figures.msg_rate_out,
    )


def bundle_data(rng: random.Random) -> BundleData:
    return BundleData(
        short_term_data=window(rng, SHORT_SAMPLES),
        long_term_data=window(rng, LONG_SAMPLES),
        topics=rng.choice((0, 1, 2, 1000)),
    )


def sizes(rng: random.Random) -> tuple[int, int]:
    """Return how many brokers (1-50) and bundles (0-500); mostly few, sometimes the maximum."""
    kind = rng.random()
    if kind < 0.80:
        return rng.randint(1, 6), rng.choice((0, 1, 2, rng.randint(0, 30)))
    if kind < 0.97:
        return rng.randint(1, 20), rng.randint(0, 80)
    return rng.randint(1, 50), rng.randint(0, 500)


def cluster(rng: random.Random, *, shared_bundles: bool = True) -> Cluster:
    """Return brokers and bundles; with `shared_bundles` two brokers report some bundles, as during a move."""
    broker_count, bundle_count = sizes(rng)
    names = rng.sample(range(1000), broker_count)
    brokers = [f"broker-{number}:8080" for number in names]
    alike = usage(rng) if rng.random() < 0.15 else None
    skew = rng.choice((0.0, 1.0, 3.0))
    weights = [rng.random() ** skew for _ in brokers]
    held: dict[str, dict[str, NamespaceBundleStats]] = {name: {} for name in brokers}
    made = Cluster()
    for index in range(bundle_count):
        name = bundle_name(index, rng.choice(NAMESPACES))
        owners = rng.choices(brokers, weights, k=2 if shared_bundles and rng.random() < 0.02 else 1)
        for owner in owners:
            held[owner][name] = stats(rng)
        if rng.random() < 0.95:
            made.data[name] = bundle_data(rng)
        if rng.random() < 0.05:
            made.recently_unloaded.add(name)
    for name in brokers:
        made.reports[name] = report(rng, name, held[name], alike)
        if made.data and rng.random() < 0.3:
            chosen = rng.sample(sorted(made.data), min(len(made.data), rng.randint(1, 4)))
            made.preallocated[name] = {bundle: made.data[bundle] for bundle in chosen}
    return made


def report(
    rng: random.Random, name: str, held: dict[str, NamespaceBundleStats], alike: ResourceUsage | None
) -> LocalBrokerData:
    plain = LocalBrokerData(
        broker_id=name,
        cpu=alike or usage(rng),
        memory=usage(rng),
        direct_memory=usage(rng),
        bandwidth_in=alike or (usage(rng) if rng.random() < 0.5 else ResourceUsage(-1, -1)),
        bandwidth_out=alike or (usage(rng) if rng.random() < 0.5 else ResourceUsage(-1, -1)),
        load_manager_class_name=MODULAR,
        broker_version_string="4.0.0",
    )
    return with_stats(plain, held)


def next_round(rng: random.Random, before: Cluster, *, churn: bool = True) -> Cluster:
    """Return the cluster some minutes later: other usages and windows; with `churn`, brokers that left or joined."""
    after = Cluster(data=dict(before.data))
    for name, earlier in before.reports.items():
        if not churn or rng.random() < 0.9:
            after.reports[name] = report(rng, name, dict(earlier.last_stats), None)
    if churn and rng.random() < 0.2:
        after.reports["broker-new:8080"] = report(rng, "broker-new:8080", {}, None)
    for name in rng.sample(sorted(after.data), len(after.data) // 3):
        after.data[name] = bundle_data(rng)
    after.recently_unloaded = set(rng.sample(sorted(after.data), len(after.data) // 10))
    return after


def in_hash_order(names: Iterable[str]) -> dict[str, str]:
    """Return other names for at most 64 brokers, in the same order, which is also that of a HashMap of them all."""
    found = {}
    for rank, name in enumerate(sorted(names)):
        candidates = (f"broker-{rank:02}-{salt}:8080" for salt in itertools.count())
        found[name] = next(text for text in candidates if _bucket(text) == rank)
    return found


def _bucket(text: str) -> int:
    """Return the index of a text in a HashMap of 128 buckets; an index below 16, 32 or 64 is also that in smaller
    ones."""
    hashed = 0
    for character in text:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & 127


def load_document(case: Cluster) -> dict[str, Any]:
    """Return the case as the JVM side reads it (`Cases.loadData`), brokers and bundles in the order of names."""
    return {
        "brokers": {
            name: {
                "localData": case.reports[name],
                "timeAverageData": broker_averages(case.reports[name].last_stats, case.data),
                "preallocatedBundleData": dict(sorted(case.preallocated.get(name, {}).items())),
            }
            for name in sorted(case.reports)
        },
        "bundleData": dict(sorted(case.data.items())),
        "recentlyUnloadedBundles": sorted(case.recently_unloaded),
    }


def configuration(overrides: dict[str, Any]) -> BrokerConfig:
    """Return our configuration with Pulsar's keys set; a value outside our ranges raises an error."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in overrides.items()}
    return with_overrides(BrokerConfig(), texts)
