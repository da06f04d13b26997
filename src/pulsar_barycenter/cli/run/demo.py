"""`barycenter demo`: runs a cluster that balances itself and survives a crash, and writes a report."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pulsar  # noqa: F401  # clients run in their own processes; this fails before a cluster starts if the library is missing

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.interrupt import InterruptedBySignal
from pulsar_barycenter.cli.moments import Seconds
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.config.broker_conf import ConfigError, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.demo.contenders import OURS, PLACEMENT_KEY, PULSARS_DEFAULT, SHEDDING_KEY
from pulsar_barycenter.demo.report.comparison import SeenRun, render_comparison, table
from pulsar_barycenter.demo.scenario import Demo, DemoSettings
from pulsar_barycenter.demo.summary import verdict
from pulsar_barycenter.lab.trace_files import csv_files, trace_in
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.traces import synthetic_traces
from pulsar_barycenter.replay.traces import Trace, read_trace_with_gaps, unique_names
from pulsar_barycenter.snapshots.decided_by import WrongWordError, texts_of
from pulsar_barycenter.standalone.cluster import free_ports
from pulsar_barycenter.standalone.errors import StandaloneError
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="demo")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 16), help="Number of brokers.")
@click.option("--duration", default="120s", show_default=True, type=Seconds(10), help="Duration of the load: 120s, 5m.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A CSV file, or a folder of them; each file is one topic.",
)
@click.option(
    "--speedup",
    default=1440.0,
    show_default=True,
    type=Number(0.001),
    help="Seconds of the traces for each second of the demo.",
)
@click.option("--seed", default=1, show_default=True, type=int, help="Seed of the synthetic mix.")
@click.option(
    "--out",
    default=Path("demo-out"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the report.",
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Set a key of broker.conf; may be repeated.")
@click.option("--chaos/--no-chaos", default=True, show_default=True, help="Kill the busiest broker half-way.")
@click.option(
    "--compare", is_flag=True, help="Run the same load again with Pulsar's default strategy, and report both."
)
@click.option(
    "--web-port",
    default=18080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="HTTP port of broker 0; 0: free ports.",
)
@click.option(
    "--broker-port",
    default=16650,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Binary port of broker 0; 0: free ports.",
)
@with_format("table", "json", json="the summary")
def command(
    brokers: int,
    duration: float,
    traces: tuple[Path, ...],
    speedup: float,
    seed: int,
    out: Path,
    changes: tuple[str, ...],
    chaos: bool,
    compare: bool,
    web_port: int,
    broker_port: int,
    form: str,
) -> None:
    """Start a cluster, put load on it with Pulsar's own clients, and write a report.

    The cluster starts with one broker. The others join, the load spreads, and half-way the busiest broker is killed.
    The rates follow the traces (CSV files with timestamp,value) or a synthetic mix: skewed, with a daily swing and
    bursts. The cluster uses LeastDisturbance, with settings that balance within seconds; --set overrides them.

    The command writes report.html and summary.json to OUT. Ctrl-C ends the run in order and reports the time until
    then; a second Ctrl-C kills all processes.

    With --compare the same load runs twice: first with LeastDisturbance, then with Pulsar's default. OUT/report.html
    compares both runs; each run has its own report in a folder of OUT.
    """
    try:
        texts = texts_of(changes)
        with_overrides(BrokerConfig(), texts)
        if compare and (chosen_keys := sorted({SHEDDING_KEY, PLACEMENT_KEY} & texts.keys())):
            raise click.UsageError(
                f"--compare chooses the strategies itself: leave out --set {chosen_keys[0]}=…, or --compare"
            )
        out.mkdir(parents=True, exist_ok=True)
        chosen = _traces(traces) if traces else synthetic_traces(seed)
        free = free_ports(2 * brokers)
        settings = DemoSettings(
            out=out,
            traces=chosen,
            trace_paths=traces,
            seed=None if traces else seed,
            changes=texts,
            load=count_of(len(chosen), "trace") if traces else f"a synthetic mix (seed {seed})",
            brokers=brokers,
            duration_s=duration,
            speedup=speedup,
            chaos=chaos,
            web_port=web_port or free[0],
            broker_port=broker_port or free[brokers],
        )
        every = [settings.beside(balancing) for balancing in (OURS, PULSARS_DEFAULT)] if compare else [settings]
        runs, signalled = _run_all(every)
    except WrongWordError as error:
        raise click.UsageError(str(error)) from error
    except (StandaloneError, ReplayInputError, ConfigError, AdminRequestError, OSError) as error:
        fail(in_words(error))
        return
    if not runs:
        raise InterruptedBySignal(signalled)
    if len(runs) > 1:
        _write_comparison(runs, settings.beside(OURS).command(), out)
    if form == "json":
        folder = out if len(runs) > 1 else runs[0].report.parent
        click.echo((folder / "summary.json").read_text(), nl=False)
    else:
        click.echo(last_lines(runs, out))
    if signalled:
        raise InterruptedBySignal(signalled)
    lost = sum(run.summary["messages_lost"] for run in runs)
    if lost:
        fail(f"{lost} acknowledged messages did not arrive; logs are in {out}/**/data/logs")


def _traces(paths: Sequence[Path]) -> Sequence[Trace]:
    return unique_names([trace_in(file, read_trace_with_gaps) for file in csv_files(paths)])


def _run_all(every: Sequence[DemoSettings]) -> tuple[list[SeenRun], int]:
    """Run the demos one after the other. Return the runs that have a result, and the signal that ended the last run
    early, or 0.
    """
    seen: list[SeenRun] = []
    for number, settings in enumerate(every, start=1):
        if len(every) > 1:
            click.echo(f"starting run {number} of {len(every)}, balanced by {settings.balancing.title}", err=True)
        settings.out.mkdir(parents=True, exist_ok=True)
        run, signalled = asyncio.run(_run(settings))
        seen += [] if run is None else [run]
        if signalled:
            return seen, signalled
    return seen, 0


def _write_comparison(runs: Sequence[SeenRun], command: str, out: Path) -> None:
    summaries = {run.contender.name: run.summary for run in runs}
    (out / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summaries), indent=2) + b"\n")
    (out / "report.html").write_text(render_comparison(runs, command, out), encoding="utf-8")


async def _run(settings: DemoSettings) -> tuple[SeenRun | None, int]:
    """Run one demo. Return its recorded run (None if it has no result) and the number of the signal that ended it
    early, or 0.
    """
    demo = Demo(settings)
    loop = asyncio.get_running_loop()
    running = asyncio.create_task(demo.run(), name="demo")
    numbers: list[int] = []

    def interrupted(number: int) -> None:
        if numbers:
            demo.end_at_once()
        else:
            running.cancel()
        numbers.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted, number)
    try:
        return await running, 0
    except asyncio.CancelledError:
        return demo.write_so_far(), numbers[0]


def last_lines(runs: Sequence[SeenRun], out: Path) -> str:
    """Return the last output of a demo: the results of its run, or of several runs side by side."""
    if len(runs) == 1:
        return sentences(runs[0].summary, runs[0].report.parent)
    own = ", ".join(str(run.report) for run in runs)
    return f"{table(runs)}\n{'report':<10} {out / 'report.html'} (reports of each run: {own})"


def sentences(summary: dict[str, Any], out: Path) -> str:
    """Return the results of a run as sentences, which are the last lines of a demo's output."""
    lines = [*verdict(summary), ("report", str(out / "report.html"))]
    return "\n".join(f"{label:<10} {text}" for label, text in lines)
