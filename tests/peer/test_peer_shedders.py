"""Shedders beside Pulsar's: the same brokers lose the same bundles, round after round, with the same history.

Pulsar looks at brokers and bundles in the order of hash maps, which decides between equals and in the last bit of sums.
Where its answer is not ours its class is asked once more about the same cluster, with brokers and bundles in the order
of their names (brokers are given other names, on which hash maps agree), and has to give exactly our answer then: ours
is one of those that its rule allows.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.strategies import Role, strategy
from support.load_cases import Cluster
from support.peer_cases import cluster, configuration, drawn, in_hash_order, load_document, next_round
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

IMPL = "org.apache.pulsar.broker.loadbalance.impl"


@dataclass(frozen=True)
class Contender:
    """How a shedder is tried; to add one is to add a value to CONTENDERS under its name.

    `overrides` draws Pulsar's keys. `rounds` is how many are played at most. `history_field` names Pulsar's map of
    broker to history, which our memory has to equal; empty: none is compared.
    `churn`: brokers come and go between rounds.
    """

    overrides: Callable[[random.Random], dict[str, Any]]
    rounds: int = 1
    history_field: str = ""
    churn: bool = True


def weights(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    keys = ("CPU", "DirectMemory", "BandwidthIn", "BandwidthOut")
    return {f"loadBalancer{key}ResourceWeight": rng.choice((0.0, 0.5, 1.0, 2.0)) for key in keys}


def threshold_overrides(rng: random.Random) -> dict[str, Any]:
    return {
        "loadBalancerBrokerThresholdShedderPercentage": rng.choice((0, 1, 5, 10, 10, 10, 25)),
        "loadBalancerHistoryResourcePercentage": rng.choice((0.0, 0.5, 0.9, 0.9, 1.0)),
        "loadBalancerBundleUnloadMinThroughputThreshold": rng.choice((0.0, 0.5, 10.0, 10.0, 100.0)),
        "lowerBoundarySheddingEnabled": rng.random() < 0.5,
        **weights(rng),
    }


def overload_overrides(rng: random.Random) -> dict[str, Any]:
    limit = rng.choice((0, 30, 50, 80, 85, 85, 100))
    return {"loadBalancerBrokerOverloadedThresholdPercentage": limit, **weights(rng)}


def uniform_overrides(rng: random.Random) -> dict[str, Any]:
    return {
        "loadBalancerMsgRateDifferenceShedderThreshold": rng.choice((0, 10, 50, 50, 200)),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": rng.choice((0, 1.5, 4, 4)),
        "maxUnloadPercentage": rng.choice((0.2, 0.2, 0.5, 1.0)),
        "minUnloadMessage": rng.choice((0, 1000, 1000)),
        "minUnloadMessageThroughput": rng.choice((0, 1_048_576, 1_048_576)),
        "maxUnloadBundleNumPerShedding": rng.choice((-1, -1, 1, 3)),
    }


def avg_overrides(rng: random.Random) -> dict[str, Any]:
    return {
        "loadBalancerAvgShedderLowThreshold": rng.choice((0, 5, 15, 15)),
        "loadBalancerAvgShedderHighThreshold": rng.choice((20, 40, 40)),
        "loadBalancerAvgShedderHitCountLowThreshold": rng.choice((1, 2, 8)),
        "loadBalancerAvgShedderHitCountHighThreshold": rng.choice((1, 2, 2)),
        "maxUnloadPercentage": rng.choice((0.2, 0.2, 0.5, 1.0)),
        "minUnloadMessage": rng.choice((0, 1000, 1000)),
        "minUnloadMessageThroughput": rng.choice((0, 1_048_576, 1_048_576)),
        **weights(rng),
    }


CONTENDERS = {
    "ThresholdShedder": Contender(threshold_overrides, rounds=3, history_field="brokerAvgResourceUsage"),
    "OverloadShedder": Contender(overload_overrides),
    "UniformLoadShedder": Contender(uniform_overrides),
    "AvgShedder": Contender(avg_overrides, rounds=4, churn=False),
}


@dataclass(frozen=True)
class Case:
    overrides: dict[str, Any]
    rounds: list[Cluster]

    def document(self) -> dict[str, Any]:
        return {"configuration": self.overrides, "rounds": [load_document(one) for one in self.rounds]}


def renamed(case: Case) -> Case:
    """Return the case with broker names in the order of which hash maps agree; ours decides as before."""
    names = in_hash_order({name for one in case.rounds for name in one.reports})
    rounds = [
        replace(one, reports={names[name]: report for name, report in one.reports.items()}, preallocated={})
        for one in case.rounds
    ]
    return Case(case.overrides, rounds)


def draw_case(rng: random.Random, contender: Contender) -> Case:
    rounds = [cluster(rng)]
    while len(rounds) < contender.rounds and rng.random() < 0.6:
        rounds.append(next_round(rng, rounds[-1], churn=contender.churn))
    return Case(contender.overrides(rng), rounds)


Rounds = list[dict[str, Any]]


def our_rounds(case: Case, name: str) -> Rounds:
    """Return for each round what leaves each broker, in order, and the history if it is compared."""
    shedder = strategy(ManagerKind.MODULAR, Role.SHEDDING, name).of(configuration(case.overrides))
    memory = shedder.start()
    rounds: Rounds = []
    for one in case.rounds:
        plan, memory = shedder.decide(one.snapshot(), memory)
        chosen: dict[str, list[str]] = {}
        for unload in plan:
            chosen.setdefault(unload.source, []).append(unload.bundle)
        rounds.append({"chosen": chosen} | ({"history": memory} if CONTENDERS[name].history_field else {}))
    return rounds


@pytest.mark.parametrize("name", CONTENDERS)
def test_shedders_unload_what_pulsars_unload(peer: PulsarPeer, cases: int, seed: int, name: str) -> None:
    """Disagreements: 0, in the order of Pulsar's hash maps or in that of names."""
    contender = CONTENDERS[name]
    questions = drawn(random.Random(f"{name} {seed}"), cases, lambda rng: draw_case(rng, contender))

    def ask(of: Any, *, ordered: bool) -> Any:
        arguments = (f"{IMPL}.{name}", contender.history_field, ordered)
        return peer.ask("Shedding", "rounds", of, lambda case: case[1].document(), *arguments)

    fired, doubtful = 0, []
    for (number, case), answer in ask(questions, ordered=False):
        ours = our_rounds(case, name)
        fired += any(one["chosen"] for one in ours)
        if ours != answer:
            doubtful.append((number, renamed(case)))
    again = ask(doubtful, ordered=True)
    disagreements = [number for (number, case), answer in again if our_rounds(case, name) != answer]
    print(f"{name}: {cases} cases, {fired} that shed, {len(doubtful)} depend on the order, {len(disagreements)} differ")
    assert disagreements == []
    assert fired > cases // 20
