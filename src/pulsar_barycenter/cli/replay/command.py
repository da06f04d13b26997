"""`barycenter replay`: replays recorded or synthetic load with any load manager, strategy and settings."""

import os
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.replay.input_options import command_of, input_of, seeds_of, with_input
from pulsar_barycenter.lab.errors import UNUSABLE, GridError
from pulsar_barycenter.lab.inputs import is_elsewhere, read_source, size_of
from pulsar_barycenter.lab.report.overview import About
from pulsar_barycenter.lab.report.page import write_report
from pulsar_barycenter.lab.results import RESULTS, print_board, write_results
from pulsar_barycenter.lab.running import (
    Ended,
    GridFile,
    digest_of,
    one_command,
    open_folder,
    read_run,
    run_on_processes,
    waiting_of,
)
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.running.job_options import SparkMaster, with_spark_settings
from pulsar_barycenter.replay.grid import CONFIGURED, periods_of, scenarios
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress

if TYPE_CHECKING:
    from pulsar_barycenter.lab.spark_grid import SparkGrid

_FAILURES_TOLD: Final = 10


@click.command(name="replay")
@with_input("A data folder with the pipeline's tables (a path, or an address that Spark reaches)")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    default=(CONFIGURED,),
    show_default=True,
    help="A shedding strategy, SHEDDING+PLACEMENT, or a load manager; may be repeated.",
)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=V1,V2", help="Values to try for a key of broker.conf; may be repeated."
)
@click.option(
    "--seeds", default="0", show_default=True, metavar="N | A-B", help="Seeds of random choices: one, or a range."
)
@click.option(
    "--parts",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="The number of periods to split the input into.",
)
@click.option(
    "--processes",
    default=lambda: os.cpu_count() or 1,
    show_default="processors",
    type=click.IntRange(1, 256),
    help="The number of processes on this machine.",
)
@click.option(
    "--master", type=SparkMaster(), metavar="URL", help="Spark master to run on, instead of --processes: local[2], …"
)
@with_spark_settings
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder for the results."
)
def command(
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    since: str,
    until: str,
    step: str,
    strategies: tuple[str, ...],
    sets: tuple[str, ...],
    seeds: str,
    parts: int,
    processes: int,
    master: str | None,
    conf: dict[str, str],
    out: Path,
) -> None:
    """Replay load with any strategies and settings, and show how well each balances and at what cost.

    Every strategy runs with every combination of settings, seeds and periods. A run uses the live leader's own code for
    rounds. Runs are distributed to processes of this machine or, with --master, run as one Spark job. --out gets
    report.html, results.json, the moves, splits and balance of each step as Parquet, and a file for each run. If the
    command was interrupted, the same command continues with the remaining runs. docs/replay.md describes the inputs,
    docs/measures.md the measures.

    Exit code: 0; 1 if the input or a strategy cannot be used or a run failed; 2 for wrong usage.
    """
    with ExitStack() as held:
        try:
            spec = input_of(inputs, shapes, since, until, step)
            numbers = seeds_of(seeds)
            spark = _started(held, master, conf) if is_elsewhere(spec) else None
            source = spark.read(spec) if spark else read_source(spec)
            found = source.input(numbers[0])
            base = dict(found.settings)
            grid = scenarios(strategies, sets, numbers, periods_of(found.demand.steps, parts), base)
            open_folder(out, GridFile(spec=spec, base=base, digest=digest_of(found)))
            held.enter_context(one_command(out))
            for warning in found.warnings:
                click.echo(f"barycenter: warning: {warning}", err=True)
            words = size_of(found)
            click.echo(f"{words}; {count_of(len(grid), 'run')}", err=True)
            waiting = waiting_of(grid, out)
            done = len(grid) - len(waiting)
            if done:
                click.echo(
                    f"{done} of {count_of(len(grid), 'run')} {'is' if done == 1 else 'are'} done already", err=True
                )
            if master is not None and waiting:
                ended = (spark or _started(held, master, conf)).run(waiting, source, base, out)
            else:
                ended = run_on_processes(waiting, source, base, out, processes)
            with closing(ended):
                _follow(ended, done, len(grid))
            runs = [run for scenario in with_progress(grid, "reading") if (run := read_run(out, scenario)) is not None]
            write_results(out, runs)
            about = About(command_of(click.get_current_context()), words, found.warnings, base)
            report = write_report(out, runs, about)
        except UNUSABLE as error:
            fail(in_words(error))
            return
    print_board(runs)
    click.echo(f"report: {report}", err=True)


def _started(held: ExitStack, master: str | None, conf: Mapping[str, str]) -> "SparkGrid":
    # runs on this machine need neither the start-up time nor the packages of Spark
    from pulsar_barycenter.lab.spark_grid import spark_started

    return held.enter_context(spark_started(master, conf))


def _follow(ended: Generator[Ended], done: int, runs: int) -> None:
    """Print each run as it ends; of the failed runs only the first `_FAILURES_TOLD`. `runs` is the number of all runs,
    `done` the number of those that had ended before.

    Raises:
        GridError: all runs have ended, and at least one failed.
    """
    failed = 0
    for number, run in enumerate(ended, done + 1):
        words = f"{number}/{runs} {run.scenario.told}"
        failed += bool(run.reason)
        if not run.reason:
            click.echo(words, err=True)
        elif failed <= _FAILURES_TOLD:
            click.echo(f"{words}: failed: {run.reason}", err=True)
    if failed:
        raise GridError(
            f"{failed} of {count_of(runs, 'run')} failed, so {RESULTS} is not written; the other results are kept, and "
            "the same command tries only the failed runs again"
        )
