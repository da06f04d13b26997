"""Runs strategies in scenarios from TOML files, and compares each run with what the file expects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pulsar_barycenter.replay.scenario import run_setup
from pulsar_barycenter.replay.scenario_files import MOST_BYTES, ScenarioFile, Verdict, scenario_of, setup_of, verdicts


@dataclass(frozen=True, slots=True)
class FileRun:
    """A run of a scenario file with one strategy and seed, and its verdicts, one for each expectation of the file:
    whether it is met.
    """

    path: Path
    strategy: str
    seed: int
    verdicts: tuple[Verdict, ...]


def scenario_files(paths: Iterable[Path]) -> dict[Path, ScenarioFile]:
    """Read scenario files; return the scenario of each file, by its path.

    Raises:
        ReplayInputError: a file is not a scenario.
        OSError: a file cannot be read.
    """
    found = {}
    for path in paths:
        with path.open("rb") as file:
            found[path] = scenario_of(str(path), file.read(MOST_BYTES + 1))
    return found


def run_files(files: dict[Path, ScenarioFile], strategies: Sequence[str], seeds: Sequence[int]) -> Iterable[FileRun]:
    """Run each scenario file with each strategy and each seed, one after the other; yield each run with its verdicts
    when it has ended.
    """
    for path, scenario in files.items():
        for strategy in strategies:
            for seed in seeds:
                outcome = run_setup(setup_of(scenario, seed), strategy, seed)
                yield FileRun(path, strategy, seed, tuple(verdicts(scenario.expect, outcome)))
