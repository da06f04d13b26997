"""The placements that remember something beside Pulsar's, over several rounds with one memory."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.placement.avg_shedder_pins import AvgShedderPins, Pins
from pulsar_barycenter.load.placement.least_resource_usage_with_weight import (
    LeastResourceUsageMemory,
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.placement.placer import PlacementChoice
from pulsar_barycenter.load.placement.round_robin_broker_selector import (
    RoundRobinBrokerSelector,
    RoundRobinMemory,
)
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import BundleData, TimeAverageMessageData
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from support.load_cases import Cluster
from support.peer_cases import cluster, configuration, drawn, load_document, next_round
from support.pulsar_peer import PulsarPeer
from support.scripted_random import every_outcome

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
DRAWS_A_BROKER = 24
"""So often for each broker in the set that to miss one of k has a chance of k × exp(-24)."""


@dataclass
class Round:
    load: Cluster
    candidates: list[str]
    bundle: int

    @cached_property
    def snapshot(self) -> LoadSnapshot:
        return self.load.snapshot()

    @property
    def flags(self) -> Flags:
        return np.array([name in self.candidates for name in self.snapshot.brokers.names], bool)

    def named(self, row: int | None) -> str | None:
        return None if row is None else self.snapshot.brokers.names[row]


@dataclass
class Case:
    overrides: dict[str, Any]
    rounds: list[Round]

    def document(self) -> dict[str, Any]:
        return {
            "configuration": self.overrides,
            "bundles": [numbered_bundle(number) for number in range(3)],
            "rounds": [
                {
                    "load": load_document(one.load),
                    "candidates": one.candidates,
                    "bundle": one.bundle,
                    "draws": DRAWS_A_BROKER * max(1, len(one.candidates)),
                }
                for one in self.rounds
            ],
        }


def numbered_bundle(number: int) -> BundleData:
    """Return one of a few bundles that no two are equal of."""
    window = TimeAverageMessageData(max_samples=10, num_samples=1, msg_rate_in=number)
    return BundleData(short_term_data=window, long_term_data=window, topics=number)


def some(rng: random.Random, load: Cluster, *, least: int = 0) -> list[str]:
    """Return the candidates by name: all brokers more often than some of them."""
    names = sorted(load.reports)
    count = len(names) if rng.random() < 0.5 else rng.randint(min(least, len(names)), len(names))
    return sorted(rng.sample(names, count))


def draw_rounds(rng: random.Random, overrides: dict[str, Any], *, most: int, least: int = 0) -> Case:
    """Draw rounds of a cluster whose brokers come and go, none under a name that left; `least` candidates in each.

    A broker that came back would find its history in Pulsar, which forgets it only when its leader cleans up.
    """
    load, gone = cluster(rng), set[str]()
    rounds = [Round(load, some(rng, load, least=least), rng.randrange(3))]
    while len(rounds) < most and rng.random() < 0.8:
        before = load
        load = next_round(rng, load) if rng.random() < 0.5 else load
        gone |= set(before.reports) - set(load.reports)
        if gone & set(load.reports):
            break
        rounds.append(Round(load, some(rng, load, least=least), rng.randrange(3)))
    return Case(overrides, [one for one in rounds if len(one.candidates) >= least])


def usage_overrides(rng: random.Random) -> dict[str, Any]:
    return {
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": rng.choice((0, 1, 10, 10, 30)),
        "loadBalancerHistoryResourcePercentage": rng.choice((0.0, 0.5, 0.9, 0.9, 1.0)),
        "loadBalancerDirectMemoryResourceWeight": rng.choice((0.0, 1.0)),
        "loadBalancerBandwidthInResourceWeight": rng.choice((1.0, 1.0, 0.5)),
    }


def least_usage_outcomes(
    one: Round, settings: LeastResourceUsageWithWeight, memory: LeastResourceUsageMemory
) -> list[tuple[PlacementChoice, LeastResourceUsageMemory]]:
    return every_outcome(lambda rng: settings.decide(one.snapshot, one.flags, "", rng, memory))


@pytest.mark.full_form
def test_least_resource_usage_draws_between_pulsars_brokers_with_pulsars_histories(
    peer: PulsarPeer, cases: int, seed: int
) -> None:
    """Histories advance alike.

    What it draws is always the set that ours draws from, sums being taken in the order of names.
    """
    questions = drawn(
        random.Random(f"least usage {seed}"), cases, lambda rng: draw_rounds(rng, usage_overrides(rng), most=4)
    )
    arguments = (f"{IMPL}.LeastResourceUsageWithWeight", "brokerAvgResourceUsageWithWeight")
    rounds = narrower = 0
    for (number, case), answer in peer.ask(
        "Placement", "rounds", questions, lambda case: case[1].document(), *arguments
    ):
        settings = LeastResourceUsageWithWeight.of(configuration(case.overrides))
        memory = LeastResourceUsageMemory()
        for one, there in zip(case.rounds, answer, strict=True):
            outcomes = least_usage_outcomes(one, settings, memory)
            ours = {one.named(choice.broker) for choice, _ in outcomes}
            assert ours == (set(there["drawn"]) or {None}), number
            memory = outcomes[0][1] if one.candidates else memory
            history = zip(memory.names, memory.usage.tolist(), strict=True)
            known = {name: past for name, past in history if past == past and name in one.load.reports}
            assert known == {name: past for name, past in there["memory"].items() if name in one.load.reports}, number
            rounds += 1
            narrower += len(ours) < len(one.candidates)
    print(f"{cases} cases, {rounds} rounds, {narrower} with brokers below the mean")
    assert narrower > cases // 10


def test_avg_shedder_keeps_to_the_brokers_that_pulsars_keeps_to(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Given Pulsar's pins, ours pins, and draws, where Pulsar does. Pulsar has no answer without candidates."""
    if peer.line != "4.x":
        pytest.skip("since 5.x nothing is pinned (test_peer_avg_shedder)")
    questions = drawn(random.Random(f"pins {seed}"), cases, lambda rng: draw_rounds(rng, {}, most=6, least=1))
    arguments = (f"{IMPL}.AvgShedder", "bundleBrokerMap")
    pinned = moved = 0
    for (number, case), answer in peer.ask(
        "Placement", "rounds", questions, lambda case: case[1].document(), *arguments
    ):
        pins = Pins()
        for one, there in zip(case.rounds, answer, strict=True):
            bundle = str(one.bundle)
            choice, after = AvgShedderPins().decide(one.snapshot, one.flags, bundle, random.Random(number), pins)
            if choice.code is Code.PINNED:
                assert there["drawn"] == [one.named(choice.broker)], number
                pinned += 1
            else:
                assert choice.code is Code.DRAWN
                assert one.named(choice.broker) in one.candidates
                assert there["drawn"] == one.candidates, number
                moved += bundle in pins
            assert after[bundle] == one.named(choice.broker)
            pins = pins.adding(bundle, there["last"])
    print(f"{cases} cases, {pinned} rounds kept to a pin, {moved} had to leave one")
    assert pinned > cases // 10
    assert moved > cases // 20


@dataclass
class Turns:
    load: Cluster
    counter: int
    candidates: list[list[str]]

    def ours(self) -> list[str | None]:
        snapshot, memory, chosen = self.load.snapshot(), RoundRobinMemory(self.counter), list[str | None]()
        for candidates in self.candidates:
            flags = np.array([name in candidates for name in snapshot.brokers.names], bool)
            choice, memory = RoundRobinBrokerSelector().decide(snapshot, flags, "", random.Random(0), memory)
            chosen.append(None if choice.broker is None else snapshot.brokers.names[choice.broker])
        return chosen

    def document(self) -> dict[str, Any]:
        return {"counter": self.counter, "turns": [{"candidates": candidates} for candidates in self.candidates]}


def draw_turns(rng: random.Random) -> Turns:
    """Draw turns whose candidates stay the same, or as many, for a while."""
    load = cluster(rng)
    turns = [some(rng, load)]
    for _ in range(rng.randint(0, 20)):
        names, before = sorted(load.reports), turns[-1]
        kind = rng.random()
        if kind < 0.6:
            turns.append(before)
        elif kind < 0.8:
            turns.append(sorted(rng.sample(names, len(before))))
        else:
            turns.append(some(rng, load))
    return Turns(load, rng.choice((0, 0, 7, 2**31 - 1, 2**31 - 3)), turns)


def test_round_robin_takes_the_turns_that_pulsars_takes(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Candidates come in the order of names, which Pulsar's copies of them keep."""
    questions = drawn(random.Random(f"turns {seed}"), cases, draw_turns)
    several = 0
    for (number, case), answer in peer.ask("Placement", "turns", questions, lambda case: case[1].document()):
        assert case.ours() == answer, number
        several += len(set(answer)) > 1
    assert several > cases // 4
