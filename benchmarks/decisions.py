"""Time of a decision cycle: shed with the ThresholdShedder, then place everything that was shed; then each strategy.

One core, no I/O; loads are drawn from a seed, a tenth of the brokers are overloaded. The first cycle pays for arrays
that later ones of the same snapshot reuse, so both are shown; a live leader builds a new snapshot after each report.
"""

import argparse
import random
import time
from collections.abc import Callable

import numpy as np
import psutil

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.placement.choice import PlacementMemory
from barycenter.load.placement.least_long_term_message_rate import LeastLongTermMessageRateSettings, place_all
from barycenter.load.reports import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    default_bundle_data,
    with_stats,
)
from barycenter.load.shedding.avg_shedder import AvgShedderSettings, HitCounts, avg_shedder
from barycenter.load.shedding.deviation_shedder import deviation_shedder, throughput_deviation
from barycenter.load.shedding.overload_shedder import OverloadShedderSettings, overload_shedder
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.shedding.range_threshold_shedder import range_threshold_shedder
from barycenter.load.shedding.threshold_shedder import ThresholdShedderSettings, threshold_shedder
from barycenter.load.shedding.uniform_load_shedder import UniformLoadShedderSettings, uniform_load_shedder
from barycenter.load.snapshot import BrokerTable, BundleTable, LoadSnapshot, MessageColumns, build_snapshot
from barycenter.load.strategies import PLACERS
from barycenter.load.windows import broker_averages, fold_bundle
from benchmarks.machine import print_table

_SIZES = ((10, 1_000), (100, 50_000), (1_000, 1_000_000))
_BUNDLES_OF_NAMESPACE = 64
_MEBIBYTE = 1_048_576


def columns(rng: np.random.Generator, count: int, mean_throughput: float) -> MessageColumns:
    throughput = rng.pareto(2.0, count) * mean_throughput
    return MessageColumns(throughput / 1000, throughput / 1000, throughput, throughput)


def bundle_text(row: int) -> str:
    namespace, number = divmod(row, _BUNDLES_OF_NAMESPACE)
    return f"t/ns-{namespace:06}/0x{number:08x}_0x{number + 1:08x}"


def random_snapshot(brokers: int, bundles: int, seed: int) -> LoadSnapshot:
    """Return a cluster whose brokers share the bundles evenly; a tenth of them are at 90 %, the others near 50 %."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, brokers, bundles).astype(np.int32)
    short = columns(rng, bundles, 20 * _MEBIBYTE * brokers / bundles)
    percent = np.where(np.arange(brokers) % 10 == 0, 90.0, rng.uniform(45, 55, brokers))

    def of_brokers(values: np.ndarray) -> np.ndarray:
        return np.bincount(owner, weights=values, minlength=brokers)

    load = MessageColumns(*map(of_brokers, (short.rate_in, short.rate_out, short.throughput_in, short.throughput_out)))
    usage = np.zeros((5, brokers))
    usage[0] = percent
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
    namespaces = -(-bundles // _BUNDLES_OF_NAMESPACE)
    yes, no = np.ones(bundles, bool), np.zeros(bundles, bool)
    bundle_table = BundleTable(
        names=[bundle_text(row) for row in range(bundles)],
        owner=owner,
        namespace=(np.arange(bundles) // _BUNDLES_OF_NAMESPACE).astype(np.int32),
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


def cycle(snapshot: LoadSnapshot) -> tuple[ShedPlan, np.ndarray]:
    plan, _ = threshold_shedder(snapshot, ThresholdShedderSettings(), {})
    rates = snapshot.bundles.long.rate_in[plan.rows] + snapshot.bundles.long.rate_out[plan.rows]
    everyone = np.ones(len(snapshot.brokers), bool)
    return plan, place_all(snapshot, everyone, rates, LeastLongTermMessageRateSettings(), random.Random(1))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def median_ms(work: Callable[[], object], rounds: int) -> float:
    return sorted(timed(work) for _ in range(rounds))[rounds // 2]


def measure(brokers: int, bundles: int, rounds: int) -> list[object]:
    """Return one row of the table."""
    untouched, snapshot = random_snapshot(brokers, bundles, 0), random_snapshot(brokers, bundles, 1)
    plan, _ = cycle(snapshot)
    first = timed(lambda: cycle(untouched))
    again = median_ms(lambda: cycle(snapshot), rounds)
    shed = median_ms(lambda: threshold_shedder(snapshot, ThresholdShedderSettings(), {}), rounds)
    explain = timed(lambda: list(plan))
    return [f"{brokers:,} × {bundles:,}", len(plan), first, again, shed, again - shed, explain]


def shedders() -> list[tuple[str, Callable[[LoadSnapshot], ShedPlan]]]:
    """Return every shedder with settings that make it act: a minimum of nothing, and hits enough for the AvgShedder."""
    threshold, member = ThresholdShedderSettings(minimum_throughput=0.0), throughput_deviation(BrokerConfig())
    uniform = UniformLoadShedderSettings(rate_difference=10.0, minimum_rate=0.0, minimum_throughput=0.0)
    avg = AvgShedderSettings(share=0.5, minimum_rate=0.0, minimum_throughput=0.0, low=5.0, low_hits=1)
    return [
        ("OverloadShedder", lambda snapshot: overload_shedder(snapshot, OverloadShedderSettings())),
        ("ThresholdShedder", lambda snapshot: threshold_shedder(snapshot, threshold, {})[0]),
        ("RangeThresholdShedder", lambda snapshot: range_threshold_shedder(snapshot, threshold, {})[0]),
        ("UniformLoadShedder", lambda snapshot: uniform_load_shedder(snapshot, uniform)),
        ("AvgShedder", lambda snapshot: avg_shedder(snapshot, avg, HitCounts())[0]),
        ("DeviationShedder", lambda snapshot: deviation_shedder(snapshot, member)),
    ]


def shedding_rows(rounds: int) -> list[list[object]]:
    rows = []
    for name, shed in shedders():
        row: list[object] = [name]
        for brokers, bundles in _SIZES:
            untouched, snapshot = random_snapshot(brokers, bundles, 0), random_snapshot(brokers, bundles, 1)
            first = timed(lambda shed=shed, untouched=untouched: shed(untouched))  # type: ignore[misc]
            again = median_ms(lambda shed=shed, snapshot=snapshot: shed(snapshot), rounds)  # type: ignore[misc]
            row += [first, again, len(shed(snapshot))]
        rows.append(row)
    return rows


def placing_us(name: str, snapshot: LoadSnapshot, count: int = 1_000) -> float:
    """Return the time of one placement among all brokers, its memory handed on from one to the next."""
    place = PLACERS[name](BrokerConfig())
    everyone, rng = np.ones(len(snapshot.brokers), bool), random.Random(1)

    def all_of_them() -> None:
        memory: PlacementMemory = None
        for row in range(count):
            _, memory = place(snapshot, everyone, f"t/new/{row}", rng, memory)

    return timed(all_of_them) / count * 1000


def building_ms(brokers: int, bundles: int) -> float:
    """Return how long a snapshot takes from reports and windows, as a live leader has them."""
    each = bundles // brokers
    reports, data = {}, {}
    for broker in range(brokers):
        stats = {
            f"t/ns-{broker}/0x{row:08x}_0x{row + 1:08x}": NamespaceBundleStats(msg_rate_in=row) for row in range(each)
        }
        reports[f"b{broker}"] = with_stats(LocalBrokerData(cpu=ResourceUsage(1, 2)), stats)
        data.update({name: fold_bundle(default_bundle_data(), sample) for name, sample in stats.items()})
    averages = {name: broker_averages(report.last_stats, data) for name, report in reports.items()}
    return timed(lambda: build_snapshot(reports, data, averages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    rows = [measure(brokers, bundles, rounds) for brokers, bundles in _SIZES]
    print_table(
        "Decision cycle, ThresholdShedder and LeastLongTermMessageRate",
        ["brokers × bundles", "moved", "first ms", "again ms", "of it shed", "of it place", "all reasons ms"],
        rows,
    )
    sizes = [
        f"{what} {brokers:,} × {bundles:,}" for brokers, bundles in _SIZES for what in ("first ms", "again ms", "moved")
    ]
    print_table("Shedders", ["strategy", *sizes], shedding_rows(rounds))
    hundred, thousand = random_snapshot(100, 50_000, 4), random_snapshot(1_000, 50_000, 4)
    print_table(
        "One placement",
        ["strategy", "µs among 100 brokers", "µs among 1,000 brokers"],
        [[name, placing_us(name, hundred), placing_us(name, thousand)] for name in sorted(PLACERS)],
    )
    empty = random_snapshot(1_000, 1_000, 2)
    fresh = np.random.default_rng(3).pareto(2.0, 50_000) * 100
    placing = timed(
        lambda: place_all(empty, np.ones(1_000, bool), fresh, LeastLongTermMessageRateSettings(), random.Random(1))
    )
    print_table(
        "Placement and snapshots",
        ["what", "ms"],
        [
            ["place 50,000 bundles on 1,000 brokers", placing],
            ["snapshot of 10 × 1,000 from reports", building_ms(10, 1_000)],
            ["snapshot of 100 × 50,000 from reports", building_ms(100, 50_000)],
        ],
    )
    print(f"\nresident at the end: {psutil.Process().memory_info().rss / _MEBIBYTE:,.0f} MiB")


if __name__ == "__main__":
    main()
