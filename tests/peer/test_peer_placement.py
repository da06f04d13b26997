"""LeastLongTermMessageRate beside Pulsar's: the brokers between which both draw are the same."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.placement.least_long_term_message_rate import (
    LeastLongTermMessageRate,
)
from pulsar_barycenter.load.reports.load_report import BundleData
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import Cluster
from support.peer_cases import bundle_data, cluster, configuration, drawn, load_document
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

PULSAR = "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate"
DRAWS_A_BROKER = 24
"""So often for each broker in the set that to miss one of k has a chance of k × exp(-24)."""


@dataclass
class Case:
    load: Cluster
    candidates: list[str]
    bundle: BundleData
    overrides: dict[str, Any]

    @cached_property
    def snapshot(self) -> LoadSnapshot:
        return self.load.snapshot()

    @cached_property
    def settings(self) -> LeastLongTermMessageRate:
        return LeastLongTermMessageRate.of(configuration(self.overrides))

    @cached_property
    def best(self) -> list[str]:
        """The candidates with the least score."""
        names = self.snapshot.brokers.names
        scores = dict(zip(names, self.settings.scores(self.snapshot).tolist(), strict=True))
        least = min((scores[name] for name in self.candidates), default=None)
        return sorted(name for name in self.candidates if scores[name] == least)

    def chosen(self, rng: random.Random) -> str | None:
        names = self.snapshot.brokers.names
        candidates = np.array([name in self.candidates for name in names], bool)
        row = self.settings.decide(self.snapshot, candidates, "", rng, None)[0].broker
        return None if row is None else names[row]

    def document(self) -> dict[str, Any]:
        return {
            "configuration": self.overrides,
            "load": load_document(self.load),
            "bundle": self.bundle,
            "candidates": self.candidates,
            "draws": DRAWS_A_BROKER * max(1, len(self.best)),
        }


def draw_case(rng: random.Random) -> Case:
    load = cluster(rng)
    names = sorted(load.reports)
    candidates = rng.sample(names, rng.choice((len(names), len(names), rng.randint(0, len(names)))))
    overrides = {
        "loadBalancerBrokerOverloadedThresholdPercentage": rng.choice((0, 30, 50, 85, 85, 100)),
        "loadBalancerDirectMemoryResourceWeight": rng.choice((0.0, 0.0, 1.0)),
    }
    return Case(load, candidates, bundle_data(rng), overrides)


def test_placement_draws_between_the_same_brokers_as_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Pulsar draws every broker of least score and no other; where its sum depends on the order, in that of names."""
    questions = drawn(random.Random(f"placement {seed}"), cases, draw_case)

    def ask(of: Any, *, ordered: bool) -> Any:
        return peer.ask("Placement", "draws", of, lambda case: case[1].document(), PULSAR, ordered)

    ties, doubtful = 0, []
    for (number, case), drawn_there in ask(questions, ordered=False):
        best = case.best
        ties += len(best) > 1
        assert case.chosen(random.Random(number)) in (best or [None])
        if drawn_there != best:
            doubtful.append((number, case))
    disagreements = [number for (number, case), there in ask(doubtful, ordered=True) if there != case.best]
    print(f"{cases} cases, {ties} with ties, {len(doubtful)} depend on the order, {len(disagreements)} differ")
    assert disagreements == []
    assert ties > cases // 50
