"""Runs every strategy in every scenario, and in every published experiment, and returns medians over seeds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

import msgspec

from pulsar_barycenter.lab.benches.bench_page import Figures, Table
from pulsar_barycenter.lab.benches.published_page import ExperimentRuns
from pulsar_barycenter.lab.benches.traced import traced_case
from pulsar_barycenter.lab.processes import pool_of
from pulsar_barycenter.lab.trace_files import csv_files, trace_in
from pulsar_barycenter.replay.experiments.experiment import Experiment, experiments, run_experiment
from pulsar_barycenter.replay.measures import Measures
from pulsar_barycenter.replay.scenario import Case, run_case
from pulsar_barycenter.terminal.progress import with_progress

Subject = TypeVar("Subject")
Job: TypeAlias = tuple[Subject, str, int]
"""A scenario, or the name of an experiment; a strategy; a seed."""
Run = TypeVar("Run")


def traced_cases(traces: Sequence[Path]) -> list[Case]:
    """Return a list with one scenario, which replays these CSV traces; an empty list if `traces` is empty.

    Raises:
        ReplayInputError: a folder has no traces, or a file is not valid.
        OSError: a file cannot be read.
    """
    return [traced_case([trace_in(file) for file in sorted(csv_files(traces))])] if traces else []


def scenario_tables(
    cases: list[Case], strategies: tuple[str, ...], front: Mapping[str, str], seeds: list[int], processes: int
) -> list[Table]:
    """Run each case with each strategy and each seed; return a table for each case, with the median of each measure
    over the seeds.

    LeastDisturbance is measured with several bands as well: `front` maps the value of its setting
    `barycenterLeastDisturbanceBandPercentage` to the text that names the strategy with this setting. These results are
    in `Table.bands`.
    """
    run = (*strategies, *front.values())
    jobs = [(case, strategy, seed) for case in cases for strategy in run for seed in seeds]
    measured = _together(_measured, jobs, processes)
    of = {(case.name, *rest): found for (case, *rest), found in zip(jobs, measured, strict=True)}
    tables = []
    for case in cases:
        medians = {name: _medians([of[case.name, name, seed] for seed in seeds]) for name in run}
        bands = {band: medians[name] for band, name in front.items()}
        tables.append(Table(case, {name: medians[name] for name in strategies}, bands))
    return tables


def experiment_runs(
    chosen: list[Experiment], strategies: tuple[str, ...], seeds: list[int], processes: int
) -> list[ExperimentRuns]:
    """Replay each experiment in `chosen` with its own strategies and with `strategies`, once for each seed; return the
    measured values by experiment.
    """
    jobs = [
        (each.name, strategy, seed)
        for each in chosen
        for strategy in dict.fromkeys((*each.strategies, *strategies))
        for seed in seeds
    ]
    told = {each.name: ExperimentRuns(each, {}) for each in chosen}
    for (name, strategy, _), figures in zip(jobs, _together(_figures, jobs, processes), strict=True):
        told[name].runs.setdefault(strategy, []).append(figures)
    return list(told.values())


def _together(run: Callable[[Job[Subject]], Run], jobs: list[Job[Subject]], processes: int) -> list[Run]:
    if processes == 1 or len(jobs) == 1:
        return [run(job) for job in with_progress(jobs, "replaying")]
    with pool_of(min(processes, len(jobs))) as pool:
        waiting = [pool.submit(run, job) for job in jobs]
        return [task.result() for task in with_progress(waiting, "replaying")]


def _measured(job: Job[Case]) -> Measures:
    return run_case(*job)


def _figures(job: Job[str]) -> dict[str, float]:
    name, strategy, seed = job
    return run_experiment(experiments()[name], strategy, seed)


def _medians(runs: list[Measures]) -> Figures:
    """Return the median of each measure over the runs. A measure may have several values in a run, one for the start
    and one for each event: then the last value counts.
    """
    found: dict[str, float] = {}
    rows: list[Mapping[str, object]] = [msgspec.structs.asdict(run) for run in runs]
    for name in rows[0]:
        values = [value[-1] if isinstance(value := row[name], tuple) else value for row in rows]
        found[name] = median(float("inf") if value is None else float(str(value)) for value in values)
    return found
