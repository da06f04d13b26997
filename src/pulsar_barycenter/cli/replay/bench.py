"""`barycenter balance-bench`: every strategy in every scenario, and whether it went as expected."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.replay.asked import seeds_of
from pulsar_barycenter.cli.replay.bench_page import Figures, Table, page, print_table_of
from pulsar_barycenter.cli.replay.processes import pool_of
from pulsar_barycenter.cli.replay.published_page import ExperimentRuns, print_published, published_page
from pulsar_barycenter.cli.replay.running import write_whole
from pulsar_barycenter.load.managers import StrategyError, in_its_place
from pulsar_barycenter.replay.demand import ReplayInputError
from pulsar_barycenter.replay.experiments.experiment import Experiment, experiments, run_experiment
from pulsar_barycenter.replay.front import FRONT
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.inputs.csv_traces import read_trace
from pulsar_barycenter.replay.measures import Measures
from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import BENCHED, Case, catalogue, run_case
from pulsar_barycenter.replay.traced import traced_case
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress

UNEXPECTED = 3
Subject = TypeVar("Subject")
Job: TypeAlias = tuple[Subject, str, int]
"""A scenario, or the name of an experiment; a strategy; a seed."""
Run = TypeVar("Run")
Chosen = TypeVar("Chosen")


@click.command(name="balance-bench")
@click.option("--scenario", "names", multiple=True, help="A scenario; repeated. Unless given, all.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A CSV file of timestamp,value, or a folder of them: a scenario more, made of all; repeated.",
)
@click.option("--strategy", "strategies", multiple=True, help="As of `replay`; repeated. Unless given, all.")
@click.option("--seeds", default="1-3", show_default=True, metavar="N | A-B", help="Seeds of the scenarios.")
@click.option(
    "--processes", default=lambda: os.cpu_count() or 1, show_default="processors", type=click.IntRange(1, 256)
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the page, in Markdown.")
@click.option("--published", is_flag=True, help="Replay published experiments instead, beside what was published.")
@click.option("--list", "only_list", is_flag=True, help="Tell what scenarios there are.")
def command(
    names: tuple[str, ...],
    traces: tuple[Path, ...],
    strategies: tuple[str, ...],
    seeds: str,
    processes: int,
    out: Path | None,
    published: bool,
    only_list: bool,
) -> None:
    """Run every strategy in every scenario, and tell how well it balances and whether that was expected.

    A scenario is a cluster in trouble, drawn from a seed; figures are medians over the seeds. docs/balance-bench.md is
    made by this command, docs/measures.md defines the figures. docs/published-experiments.md is with --published.

    Ends with 0, with 1 if a strategy is not known, with 2 for wrong usage, with 3 if something was not as expected.
    """
    numbers = seeds_of(seeds)
    if only_list:
        cases: Sequence[Case | Experiment] = _chosen(names, experiments()) if published else _chosen(names, catalogue())
        for each in cases:
            click.echo(f"{each.name}: {each.about}")
        return
    try:
        for strategy in strategies:
            if strategy not in REFERENCES:
                settings_of(strategy, {})
        if published:
            told = _beside_published(_chosen(names, experiments()), strategies, numbers, processes)
            print_published(told)
            text, expected = published_page(told, seeds), all(each.holds for each in told)
        else:
            front = {} if strategies else FRONT
            benched = strategies or (*BENCHED, *REFERENCES)
            measured = _chosen(names, catalogue()) + _traced(traces)
            tables = _run(measured, benched, front, numbers, processes)
            for table in tables:
                print_table_of(table)
            text = page(tables, benched, seeds, has_traces=bool(traces))
            expected = all(each.holds(table.figures) for table in tables for each in table.case.expected)
        if out is not None:
            write_whole(out, text.encode())
    except (StrategyError, ReplayInputError, OSError) as error:
        fail(in_words(error))
        return
    if not expected:
        sys.exit(UNEXPECTED)


def _chosen(names: Sequence[str], known: Mapping[str, Chosen]) -> list[Chosen]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"--scenario {unknown[0]}: there is none; {in_its_place(unknown[0], known)}")
    return [known[name] for name in names] or list(known.values())


def _traced(traces: Sequence[Path]) -> list[Case]:
    """Return the scenario of these files, if there are any.

    Raises:
        ReplayInputError: a folder has none, or one is wrong.
        OSError: one cannot be read.
    """
    files = sorted(file for each in traces for file in (each.glob("*.csv") if each.is_dir() else [each]))
    if not traces:
        return []
    found = []
    for file in files:
        with file.open(newline="") as lines:
            found.append(read_trace(file.stem, lines))
    return [traced_case(found)]


def _run(
    cases: list[Case], strategies: tuple[str, ...], front: Mapping[str, str], seeds: list[int], processes: int
) -> list[Table]:
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


def _beside_published(
    chosen: list[Experiment], strategies: tuple[str, ...], seeds: list[int], processes: int
) -> list[ExperimentRuns]:
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
    """Return the median of each figure that is a number; of when it was even that after the last event."""
    found: dict[str, float] = {}
    rows: list[Mapping[str, object]] = [msgspec.structs.asdict(run) for run in runs]
    for name in rows[0]:
        values = [value[-1] if isinstance(value := row[name], tuple) else value for row in rows]
        found[name] = median(float("inf") if value is None else float(str(value)) for value in values)
    return found
