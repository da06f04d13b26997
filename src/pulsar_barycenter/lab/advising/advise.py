"""Prepares the input of a recommendation, runs the replays, adds findings, and writes the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.lab.advising.reality import Reality, reality_of, topic_names
from pulsar_barycenter.lab.advising.trying import run
from pulsar_barycenter.lab.inputs import Input, InputSpec, brokers_at
from pulsar_barycenter.load.sizing import SizingRule
from pulsar_barycenter.load.strategies import is_own
from pulsar_barycenter.replay.advice.brokers import of_other_size, of_other_strength, told_too_little, too_little
from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice
from pulsar_barycenter.replay.advice.finding import AdviceFinding
from pulsar_barycenter.replay.advice.parts import Parts, parts_of
from pulsar_barycenter.replay.advice.search import Question, checked, knobs_given
from pulsar_barycenter.replay.advice.topics_and_bundles import (
    LEAST_SHARE,
    loads_of,
    namespaces_too_coarse,
    topics_too_large,
)
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.advice.weighing import Weights
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.right_sizing import RightSizing, loads_over_time, right_sizing
from pulsar_barycenter.replay.scenario import BENCHED
from pulsar_barycenter.whole_files.appearing import write_whole

FRAGMENT: Final = "broker.conf.fragment"
COMMANDS: Final = "commands.sh"
DOCUMENT: Final = "advice.json"
HEAD_ROOM: Final = 0.3
HIGHEST_PRICE: Final = 10_000.0
"""The highest cost of one disturbance of all clients a day, in points."""


@dataclass(frozen=True)
class Advisable:
    """The input of a recommendation, after its options were checked: a recorded or synthetic load, and the moves and
    the balance that the recorded cluster really had.

    `starts` is the number of configurations that are replayed first, before the search varies them.
    """

    spec: InputSpec
    found: Input
    parts: Parts
    question: Question
    starts: int
    reality: Reality
    findings: Sequence[AdviceFinding]
    sizing: RightSizing | None
    sizing_warnings: Sequence[str]

    def advice(self, seeds: Sequence[int], processes: int) -> Advice:
        """Replay configurations on this load and return the recommendation. `seeds` are the seeds of the replays;
        `processes` is the number of processes of this machine. Progress is shown on standard error.
        """
        known = run(self.question, self.starts, self.spec, seeds, self.parts, processes)
        advice = advice_of(
            self.question,
            known,
            self.parts,
            self.found.demand,
            observed=self.reality.observed,
            findings=self.findings,
            warnings=(*_idle(self.found), *self.found.warnings, *self.reality.warnings, *self.sizing_warnings),
        )
        return msgspec.structs.replace(advice, right_sizing=self.sizing)


def advisable(
    spec: InputSpec,
    found: Input,
    strategies: tuple[str, ...],
    sets: Sequence[str],
    price: float,
    *,
    head_room: float = HEAD_ROOM,
    spare: int = 0,
) -> Advisable:
    """Check the options and return what a recommendation needs.

    `found` is the load, which was read as `spec` says. `strategies` are the strategies to try, `sets` the settings to
    vary (`key=value,value`). `price` is what it costs to disturb every client once a day, in percentage points of a
    broker's usage. `head_room` is the fraction of each broker that is to stay free. `spare` is the number of brokers
    that may fail without overload: the recommendation has `spare` brokers more than the load needs.

    Raises:
        ReplayInputError: the history is too short, or a setting is not valid.
        StrategyError, ConfigError: a strategy or a value is not valid.
        OSError: the recorded moves or balance cannot be read.
    """
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
    sizing, doubts = _sizing(found, head_room, spare)
    findings = _findings(spec, found, reality)
    return Advisable(spec, found, parts, question, len(starts), reality, findings, sizing, doubts)


def _sizing(found: Input, head_room: float, spare: int) -> tuple[RightSizing | None, Sequence[str]]:
    """Return how many brokers the load needs, and no warnings; or None and a warning that says why the number is not
    known. If the input has no brokers, return None without a warning.
    """
    brokers = brokers_at(found)
    if not brokers:
        return None, ()
    demand = found.demand
    loads, idle = loads_over_time(demand, found.cluster.model, list(brokers.values()))
    try:
        rule = SizingRule(head_room=head_room, idle=idle, spare=spare)
    except ValueError as error:
        return None, (f"how many brokers the load needs is not known: {error}",)
    return right_sizing(demand.start_ms, demand.step_ms, loads.tolist(), rule, len(brokers)), ()


def strategies_to_try(found: Input, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the strategies to try: those in `asked`; if it is empty, all known strategies that the recorded cluster
    can run.

    Raises:
        ReplayInputError: a strategy in `asked` is Barycenter's own, and the recorded cluster runs Apache Pulsar.
    """
    if not found.is_apache_pulsar:
        return asked or BENCHED
    own = [name for name in asked if _is_own(name)]
    if own:
        raise ReplayInputError(
            f"{', '.join(own)} is a strategy of Barycenter, and the recorded cluster runs Apache Pulsar, which does "
            "not have it; leave it out, or use `barycenter replay` to see what it would do"
        )
    return asked or tuple(name for name in BENCHED if not _is_own(name))


def _is_own(strategy: str) -> bool:
    return any(map(is_own, strategy.split("+")))


def _weights(found: Input, parts: Parts, price: float) -> Weights:
    hours = found.demand.step_ms / 3_600_000
    return Weights(
        price=price,
        sessions=int(found.demand.sessions.sum()),
        bundles=len(found.demand.bundles),
        choosing_hours=tuple((end - first) * hours for first, end in parts.choosing),
        telling_hours=tuple((end - first) * hours for first, end in parts.telling),
    )


def _findings(spec: InputSpec, found: Input, reality: Reality) -> list[AdviceFinding]:
    brokers = brokers_at(found)
    if not brokers:
        return []
    demand, model = found.demand, found.cluster.model
    limit = with_overrides(BrokerConfig(), found.settings).load_balancer_broker_overloaded_threshold_percentage / 100
    loads = loads_of(demand, model, brokers.values())
    findings = [
        *too_little(demand, model, brokers, limit),
        *topics_too_large(demand, loads, topic_names(spec, found)),
        *namespaces_too_coarse(demand, loads),
        *of_other_size(brokers),
    ]
    if reality.usages is not None:
        findings += [*of_other_strength(reality.usages), *told_too_little(reality.usages)]
    return findings


def _idle(found: Input) -> Sequence[str]:
    brokers = brokers_at(found)
    fair = loads_of(found.demand, found.cluster.model, brokers.values()).fair if brokers else 1.0
    if fair >= LEAST_SHARE:
        return ()
    more = "; --shape scale=N multiplies the load of traces" if found.demand.hashes.max(initial=-1) >= 0 else ""
    return (f"all load is {fair:.1%} of the brokers' capacity: there is almost nothing to balance{more}",)


def write_advice(out: Path, advice: Advice) -> None:
    """Write the three files of a recommendation to the folder `out`, which is created if it is missing: the lines for
    broker.conf (FRAGMENT), the script for running brokers (COMMANDS) and the JSON (DOCUMENT).

    Raises:
        OSError: a file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / FRAGMENT, fragment(advice).encode())
    write_whole(out / COMMANDS, commands(advice).encode())
    write_whole(out / DOCUMENT, document(advice))


def document(advice: Advice) -> bytes:
    """Return a recommendation as JSON, with sorted keys."""
    return msgspec.json.format(msgspec.json.encode(advice, order="sorted"), indent=1) + b"\n"
