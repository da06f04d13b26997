"""A synthetic history of load reports: brokers that restart, bundles that move and split."""

from __future__ import annotations

import random

import msgspec

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage, with_stats

START_MS = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 86_390_000
"""Ten seconds before midnight, so that a history spans two dates."""

_NAMESPACE = "public/default"


def make_stats(rng: random.Random) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=rng.expovariate(1e-2),
        msg_rate_out=rng.expovariate(1e-2),
        msg_throughput_in=rng.expovariate(1e-5),
        msg_throughput_out=rng.expovariate(1e-5),
        topics=rng.randrange(50),
        consumer_count=rng.randrange(10),
        producer_count=rng.randrange(10),
    )


def make_history(
    seed: int, *, reports: int, brokers: int = 3, bundles: int = 8, step_ms: int = 1000
) -> list[LocalBrokerData]:
    """Return `reports` load reports in the order of their times, `step_ms` apart.

    Now and then a bundle moves or splits, or a broker restarts with a new incarnation; the last broker serves nothing
    at first.
    """
    rng = random.Random(seed)
    names = [f"127.0.0.1:{8080 + index}" for index in range(brokers)]
    width = 2**32 // bundles
    owned: dict[str, dict[tuple[int, int], None]] = {name: {} for name in names}
    owned |= {names[0]: dict.fromkeys((i * width, (i + 1) * width) for i in range(bundles))}
    incarnations = dict.fromkeys(names, 0)
    sequences = dict.fromkeys(names, 0)
    before: dict[str, LocalBrokerData] = {}
    history = []
    for number in range(reports):
        broker = names[number % brokers]
        _shake(rng, owned, names)
        if number > brokers and rng.random() < 0.05:
            incarnations[broker] += 1
            sequences[broker] = 0
        sequences[broker] += 1
        report = LocalBrokerData(
            broker_id=broker,
            incarnation=f"{incarnations[broker]:04d}",
            sequence=sequences[broker],
            last_update=START_MS + step_ms * number,
            start_timestamp=incarnations[broker],
            bundles=before[broker].bundles if broker in before else (),
            broker_version_string="4.0.0" if rng.random() < 0.9 else None,
            cpu=ResourceUsage(rng.uniform(0, 900), 800.0),
            memory=ResourceUsage(rng.uniform(0, 512), 512.0),
            direct_memory=rng.choice([ResourceUsage(-1.0, -1.0), ResourceUsage(rng.uniform(0, 3), 1 / 3)]),
            bandwidth_in=ResourceUsage(rng.uniform(0, 1e6), 1e6),
            bandwidth_out=ResourceUsage(rng.expovariate(1e-5), 0.0),
        )
        stats = {_name(bundle): make_stats(rng) for bundle in owned[broker]}
        before[broker] = with_stats(report, stats)
        history.append(before[broker])
    return history


def _name(bundle: tuple[int, int]) -> str:
    return f"{_NAMESPACE}/0x{bundle[0]:08x}_0x{min(bundle[1], 0xFFFFFFFF):08x}"


def _shake(rng: random.Random, owned: dict[str, dict[tuple[int, int], None]], names: list[str]) -> None:
    source, target = rng.choice(names), rng.choice(names)
    if rng.random() < 0.3 and owned[source]:
        bundle = rng.choice(sorted(owned[source]))
        del owned[source][bundle]
        owned[target][bundle] = None
    if rng.random() < 0.05 and owned[source]:
        bundle = rng.choice(sorted(owned[source]))
        del owned[source][bundle]
        middle = sum(bundle) // 2
        owned[source][bundle[0], middle] = None
        owned[rng.choice([source, target])][middle, bundle[1]] = None


def at(report: LocalBrokerData, last_update: int) -> LocalBrokerData:
    """Return `report` with another time."""
    return msgspec.structs.replace(report, last_update=last_update)
