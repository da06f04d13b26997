"""CPU seconds of a batch in the pipeline's driver, by phases, at many known bundles.

    python -m benchmarks pipeline_batch_cost --brokers 1000 --bundles 1000 --reports 3 --batches 9

Spark is left out: the driver gets ready rows, as Spark hands them over. First all brokers report once, then each batch
has the next reports of a few brokers, a second apart. Printed per phase: the median of the CPU seconds of the batches
measured, all threads, which other work on the machine disturbs less than the time that passed; then the sum of all
phases: median and greatest. Last, the CPU seconds in which a broker reads the publication and a change of it.

    python -m benchmarks pipeline_batch_cost --brokers 1000 --bundles 1000 --reports 100 --minutes 60

With `--minutes` the batches go on for so long by the clock of the events, in which each broker reports once a minute,
and are taken as fast as they can be. Every five minutes are printed: the CPU seconds of a batch, their median and the
greatest, memory, and what state and publication take on the disk. The tables' files are deleted then, unmeasured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from pulsar_barycenter.broker.load_manager.pipeline_feed import FilePipeline
from pulsar_barycenter.pipeline.folds.broker_sums import BrokerSums
from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.reports.columns import ReportColumns
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream import micro_batches, windows
from pulsar_barycenter.pipeline.stream.live_state import LiveState
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, TABLES

_START_MS = 1_790_000_000_000
_OF_REPORT = ("broker", "incarnation", "sequence", "reported_at")
_SAMPLE = [field for field in TABLES["bundle_samples"].arrow_schema if field.name not in _OF_REPORT]
_AT_ONCE = 100
"""Brokers of a batch while all report for the first time."""


class Cluster:
    """Brokers whose next reports are made as rows of `parsing.report_rows`."""

    def __init__(self, brokers: int, bundles: int, seed: int = 1) -> None:
        self.names = [f"broker-{number:04}:8080" for number in range(brokers)]
        self._rng = np.random.default_rng(seed)
        self._size = bundles
        ends = [f"0x{(2**32 * part) // bundles:08x}" for part in range(bundles)] + ["0xffffffff"]
        self._bundles = [
            pa.array([f"tenant/namespace-{number:04}/{low}_{high}" for low, high in pairwise(ends)])
            for number in range(brokers)
        ]
        self._sequences = [0] * brokers

    def rows(self, numbers: Sequence[int], at_ms: Sequence[int]) -> pa.Table:
        """Return the next reports of some brokers, by the times given."""
        for number in numbers:
            self._sequences[number] += 1
        count, samples = len(numbers), len(numbers) * self._size
        names = [self.names[number] for number in numbers]
        sequences = [self._sequences[number] for number in numbers]
        identity = {
            "broker": pa.array(names),
            "incarnation": pa.array(["1-1"] * count),
            "sequence": pa.array(sequences, pa.int64()),
            "reported_at": pa.array([at * 1000 for at in at_ms], pa.timestamp("us", "UTC")),
        }
        key = pa.StructArray.from_arrays(
            [identity["broker"], identity["incarnation"], identity["sequence"], pa.array(at_ms, pa.int64())],
            names=["brokerId", "incarnation", "sequence", "lastUpdate"],
        )
        columns = {name: pa.array(self._rng.exponential(100.0, samples)) for name in FIGURES}
        columns["bundle"] = pa.concat_arrays([self._bundles[number] for number in numbers])
        ones = pa.array(np.ones(samples, np.int64))
        sampled = pa.StructArray.from_arrays([columns.get(f.name, ones) for f in _SAMPLE], fields=_SAMPLE)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * self._size)
        return pa.table(
            {
                "file": pa.array(f"{name}-{sequence}" for name, sequence in zip(names, sequences, strict=True)),
                "key": key,
                "gains": pa.array([[]] * count, pa.list_(pa.string())),
                "load_report": self._struct("load_reports", identity, count),
                "broker_usage": self._struct("broker_usage", identity, count),
                "samples": pa.ListArray.from_arrays(offsets, sampled),
            }
        )

    def _struct(self, table: str, identity: dict[str, pa.Array], count: int) -> pa.StructArray:
        fields = list(TABLES[table].arrow_schema)
        arrays = []
        for field in fields:
            if field.name in identity:
                arrays.append(identity[field.name])
            elif field.nullable:
                arrays.append(pa.nulls(count, field.type))
            else:
                arrays.append(pa.array(self._rng.uniform(10, 90, count)).cast(field.type, safe=False))
        return pa.StructArray.from_arrays(arrays, fields=fields)


class _Rows:
    """Stands for the result of Spark's job."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:  # noqa: N802 - as PySpark has it
        return self._table


class Phases:
    """CPU seconds by phase; of phases within phases the inner one counts."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.process_time()

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        self._settle()
        self._open.append(name)
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    def _settle(self) -> None:
        now = time.process_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now

    def wrap(self, owner: Any, name: str, phase: str) -> None:
        """Have the time in `owner.name` count for `phase`."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.within(phase):
                return function(*args, **kwargs)

        setattr(owner, name, timed)


_PHASES: dict[str, tuple[tuple[Any, str], ...]] = {
    "reports": tuple((micro_batches, name) for name in ("accept_reports", "untold_reports", "look_up_taken")),
    "late reports": ((windows, "overtaken_reports"), (micro_batches, "overdue_reports")),
    "windows": ((windows, "fold_samples"),),
    "balance": ((micro_batches, "settle_intervals"), (micro_batches, "broker_figures")),
}


def timed_phases() -> Phases:
    phases = Phases()
    for phase, functions in _PHASES.items():
        for module, function in functions:
            phases.wrap(module, function, phase)
    for owner, names, phase in (
        (Tables, ("write",), "tables"),
        (BundleRows, ("of", "put", "drop_silent"), "windows"),
        (Owners, ("fold",), "ownership"),
        (BrokerSums, ("update", "table"), "broker sums"),
        (LiveState, ("keep",), "state on disk"),
        (BatchFold, ("_publish",), "publication"),
        (ReportColumns, ("of", "rows", "chosen"), "rows of reports"),
    ):
        for name in names:
            phases.wrap(owner, name, phase)
    return phases


def resident_mib() -> float:
    return float(psutil.Process().memory_info().rss / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--bundles", type=int, default=1000, help="bundles per broker")
    parser.add_argument("--reports", type=int, default=3, help="reports of a batch, each of another broker")
    parser.add_argument("--batches", type=int, default=9, help="batches measured, after two that are not")
    parser.add_argument(
        "--minutes", type=int, help="how long each broker reports once a minute, instead of `--batches`"
    )
    parser.add_argument("--data", type=Path, help="an empty folder for the data; else a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="batch-cost-", dir=options.data) as folder:
        run(options, PipelineLayout.of(folder))


def run(options: argparse.Namespace, layout: PipelineLayout) -> None:
    layout.create()
    vars(micro_batches)["report_rows"] = lambda lines, *_: lines
    cluster = Cluster(options.brokers, options.bundles)
    driver = Driver(cluster, layout)
    for first in range(0, options.brokers, _AT_ONCE):
        driver.batch(list(range(first, min(first + _AT_ONCE, options.brokers))), 1000)
    known = options.brokers * options.bundles
    print(f"{known:,} bundles known after {driver.batches} batches, {resident_mib():.0f} MiB resident", flush=True)
    if options.minutes is not None:
        run_minutes(options, driver, layout)
        return
    for _ in range(2):
        driver.batch(driver.next_brokers(options.reports), 1000)
    taken, walls = [], []
    for _ in range(options.batches):
        began = time.perf_counter()
        taken.append(driver.batch(driver.next_brokers(options.reports), 1000))
        walls.append(time.perf_counter() - began)
    names = sorted({name for spent in taken for name in spent})
    medians = {name: statistics.median(spent.get(name, 0.0) for spent in taken) for name in names}
    for name in sorted(medians, key=lambda name: -medians[name]):
        print(f"  {name:16} {medians[name] * 1000:9.1f} ms CPU")
    sums = [sum(spent.values()) for spent in taken]
    print(
        f"{options.reports * options.bundles:,} samples a batch: {statistics.median(sums):.3f} s CPU a batch, ", end=""
    )
    print(f"most {max(sums):.3f}; passed: median {statistics.median(walls):.3f} s, most {max(walls):.3f}")
    print(f"  {sizes(layout)}, load average {os.getloadavg()[0]:.1f}")
    reader = FilePipeline(layout.publication.parent)
    whole = read_publication(reader)
    driver.batch(driver.next_brokers(options.reports), 1000)
    print(f"a broker reads all in {whole:.3f} s CPU, what one more batch changed in {read_publication(reader):.3f}")


def read_publication(reader: FilePipeline) -> float:
    began = time.process_time()
    asyncio.run(reader.read())
    return time.process_time() - began


class Driver:
    """Gives batches to the pipeline, by the clock of the events."""

    def __init__(self, cluster: Cluster, layout: PipelineLayout) -> None:
        self._cluster = cluster
        self.at_ms = _START_MS
        self.batches = 0
        self._turn = 0
        self._phases = timed_phases()
        self._fold = BatchFold(layout, clock_ms=lambda: self.at_ms)

    def next_brokers(self, count: int) -> list[int]:
        """Return the numbers of the brokers that report next."""
        first, self._turn = self._turn, self._turn + count
        return [number % len(self._cluster.names) for number in range(first, first + count)]

    def batch(self, numbers: Sequence[int], milliseconds: float) -> dict[str, float]:
        """Fold a report of each of these brokers, spread over that time; return the CPU seconds by phase."""
        times = [round(self.at_ms + milliseconds * part / len(numbers)) for part in range(1, len(numbers) + 1)]
        self.at_ms = times[-1]
        rows: Any = _Rows(self._cluster.rows(numbers, times))
        self._phases.spent.clear()
        with self._phases.within("the rest"):
            self._fold.run(rows, self.batches)
        self.batches += 1
        return dict(self._phases.spent)


def run_minutes(options: argparse.Namespace, driver: Driver, layout: PipelineLayout) -> None:
    began, shown = driver.at_ms, 0
    spent: list[float] = []
    while shown < options.minutes:
        numbers = driver.next_brokers(options.reports)
        spent.append(sum(driver.batch(numbers, 60_000 * options.reports / options.brokers).values()))
        minutes = (driver.at_ms - began) // 60_000
        if minutes >= shown + 5:
            shown = minutes
            print(f"  {minutes:3} min: {len(spent)} batches of {options.reports * options.bundles:,} samples, ", end="")
            print(f"{statistics.median(spent):.3f} s CPU, most {max(spent):.3f}; {sizes(layout)}", flush=True)
            spent.clear()
            shutil.rmtree(layout.tables)


def sizes(layout: PipelineLayout) -> str:
    parts = []
    for name, folder in (("state", layout.state), ("publication", layout.publication.parent)):
        files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        parts.append(f"{name} {len(files)} files, {sum(files) / 2**20:.0f} MiB")
    return f"{resident_mib():.0f} MiB resident; {'; '.join(parts)}"


if __name__ == "__main__":
    main()
