"""`python -m benchmarks manager_comparison`: the load managers on the same load, in turns, A B A B.

Figures are medians of the repeats with the least and the greatest; every single one is in the JSON, with the load
average before it.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.machine import cell, machine, print_table
from benchmarks.manager_comparison.managers import EXTENSIBLE, MODULAR, MODULAR_4, Figures, Manager
from benchmarks.manager_comparison.resizing import doubled_and_halved
from benchmarks.manager_comparison.restarts import all_at_once, one_by_one
from benchmarks.manager_comparison.splitting import one_into_many
from pulsar_barycenter.standalone.scheduling import take_short_turns

Run: TypeAlias = Callable[[Manager], Coroutine[Any, Any, dict[str, Figures]]]

EXPERIMENTS: Final[dict[str, tuple[Run, tuple[Manager, ...]]]] = {
    "X1": (all_at_once, (MODULAR, EXTENSIBLE)),
    "X2": (one_by_one, (MODULAR, EXTENSIBLE)),
    "X3": (doubled_and_halved, (MODULAR, MODULAR_4, EXTENSIBLE)),
    "X5": (one_into_many, (MODULAR, EXTENSIBLE)),
}
"""Each with those whom it compares; that of X3 is X4, too."""

PUBLISHED: Final = {"X1": (20, 10), "X2": (1841, 1228), "X3": (7, 5), "X4": (5, 3), "X5": (15, 13)}
"""Modular and extensible: minutes, of X2 milliseconds. They stand beside the first figure of each."""


def measure(chosen: list[str], repeats: int) -> list[dict[str, Any]]:
    """Return a record for each experiment, manager and repeat."""
    records = []
    for name in chosen:
        run, managers = EXPERIMENTS[name]
        for repeat in range(repeats):
            for manager in managers:
                load, began = os.getloadavg()[0], time.perf_counter()
                found = asyncio.run(run(manager))
                for experiment, figures in found.items():
                    shown = ", ".join(f"{key} {value:,.4g}" for key, value in figures.items())
                    print(f"{experiment} {manager.name}: {shown}", file=sys.stderr, flush=True)
                    record = {"experiment": experiment, "manager": manager.name, "repeat": repeat, "figures": figures}
                    records.append({**record, "load average": load, "took s": time.perf_counter() - began})
    return records


def table(records: list[dict[str, Any]]) -> list[list[object]]:
    lines: list[list[object]] = []
    for experiment, published in PUBLISHED.items():
        some = [record for record in records if record["experiment"] == experiment]
        for number, figure in enumerate(some[0]["figures"] if some else ()):
            values = {
                manager.name: [record["figures"][figure] for record in some if record["manager"] == manager.name]
                for manager in (MODULAR, MODULAR_4, EXTENSIBLE)
            }
            medians = {name: statistics.median(each) for name, each in values.items() if each}
            ratios = [_ratio(medians, manager.name) for manager in (MODULAR, MODULAR_4)]
            theirs = f"{published[1] / published[0]:.2f}" if number == 0 else ""
            lines.append([f"{experiment}: {figure}", *map(_shown, values.values()), *ratios, theirs])
    return lines


def _ratio(medians: Figures, beside: str) -> str:
    ours, theirs = medians[EXTENSIBLE.name], medians.get(beside)
    return f"{ours / theirs:.2f}" if theirs and max(ours, theirs) < float("inf") else ""


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    return f"{cell(statistics.median(values))} ({cell(min(values))} to {cell(max(values))})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--repeats", type=int, default=3)
    default = Path(tempfile.gettempdir()) / "barycenter-manager-comparison.json"
    parser.add_argument("--json", type=Path, default=default, help="where all figures go (%(default)s)")
    arguments = parser.parse_args()
    take_short_turns()
    began = time.perf_counter()
    records = measure(arguments.experiments, arguments.repeats)
    document = {"machine": machine(), "repeats": arguments.repeats, "records": records}
    arguments.json.write_text(json.dumps(document, indent=1))
    print_table(
        "The modular and the extensible load manager",
        ["experiment: figure", "modular", "modular, 4.x", "extensible", "extensible / modular", "/ 4.x", "published"],
        table(records),
    )
    loads = [record["load average"] for record in records]
    minutes = (time.perf_counter() - began) / 60
    print(f"\nMedians of {arguments.repeats} (least to greatest), {minutes:.0f} minutes; all: {arguments.json}")
    print(f"Load average before each: {min(loads):.1f} to {max(loads):.1f}.")


if __name__ == "__main__":
    main()
