"""The AvgShedder of 5.x as placement beside Pulsar's: plans that are carried out while loads and brokers change."""

import random
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.avg_shedder import AvgShedderPlacement
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.shedding.avg_shedder import AvgShedder
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY, Role, of_role, placer_name, shedder_name
from support.load_cases import Cluster
from support.peer_cases import cluster, configuration, drawn, in_hash_order, load_document, next_round
from support.pulsar_peer import PulsarPeer
from support.scripted_random import every_outcome

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

DRAWS_A_BROKER = 24
"""So often for each broker in the set that to miss one of k has a chance of k × exp(-24)."""
OURS_ALONE = {"RangeThresholdShedder", "DeviationShedder", "LeastDisturbance"}
"""What Pulsar has in no release that can be compared, or only as an abstract class."""


@pytest.fixture
def peer_5(peer: PulsarPeer) -> PulsarPeer:
    if peer.line == "4.x":
        pytest.skip("4.x pins bundles by their figures (test_peer_placement_memory)")
    return peer


@dataclass
class Case:
    overrides: dict[str, Any]
    load: Cluster
    later: Cluster
    questions: list[tuple[str, list[str]]]

    def document(self) -> dict[str, Any]:
        return {
            "configuration": self.overrides,
            "load": load_document(self.load),
            "later": load_document(self.later),
            "questions": [
                {"bundle": bundle, "candidates": candidates, "draws": DRAWS_A_BROKER * max(1, len(candidates))}
                for bundle, candidates in self.questions
            ],
        }

    def ours(self) -> tuple[list[Any], set[Code]]:
        """Return what the JVM is asked for, and for what reasons."""
        config = configuration(self.overrides)
        plan, _ = AvgShedder.of(config).decide(self.load.snapshot(), AvgShedder.of(config).start())
        shed: dict[str, list[str]] = {}
        for unload in plan:
            shed.setdefault(unload.source, []).append(unload.bundle)
        placer, snapshot = AvgShedderPlacement.of(config), self.later.snapshot()
        planned = placer.planned(plan, placer.start())
        told, codes = [shed], set()
        for memory in (planned, placer.tried(plan, planned)):
            fell_on = []
            for bundle, candidates in self.questions:
                flags = np.array([name in candidates for name in snapshot.brokers.names], bool)
                found = every_outcome(
                    lambda rng, flags=flags, bundle=bundle, memory=memory: placer.decide(
                        snapshot, flags, bundle, rng, memory
                    )
                )
                rows = {choice.broker for choice, _ in found}
                codes |= {choice.code for choice, _ in found}
                fell_on.append(sorted(snapshot.brokers.names[row] for row in rows if row is not None))
            told.append(fell_on)
        return told, codes


def draw_case(rng: random.Random) -> Case:
    """Draw a plan, and questions about some of its bundles and one that is in none, with the load of a later time."""
    before = cluster(rng, shared_bundles=False)
    after = next_round(rng, before)
    names = in_hash_order(before.reports.keys() | after.reports.keys())
    load, later = (
        replace(each, reports={names[name]: report for name, report in each.reports.items()}, preallocated={})
        for each in (before, after)
    )
    overrides = {
        "loadBalancerAvgShedderLowThreshold": rng.choice((0, 5, 15)),
        "loadBalancerAvgShedderHighThreshold": rng.choice((10, 40)),
        "loadBalancerAvgShedderHitCountLowThreshold": rng.choice((1, 1, 8)),
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "loadBalancerBrokerOverloadedThresholdPercentage": rng.choice((0, 30, 50, 50, 75, 85, 100)),
        "maxUnloadPercentage": rng.choice((0.2, 0.5, 1.0)),
        "minUnloadMessage": rng.choice((0, 1000)),
    }
    config = configuration(overrides)
    plan, _ = AvgShedder.of(config).decide(load.snapshot(), AvgShedder.of(config).start())
    bundles = sorted(plan.destinations())
    asked = [*rng.sample(bundles, min(3, len(bundles))), "t/none/0x00000000_0xffffffff"]
    live = sorted(later.reports)
    questions = []
    for bundle in asked:
        count = len(live) if rng.random() < 0.6 else rng.randint(0, len(live))
        questions.append((bundle, sorted(rng.sample(live, count))))
    return Case(overrides, load, later, questions)


def test_planned_bundles_go_where_pulsars_go(peer_5: PulsarPeer, cases: int, seed: int) -> None:
    questions = drawn(random.Random(f"attempt {seed}"), cases, draw_case)
    met: dict[Code, int] = {}
    for (number, case), there in peer_5.ask("Attempt", "destinations", questions, lambda case: case[1].document()):
        ours, codes = case.ours()
        assert ours == there, number
        for code in codes:
            met[code] = met.get(code, 0) + 1
    print(f"{cases} cases; of them with {', '.join(f'{code} {count}' for code, count in sorted(met.items()))}")
    for code in (Code.PLANNED, Code.PLANNED_IS_OVERLOADED, Code.PLANNED_IS_GONE, Code.DRAWN, Code.NO_CANDIDATE):
        assert met.get(code, 0) > cases // 50, code


def test_strategies_are_paired_as_pulsars(peer_5: PulsarPeer) -> None:
    """Every shedder beside every placement."""

    def names(role: Role) -> list[str]:
        return [row.class_name for row in of_role(ManagerKind.MODULAR, role) if row.name not in OURS_ALONE]

    pairs = list(product(names(Role.SHEDDING), names(Role.PLACEMENT)))
    documents = [dict(zip((SHEDDING_KEY, PLACEMENT_KEY), pair, strict=True)) for pair in pairs]
    for document, there in peer_5.ask("Attempt", "pairs", documents, lambda document: document):
        config = configuration(document)
        ours = [shedder_name(config, ManagerKind.MODULAR), placer_name(config, ManagerKind.MODULAR)]
        assert ours == [name.rpartition(".")[2] for name in there], document
