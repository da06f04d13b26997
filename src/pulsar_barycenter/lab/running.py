"""Runs a grid on the processors of this machine; each completed run is a file, so that an interrupted grid can
continue.

`DIR/runs/<name>.json` is a run; its name follows from its scenario. `DIR/grid.json` identifies the input and the grid;
a different one is refused. Processes send their results to the command, and only the command writes files. The
processes share the input as `DIR/.input`, which is deleted when the command ends. `spark_grid` does the same on Spark.
"""

import hashlib
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
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
from pulsar_barycenter.whole_files.appearing import write_whole
from pulsar_barycenter.whole_files.locked_folder import FolderInUseError, locked_folder

RUNS: Final = "runs"
GRID: Final = "grid.json"
SHARED: Final = ".input"
FORMAT: Final = 2


class RunFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of the file that is written for each completed run: its scenario (strategy, settings, seed and
    period), its measures, its decisions, and its values at each step.
    """

    scenario: Scenario
    measures: Measures
    moves: tuple[Moved, ...]
    splits: tuple[Divided, ...]
    series: Series


class GridFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Identifies the grid (the set of replays of one command) whose runs are in a folder. `spec` describes the input,
    `base` are the settings that were recorded with it, `digest` is a hash of its data. A folder with another `GridFile`
    is refused.
    """

    format: int = FORMAT
    spec: InputSpec
    base: dict[str, str]
    digest: str


def run_scenario(scenario: Scenario, found: Input, base: Mapping[str, str]) -> RunFile:
    """Replay one scenario (a strategy, settings, a seed and a period) on the input `found`, and return its result.
    `base` are the keys of broker.conf that the scenario's settings override.
    """
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
    """Return a hash of the data of an input: equal for equal load, brokers and events."""
    digest = hashlib.sha256(msgspec.json.encode((found.demand.start_ms, found.demand.step_ms, found.demand.bundles)))
    for name in (*FIGURES, "bundle_of", "hashes", "sessions", "topics"):
        digest.update(np.ascontiguousarray(getattr(found.demand, name)).data)
    if found.demand.spans is not None:
        digest.update(np.ascontiguousarray(found.demand.spans).data)
    digest.update(repr((found.cluster, found.events, found.demand.owners)).encode())
    return digest.hexdigest()[:32]


def open_folder(out: Path, grid: GridFile) -> None:
    """Create the folder `out` for the runs of a grid; if it exists, check that its runs are of the same grid.

    Raises:
        ReplayInputError: the folder has the runs of another grid.
        OSError: the folder cannot be created.
    """
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    path = out / GRID
    wanted = msgspec.json.encode(grid, order="sorted")
    if path.exists() and path.read_bytes() != wanted:
        raise ReplayInputError(
            f"{out} has runs of another input, or with other initial settings; give another folder as --out"
        )
    write_whole(path, wanted)


def read_run(out: Path, scenario: Scenario) -> RunFile | None:
    """Return the completed run of a scenario from the folder `out`. Return None if there is no such run yet, or if its
    file has an unexpected form.
    """
    try:
        return msgspec.json.decode((out / RUNS / f"{scenario.name}.json").read_bytes(), type=RunFile)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


class Ended(NamedTuple):
    """How a run of a scenario ended: it is completed and its file is written (then `reason` is ""), or it failed for
    the reason `reason`.
    """

    scenario: Scenario
    reason: str = ""


Answer: TypeAlias = tuple[bytes, str]
"""The content of a run's file, and ""; of a run that failed: no bytes, and the reason."""


@dataclass(frozen=True)
class Runner:
    """Runs one scenario, in a process of this machine or a task of Spark. Keep the object small: it is sent to each
    process.

    `input_of` returns the input of a seed; it is called in the process that runs the scenario. `base` are the keys of
    broker.conf that the scenario's settings override.
    """

    base: Mapping[str, str]
    input_of: Callable[[int], Input]

    def __call__(self, scenario: str) -> Answer:
        """Run a scenario, given as JSON. Return the run as JSON and ""; if it fails, b"" and the error as text, so that
        other runs continue.
        """
        try:
            wanted = msgspec.json.decode(scenario, type=Scenario)
            return msgspec.json.encode(run_scenario(wanted, self.input_of(wanted.seed), self.base)), ""
        except (ReplayInputError, ConfigError, StrategyError) as error:
            return b"", str(error)
        except Exception as error:  # noqa: BLE001 - the error is printed, and the command ends with 1
            return b"", traceback.format_exception_only(error)[-1].strip()


def waiting_of(scenarios: Sequence[Scenario], out: Path) -> list[Scenario]:
    """Return the scenarios that have no completed run in the folder `out` yet. They are ordered by seed: each seed has
    its own input, so a process rarely has to load another one.
    """
    return sorted((scenario for scenario in scenarios if read_run(out, scenario) is None), key=lambda one: one.seed)


def text_of(scenario: Scenario) -> str:
    """Return a scenario as JSON, for `Runner`."""
    return msgspec.json.encode(scenario).decode()


def kept(out: Path, scenario: Scenario, answer: Answer) -> Ended:
    """Write the file of a completed run into the folder `out`, and return how the run ended. `answer` is the result of
    `Runner`; for a failed run, no file is written.

    Raises:
        OSError: the file cannot be written.
    """
    content, reason = answer
    if not content:
        return Ended(scenario, reason or "no reason given")
    write_whole(out / RUNS / f"{scenario.name}.json", content)
    return Ended(scenario)


@contextmanager
def one_command(out: Path) -> Iterator[None]:
    """Lock the folder `out` while the block runs, so that one command at a time uses it. At the end, delete the file
    `.input`, from which the processes read the input.

    Raises:
        ReplayInputError: another command uses the folder.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(out))
        except FolderInUseError:
            raise ReplayInputError(
                f"another replay writes into {out} now; wait for its end, or give another folder as --out"
            ) from None
        stack.callback((out / SHARED).unlink, missing_ok=True)
        yield


def run_on_processes(
    scenarios: Sequence[Scenario], source: Source, base: Mapping[str, str], out: Path, processes: int
) -> Generator[Ended]:
    """Run scenarios on the input `source`, on `processes` processes, or in this process if `processes` is 1; write each
    completed run into the folder `out`, and yield how each run ended, in the order in which they end. `base` are the
    keys of broker.conf that the scenarios' settings override.

    Raises:
        GridError: a process ended unexpectedly.
    """
    if processes == 1 or len(scenarios) < 2:
        runner = Runner(base, lru_cache(maxsize=1)(source.input))
        for scenario in scenarios:
            yield kept(out, scenario, runner(text_of(scenario)))
        return
    write_source(out / SHARED, source)
    runner = Runner(base, partial(shared_input, out / SHARED))
    with pool_of(min(processes, len(scenarios))) as pool:
        tasks = {pool.submit(runner, text_of(scenario)): scenario for scenario in scenarios}
        try:
            for task in as_completed(tasks):
                yield kept(out, tasks.pop(task), task.result())
        except BrokenProcessPool as error:
            raise GridError(
                "a process that ran scenarios ended unexpectedly, perhaps because memory was short; give fewer "
                "--processes: the same command continues with the remaining runs"
            ) from error
