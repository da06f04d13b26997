"""Measures time and memory of whole rounds of a leader, and compares them with Pulsar's classes.

A round is what the leader runs (`load.rounds.round`): the shedder decides, and each bundle it sheds gets its
destination by policies, filters and the placement strategy, one after the other. A live leader awaits the owner of each
bundle in between; here all is answered at once. Every answer has its reason; that of a placement is made when it is
read, which a leader does of those that it refuses, so 10,000 placements are measured with reading, too.

`python -m benchmarks decisions` measures ours; with `--jvm` also Pulsar's own strategies in a warmed-up JVM, on the
same clusters, and whether both shed the same bundles. In the JVM, the shedding and the placement strategy run without
filters, policies and reasons. One core, no I/O: times of ours are CPU seconds of the process, so that others on the
machine disturb them less. Each of our runs gets a snapshot that nothing was computed of yet, since a live leader makes
a new one after each report; the JVM's classes keep what they keep.

Snapshots, of which this process holds more than a leader has, are kept out of our garbage collections.

Memory is the growth of this process's largest resident size over that before the round, in a forked child that does
nothing else (`VmHWM`, reset before). `--json FILE` writes all figures.
"""

import argparse
import gc
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.generated_load import BUNDLES_OF_NAMESPACE, SHAPES, SIZES, generated_snapshot
from benchmarks.machine import machine, peak_growth_mib, print_table
from benchmarks.pulsar_jvm import Answer, Patience, PulsarJvm, Task
from benchmarks.transfer_load import transfer_document, transfer_snapshot
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    default_bundle_data,
    with_stats,
)
from pulsar_barycenter.load.reports.windows import broker_averages, fold_bundle
from pulsar_barycenter.load.rounds.round import RoundOutcome, round_of, selection_of
from pulsar_barycenter.load.snapshot.builder import SnapshotBuilder
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, PLACER_NAMES, SHEDDER_NAMES, SHEDDING_KEY, splitter_of

_RATE: Final = "LeastLongTermMessageRate"
_TRANSFER: Final = "TransferShedder"
_IN_PULSAR: Final = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
_BOUND_KEY: Final = "barycenterMaxBundlesPerRound"
_STRATEGIES: Final = (*sorted(SHEDDER_NAMES), _TRANSFER)

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
COMPARED: Final = (100, 50_000)
"""Where Pulsar's classes stand beside ours: at the largest size one run of theirs takes minutes."""


LINE: Final = "4.x"
"""The line of versions whose classes are timed beside ours."""


def config_of(strategy: str, **more: object) -> BrokerConfig:
    """Return the configuration under which a strategy acts; a shedder has the placement strategy that goes with it."""
    texts = {COMPATIBILITY_KEY: LINE} | {key: str(value) for key, value in OVERRIDES.get(strategy, {}).items()}
    if strategy in SHEDDER_NAMES:
        texts |= {SHEDDING_KEY: strategy, PLACEMENT_KEY: placer_for(strategy)}
    return with_overrides(BrokerConfig(), texts | {key: str(value) for key, value in more.items()})


def manager_of(strategy: str) -> ManagerKind:
    return ManagerKind.EXTENSIBLE if strategy == _TRANSFER else ManagerKind.MODULAR


def placer_for(shedder: str) -> str:
    return shedder if shedder in PLACER_NAMES else _RATE


def cluster_for(strategy: str, size: tuple[int, int], shape: str = "hot") -> LoadSnapshot:
    return (transfer_snapshot if strategy == _TRANSFER else generated_snapshot)(*size, shape)


def untouched(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return the snapshot without what was computed of it."""
    return replace(snapshot, brokers=replace(snapshot.brokers), bundles=replace(snapshot.bundles))


def timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def median(figures: Sequence[float]) -> float:
    return sorted(figures)[len(figures) // 2]


@dataclass(frozen=True, slots=True)
class Measured:
    """One strategy on one cluster: medians in ms, and what was decided."""

    shed_ms: float
    round_ms: float
    slowest_ms: float
    outcome: RoundOutcome

    def row(self) -> dict[str, Any]:
        moved, refused = len(self.outcome.moves), len(self.outcome.refused)
        row: dict[str, Any] = {"planned": len(self.outcome.plan), "moved": moved, "refused": refused}
        return row | {"shed_ms": self.shed_ms, "round_ms": self.round_ms, "slowest_ms": self.slowest_ms}


def measure(snapshot: LoadSnapshot, config: BrokerConfig, manager: ManagerKind, runs: int) -> Measured:
    """Run the round so often; one that takes a second is not repeated."""
    cycle = round_of(config, manager)

    def once() -> tuple[float, RoundOutcome]:
        fresh, memory = untouched(snapshot), cycle.start()
        started = time.process_time()
        outcome, _ = cycle.run(fresh, memory, random.Random(1))
        return (time.process_time() - started) * 1000, outcome

    def shed_once() -> float:
        fresh, memory = untouched(snapshot), cycle.shedder.start()
        return timed(lambda: cycle.shedder.decide(fresh, memory))

    gc.collect()
    gc.freeze()
    found = [once()]
    while len(found) < runs and found[0][0] < 1_000:
        found.append(once())
    shed = [shed_once() for _ in found]
    gc.unfreeze()
    times = [ms for ms, _ in found]
    return Measured(median(shed), median(times), max(times), found[-1][1])


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


def rounds(runs: int, sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Measure a round of every shedder on the usual shape of load, at every size."""
    found = []
    for size in sizes:
        for name in _STRATEGIES:
            snapshot, config, manager = cluster_for(name, size), config_of(name), manager_of(name)
            cycle = round_of(config, manager)
            one = measure(snapshot, config, manager, runs)
            peak = peak_growth_mib(lambda: cycle.run(untouched(snapshot), cycle.start(), random.Random(1)))  # noqa: B023
            found.append({"size": sized(size), "strategy": name} | one.row() | {"peak_mib": peak})
    return found


def by_shape(
    runs: int, size: tuple[int, int], policies: Callable[[LoadSnapshot], ClusterPolicies] | None = None
) -> list[dict[str, Any]]:
    """Measure a round of every shedder on every shape of load, under these policies."""
    found = []
    for shape in SHAPES:
        for name in _STRATEGIES:
            snapshot = cluster_for(name, size, shape)
            if policies is not None:
                snapshot = replace(snapshot, policies=policies(snapshot))
            one = measure(snapshot, config_of(name), manager_of(name), runs)
            found.append({"shape": shape, "strategy": name} | one.row())
    return found


def many_policies(snapshot: LoadSnapshot) -> ClusterPolicies:
    """Return 200 isolation policies, each of one namespace in 400 and one broker in 200, and 1,000 anti-affinity groups
    of four namespaces each in four failure domains."""
    brokers, namespaces = snapshot.brokers.names, snapshot.namespaces
    stored = {
        f"policy-{number}": {
            "namespaces": [f"t/ns-{number:03}[05]{number % 10}.*", f"t/only-{number}"],
            "primary": [f"broker-{number:05}", f"broker-0{number % 10}{number:03}"],
            "secondary": [f"broker-.*{number % 10}"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
        for number in range(200)
    }
    isolation, errors = IsolationPolicies.decode(stored)
    assert not errors
    domains = {broker: f"domain-{row % 4}" for row, broker in enumerate(brokers)}
    groups = {name: f"group-{row // 4}" for row, name in enumerate(namespaces[:4_000])}
    return ClusterPolicies(isolation, domains, groups)


def beside_pulsar(runs: int, jvm: PulsarJvm, patience: Patience) -> list[dict[str, Any]]:
    """Measure rounds without a bound, as Pulsar's have none, beside its strategies."""
    snapshot, found = generated_snapshot(*COMPARED), []
    tasks = [Task(name, "cycle", OVERRIDES[name], name, placer_for(name)) for name in _IN_PULSAR]
    answers, heap_mib = jvm.ask(snapshot, tasks, patience, BUNDLES_OF_NAMESPACE)
    for name, theirs in zip(_IN_PULSAR, answers, strict=True):
        one = measure(snapshot, config_of(name, **{_BOUND_KEY: 0}), ManagerKind.MODULAR, runs)
        row: dict[str, Any] = {"size": sized(COMPARED), "strategy": name} | one.row()
        row |= beside(theirs, "cycle_ms", one.round_ms, heap_mib) | {"jvm_shed_ms": theirs.figures["shed_ms"]}
        row["shed_faster"] = theirs.figures["shed_ms"] / one.shed_ms
        row["agreement"] = agreement(snapshot, one.outcome.plan.rows, theirs.rows)
        found.append(row)
    return found


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


def splits(
    runs: int, sizes: Sequence[tuple[int, int]], jvm: PulsarJvm | None, patience: Patience
) -> list[dict[str, Any]]:
    """Measure the split check: few or all bundles too large, with what the store says of namespaces, and without."""
    found = []
    for size in sizes:
        snapshot = generated_snapshot(*size)
        theirs: Answer | None = None
        if jvm is not None and size == COMPARED:
            task = Task("BundleSplitterTask", "split", OVERRIDES["BundleSplitterTask"])
            (theirs,), _ = jvm.ask(snapshot, [task], patience, BUNDLES_OF_NAMESPACE)
        for large, limit in (("some", 5_000), ("all", 0)):
            for counted in (True, False):
                config = config_of("", loadBalancerNamespaceBundleMaxMsgRate=limit)
                splitter = splitter_of(config, ManagerKind.MODULAR)
                counts = dict.fromkeys(snapshot.namespaces, BUNDLES_OF_NAMESPACE) if counted else {}

                def check() -> int:
                    plan, _ = splitter.decide(untouched(snapshot), counts, no_boundaries, None)  # noqa: B023
                    return len(list(plan))

                row: dict[str, Any] = {"size": sized(size), "large": large, "counted": counted, "splits": check()}
                row["check_ms"] = median([timed(check) for _ in range(runs)])
                if large == "some" and counted:
                    row |= beside(theirs, "split_ms", row["check_ms"], 0.0)
                found.append(row)
    return found


def transfers(runs: int, jvm: PulsarJvm | None, patience: Patience) -> list[dict[str, Any]]:
    """Measure the TransferShedder as the leader has it, which asks the filters, where all brokers may give.

    Pulsar's class is timed with its filters, as in a broker, and without, as its own tests make it.
    """
    config, snapshots = config_of(_TRANSFER), [transfer_snapshot(*size) for size in TRANSFER_SIZES]
    theirs: list[Answer] = []
    if jvm is not None:
        tasks = []
        for size, snapshot in zip(TRANSFER_SIZES, snapshots, strict=True):
            document = transfer_document(snapshot)
            for filters in (True, False):
                case = document | {"filters": filters}
                tasks.append(Task(f"{sized(size)} {filters=}", "transfer", OVERRIDES[_TRANSFER], case=case))
        # a run of few milliseconds is warm after many of them only
        theirs, _ = jvm.ask(generated_snapshot(2, 2), tasks, replace(patience, warm_runs=3_000), BUNDLES_OF_NAMESPACE)
    table: list[dict[str, Any]] = []
    for number, (size, snapshot) in enumerate(zip(TRANSFER_SIZES, snapshots, strict=True)):
        one = measure(snapshot, config, ManagerKind.EXTENSIBLE, runs)
        row: dict[str, Any] = {"size": sized(size)} | one.row()
        if theirs:
            filtering, bare = theirs[2 * number : 2 * number + 2]
            row |= beside(filtering, "shed_ms", one.shed_ms, 0.0) | {"jvm_bare_ms": bare.figures["shed_ms"]}
            row["faster_than_bare"] = row["jvm_bare_ms"] / one.shed_ms
            ours = {(unload.source, unload.bundle, unload.destination or "") for unload in one.outcome.plan}
            differ = len(ours ^ {tuple(decision) for decision in row.pop("jvm_decisions")})
            row["agreement"] = f"{differ} differ" if differ else "the same"
        table.append(row)
    return table


def placements(size: tuple[int, int], count: int) -> list[dict[str, Any]]:
    """Place so many bundles one after the other, as a leader does that is asked for owners: all filters and reasons."""
    snapshot = generated_snapshot(*size)
    names = snapshot.bundles.names
    chosen = [names[row] for row in np.random.default_rng(1).choice(len(names), count, replace=False).tolist()]
    found = []
    for name in sorted(PLACER_NAMES):
        texts = {COMPATIBILITY_KEY: LINE, PLACEMENT_KEY: name} | ({SHEDDING_KEY: name} if name in SHEDDER_NAMES else {})
        config = with_overrides(BrokerConfig(), texts)
        selection, fresh = selection_of(config, ManagerKind.MODULAR), untouched(snapshot)
        deque(selection.place(fresh, chosen[:10], random.Random(1)), maxlen=0)
        stamps = [time.process_time()]
        for at, _ in enumerate(selection.place(fresh, chosen, random.Random(1)), 1):
            if at % (count // 10) == 0:
                stamps.append(time.process_time())
        tenths = [1e6 * (after - before) / (count // 10) for before, after in pairwise(stamps)]
        started = time.process_time()
        deque((each.reason for each in selection.place(fresh, chosen, random.Random(1))), maxlen=0)
        told_us = 1e6 * (time.process_time() - started) / count
        found.append(
            {
                "size": sized(size),
                "strategy": name,
                "first_us": tenths[0],
                "last_us": tenths[-1],
                "mean_us": sum(tenths) / len(tenths),
                "told_us": told_us,
            }
        )
    return found


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
    return timed(lambda: SnapshotBuilder().build(reports, data, averages))


def shown(title: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    """Print the columns of a table that any row has."""
    present = {key: head for key, head in columns.items() if any(key in row for row in rows)}
    print_table(title, list(present.values()), [[row.get(key, "–") for key in present] for row in rows])


_ROUND: Final = {
    "size": "brokers × bundles",
    "shape": "shape",
    "strategy": "strategy",
    "planned": "to be shed",
    "moved": "moved",
    "refused": "stay",
    "shed_ms": "shedding ms",
    "round_ms": "whole round ms",
    "slowest_ms": "slowest ms",
    "peak_mib": "peak MiB",
}
_PULSAR: Final = {
    "jvm_shed_ms": "Pulsar: shedding ms",
    "jvm_ms": "both ms",
    "shed_faster": "shedding, times faster",
    "faster": "whole, times faster",
    "agreement": "bundles chosen",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="of each of ours; the median counts")
    parser.add_argument("--jvm", action="store_true", help="measure Pulsar's classes, too; needs Maven and a JDK")
    parser.add_argument("--heap", default="8g", help="of the JVM")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="only the first so many sizes")
    parser.add_argument("--quick", action="store_true", help="few runs, hardly warmed up: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
    runs, patience = (2, Patience(2, 2.0, 3, 4.0)) if arguments.quick else (arguments.runs, Patience())
    sizes = SIZES[: arguments.sizes]
    largest = sizes[-1]
    document: dict[str, Any] = {"machine": machine(), "rounds": rounds(runs, sizes)}
    shown("Rounds of the leader", document["rounds"], _ROUND)
    document["shapes"] = by_shape(min(runs, 5), largest)
    shown(f"By shape of load, {sized(largest)}", document["shapes"], _ROUND)
    document["policies"] = by_shape(min(runs, 3), largest, many_policies)
    shown("The same under 200 isolation policies and 1,000 anti-affinity groups", document["policies"], _ROUND)
    document["placements"] = placements(largest, min(10_000, largest[1]))
    heads = {"size": "brokers × bundles", "strategy": "strategy", "first_us": "first tenth, µs each"}
    heads |= {"last_us": "last tenth, µs each", "mean_us": "mean µs"}
    heads |= {"told_us": "with the reasons read, mean µs"}
    shown("10,000 placements one by one", document["placements"], heads)
    with tempfile.TemporaryDirectory(prefix="barycenter-jvm-") as folder:
        jvm = PulsarJvm(Path(folder), arguments.heap) if arguments.jvm else None
        if jvm is not None:
            document |= {"pulsar": jvm.version, "heap": jvm.heap, "beside": beside_pulsar(runs, jvm, patience)}
            shown(
                f"Rounds without a bound beside Pulsar {jvm.version}'s strategies", document["beside"], _ROUND | _PULSAR
            )
        document["splits"] = splits(runs, sizes, jvm, patience)
        document["transfers"] = transfers(runs, jvm, patience)
    heads = {"size": "brokers × bundles", "large": "too large", "counted": "counts known", "splits": "splits"}
    heads |= {"check_ms": "ms", "jvm_ms": "Pulsar ms", "faster": "times faster"}
    shown("Split checks", document["splits"], heads)
    heads = {"size": "brokers × bundles", "moved": "moved", "shed_ms": "shedding ms", "round_ms": "whole round ms"}
    heads |= {"jvm_ms": "Pulsar, with filters, ms", "faster": "times faster", "jvm_bare_ms": "Pulsar, without, ms"}
    heads |= {"faster_than_bare": "times faster than that", "agreement": "decisions"}
    shown("TransferShedder", document["transfers"], heads)
    document["building"] = [{"size": sized(size), "ms": building_ms(*size)} for size in SIZES[:2]]
    shown("Snapshots from reports", document["building"], {"size": "brokers × bundles", "ms": "ms"})
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1, default=str) + "\n")
        print(f"all figures in {arguments.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
