"""Time and memory of decision cycles (shed, then place all that was shed), of each strategy, beside Pulsar's classes.

`python -m benchmarks decisions` measures ours; with `--jvm` also Pulsar's own classes in a warmed-up JVM, on the same
clusters, and whether both chose the same bundles. One core, no I/O. Each of our runs gets a snapshot that nothing was
computed of yet, since a live leader makes a new one after each report; the JVM's classes keep what they keep.

Memory is the growth of this process's largest resident size over that before the decision, in a forked child that does
nothing else, reasons not made (`VmHWM`, reset before). `--json FILE` writes all figures.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from barycenter.load.placement.bulk import BULK_PLACERS, place_plan
from barycenter.load.placement.choice import PlacementMemory

from barycenter.config.broker_conf import with_overrides
from barycenter.config.broker_config import BrokerConfig
from barycenter.load.managers import ManagerKind
from barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    default_bundle_data,
    with_stats,
)
from barycenter.load.reports.windows import broker_averages, fold_bundle
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.snapshot.builder import build_snapshot
from barycenter.load.snapshot.load_snapshot import Indices, LoadSnapshot
from barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from barycenter.load.splitting.split_plan import BundleLimits
from barycenter.load.splitting.splitter import no_boundaries
from barycenter.load.strategies import PLACERS, SHEDDERS, Shedder, shedder_of
from benchmarks.generated_load import BUNDLES_OF_NAMESPACE, SHAPES, SIZES, generated_snapshot
from benchmarks.machine import machine, peak_growth_mib, print_table
from benchmarks.pulsar_jvm import Answer, Patience, PulsarJvm, Task
from benchmarks.transfer_load import transfer_document, transfer_snapshot

_RATE: Final = "LeastLongTermMessageRate"
_IN_PULSAR: Final = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")

# settings that make each of them act: a minimum of nothing, and hits enough at once
OVERRIDES: Final[dict[str, dict[str, Any]]] = {
    "OverloadShedder": {},
    "ThresholdShedder": {"loadBalancerBundleUnloadMinThroughputThreshold": 0.0},
    "RangeThresholdShedder": {"loadBalancerBundleUnloadMinThroughputThreshold": 0.0},
    "UniformLoadShedder": {
        "loadBalancerMsgRateDifferenceShedderThreshold": 10,
        "minUnloadMessage": 0,
        "minUnloadMessageThroughput": 0,
    },
    "AvgShedder": {
        "loadBalancerAvgShedderLowThreshold": 5,
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "maxUnloadPercentage": 0.5,
        "minUnloadMessage": 0,
        "minUnloadMessageThroughput": 0,
    },
    "DeviationShedder": {},
    "BundleSplitterTask": {"loadBalancerNamespaceBundleMaxMsgRate": 5_000},
    "TransferShedder": {
        "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": 1_000_000,
        "loadBalancerBrokerLoadTargetStd": 0.05,
    },
}

TRANSFER_SIZES: Final = (*SIZES[:2], (1_000, 50_000), SIZES[2])


def config_of(strategy: str) -> BrokerConfig:
    return with_overrides(BrokerConfig(), {key: str(value) for key, value in OVERRIDES.get(strategy, {}).items()})


def untouched(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return the snapshot without what was computed of it."""
    return replace(snapshot, brokers=replace(snapshot.brokers), bundles=replace(snapshot.bundles))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def median(figures: list[float]) -> float:
    return sorted(figures)[len(figures) // 2]


@dataclass(frozen=True, slots=True)
class Measured:
    """One strategy on one cluster: medians in ms, MiB, and what was decided."""

    shed_ms: float
    place_ms: float
    cycle_ms: float
    slowest_ms: float
    reasons_ms: float
    peak_mib: float
    plan: ShedPlan
    placed: Indices


def placer_for(shedder: str) -> str:
    return shedder if shedder in BULK_PLACERS else _RATE


def measure(snapshot: LoadSnapshot, shedder: str, rounds: int) -> Measured:
    config = config_of(shedder)
    shed, place = SHEDDERS[shedder](config), BULK_PLACERS[placer_for(shedder)](config)

    def cycle(fresh: LoadSnapshot) -> tuple[ShedPlan, Indices, float, float]:
        started = time.perf_counter()
        plan, _ = shed(fresh, None)
        between = time.perf_counter()
        placed, _ = place_plan(plan, place, random.Random(1))
        return plan, placed, (between - started) * 1000, (time.perf_counter() - between) * 1000

    peak = peak_growth_mib(lambda: cycle(untouched(snapshot)))
    runs = [cycle(untouched(snapshot)) for _ in range(rounds)]
    plan, placed, _, _ = runs[-1]
    explained = plan if len(plan) < 20_000 else replace(plan, rows=plan.rows[:20_000])
    whole = [shed_ms + place_ms for _, _, shed_ms, place_ms in runs]
    return Measured(
        median([run[2] for run in runs]),
        median([run[3] for run in runs]),
        median(whole),
        max(whole),
        timed(lambda: [explained.unload(position) for position in range(len(explained))]),
        peak,
        plan,
        placed,
    )


def agreement(snapshot: LoadSnapshot, ours: np.ndarray, theirs: np.ndarray) -> str:
    """Say whether both chose the same bundles, or at least as many, equally heavy ones of each broker."""
    if np.array_equal(np.sort(ours), np.sort(theirs)):
        return "the same"
    bundles = snapshot.bundles

    def weighed(rows: np.ndarray) -> np.ndarray:
        return np.stack((bundles.owner[rows], bundles.short.throughput[rows]))[
            :, np.lexsort((bundles.short.throughput[rows], bundles.owner[rows]))
        ]

    if len(ours) == len(theirs) and np.array_equal(weighed(ours), weighed(theirs)):
        return "the same but for equals"
    return f"{len(np.setxor1d(ours, theirs))} differ"


def sized(size: tuple[int, int]) -> str:
    return f"{size[0]:,} × {size[1]:,}"


def cycles(
    sizes: list[tuple[int, int]], rounds: int, jvm: PulsarJvm | None, patience: Patience
) -> list[dict[str, Any]]:
    """Measure every shedder with its placement on every size, Pulsar's beside ours."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        snapshot = generated_snapshot(*size)
        theirs: dict[str, Answer] = {}
        refused, heap_mib = "", 0.0
        if jvm is not None:
            tasks = [Task(name, "cycle", OVERRIDES[name], name, placer_for(name)) for name in _IN_PULSAR]
            tasks.append(Task("BundleSplitterTask", "split", OVERRIDES["BundleSplitterTask"]))
            try:
                answers, heap_mib = jvm.ask(snapshot, tasks, patience, BUNDLES_OF_NAMESPACE)
                theirs = {task.name: answer for task, answer in zip(tasks, answers, strict=True)}
            except MemoryError as error:
                refused = str(error)
        for name in SHEDDERS:
            if name not in OVERRIDES:
                continue
            one = measure(snapshot, name, rounds)
            row: dict[str, Any] = {
                "size": sized(size),
                "strategy": name,
                "moved": len(one.plan),
                "shed_ms": one.shed_ms,
            }
            row |= {"place_ms": one.place_ms, "cycle_ms": one.cycle_ms, "slowest_ms": one.slowest_ms}
            row |= {"peak_mib": one.peak_mib, "reasons_ms": one.reasons_ms, "refused": refused}
            row |= beside(theirs.get(name), "cycle_ms", one.cycle_ms, heap_mib)
            if name in theirs:
                row["agreement"] = agreement(snapshot, one.plan.rows, theirs[name].rows)
            rows.append(row)
        rows.append(split_row(snapshot, sized(size), rounds, theirs.get("BundleSplitterTask"), heap_mib))
    return rows


def split_row(snapshot: LoadSnapshot, size: str, rounds: int, theirs: Answer | None, heap_mib: float) -> dict[str, Any]:
    settings = BundleLimits.of(config_of("BundleSplitterTask"))
    counts = dict.fromkeys(snapshot.namespaces, BUNDLES_OF_NAMESPACE)
    ms = median(
        [
            timed(lambda: BundleSplitterTask(settings).decide(untouched(snapshot), counts, no_boundaries, None)[0])
            for _ in range(rounds)
        ]
    )
    rows = BundleSplitterTask(settings).decide(snapshot, counts, no_boundaries, None)[0].rows
    peak = peak_growth_mib(
        lambda: BundleSplitterTask(settings).decide(untouched(snapshot), counts, no_boundaries, None)[0]
    )
    row: dict[str, Any] = {"size": size, "strategy": "BundleSplitterTask", "moved": len(rows), "cycle_ms": ms}
    row |= {"peak_mib": peak} | beside(theirs, "split_ms", ms, heap_mib)
    if theirs is not None:
        row["agreement"] = agreement(snapshot, rows, theirs.rows)
    return row


def beside(theirs: Answer | None, figure: str, ours_ms: float, heap_mib: float) -> dict[str, Any]:
    """Return the JVM's figures, and how many times faster ours is."""
    if theirs is None:
        return {}
    told = {f"jvm_{key}": value for key, value in theirs.figures.items() if key != "name"}
    return told | {
        "jvm_heap_mib": heap_mib,
        "faster": theirs.figures[figure] / ours_ms,
        "jvm_ms": theirs.figures[figure],
    }


def empty_cluster(brokers: int, bundles: int) -> LoadSnapshot:
    """Return brokers that hold and carry nothing, and bundles to be placed on them."""
    idle, full = generated_snapshot(brokers, 0), generated_snapshot(brokers, bundles)
    return replace(full, brokers=replace(idle.brokers, usage=np.zeros((5, brokers))))


def placements(rounds: int, jvm: PulsarJvm | None, patience: Patience) -> list[dict[str, Any]]:
    """Place 50,000 bundles on 1,000 empty brokers with each strategy."""
    snapshot = empty_cluster(1_000, 50_000)
    rows, everyone = np.arange(len(snapshot.bundles)), np.ones(len(snapshot.brokers), bool)
    names = (_RATE, "LeastResourceUsageWithWeight", "AvgShedder")
    theirs: dict[str, Answer] = {}
    if jvm is not None:
        tasks = [Task(name, "place", {}, "", name) for name in names]
        answers, _ = jvm.ask(snapshot, tasks, patience, BUNDLES_OF_NAMESPACE)
        theirs = {task.name: answer for task, answer in zip(tasks, answers, strict=True)}
    table: list[dict[str, Any]] = []
    for name in sorted(BULK_PLACERS):
        place = BULK_PLACERS[name](BrokerConfig())
        runs = [timed(partial(place, snapshot, everyone, rows, random.Random(1), None)) for _ in range(rounds)]
        row: dict[str, Any] = {"strategy": name, "place_ms": median(runs)}
        if name in theirs:
            figures = theirs[name].figures
            row |= {"jvm_ms": figures["place_ms"], "faster": figures["place_ms"] / row["place_ms"]}
            placed, _ = place(snapshot, everyone, rows, random.Random(1), None)
            spread = [spread_of(snapshot, rows, placed), spread_of(snapshot, theirs[name].rows, theirs[name].owners)]
            row["busiest"], row["jvm_busiest"] = spread
        table.append(row)
    alike = replace(snapshot, bundles=generated_snapshot(1_000, 50_000, "balanced").bundles)
    place = BULK_PLACERS[_RATE](BrokerConfig())
    runs = [timed(partial(place, alike, everyone, rows, random.Random(1), None)) for _ in range(rounds)]
    table.append({"strategy": f"{_RATE}, all bundles alike", "place_ms": median(runs)})
    return table


def transfers(rounds: int, jvm: PulsarJvm | None, patience: Patience) -> list[dict[str, Any]]:
    """Measure the TransferShedder as the leader has it, which asks the filters, where all brokers may give.

    Pulsar's class is timed with its filters, as in a broker, and without, as its own tests make it.
    """
    config = config_of("TransferShedder")
    shed = shedder_of(config, ManagerKind.EXTENSIBLE)
    snapshots = [transfer_snapshot(*size) for size in TRANSFER_SIZES]
    theirs: list[Answer] = []
    if jvm is not None:
        tasks = []
        for size, snapshot in zip(TRANSFER_SIZES, snapshots, strict=True):
            document = transfer_document(snapshot)
            for filters in (True, False):
                case = document | {"filters": filters}
                tasks.append(Task(f"{sized(size)} {filters=}", "transfer", OVERRIDES["TransferShedder"], case=case))
        # a run of few milliseconds is warm after many of them only
        theirs, _ = jvm.ask(generated_snapshot(2, 2), tasks, replace(patience, warm_runs=3_000), BUNDLES_OF_NAMESPACE)
    table: list[dict[str, Any]] = []
    for number, (size, snapshot) in enumerate(zip(TRANSFER_SIZES, snapshots, strict=True)):
        plan, _ = shed(snapshot, None)
        ms = median([shedding_ms(shed, snapshot) for _ in range(rounds)])
        row: dict[str, Any] = {"size": sized(size), "moved": len(plan), "shed_ms": ms}
        if theirs:
            filtering, bare = theirs[2 * number : 2 * number + 2]
            row |= beside(filtering, "shed_ms", ms, 0.0) | {"jvm_bare_ms": bare.figures["shed_ms"]}
            row["faster_than_bare"] = row["jvm_bare_ms"] / ms
            ours = {(unload.source, unload.bundle, unload.destination or "") for unload in plan}
            differ = len(ours ^ {tuple(decision) for decision in row.pop("jvm_decisions")})
            row["agreement"] = f"{differ} differ" if differ else "the same"
        table.append(row)
    return table


def spread_of(snapshot: LoadSnapshot, rows: np.ndarray, owners: np.ndarray) -> float:
    """Return what the busiest broker carries, as a multiple of the mean."""
    carried = np.bincount(owners, snapshot.bundles.long.rate[rows], len(snapshot.brokers))
    return float(carried.max() / carried.mean())


def shedding_ms(shed: Shedder, snapshot: LoadSnapshot) -> float:
    fresh = untouched(snapshot)
    return timed(lambda: shed(fresh, None))


def shapes(rounds: int, size: tuple[int, int]) -> list[list[object]]:
    """Time every shedder on every shape of load; one that takes a second is not repeated."""
    rows = []
    transfer = shedder_of(config_of("TransferShedder"), ManagerKind.EXTENSIBLE)
    for shape in SHAPES:
        snapshot = generated_snapshot(*size, shape)
        row: list[object] = [shape]
        for name in SHEDDERS:
            if name not in OVERRIDES:
                continue
            shed = SHEDDERS[name](config_of(name))
            runs = [shedding_ms(shed, snapshot)]
            while len(runs) < rounds and runs[0] < 1_000:
                runs.append(shedding_ms(shed, snapshot))
            row.append(median(runs))
        listing = transfer_snapshot(*size, shape)
        row.append(median([shedding_ms(transfer, listing) for _ in range(rounds)]))
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


_COLUMNS: Final = (
    ("brokers × bundles", "size"),
    ("strategy", "strategy"),
    ("moved", "moved"),
    ("shed ms", "shed_ms"),
    ("place ms", "place_ms"),
    ("cycle ms", "cycle_ms"),
    ("peak MiB", "peak_mib"),
    ("Pulsar: shed ms", "jvm_shed_ms"),
    ("place ms", "jvm_place_ms"),
    ("cycle ms", "jvm_ms"),
    ("times faster", "faster"),
    ("bundles chosen", "agreement"),
)


def print_cycles(rows: list[dict[str, Any]], jvm: PulsarJvm | None) -> None:
    columns = [column for column in _COLUMNS if jvm is not None or column[1] in rows[0]]
    title = "Decision cycles" + (f" beside Pulsar {jvm.version}'s, JVM with -Xmx{jvm.heap}" if jvm else "")
    print_table(title, [head for head, _ in columns], [[row.get(key, "–") for _, key in columns] for row in rows])
    for text in sorted({row["refused"] for row in rows if row.get("refused")}):
        print(f"\nIn the JVM {text}.")
    explained = [row for row in rows if row.get("reasons_ms") is not None and row["moved"]]
    print_table(
        "Reasons, made on demand",
        ["brokers × bundles", "strategy", "µs each"],
        [[row["size"], row["strategy"], 1000 * row["reasons_ms"] / min(20_000, row["moved"])] for row in explained],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="runs of each of ours; the median counts")
    parser.add_argument("--jvm", action="store_true", help="measure Pulsar's classes, too; needs Maven and a JDK")
    parser.add_argument("--heap", default="8g", help="of the JVM")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="only the first so many sizes")
    parser.add_argument("--quick", action="store_true", help="few runs, hardly warmed up: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
    rounds, patience = (3, Patience(2, 2.0, 3, 4.0)) if arguments.quick else (arguments.rounds, Patience())
    sizes = list(SIZES[: arguments.sizes])
    with tempfile.TemporaryDirectory(prefix="barycenter-jvm-") as folder:
        jvm = PulsarJvm(Path(folder), arguments.heap) if arguments.jvm else None
        rows = cycles(sizes, rounds, jvm, patience)
        print_cycles(rows, jvm)
        placed = placements(rounds, jvm, patience)
        moved = transfers(rounds, jvm, patience)
    heads = {"size": "brokers × bundles", "moved": "moved", "shed_ms": "ms", "jvm_ms": "Pulsar ms"}
    heads |= {"faster": "times faster", "jvm_bare_ms": "without its filters ms", "faster_than_bare": "times faster"}
    heads |= {"agreement": "decisions"}
    print_table("TransferShedder", list(heads.values()), [[row.get(key, "–") for key in heads] for row in moved])
    heads = {"strategy": "strategy", "place_ms": "ms", "jvm_ms": "Pulsar ms", "faster": "times faster"}
    heads |= {"busiest": "busiest/mean", "jvm_busiest": "Pulsar's"}
    print_table(
        "50,000 bundles on 1,000 empty brokers",
        list(heads.values()),
        [[row.get(key, "–") for key in heads] for row in placed],
    )
    shaped = shapes(min(rounds, 5), sizes[-1])
    print_table(f"Shedders by shape of load, ms, {sized(sizes[-1])}", ["shape", *_shown()], shaped)
    hundred, thousand = generated_snapshot(100, 50_000), generated_snapshot(1_000, 50_000)
    singles = [[name, placing_us(name, hundred), placing_us(name, thousand)] for name in sorted(BULK_PLACERS)]
    print_table("One placement", ["strategy", "µs among 100 brokers", "µs among 1,000 brokers"], singles)
    built = [[f"snapshot of {sized(size)} from reports", building_ms(*size)] for size in SIZES[:2]]
    print_table("Snapshots", ["what", "ms"], built)
    if arguments.json:
        document = {"machine": machine(), "pulsar": jvm.version if jvm else None, "heap": arguments.heap}
        document |= {
            "cycles": rows,
            "placements": placed,
            "transfers": moved,
            "shapes": {"strategies": _shown(), "ms": shaped},
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def _shown() -> list[str]:
    return [*(name for name in SHEDDERS if name in OVERRIDES), "TransferShedder"]


if __name__ == "__main__":
    main()
