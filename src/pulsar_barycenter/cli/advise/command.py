"""`barycenter advise`: the load manager, strategy and settings that a cluster's history speaks for, and why."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.advise.board import print_advice
from pulsar_barycenter.cli.advise.reality import Reality, reality_of, topic_names
from pulsar_barycenter.cli.advise.trying import run
from pulsar_barycenter.cli.failure import fail, in_words
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.replay.asked import input_of, seeds_of, with_input
from pulsar_barycenter.cli.replay.command import UNUSABLE
from pulsar_barycenter.cli.replay.inputs import Input, InputSpec, read_input
from pulsar_barycenter.cli.replay.running import write_whole
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.strategies import is_own
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.brokers import of_other_size, of_other_strength, told_too_little, too_little
from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice
from pulsar_barycenter.replay.advice.finding import Finding
from pulsar_barycenter.replay.advice.parts import Parts, parts_of
from pulsar_barycenter.replay.advice.search import LEAST_SEEDS, Question, checked, knobs_given
from pulsar_barycenter.replay.advice.topics_and_bundles import (
    LEAST_SHARE,
    loads_of,
    namespaces_too_coarse,
    topics_too_large,
)
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.advice.weighing import PRICES, Weights
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.demand import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerCrashed, BrokerRemoved
from pulsar_barycenter.replay.scenario import BENCHED

_FRAGMENT: Final = "broker.conf.fragment"
_COMMANDS: Final = "commands.sh"
_DOCUMENT: Final = "advice.json"
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
        strategies = _strategies(found, strategies)
        parts = parts_of(found.demand.steps, found.demand.step_ms)
        question = Question(
            base=dict(found.settings),
            strategies=strategies,
            given=knobs_given(sets),
            weights=_weights(found, parts, price),
            whole=(0, found.demand.steps),
        )
        starts = checked(question, sets)
        reality = reality_of(spec)
        findings = _findings(spec, found, reality)
    except UNUSABLE as error:
        fail(in_words(error))
        return
    _tell(found)
    try:
        known = run(question, len(starts), spec, numbers, parts, processes)
        doubts = (*_idle(found), *found.doubts, *reality.doubts)
        advice = advice_of(
            question, known, parts, found.demand, observed=reality.observed, findings=findings, doubts=doubts
        )
        if out is not None:
            _write(out, advice)
    except UNUSABLE as error:
        fail(in_words(error))
        return
    if form == "json":
        click.echo(_document(advice).decode(), nl=False)
        return
    print_advice(advice)
    if out is not None:
        click.echo(f"\n{out / _FRAGMENT}, {_COMMANDS} and {_DOCUMENT} are written")


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


def _weights(found: Input, parts: Parts, price: float) -> Weights:
    hours = found.demand.step_ms / 3_600_000
    return Weights(
        price=price,
        sessions=int(found.demand.sessions.sum()),
        bundles=len(found.demand.bundles),
        choosing_hours=tuple((end - first) * hours for first, end in parts.choosing),
        telling_hours=tuple((end - first) * hours for first, end in parts.telling),
    )


def _findings(spec: InputSpec, found: Input, reality: Reality) -> list[Finding]:
    brokers = _brokers_in_the_end(found)
    if not brokers:
        return []
    demand, model = found.demand, found.cluster.model
    limit = with_overrides(BrokerConfig(), found.settings).load_balancer_broker_overloaded_threshold_percentage / 100
    loads = loads_of(demand, model, brokers.values())
    told = [
        *too_little(demand, model, brokers, limit),
        *topics_too_large(demand, loads, topic_names(spec, found)),
        *namespaces_too_coarse(demand, loads),
        *of_other_size(brokers),
    ]
    if reality.usages is not None:
        told += [*of_other_strength(reality.usages), *told_too_little(reality.usages)]
    return told


def _brokers_in_the_end(found: Input) -> dict[str, Capacity]:
    brokers = dict(found.cluster.brokers)
    for event in sorted(found.events, key=lambda each: each.at_ms):
        if isinstance(event, BrokerAdded):
            brokers[event.broker] = event.capacity
        elif isinstance(event, BrokerRemoved | BrokerCrashed):
            brokers.pop(event.broker, None)
    return brokers


def _idle(found: Input) -> Sequence[str]:
    brokers = _brokers_in_the_end(found)
    fair = loads_of(found.demand, found.cluster.model, brokers.values()).fair if brokers else 1.0
    if fair >= LEAST_SHARE:
        return ()
    more = "; --shape scale=N makes more of traces" if found.demand.hashes.max(initial=-1) >= 0 else ""
    return (f"all load is {fair:.1%} of what the brokers have: there is next to nothing to balance{more}",)


@dataclass(frozen=True)
class _File:
    name: str
    content: bytes


def _write(out: Path, advice: Advice) -> None:
    out.mkdir(parents=True, exist_ok=True)
    files = (
        _File(_FRAGMENT, fragment(advice).encode()),
        _File(_COMMANDS, commands(advice).encode()),
        _File(_DOCUMENT, _document(advice)),
    )
    for each in files:
        write_whole(out / each.name, each.content)


def _document(advice: Advice) -> bytes:
    return msgspec.json.format(msgspec.json.encode(advice, order="sorted"), indent=1) + b"\n"


def _tell(found: Input) -> None:
    demand = found.demand
    hours = demand.steps * demand.step_ms / 3_600_000
    bundles, brokers = count_of(len(demand.bundles), "bundle"), count_of(len(found.cluster.brokers), "broker")
    click.echo(
        f"{bundles} on {brokers}, {hours:g} h in {count_of(demand.steps, 'step')}",
        err=True,
    )
