"""A made-up history of load reports: brokers that start anew, bundles that move and split."""

from __future__ import annotations

import random

import msgspec

from barycenter.load.reports import LocalBrokerData, NamespaceBundleStats, with_stats

START_MS = 1_790_000_000_000 - 1_790_000_000_000 % 86_400_000 + 86_390_000
"""Ten seconds before midnight, so that a history spans two dates."""


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


def make_history(seed: int, *, reports: int, brokers: int = 3, bundles: int = 8) -> list[LocalBrokerData]:
    """Return `reports` load reports in the order of their times, one second apart.

    Now and then a bundle moves or splits, or a broker restarts with a new incarnation; the last broker serves nothing
    at first.
    """
    rng = random.Random(seed)
    names = [f"127.0.0.1:{8080 + index}" for index in range(brokers)]
    owned = {name: {f"public/default/0x{i:08x}_0x{i + 1:08x}": None for i in range(bundles)} for name in names[:1]}
    owned |= {name: {} for name in names[1:]}
    incarnations = dict.fromkeys(names, 0)
    sequences = dict.fromkeys(names, 0)
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
            last_update=START_MS + 1000 * number,
            start_timestamp=incarnations[broker],
        )
        history.append(with_stats(report, {bundle: make_stats(rng) for bundle in owned[broker]}))
    return history


def _shake(rng: random.Random, owned: dict[str, dict[str, None]], names: list[str]) -> None:
    source, target = rng.choice(names), rng.choice(names)
    if rng.random() < 0.3 and owned[source]:
        bundle = rng.choice(sorted(owned[source]))
        del owned[source][bundle]
        owned[target][bundle] = None
    if rng.random() < 0.05 and owned[source]:
        bundle = rng.choice(sorted(owned[source]))
        del owned[source][bundle]
        owned[source] |= {f"{bundle}-low": None, f"{bundle}-high": None}


def at(report: LocalBrokerData, last_update: int) -> LocalBrokerData:
    """Return `report` with another time."""
    return msgspec.structs.replace(report, last_update=last_update)
