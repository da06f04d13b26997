"""`python -m benchmarks cluster_days --traces PATH ...`: strategies on a real cluster, with the load of traces.

PATHs are CSV files with the columns timestamp,value, or folders of them, such as the tweet volumes of the Numenta
Anomaly Benchmark. Each makes four topics, of four days. Every run has days of its own, the same for all strategies,
which take turns: run 1 of all, run 2 of all, and so on. *Nothing moves* is computed from the first owners of bundles,
*placed anew* from a placement at each second by the load of that second, heaviest bundle first. *Replayed* is the same
load and strategy in the simulator, where brokers measure exactly.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.cluster_days import figures
from benchmarks.cluster_days.loads import BROKERS, Load, Times, evenly_placed, read_traces
from benchmarks.cluster_days.replays import replayed
from benchmarks.cluster_days.systems import STRATEGIES, Clients, Strategy, running
from benchmarks.cluster_days.watch import Look, Watch
from benchmarks.machine import cell, machine, percentile, print_table
from benchmarks.manager_comparison.managers import FASTER
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord

_COLUMNS: Final = (
    "max / mean",
    "max - mean",
    "overload",
    "moves",
    "flaps",
    "gap p50",
    "gap p99",
    "gap max",
    "topic seconds waited",
    "lost",
    "redelivered",
)
NOTHING_MOVES: Final = "nothing moves"
PLACED_ANEW: Final = "placed anew"
_REPLAYED: Final = ", replayed"
_COMPUTED: Final = (NOTHING_MOVES, PLACED_ANEW)


async def run_of(strategy: Strategy, load: Load) -> dict[str, Any]:
    """Return the figures of a run, with its moves and the leader's decisions; times are from the start of the load."""
    async with running(strategy, load) as system:
        owners = await system.place(load)
        clients = await Clients.start(load, system.cluster.service_url)
        watch = Watch(system, owners)
        watching = asyncio.create_task(watch.run(), name="watch owners")
        try:
            await system.begin()
            result = await clients.result()
        finally:
            watching.cancel()
            await clients.kill()
        brokers, decisions = system.broker_ids, _decisions(system.decisions, clients.began_s)
    watch.count_from(clients.began_s)
    times = load.times
    moved = [move for move in watch.moves if times.warm_s <= move.at_s < times.whole_s]
    span = (clients.began_s + times.warm_s, clients.began_s + times.whole_s)
    return {
        **figures.of_balance(load, watch.looks, watch.moves, brokers),
        **figures.gaps(load, result.topics, moved, *span),
        **figures.messages(result.topics),
        "every move": [asdict(move) for move in watch.moves],
        "decisions": decisions,
    }


def _decisions(folder: Path, began_s: float) -> list[dict[str, Any]]:
    found = []
    for file in folder.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            record = msgspec.json.decode(line, type=DecisionRecord)
            if record.kind in ("unload", "assign", "shed"):
                names = {"bundle": record.bundle, "source": record.source, "destination": record.destination}
                what = {"kind": record.kind, "strategy": record.strategy, "sentence": record.sentence}
                found.append({"at": record.at / 1_000 - began_s, **what, **names})
    return sorted(found, key=lambda each: float(str(each["at"])))


def computed(load: Load, name: str) -> dict[str, Any]:
    """Return the imbalance of one of _COMPUTED."""
    brokers = [f"broker-{number}" for number in range(BROKERS)]
    first = load.first_owners(brokers)
    owners: Callable[[float], Mapping[str, str]] = {
        NOTHING_MOVES: lambda _: first,
        PLACED_ANEW: lambda at_s: evenly_placed(load.usages_at(at_s), brokers),
    }[name]
    looks = [Look(at_s, owners(at_s)) for at_s in [*load.measured_at(), load.times.whole_s]]
    return {**figures.imbalance(load, looks, brokers, load.times.warm_s, load.times.whole_s)}


def _run(strategy: Strategy, load: Load) -> dict[str, Any]:
    return asyncio.run(run_of(strategy, load))


def measure(
    loads: Sequence[Load], strategies: Sequence[Strategy], out: Path, *, late_minutes: float, on_cluster: bool
) -> None:
    """Run every strategy with every load, in turns; `out` has all that is known after each run."""
    records: list[dict[str, Any]] = []
    for run, load in enumerate(loads):
        figures_of: dict[str, Callable[[], dict[str, Any]]] = {
            **{name: partial(computed, load, name) for name in _COMPUTED},
            **{
                f"{strategy.name}{_REPLAYED}": partial(replayed, strategy, load, late_minutes)
                for strategy in strategies
            },
            **({strategy.name: partial(_run, strategy, load) for strategy in strategies} if on_cluster else {}),
        }
        for name, figures_now in figures_of.items():
            load_average, began_s = os.getloadavg()[0], time.monotonic()
            found = figures_now()
            took_s = time.monotonic() - began_s
            records.append({"run": run, "strategy": name, "load average": load_average, "took s": took_s, **found})
            out.write_text(json.dumps({"machine": machine(), "records": records}))
            shown = ", ".join(f"{key} {cell(float(found[key]))}" for key in _COLUMNS if key in found)
            print(f"run {run + 1}, {name}: {shown}; {took_s:.0f} s", file=sys.stderr, flush=True)


def rows(records: Sequence[dict[str, Any]]) -> list[list[object]]:
    """Return a row for each strategy: medians with the least and the greatest of its runs."""
    found: list[list[object]] = []
    for name in dict.fromkeys(record["strategy"] for record in records):
        own = [record for record in records if record["strategy"] == name]
        found.append([name, *(_shown([record[key] for record in own if key in record]) for key in _COLUMNS)])
    return found


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "–"
    least, middle, most = (float(each) for each in (min(values), statistics.median(values), max(values)))
    return cell(middle) if least == most else f"{cell(middle)} ({cell(least)} to {cell(most)})"


def show(records: Sequence[dict[str, Any]]) -> None:
    print_table("Strategies on a real cluster, by traces", ["strategy", *_COLUMNS], rows(records))
    ran = [record for record in records if "produced" in record]
    if not ran:
        return
    print(f"\n{sum(record['produced'] for record in ran):,} messages were sent in {len(ran)} runs.")
    for name in dict.fromkeys(record["strategy"] for record in ran):
        own = [record for record in ran if record["strategy"] == name]
        every = [gap for record in own for gap in record["gaps"]]
        print(f"{name}: longest gaps of {len(every)} topics, ms: {_percentiles(every)}")
        for what, at_moves in zip(("their", "other"), zip(*_at_moves(own), strict=True), strict=False):
            print(f"  at {len(at_moves)} moves, {what} topics, ms: {_percentiles(at_moves)}")
    averages = [record["load average"] for record in ran]
    print(f"Load average before each run: {min(averages):.1f} to {max(averages):.1f}.")


def _percentiles(values: Sequence[float]) -> str:
    return ", ".join(f"p{percent} {percentile(values, percent):.0f}" for percent in (50, 90, 99, 100))


def _at_moves(records: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(own, others) for record in records for own, others in record["gaps at moves"]]


def main() -> None:
    names = [strategy.name for strategy in STRATEGIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", nargs="+", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which has its days")
    parser.add_argument("--warm", type=float, default=20.0, help="seconds of load before what is measured")
    parser.add_argument("--measured", type=float, default=100.0, help=f"seconds; each is {FASTER} s of the traces")
    parser.add_argument("--strategies", nargs="+", choices=names, default=names)
    parser.add_argument("--late", type=float, default=0.0, metavar="MINUTES", help="how late reports of replays are")
    parser.add_argument("--only-replayed", action="store_true", help="run no cluster")
    default = Path(tempfile.gettempdir()) / "barycenter-cluster-days.json"
    parser.add_argument("--json", type=Path, default=default, help="where all figures go (%(default)s)")
    arguments = parser.parse_args()
    traces = read_traces(arguments.traces)
    times = Times(arguments.warm, arguments.measured)
    numbers = range(arguments.first, arguments.first + arguments.runs)
    loads = [Load.of(traces, number, times) for number in numbers]
    chosen = [each for each in STRATEGIES if each.name in arguments.strategies]
    measure(loads, chosen, arguments.json, late_minutes=arguments.late, on_cluster=not arguments.only_replayed)
    show(json.loads(arguments.json.read_text())["records"])


if __name__ == "__main__":
    main()
