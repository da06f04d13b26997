"""`barycenter balance-bench`: every strategy in every scenario, and whether it went as expected."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.replay.asked import seeds_of
from pulsar_barycenter.lab.benches.bench import experiment_runs, scenario_tables, traced_cases
from pulsar_barycenter.lab.benches.bench_page import page, print_table_of
from pulsar_barycenter.lab.benches.front import FRONT
from pulsar_barycenter.lab.benches.published_page import print_published, published_page
from pulsar_barycenter.lab.running import write_whole
from pulsar_barycenter.load.managers import StrategyError, in_its_place
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.experiments.experiment import Experiment, experiments
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import BENCHED, Case, catalogue
from pulsar_barycenter.terminal.errors import in_words

UNEXPECTED = 3
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
            told = experiment_runs(_chosen(names, experiments()), strategies, numbers, processes)
            print_published(told)
            text, expected = published_page(told, seeds), all(each.holds for each in told)
        else:
            front = {} if strategies else FRONT
            benched = strategies or (*BENCHED, *REFERENCES)
            measured = _chosen(names, catalogue()) + traced_cases(traces)
            tables = scenario_tables(measured, benched, front, numbers, processes)
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
