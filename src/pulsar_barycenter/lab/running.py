"""A grid of runs on the processors of this machine; each one that is done is a file, so that a killed grid goes on.

`DIR/runs/<name>.json` is a run, its name made of what it is; `DIR/grid.json` says of which input and which grid, and
another one is refused. Processes send what became of a run to the command, which alone writes; what it read of the
input they share as `DIR/.input`, which goes when the command ends. `spark_grid` does the same on a cluster.
"""

import fcntl
import hashlib
import os
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.lab.errors import GridError
from pulsar_barycenter.lab.inputs import Input, InputSpec, Source, brokers_at
from pulsar_barycenter.lab.processes import pool_of
from pulsar_barycenter.lab.series import Series, series_of
from pulsar_barycenter.lab.shared_input import shared_input, write_source
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.replay.demand import FIGURES
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import Measures, measure
from pulsar_barycenter.replay.outcome import Divided, Moved
from pulsar_barycenter.replay.simulator import replay

RUNS: Final = "runs"
GRID: Final = "grid.json"
SHARED: Final = ".input"
FORMAT: Final = 2


class RunFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All that is kept of a run."""

    scenario: Scenario
    measures: Measures
    moves: tuple[Moved, ...]
    splits: tuple[Divided, ...]
    series: Series


class GridFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Of what a folder holds runs; `digest` is of the input's figures."""

    format: int = FORMAT
    spec: InputSpec
    base: dict[str, str]
    digest: str


def run_scenario(scenario: Scenario, found: Input, base: Mapping[str, str]) -> RunFile:
    """Return what becomes of one run."""
    first, end = scenario.period
    demand = found.demand.period(first, end)
    start_ms, end_ms = demand.start_ms, demand.start_ms + demand.steps * demand.step_ms
    events = [event for event in found.events if start_ms <= event.at_ms < end_ms]
    cluster = replace(found.cluster, brokers=brokers_at(found, start_ms))
    owners = tuple(owner if owner in cluster.brokers else "" for owner in demand.owners)
    demand = replace(demand, owners=owners)
    outcome = replay(demand, cluster, scenario.config(base), events, seed=scenario.seed)
    return RunFile(
        scenario=scenario,
        measures=measure(outcome),
        moves=outcome.moves,
        splits=outcome.splits,
        series=series_of(outcome),
    )


def digest_of(found: Input) -> str:
    """Return what tells inputs apart."""
    digest = hashlib.sha256(msgspec.json.encode((found.demand.start_ms, found.demand.step_ms, found.demand.bundles)))
    for name in (*FIGURES, "bundle_of", "hashes", "sessions", "topics"):
        digest.update(np.ascontiguousarray(getattr(found.demand, name)).data)
    if found.demand.spans is not None:
        digest.update(np.ascontiguousarray(found.demand.spans).data)
    digest.update(repr((found.cluster, found.events, found.demand.owners)).encode())
    return digest.hexdigest()[:32]


def open_folder(out: Path, grid: GridFile) -> None:
    """Have a folder for the runs of a grid.

    Raises:
        ReplayInputError: it holds those of another one.
        OSError: it cannot be made.
    """
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    path = out / GRID
    wanted = msgspec.json.encode(grid, order="sorted")
    if path.exists() and path.read_bytes() != wanted:
        raise ReplayInputError(
            f"{out} holds runs of another input, or of other settings to begin with; give another folder as --out"
        )
    write_whole(path, wanted)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole, or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def read_run(out: Path, scenario: Scenario) -> RunFile | None:
    """Return a run that is done; None if it is not, or its file is no longer understood."""
    try:
        return msgspec.json.decode((out / RUNS / f"{scenario.name}.json").read_bytes(), type=RunFile)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


class Ended(NamedTuple):
    """A run that is done, and in its file; or failed, for this reason."""

    scenario: Scenario
    reason: str = ""


Answer: TypeAlias = tuple[bytes, str]
"""What a run's file holds; or nothing, and why."""


@dataclass(frozen=True)
class Runner:
    """Runs one scenario: what processes of this machine and tasks of Spark do alike. Small, to be sent to all of them.

    `input_of` gives the input of a seed where it runs.
    """

    base: Mapping[str, str]
    input_of: Callable[[int], Input]

    def __call__(self, scenario: str) -> Answer:
        """Run a scenario, given as JSON; whatever it fails of is its answer, so that the others go on."""
        try:
            wanted = msgspec.json.decode(scenario, type=Scenario)
            return msgspec.json.encode(run_scenario(wanted, self.input_of(wanted.seed), self.base)), ""
        except (ReplayInputError, ConfigError, StrategyError) as error:
            return b"", str(error)
        except Exception as error:  # noqa: BLE001 - it is told, and the command ends with 1
            return b"", traceback.format_exception_only(error)[-1].strip()


def waiting_of(scenarios: Sequence[Scenario], out: Path) -> list[Scenario]:
    """Return what is not done yet, one seed after the other: so a process seldom needs the input of another one."""
    return sorted((each for each in scenarios if read_run(out, each) is None), key=lambda each: each.seed)


def text_of(scenario: Scenario) -> str:
    """Return a scenario as `Runner` takes it."""
    return msgspec.json.encode(scenario).decode()


def kept(out: Path, scenario: Scenario, answer: Answer) -> Ended:
    """Write the file of a run that is done, and say how it ended.

    Raises:
        OSError: the file cannot be written.
    """
    content, reason = answer
    if not content:
        return Ended(scenario, reason or "it does not say why")
    write_whole(out / RUNS / f"{scenario.name}.json", content)
    return Ended(scenario)


@contextmanager
def one_command(out: Path) -> Iterator[None]:
    """Hold the folder as long as the block lasts; what processes share in it goes afterwards.

    Raises:
        ReplayInputError: another command works in it.
    """
    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReplayInputError(f"another replay works in {out}; wait for it, or give another folder") from None
        try:
            yield
        finally:
            (out / SHARED).unlink(missing_ok=True)
    finally:
        os.close(folder)


def run_on_processes(
    scenarios: Sequence[Scenario], source: Source, base: Mapping[str, str], out: Path, processes: int
) -> Generator[Ended]:
    """Run scenarios on so many processes of this machine, on this one if it is one, and yield each as it ends.

    Raises:
        GridError: a process died.
    """
    if processes == 1 or len(scenarios) < 2:
        runner = Runner(base, lru_cache(maxsize=1)(source.input))
        for each in scenarios:
            yield kept(out, each, runner(text_of(each)))
        return
    write_source(out / SHARED, source)
    runner = Runner(base, partial(shared_input, out / SHARED))
    with pool_of(min(processes, len(scenarios))) as pool:
        tasks = {pool.submit(runner, text_of(each)): each for each in scenarios}
        try:
            for task in as_completed(tasks):
                yield kept(out, tasks.pop(task), task.result())
        except BrokenProcessPool as error:
            raise GridError(
                "a process that ran scenarios died, perhaps for want of memory; give fewer --processes:"
                " the same command goes on with what is not done"
            ) from error
