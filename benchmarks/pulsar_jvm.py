"""Pulsar's own strategies in a JVM, timed on the same clusters as ours.

A cluster is written to a folder as columns; benchmarks/java/…/PulsarDecisions.java reads them, makes Pulsar's LoadData
of them, runs each task until it is warm, and prints the medians and the decisions. Pulsar's jars and the compiler come
from the peer suite (tests/support/pulsar_peer.py), which needs Maven and a JDK, 17 or newer.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

_REPOSITORY: Final = Path(__file__).parents[1]
_SOURCES: Final = (
    _REPOSITORY / "tests/peer/java/barycenter/peer/Cases.java",
    _REPOSITORY / "tests/peer/java/barycenter/peer/Transfer.java",
    _REPOSITORY / "benchmarks/java/barycenter/benchmarks/PulsarDecisions.java",
)
_PACKAGE: Final = "org.apache.pulsar.broker.loadbalance.impl."


@dataclass(frozen=True, slots=True)
class Task:
    """What the JVM is asked: to shed and place ("cycle"), to "place" all bundles on empty brokers, to "split", or what
    the TransferShedder does with a `case` of the peer suite ("transfer").

    Strategies go by their short names; `overrides` are Pulsar's keys.
    """

    name: str
    kind: str
    overrides: dict[str, Any]
    shedder: str = ""
    placer: str = ""
    case: dict[str, Any] | None = None

    def document(self, number: int, bundles_of_namespace: int) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "configuration": self.overrides,
            "shedder": _PACKAGE + self.shedder,
            "placer": _PACKAGE + self.placer,
            "bundles_of_namespace": bundles_of_namespace,
            "case": self.case,
            "answer": f"answer-{number}.bin",
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """`figures` holds medians in ms by their names, and counts of runs; `rows` of bundles, `owners` where each goes."""

    figures: dict[str, Any]
    rows: NDArray[np.int32]
    owners: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Patience:
    """When a task is warm (after so many runs or seconds), and how often it is timed then, within how long."""

    warm_runs: int = 20
    warm_s: float = 10.0
    runs: int = 15
    most_s: float = 20.0


class PulsarJvm:
    """The class path and the compiled reader; `version` is Pulsar's."""

    def __init__(self, folder: Path, heap: str) -> None:
        sys.path.insert(0, str(_REPOSITORY / "tests"))
        from support.pulsar_peer import resolve_class_path, silent

        self.version, jars = resolve_class_path()
        self.heap = heap
        self._folder = folder
        self._class_path = os.pathsep.join(silent(jars))
        command = ["javac", "-nowarn", "-Xlint:none", "-proc:none", "-d", str(folder), "-cp", self._class_path]
        subprocess.run([*command, *map(str, _SOURCES)], check=True)

    def ask(
        self, snapshot: LoadSnapshot, tasks: Sequence[Task], patience: Patience, bundles_of_namespace: int
    ) -> tuple[list[Answer], float]:
        """Return the answers in the order of `tasks`, and the MiB of heap that the cluster takes there.

        Raises:
            MemoryError: the cluster does not fit into the heap.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            write_columns(snapshot, folder)
            documents = [task.document(number, bundles_of_namespace) for number, task in enumerate(tasks)]
            asked = {"tasks": documents, "warm_runs": patience.warm_runs, "warm_s": patience.warm_s}
            asked |= {"runs": patience.runs, "most_s": patience.most_s}
            (folder / "tasks.json").write_bytes(msgspec.json.encode(asked))
            class_path = os.pathsep.join([str(self._folder), self._class_path])
            options = [f"-Xmx{self.heap}", "-XX:+EnableDynamicAgentLoading"]
            command = ["java", *options, "-cp", class_path, "barycenter.benchmarks.PulsarDecisions", str(folder)]
            told = self._run(command, folder / "errors.txt", len(snapshot.bundles))
            heap_bytes, figures = told[0]["heap_bytes"], told[1:]
            answers = []
            for one, document in zip(figures, documents, strict=True):
                pairs = np.fromfile(folder / document["answer"], "<i4").reshape(-1, 2)
                answers.append(Answer(one, pairs[:, 0], pairs[:, 1]))
            return answers, heap_bytes / 2**20

    def _run(self, command: list[str], errors: Path, bundles: int) -> list[dict[str, Any]]:
        """Return what the JVM tells, line by line, and show how far it is."""
        told: list[dict[str, Any]] = []
        with errors.open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as java:
            assert java.stdout is not None
            try:
                for line in java.stdout:
                    if line.startswith("{"):
                        told.append(json.loads(line))
                        shown = {key: value for key, value in told[-1].items() if key != "decisions"}
                        print(f"JVM, {bundles:,} bundles: {shown}", file=sys.stderr, flush=True)
            except BaseException:
                java.kill()
                raise
        if java.returncode:
            said = errors.read_text()
            if "OutOfMemoryError" in said:
                raise MemoryError(f"{bundles:,} bundles do not fit into a heap of {self.heap}")
            raise RuntimeError(f"the JVM failed:\n{said[-4000:]}")
        return told


def write_columns(snapshot: LoadSnapshot, folder: Path) -> None:
    """Write what the reader takes: names as lines, figures as 64-bit numbers."""
    brokers, bundles = snapshot.brokers, snapshot.bundles
    (folder / "brokers.txt").write_text("\n".join(brokers.names) + "\n")
    (folder / "bundles.txt").write_text("\n".join(bundles.names) + ("\n" if len(bundles) else ""))
    of_brokers = brokers.latest
    columns = (of_brokers.rate_in, of_brokers.rate_out, of_brokers.throughput_in, of_brokers.throughput_out)
    with (folder / "brokers.bin").open("wb") as file:
        brokers.percent[0].tofile(file)
        np.column_stack(columns).tofile(file)
    figures = (bundles.short.rate_in, bundles.short.rate_out, bundles.short.throughput_in, bundles.short.throughput_out)
    np.column_stack((bundles.owner, bundles.topics, bundles.sessions, *figures)).astype("<f8").tofile(
        folder / "bundles.bin"
    )
