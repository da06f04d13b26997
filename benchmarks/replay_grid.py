"""A grid of replays on processes, on Spark in this process's machine, and on a Spark cluster of two workers.

    python -m benchmarks.replay_grid [--scenarios 64] [--hours 24] [--rounds 3] [--recorded] [--ways NAME ...]

One grid (AvgShedder with `--scenarios` low thresholds, on `--brokers` with `--bundles`) runs on one process, on as many
as there are cores, on Spark with one core, on Spark with all of them, and on a cluster of two workers with a core each:
real masters and workers on loopback, started before. Every way is the command that a user would run, as a process of
its own; the ways take turns, and end with an error unless their results have the same bytes.

*seconds* is wall time with all that a command does, Spark's start included; *CPU s* that of all its processes, those of
the cluster's workers included. *MiB* are the largest resident sets seen: of the command's own process, of its Java, of
the other Java processes, of the largest process of Python that runs scenarios; what is mapped of the input's file
counts in each of these, although it is in memory once. `--recorded` has the load read from a data folder's tables,
which is what makes an input large; else each process generates it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import print_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.replay.capacity import CapacityModel
from pulsar_barycenter.replay.synthetic.demand import Shape, broker_names, generated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.spark_cluster import spark_cluster

_LOOK_S: Final = 0.1
_YOUNG_S: Final = 1.0
"""Until then a process may be the copy of its parent that is about to become another program."""
_USAGE: Final = 0.5
_CORES: Final = len(os.sched_getaffinity(0))
WAYS: Final = {
    "1 process": ("--processes", "1"),
    "processes": ("--processes", str(_CORES)),
    "Spark, 1 core": ("--master", "local[1]"),
    "Spark, all cores": ("--master", f"local[{_CORES}]"),
    "cluster of 2 workers": ("--master", ""),
}


@dataclass
class Seen:
    """What was seen of the processes of a command."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def look(self, roots: Sequence[psutil.Process], own: int) -> None:
        for process in _all(roots):
            with suppress(psutil.Error):
                if time.time() - process.create_time() < _YOUNG_S and process.pid != own:
                    continue
                used, times = process.memory_info().rss / 2**20, process.cpu_times()
                kind = "java" if process.name() == "java" else "python"
                if process.pid == own:
                    kind = "command"
                elif kind == "java" and process.ppid() == own:
                    kind = "driver's java"
                self.mib[kind] = max(self.mib[kind], used)
                self.cpu_s[process.pid] = times.user + times.system


def _all(roots: Sequence[psutil.Process]) -> Iterator[psutil.Process]:
    for root in roots:
        with suppress(psutil.Error):
            yield from (root, *root.children(recursive=True))


def shape_of(asked: argparse.Namespace) -> Shape:
    return Shape(
        brokers=asked.brokers,
        bundles=asked.bundles,
        namespaces=max(1, asked.bundles // 100),
        steps=round(asked.hours * 60),
        rate=_USAGE * asked.brokers * 800 / (2 * CapacityModel().cpu_per_message),
        swing=0.4,
    )


def record(folder: Path, shape: Shape) -> None:
    """Write the tables that a replay reads, as the pipeline would have written them of such a load."""
    demand = generated(shape, 1)
    brokers = broker_names(shape.brokers)
    at_once = max(1, 2_000_000 // shape.bundles)
    owner = np.searchsorted(brokers, demand.owners)
    for first in range(0, shape.steps, at_once):
        steps = np.arange(first, min(first + at_once, shape.steps))
        _write(folder, "bundle_samples", first, {
            "bundle": pa.array(list(demand.bundles) * len(steps)),
            "broker": pa.array(np.tile(np.array(demand.owners), len(steps))),
            "reported_at": _at(demand, np.repeat(steps, shape.bundles)),
            "sequence": np.repeat(steps, shape.bundles),
            "msg_rate_in": demand.rate_in[steps].ravel(), "msg_rate_out": demand.rate_out[steps].ravel(),
            "msg_throughput_in": demand.throughput_in[steps].ravel(),
            "msg_throughput_out": demand.throughput_out[steps].ravel(),
            "topics": np.tile(demand.topics, len(steps)),
            "consumers": np.tile(demand.topics, len(steps)), "producers": np.tile(demand.topics, len(steps)),
        })  # fmt: skip
    steps = np.arange(shape.steps)
    rate, throughput = (
        np.array([np.bincount(owner, row, len(brokers)) for row in rows])
        for rows in (demand.rate_in, demand.throughput_in)
    )
    model = CapacityModel()
    cpu = model.idle_cpu + 2 * (model.cpu_per_message * rate + model.cpu_per_byte * throughput)
    common = {
        "broker": pa.array(list(brokers) * shape.steps),
        "reported_at": _at(demand, np.repeat(steps, len(brokers))),
        "sequence": np.repeat(steps, len(brokers)),
    }
    _write(folder, "broker_usage", 0, {
        **common, "cpu_usage": cpu.ravel(), "cpu_limit": np.full(cpu.size, 800.0),
        "memory_limit": np.full(cpu.size, 8192.0), "bandwidth_in_limit": np.full(cpu.size, 1e7),
        "bandwidth_out_limit": np.full(cpu.size, 1e7),
    })  # fmt: skip
    _write(folder, "load_reports", 0, {
        **common, "msg_rate_in": rate.ravel(), "msg_rate_out": rate.ravel(),
        "msg_throughput_in": throughput.ravel(), "msg_throughput_out": throughput.ravel(),
    })  # fmt: skip


def _at(demand: object, steps: object) -> pa.Array:
    ms = demand.start_ms + steps * demand.step_ms  # type: ignore[attr-defined]
    return pa.array(ms * 1000, pa.timestamp("us", "UTC"))


def _write(folder: Path, name: str, number: int, columns: dict[str, object]) -> None:
    """Write a file of a table; columns that are not given are blank or 0."""
    rows = len(columns["sequence"])  # type: ignore[arg-type]
    schema = TABLES[name].arrow_schema
    found = []
    for each in schema:
        given = columns.get(each.name)
        if given is None:
            blank = "1" if pa.types.is_string(each.type) else 0
            given = (
                pa.nulls(rows, each.type)
                if each.nullable
                else pa.repeat(pa.scalar(blank, pa.string() if blank else pa.int64()), rows)
            )
        found.append(pa.array(given).cast(each.type) if not isinstance(given, pa.Array) else given.cast(each.type))
    file = folder / "tables" / name / "date=2026-01-01" / f"batch-{number:012d}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(found, schema=schema), file, compression="zstd")


def run(
    words: Sequence[str], out: Path, environment: dict[str, str], workers: Sequence[psutil.Process]
) -> tuple[float, Seen]:
    """Return the seconds that a command took, and what was seen of its processes."""
    before = {each.pid: sum(each.cpu_times()[:2]) for each in _all(workers)}
    seen, started = Seen(), time.perf_counter()
    command = [sys.executable, "-m", "pulsar_barycenter", "replay", *words, "--out", str(out)]
    with (out.parent / f"{out.name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    roots = [psutil.Process(process.pid), *workers]
    while process.poll() is None:
        seen.look(roots, process.pid)
        time.sleep(_LOOK_S)
    took = time.perf_counter() - started
    if process.returncode:
        raise SystemExit((out.parent / f"{out.name}.log").read_text(errors="replace")[-4000:])
    for pid, cpu_s in before.items():
        if pid in seen.cpu_s:
            seen.cpu_s[pid] -= cpu_s
    return took, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=64, choices=range(1, 101), metavar="1..100")
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    asked = parser.parse_args()
    shape = shape_of(asked)
    thresholds = ",".join(str(number) for number in range(1, asked.scenarios + 1))
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    seconds: dict[str, list[float]] = defaultdict(list)
    found: dict[str, Seen] = {}
    with tempfile.TemporaryDirectory(prefix="replay-grid-") as temporary, ExitStack() as held:
        folder = Path(temporary)
        words = ["--strategy", "AvgShedder", "--set", f"loadBalancerAvgShedderLowThreshold={thresholds}"]
        if asked.recorded:
            record(folder / "data", shape)
            words += ["--input", str(folder / "data")]
        else:
            words += ["--input", "generated"]
            for key in ("brokers", "bundles", "namespaces", "steps", "rate", "swing"):
                words += ["--shape", f"{key}={getattr(shape, key)}"]
        master, workers = "", []
        if WAYS.keys() & asked.ways and "cluster of 2 workers" in asked.ways:
            cluster = held.enter_context(spark_cluster(folder / "cluster"))
            master = cluster.master
            workers = [each for each in psutil.Process().children() if each.name() == "java"]
        results = set()
        for round_number in range(asked.rounds):
            for way in asked.ways:
                option, value = WAYS[way]
                out = folder / f"{way} {round_number}"
                took, seen = run([*words, option, value or master], out, environment, [] if value else workers)
                seconds[way].append(took)
                best = found.get(way)
                if best is None or sum(seen.cpu_s.values()) < sum(best.cpu_s.values()):
                    found[way] = seen
                results.add((out / "results.json").read_bytes())
                if len(results) > 1:
                    raise SystemExit(f"{way}: other results than before")
    first = min(seconds[asked.ways[0]])
    rows = [
        [
            way,
            min(seconds[way]),
            first / min(seconds[way]),
            sum(found[way].cpu_s.values()),
            *(found[way].mib.get(kind, 0.0) or "–" for kind in ("command", "driver's java", "java", "python")),
        ]
        for way in asked.ways
    ]
    kind = "recorded" if asked.recorded else "made up"
    what = f"{asked.scenarios} runs of {asked.hours:g} h, {asked.brokers} brokers with {asked.bundles} bundles, {kind}"
    columns = [
        "grid on",
        "seconds (best)",
        "times as fast",
        "CPU s",
        "command MiB",
        "its Java MiB",
        "other Java MiB",
        "Python MiB",
    ]
    print_table(f"A grid of replays: {what}", columns, rows)


if __name__ == "__main__":
    main()
