"""A grid of runs on the processors of this machine; each one that is done is a file, so that a killed grid goes on.

`DIR/runs/<name>.json` is a run, its name made of what it is; `DIR/grid.json` says of which input and which grid, and
another one is refused. Each process reads the input for itself, once for each seed that it meets.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from barycenter.cli.replay.inputs import Input, InputSpec, read_input
from barycenter.cli.replay.series import Series, series_of
from barycenter.replay.demand import FIGURES, ReplayInputError
from barycenter.replay.grid import Scenario
from barycenter.replay.measures import Measures, measure
from barycenter.replay.outcome import Divided, Moved
from barycenter.replay.simulator import replay

RUNS: Final = "runs"
GRID: Final = "grid.json"
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
    outcome = replay(demand, found.cluster, scenario.config(base), events, seed=scenario.seed)
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


def run_all(
    scenarios: Sequence[Scenario], spec: InputSpec, base: Mapping[str, str], out: Path, processes: int
) -> Iterator[Scenario]:
    """Run what is not done yet, and yield each as it is; each is in its file by then."""
    waiting = [each for each in scenarios if read_run(out, each) is None]
    if processes == 1 or len(waiting) < 2:
        for each in waiting:
            _run_into(each, spec, dict(base), str(out))
            yield each
        return
    # a process of its own reads the input, and holds nothing of this one: threads of Arrow do not outlive a fork
    with ProcessPoolExecutor(min(processes, len(waiting)), mp_context=get_context("spawn")) as pool:
        tasks = {pool.submit(_run_into, each, spec, dict(base), str(out)): each for each in waiting}
        try:
            for task in as_completed(tasks):
                task.result()
                yield tasks[task]
        finally:
            pool.shutdown(cancel_futures=True)


@lru_cache(maxsize=1)
def _input_of(spec: bytes, seed: int) -> Input:
    return read_input(msgspec.json.decode(spec, type=InputSpec), seed)


def _run_into(scenario: Scenario, spec: InputSpec, base: dict[str, str], out: str) -> None:
    found = _input_of(msgspec.json.encode(spec), scenario.seed)
    done = run_scenario(scenario, found, base)
    write_whole(Path(out) / RUNS / f"{scenario.name}.json", msgspec.json.encode(done))
