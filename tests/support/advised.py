"""Advice on synthetic load, with all runs in this process."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pulsar_barycenter.replay.advice.document import Advice
from pulsar_barycenter.replay.advice.parts import Trial, attempt, parts_of
from pulsar_barycenter.replay.advice.search import Question, checked, knobs_given, wanted
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.advice.weighing import PRICES, Weights
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.events import Event
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.scenario import COMMON
from pulsar_barycenter.replay.simulator import Cluster


def question_of(
    demand: Demand,
    base: Mapping[str, str],
    strategies: Sequence[str] = (),
    sets: Sequence[str] = (),
    *,
    prefer: str = "both",
) -> Question:
    """Return the question of an advice on this load; `base` adds to the settings that all replays share."""
    parts = parts_of(demand.steps, demand.step_ms)
    hours = demand.step_ms / 3_600_000
    question = Question(
        base={**COMMON, **base},
        strategies=tuple(strategies),
        given=knobs_given(sets),
        weights=Weights(
            price=PRICES[prefer],
            sessions=int(demand.sessions.sum()),
            bundles=len(demand.bundles),
            choosing_hours=tuple((end - first) * hours for first, end in parts.choosing),
            telling_hours=tuple((end - first) * hours for first, end in parts.telling),
        ),
        whole=(0, demand.steps),
    )
    checked(question, sets)
    return question


def tried(
    question: Question,
    demands: Sequence[Demand],
    cluster: Cluster,
    events: Iterable[Event] = (),
) -> dict[str, list[Trial]]:
    """Return all requested runs; seed k has the k-th demand."""
    parts = parts_of(demands[0].steps, demands[0].step_ms)
    happens = tuple(events)
    known: dict[str, list[Trial]] = {}
    while batch := wanted(question, known):
        for each in batch:
            known[each.name] = [
                attempt(_seeded(each, seed), demand, cluster, happens, question.base, parts)
                for seed, demand in enumerate(demands)
            ]
    return known


def _seeded(scenario: Scenario, seed: int) -> Scenario:
    return msgspec.structs.replace(scenario, seed=seed)


def advised(
    demands: Sequence[Demand],
    cluster: Cluster,
    base: Mapping[str, str],
    strategies: Sequence[str] = (),
    sets: Sequence[str] = (),
    *,
    prefer: str = "both",
) -> Advice:
    question = question_of(demands[0], base, strategies, sets, prefer=prefer)
    known = tried(question, demands, cluster)
    return advice_of(question, known, parts_of(demands[0].steps, demands[0].step_ms), demands[0])
