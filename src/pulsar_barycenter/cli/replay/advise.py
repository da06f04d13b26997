"""`barycenter advise`: the load manager, strategy and settings that a cluster's history speaks for, and why."""

import os
import re
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.replay.asked import input_of, seeds_of, with_input
from pulsar_barycenter.lab.advising.advise import COMMANDS, DOCUMENT, FRAGMENT, advisable, document, write_advice
from pulsar_barycenter.lab.advising.board import print_advice
from pulsar_barycenter.lab.errors import UNUSABLE
from pulsar_barycenter.lab.inputs import Input, read_input, size_of
from pulsar_barycenter.load.strategies import is_own
from pulsar_barycenter.replay.advice.search import LEAST_SEEDS
from pulsar_barycenter.replay.advice.weighing import PRICES
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.scenario import BENCHED
from pulsar_barycenter.terminal.errors import in_words

_HIGHEST_PRICE: Final = 10_000.0


@click.command(name="advise")
@with_input("A data folder with the pipeline's tables")
@click.option("--strategy", "strategies", multiple=True, help="Try these alone, as of `replay`; repeated.")
@click.option("--set", "sets", multiple=True, metavar="KEY=V1,V2", help="Vary these keys of broker.conf alone.")
@click.option(
    "--prefer",
    default="both",
    show_default=True,
    metavar="balance | both | calm | N",
    help="What disturbing all clients once a day weighs: 1, 5, 25 or N points of a broker.",
)
@click.option("--seeds", default="1-3", show_default=True, metavar="A-B", help="Seeds of draws; two or more.")
@click.option(
    "--processes", default=lambda: os.cpu_count() or 1, show_default="processors", type=click.IntRange(1, 256)
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write the advice to.")
@with_format("text", "json", json="what --out has as advice.json")
def command(
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    since: str,
    until: str,
    step: str,
    strategies: tuple[str, ...],
    sets: tuple[str, ...],
    prefer: str,
    seeds: str,
    processes: int,
    out: Path | None,
    form: str,
) -> None:
    """Advise the load manager, strategy and settings that a cluster's history speaks for.

    Every strategy, and the main settings of the best, run through the history in virtual time. What is chosen by its
    first part is told by the rest. Unless another configuration is better by more than noise there is no advice to
    change. What no balancing can mend is named. A cluster of Apache Pulsar, by its recorded reports, is advised what it
    can run: Barycenter's own strategies are left out. --out gets lines for broker.conf, commands for running brokers,
    and advice.json. docs/advise.md says how it is chosen, docs/measures.md what is measured.

    Ends with 0, with 1 if the input or a strategy is not usable, with 2 for wrong usage.
    """
    price = _price_of(prefer)
    numbers = seeds_of(seeds)
    if len(numbers) < LEAST_SEEDS:
        raise click.UsageError(f"--seeds {seeds}: give {LEAST_SEEDS} or more, like 1-3, to tell a gain from chance")
    try:
        spec = input_of(inputs, shapes, since, until, step)
        found = read_input(spec, numbers[0])
        history = advisable(spec, found, _strategies(found, strategies), sets, price)
    except UNUSABLE as error:
        fail(in_words(error))
        return
    click.echo(size_of(found), err=True)
    try:
        advice = history.advice(numbers, processes)
        if out is not None:
            write_advice(out, advice)
    except UNUSABLE as error:
        fail(in_words(error))
        return
    if form == "json":
        click.echo(document(advice).decode(), nl=False)
        return
    print_advice(advice)
    if out is not None:
        click.echo(f"\n{out / FRAGMENT}, {COMMANDS} and {DOCUMENT} are written")


def _strategies(found: Input, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the strategies to try: those asked for, else all that the recorded cluster can run.

    Raises:
        ReplayInputError: one that is asked for is Barycenter's own, and the cluster is Apache Pulsar's.
    """
    if not found.is_apache_pulsar:
        return asked or BENCHED
    own = [name for name in asked if _is_own(name)]
    if own:
        raise ReplayInputError(
            f"{', '.join(own)} is Barycenter's own, and the cluster that was recorded is one of Apache Pulsar, which"
            " cannot run it; leave it out, or see by `barycenter replay` what it would do there"
        )
    return asked or tuple(name for name in BENCHED if not _is_own(name))


def _is_own(strategy: str) -> bool:
    return any(map(is_own, strategy.split("+")))


def _price_of(text: str) -> float:
    if text in PRICES:
        return PRICES[text]
    if re.fullmatch(r"\d{1,5}(\.\d{1,6})?", text) and float(text) <= _HIGHEST_PRICE:
        return float(text)
    raise click.UsageError(f"--prefer {text}: give {', '.join(PRICES)}, or a number from 0 to {_HIGHEST_PRICE:g}")
