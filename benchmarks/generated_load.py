"""Clusters under load of any size, drawn from a seed as columns; the shapes that make a strategy work hardest included.

Nothing here is measured: reports would take far longer to draw than any decision takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import (
    BrokerTable,
    BundleTable,
    Floats,
    Indices,
    LoadSnapshot,
    MessageColumns,
)

SIZES: Final = ((10, 1_000), (100, 50_000), (1_000, 1_000_000))
BUNDLES_OF_NAMESPACE: Final = 64
MEBIBYTE: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Shape:
    """Who owns each of so many bundles, what each carries (a factor of the mean), and each broker's CPU in percent."""

    owner: Callable[[np.random.Generator, int, int], Indices]
    traffic: Callable[[np.random.Generator, int], Floats]
    percent: Callable[[np.random.Generator, int], Floats]


def _anybody(rng: np.random.Generator, brokers: int, bundles: int) -> Indices:
    return rng.integers(0, brokers, bundles).astype(np.int32)


def _in_turn(_rng: np.random.Generator, brokers: int, bundles: int) -> Indices:
    return (np.arange(bundles) % brokers).astype(np.int32)


def _first(_rng: np.random.Generator, _brokers: int, bundles: int) -> Indices:
    return np.zeros(bundles, np.int32)


def _unlike(rng: np.random.Generator, brokers: int, bundles: int) -> Indices:
    """Brokers differ in how many they hold, some by a factor of hundreds."""
    weight = rng.pareto(1.0, brokers) + 0.01
    return rng.choice(brokers, bundles, p=weight / weight.sum()).astype(np.int32)


def _spread(rng: np.random.Generator, bundles: int) -> Floats:
    return rng.pareto(2.0, bundles)


def _alike(_rng: np.random.Generator, bundles: int) -> Floats:
    return np.ones(bundles)


def _heavy_tail(rng: np.random.Generator, bundles: int) -> Floats:
    return np.minimum(rng.pareto(0.8, bundles), 1e6)


def _a_tenth_hot(rng: np.random.Generator, brokers: int) -> Floats:
    """No two alike, or which of them a strategy prefers would be a matter of names, and of hash maps in a JVM."""
    return np.where(np.arange(brokers) % 10 == 0, rng.uniform(89, 91, brokers), rng.uniform(45, 55, brokers))


def _all_even(_rng: np.random.Generator, brokers: int) -> Floats:
    return np.full(brokers, 50.0)


def _all_overloaded(rng: np.random.Generator, brokers: int) -> Floats:
    return rng.uniform(90, 140, brokers)


def _first_busy(_rng: np.random.Generator, brokers: int) -> Floats:
    return np.where(np.arange(brokers) == 0, 95.0, 5.0)


SHAPES: Final[Mapping[str, Shape]] = {
    "hot": Shape(_anybody, _spread, _a_tenth_hot),
    "balanced": Shape(_in_turn, _alike, _all_even),
    "overloaded": Shape(_anybody, _spread, _all_overloaded),
    "one owns all": Shape(_first, _spread, _first_busy),
    "equal traffic": Shape(_anybody, _alike, _a_tenth_hot),
    "heavy tails": Shape(_anybody, _heavy_tail, _a_tenth_hot),
    "unlike brokers": Shape(_unlike, _spread, _a_tenth_hot),
}


def bundle_text(row: int) -> str:
    namespace, number = divmod(row, BUNDLES_OF_NAMESPACE)
    return f"t/ns-{namespace:06}/0x{number:08x}_0x{number + 1:08x}"


def messages(traffic: Floats, mean_throughput: float) -> MessageColumns:
    throughput = traffic * mean_throughput
    return MessageColumns(throughput / 1000, throughput / 1000, throughput, throughput)


def generated_snapshot(brokers: int, bundles: int, shape: str = "hot", seed: int = 0) -> LoadSnapshot:
    """Return a cluster of that shape; a broker carries what its bundles do, 20 MiB/s in and as much out on average."""
    rng, kind = np.random.default_rng(seed), SHAPES[shape]
    owner = kind.owner(rng, brokers, bundles)
    short = messages(kind.traffic(rng, bundles), 20 * MEBIBYTE * brokers / max(1, bundles))

    def of_brokers(values: Floats) -> Floats:
        return np.bincount(owner, weights=values, minlength=brokers).astype(np.float64)

    load = MessageColumns(*map(of_brokers, (short.rate_in, short.rate_out, short.throughput_in, short.throughput_out)))
    usage = np.zeros((5, brokers))
    usage[0] = kind.percent(rng, brokers)
    broker_table = BrokerTable(
        names=tuple(f"broker-{row:05}:8080" for row in range(brokers)),
        usage=usage,
        limit=np.full((5, brokers), 100.0),
        latest=load,
        short=load,
        long=load,
        topics=np.full(brokers, 100),
        bundle_count=np.bincount(owner, minlength=brokers),
        versions=("4.0.0",) * brokers,
        class_names=("ModularLoadManagerImpl",) * brokers,
        persistent=np.ones(brokers, bool),
        non_persistent=np.ones(brokers, bool),
        started_at_ms=np.zeros(brokers, np.int64),
        reported_at_ms=np.zeros(brokers, np.int64),
        suspect=np.zeros(brokers, bool),
    )
    namespaces = -(-bundles // BUNDLES_OF_NAMESPACE)
    yes, no = np.ones(bundles, bool), np.zeros(bundles, bool)
    bundle_table = BundleTable(
        names=[bundle_text(row) for row in range(bundles)],
        owner=owner,
        namespace=(np.arange(bundles) // BUNDLES_OF_NAMESPACE).astype(np.int32),
        latest=short,
        topics=np.full(bundles, 5),
        sessions=np.full(bundles, 10),
        short=short,
        long=short,
        short_samples=np.full(bundles, 10),
        long_samples=np.full(bundles, 1000),
        listed=yes,
        sampled=yes,
        has_windows=yes,
        broker_bound=no,
        recently_unloaded=no,
        suspect=no,
    )
    return LoadSnapshot(broker_table, bundle_table, tuple(f"t/ns-{row:06}" for row in range(namespaces)))
