"""`barycenter replay`: recorded or made-up load through any load manager, strategy and setting, in virtual time."""

import os
from pathlib import Path

import click

from barycenter.cli.failure import fail, in_words
from barycenter.cli.folders import WrongFolderError
from barycenter.cli.moments import moment_ms, span_ms
from barycenter.cli.progress import with_progress
from barycenter.cli.replay.inputs import GENERATED, Input, InputSpec, read_input, shape_of
from barycenter.cli.replay.report.overview import About
from barycenter.cli.replay.report.page import command_of, write_report
from barycenter.cli.replay.results import print_board, write_results
from barycenter.cli.replay.running import GridFile, digest_of, open_folder, read_run, run_all
from barycenter.cli.replay.seeds import seeds_of
from barycenter.config.broker_conf import ConfigError
from barycenter.load.managers import StrategyError
from barycenter.pipeline.history import END_OF_TIME, NoHistoryError
from barycenter.replay.demand import ReplayInputError
from barycenter.replay.grid import CONFIGURED, scenarios

UNUSABLE = (ReplayInputError, NoHistoryError, WrongFolderError, ConfigError, StrategyError, OSError)


@click.command(name="replay")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="INPUT",
    help=f"A data folder with the pipeline's tables, CSV traces of timestamp,value (repeated), or {GENERATED}.",
)
@click.option("--shape", "shapes", multiple=True, metavar="KEY=VALUE", help="Of CSV traces and made-up load; repeated.")
@click.option("--since", default="", help="Begin of the period: 15m, 2h, 3d ago, or 2026-01-31T12:00.")
@click.option("--until", default="", help="End of the period, exclusive; likewise.")
@click.option("--step", default="1m", show_default=True, help="Length of a step.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    default=(CONFIGURED,),
    show_default=True,
    help="A shedder, a shedder+placement, or a load manager; repeated.",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=V1,V2", help="A key of broker.conf, varied; repeated.")
@click.option("--seeds", default="0", show_default=True, metavar="N | A-B", help="Seeds of draws: one, or a range.")
@click.option("--parts", default=1, show_default=True, type=click.IntRange(1, 1000), help="Periods to cut it into.")
@click.option(
    "--processes", default=lambda: os.cpu_count() or 1, show_default="processors", type=click.IntRange(1, 256)
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of the results.")
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
    out: Path,
) -> None:
    """Replay load through any strategy and setting, and tell how well each balances and at what cost.

    Every strategy runs with every combination of settings, seeds and periods, by the rounds of the live leader. --out
    gets report.html, results.json, moves, splits and balance of each step as Parquet, and a file for each run: the
    same command goes on where a killed one was. docs/replay.md tells of inputs, docs/measures.md what is measured.

    Ends with 0, with 1 if the input or a strategy is not usable, with 2 for wrong usage.
    """
    try:
        spec = InputSpec(
            paths=inputs,
            shape=shape_of(shapes),
            since_ms=moment_ms("--since", since),
            until_ms=moment_ms("--until", until) or END_OF_TIME,
            step_ms=span_ms("--step", step),
        )
        numbers = seeds_of(seeds)
        found = read_input(spec, numbers[0])
        base = dict(found.settings)
        grid = scenarios(strategies, sets, numbers, _periods(found.demand.steps, parts), base)
        open_folder(out, GridFile(spec=spec, base=base, digest=digest_of(found)))
    except UNUSABLE as error:
        fail(in_words(error))
        return
    for doubt in found.doubts:
        click.echo(f"barycenter: {doubt}", err=True)
    told = _in_words(found)
    click.echo(f"{told}; {len(grid)} runs", err=True)
    done = [each for each in grid if read_run(out, each) is not None]
    if done:
        click.echo(f"{len(done)} of {len(grid)} runs are done already", err=True)
    try:
        for number, each in enumerate(run_all(grid, spec, base, out, processes), len(done) + 1):
            click.echo(f"{number}/{len(grid)} {each.title}, seed {each.seed}", err=True)
        runs = [run for each in with_progress(grid, "reading") if (run := read_run(out, each)) is not None]
        write_results(out, runs)
        about = About(command_of(click.get_current_context()), told, found.doubts, base)
        report = write_report(out, runs, about)
    except UNUSABLE as error:
        fail(in_words(error))
        return
    print_board(runs)
    click.echo(f"report: {report}", err=True)


def _in_words(found: Input) -> str:
    demand = found.demand
    hours = demand.steps * demand.step_ms / 3_600_000
    return f"{len(demand.bundles)} bundles on {len(found.cluster.brokers)} brokers, {hours:g} h in {demand.steps} steps"


def _periods(steps: int, parts: int) -> list[tuple[int, int]]:
    if parts > steps:
        raise ReplayInputError(f"{steps} steps cannot be cut into {parts} periods; give fewer with --parts")
    return [(steps * part // parts, steps * (part + 1) // parts) for part in range(parts)]
