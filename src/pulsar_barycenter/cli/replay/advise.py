"""`barycenter advise`: recommends a load manager, a strategy and settings from a cluster's recorded load."""

import os
import re
from pathlib import Path

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.replay.input_options import input_of, seeds_of, with_input
from pulsar_barycenter.lab.advising.advise import (
    COMMANDS,
    DOCUMENT,
    FRAGMENT,
    HEAD_ROOM,
    HIGHEST_PRICE,
    advisable,
    document,
    strategies_to_try,
    write_advice,
)
from pulsar_barycenter.lab.advising.board import print_advice
from pulsar_barycenter.lab.errors import UNUSABLE
from pulsar_barycenter.lab.inputs import read_input, size_of
from pulsar_barycenter.replay.advice.search import LEAST_SEEDS
from pulsar_barycenter.replay.advice.weighing import PRICES
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="advise")
@with_input("A data folder with the pipeline's tables")
@click.option(
    "--strategy", "strategies", multiple=True, help="Try only this strategy, named as for `replay`; may be repeated."
)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=V1,V2", help="Vary only this key of broker.conf; may be repeated."
)
@click.option(
    "--prefer",
    default="both",
    show_default=True,
    metavar="balance | both | calm | N",
    help="The cost of one disturbance of all clients a day: 1, 5, 25 or N points of a broker's usage.",
)
@click.option("--seeds", default="1-3", show_default=True, metavar="A-B", help="Seeds of random choices; two or more.")
@click.option(
    "--processes", default=lambda: os.cpu_count() or 1, show_default="processors", type=click.IntRange(1, 256)
)
@click.option(
    "--head-room",
    default=round(100 * HEAD_ROOM),
    show_default=True,
    type=click.IntRange(0, 90),
    help="Percent of a broker to keep free when brokers are counted.",
)
@click.option("--spare", default=0, show_default=True, type=click.IntRange(0, 1_000), help="Brokers beyond the need.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder for the recommendation.")
@with_format("text", "json", json="the content of advice.json")
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
    head_room: int,
    spare: int,
    out: Path | None,
    form: str,
) -> None:
    """Recommend a load manager, a strategy and settings for a cluster, from its recorded load.

    The command replays the history in virtual time with every strategy, and varies the main settings of the best ones.
    A configuration is selected on the first part of the history and confirmed on the rest. A change is recommended only
    if the new configuration is better by more than noise. Problems that balancing cannot solve are named, and
    how many brokers each hour of the week needs. For a cluster
    of Apache Pulsar only strategies of Pulsar are tried.

    --out gets lines for broker.conf, commands for running brokers, and advice.json. docs/advise.md explains the
    selection, docs/measures.md the measures.

    Exit code: 0; 1 if the input or a strategy cannot be used; 2 for wrong usage.
    """
    price = _price_of(prefer)
    numbers = seeds_of(seeds)
    if len(numbers) < LEAST_SEEDS:
        raise click.UsageError(f"--seeds {seeds}: give {LEAST_SEEDS} or more, like 1-3, to tell a gain from chance")
    try:
        spec = input_of(inputs, shapes, since, until, step)
        found = read_input(spec, numbers[0])
        tried = strategies_to_try(found, strategies)
        history = advisable(spec, found, tried, sets, price, head_room=head_room / 100, spare=spare)
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
        click.echo(f"\nwrote {out / FRAGMENT}, {COMMANDS} and {DOCUMENT}")


def _price_of(text: str) -> float:
    if text in PRICES:
        return PRICES[text]
    if re.fullmatch(r"\d{1,5}(\.\d{1,6})?", text) and float(text) <= HIGHEST_PRICE:
        return float(text)
    raise click.UsageError(f"--prefer {text}: give {', '.join(PRICES)}, or a number from 0 to {HIGHEST_PRICE:g}")
