"""Shedders beside Pulsar's: the same brokers lose the same traffic, round after round, with the same history.

Pulsar looks at brokers and bundles in the order of hash maps. Bundles of equal traffic are therefore compared by their
traffic, which proves ours to be one of the answers that the rule allows. Where a sum or a tie of brokers depends on the
order, Pulsar's class is asked again with the brokers in the order of their names, and has to give our answer then.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.shedding.overload_shedder import OverloadShedderSettings, overload_shedder
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.shedding.threshold_shedder import ThresholdShedderSettings, threshold_shedder
from barycenter.load.snapshot import LoadSnapshot
from support.load_cases import Cluster
from support.load_oracles import is_bound
from support.peer_cases import cluster, configuration, drawn, load_document, next_round
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

IMPL = "org.apache.pulsar.broker.loadbalance.impl"


@dataclass(frozen=True)
class Contender:
    """A shedder of ours and Pulsar's; to add one is to add a value here.

    `decide` takes a snapshot, the configuration and what the strategy remembers (None at first), and returns the plan
    and the next memory. `history_field` names Pulsar's map of broker to history; empty: none is compared.
    """

    pulsar: str
    overrides: Callable[[random.Random], dict[str, Any]]
    decide: Callable[[LoadSnapshot, BrokerConfig, Any], tuple[ShedPlan, Any]]
    history_field: str = ""
    rounds: int = 1


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


CONTENDERS = {
    "ThresholdShedder": Contender(
        pulsar=f"{IMPL}.ThresholdShedder",
        overrides=threshold_overrides,
        decide=lambda snapshot, config, memory: threshold_shedder(
            snapshot, ThresholdShedderSettings.of(config), memory or {}
        ),
        history_field="brokerAvgResourceUsage",
        rounds=3,
    ),
    "OverloadShedder": Contender(
        pulsar=f"{IMPL}.OverloadShedder",
        overrides=overload_overrides,
        decide=lambda snapshot, config, memory: (
            overload_shedder(snapshot, OverloadShedderSettings.of(config)),
            memory,
        ),
    ),
}


@dataclass(frozen=True)
class Case:
    overrides: dict[str, Any]
    rounds: list[Cluster]

    def document(self) -> dict[str, Any]:
        return {"configuration": self.overrides, "rounds": [load_document(one) for one in self.rounds]}


def draw_case(rng: random.Random, contender: Contender) -> Case:
    rounds = [cluster(rng)]
    while len(rounds) < contender.rounds and rng.random() < 0.6:
        rounds.append(next_round(rng, rounds[-1]))
    return Case(contender.overrides(rng), rounds)


Traffic = dict[str, list[float]]


def traffic(case: Cluster, chosen: Mapping[str, list[str]]) -> Traffic:
    """Return what leaves each broker, a figure a bundle, in order; every bundle is checked to be one that may leave."""
    found: Traffic = {}
    for broker, bundles in chosen.items():
        assert len(set(bundles)) == len(bundles)
        for bundle in bundles:
            assert bundle in case.reports[broker].bundles
            assert bundle in case.data
            assert bundle not in case.recently_unloaded
            assert not is_bound(bundle)
            short = case.data[bundle].short_term_data
            found.setdefault(broker, []).append(short.msg_throughput_in + short.msg_throughput_out)
    return found


@dataclass(frozen=True)
class Round:
    leaving: Traffic
    history: Mapping[str, float]


def our_rounds(case: Case, contender: Contender) -> list[Round]:
    config, memory = configuration(case.overrides), None
    rounds = []
    for one in case.rounds:
        plan, memory = contender.decide(one.snapshot(), config, memory)
        chosen: dict[str, list[str]] = {}
        for unload in plan:
            chosen.setdefault(unload.source, []).append(unload.bundle)
        rounds.append(Round(traffic(one, chosen), memory if contender.history_field else {}))
    return rounds


def their_rounds(case: Case, answer: Any) -> list[Round]:
    return [
        Round(traffic(one, told["chosen"]), told.get("history", {}))
        for one, told in zip(case.rounds, answer, strict=True)
    ]


@pytest.mark.parametrize("name", CONTENDERS)
def test_shedders_unload_what_pulsars_unload(peer: PulsarPeer, cases: int, seed: int, name: str) -> None:
    contender = CONTENDERS[name]
    questions = drawn(random.Random(f"{name} {seed}"), cases, lambda rng: draw_case(rng, contender))

    def ask(of: Any, *, ordered: bool) -> Any:
        arguments = (contender.pulsar, contender.history_field, ordered)
        return peer.ask("Shedding", "rounds", of, lambda case: case[1].document(), *arguments)

    fired, doubtful = 0, []
    for (number, case), answer in ask(questions, ordered=False):
        ours = our_rounds(case, contender)
        fired += any(one.leaving for one in ours)
        if ours != their_rounds(case, answer):
            doubtful.append((number, case))
    disagreements = [
        number
        for (number, case), answer in ask(doubtful, ordered=True)
        if our_rounds(case, contender) != their_rounds(case, answer)
    ]
    print(f"{name}: {cases} cases, {fired} that shed, {len(doubtful)} depend on the order, {len(disagreements)} differ")
    assert disagreements == []
    assert fired > cases // 20
