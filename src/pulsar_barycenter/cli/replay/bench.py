"""`barycenter balance-bench`: runs every strategy in every scenario, and checks the expectations."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.replay.input_options import seeds_of
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.lab.benches.bench import experiment_runs, scenario_tables, traced_cases
from pulsar_barycenter.lab.benches.bench_page import page, print_table_of
from pulsar_barycenter.lab.benches.file_bench import run_files, scenario_files
from pulsar_barycenter.lab.benches.front import FRONT
from pulsar_barycenter.lab.benches.published_page import print_published, published_page
from pulsar_barycenter.load.managers import StrategyError, in_its_place
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.experiments.experiment import Experiment, experiments
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import BENCHED, OURS, Case, catalogue
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.whole_files.appearing import write_whole

INVALID_FILE = 2
UNEXPECTED = 3
Chosen = TypeVar("Chosen")


@click.command(name="balance-bench")
@click.option("--scenario", "names", multiple=True, help="Run only this scenario; may be repeated.  [default: all]")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A CSV file (timestamp,value) or a folder of them; all together form one more scenario. May be repeated.",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Run only this strategy, named as for `replay`; may be repeated.  [default: all]",
)
@click.option("--seeds", default="1-3", show_default=True, metavar="N | A-B", help="Seeds of the scenarios.")
@click.option(
    "--processes", default=lambda: os.cpu_count() or 1, show_default="processors", type=click.IntRange(1, 256)
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results to this file, in Markdown."
)
@click.option(
    "--published", is_flag=True, help="Replay published experiments instead, and compare with the published results."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the scenario in this TOML file instead (docs/replay.md), with LeastDisturbance unless --strategy names"
    " others; may be repeated.",
)
@click.option("--list", "only_list", is_flag=True, help="List the scenarios.")
def command(
    names: tuple[str, ...],
    traces: tuple[Path, ...],
    strategies: tuple[str, ...],
    seeds: str,
    processes: int,
    out: Path | None,
    published: bool,
    files: tuple[Path, ...],
    only_list: bool,
) -> None:
    """Run every strategy in every scenario, show how well it balances, and check the expectations.

    A scenario is a cluster with a problem, generated from a seed; the values are medians over the seeds.
    docs/balance-bench.md is the output of this command, docs/published-experiments.md the output with --published.
    docs/measures.md defines the measures.

    Exit code: 0; 1 if a strategy does not exist or an expectation of a --file does not hold; 2 for wrong usage or a
    --file that is not a valid scenario; 3 if another expectation was not met.
    """
    numbers = seeds_of(seeds)
    if files and (names or traces or published or only_list or out is not None):
        raise click.UsageError("--file can be combined only with --strategy and --seeds; leave out all other options")
    if only_list:
        cases: Sequence[Case | Experiment] = _chosen(names, experiments()) if published else _chosen(names, catalogue())
        for case in cases:
            click.echo(f"{case.name}: {case.about}")
        return
    try:
        for strategy in strategies:
            if strategy not in REFERENCES:
                settings_of(strategy, {})
        if files:
            _run_files(files, strategies or (OURS,), numbers)
            return
        if published:
            results = experiment_runs(_chosen(names, experiments()), strategies, numbers, processes)
            print_published(results)
            text, expected = published_page(results, seeds), all(result.holds for result in results)
        else:
            front = {} if strategies else FRONT
            benched = strategies or (*BENCHED, *REFERENCES)
            measured = _chosen(names, catalogue()) + traced_cases(traces)
            tables = scenario_tables(measured, benched, front, numbers, processes)
            for table in tables:
                print_table_of(table)
            text = page(tables, benched, seeds, has_traces=bool(traces))
            expected = all(rule.holds(table.figures) for table in tables for rule in table.case.expected)
        if out is not None:
            write_whole(out, text.encode())
    except (StrategyError, ReplayInputError, ConfigError, OSError) as error:
        fail(in_words(error))
        return
    if not expected:
        sys.exit(UNEXPECTED)


def _run_files(files: Sequence[Path], strategies: Sequence[str], seeds: Sequence[int]) -> None:
    """Run the scenarios of files and print the verdicts; then end the program with an error if an expectation is not
    met. An invalid file ends the program before the first run.
    """
    try:
        scenarios = scenario_files(files)
    except ReplayInputError as error:
        fail(in_words(error), INVALID_FILE)
        return
    broken = []
    for run in run_files(scenarios, strategies, seeds):
        click.echo(f"\n{run.path}: {run.strategy}, seed {run.seed}")
        for verdict in run.verdicts:
            click.echo(f"  {'as expected' if verdict.holds else 'NOT AS EXPECTED'}: {verdict.text}")
        broken += [(run, verdict) for verdict in run.verdicts if not verdict.holds]
    if broken:
        run, verdict = broken[0]
        fail(
            f"{count_of(len(broken), 'expectation')} not met; the first is of {run.path} with {run.strategy} and seed"
            f" {run.seed}: {verdict.text}"
        )


def _chosen(names: Sequence[str], known: Mapping[str, Chosen]) -> list[Chosen]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"--scenario {unknown[0]} does not exist; {in_its_place(unknown[0], known)}")
    return [known[name] for name in names] or list(known.values())
