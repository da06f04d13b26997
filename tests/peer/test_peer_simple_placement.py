"""The simple load manager's placements beside Pulsar's, and the estimates and quotas by which it ranks brokers.

Pulsar's `SimpleLoadManagerImpl` runs with mocks for the store, the policies, the admin client and the host. Not driven:
its timers and notifications (`updateRanking` is called as its parts), isolation policies. Figures are whole numbers and
quotas powers of two, because Pulsar adds up in the order of a hash map.
"""

import random
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reports.load_report import ResourceQuota
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.placement import SimpleMemory, availability, rank, select_broker
from pulsar_barycenter.load.simple.quotas import (
    Quotas,
    QuotaTable,
    average_to_write,
    figures_of,
    quotas_to_write,
    update_quotas,
)
from pulsar_barycenter.load.simple.ranking import is_less_loaded, rank_brokers
from pulsar_barycenter.load.simple.simple_settings import SimpleStrategy
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from support import simple_cases
from support.load_cases import bundle_name
from support.peer_cases import drawn
from support.pulsar_peer import PulsarPeer, plain
from support.simple_cases import documents, overrides

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600), pytest.mark.drawn_tests(2)]
DRAWS = 200


# ---- estimates ----


def test_estimates_room_and_order_are_the_same(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    def draw(rng: random.Random) -> dict[str, Any]:
        return {
            "cpuFactor": rng.choice((0.025, 0.05, 0.1, rng.uniform(0.01, 0.1))),
            "default": rng.choice((simple_cases.quota(rng), ResourceQuota(), ResourceQuota(msg_rate_in=1, memory=1))),
            "brokers": [
                {
                    "usage": simple_cases.system_usage(rng),
                    "allocated": rng.choice((ResourceQuota(), simple_cases.quota(rng))),
                    "preallocated": rng.choice((ResourceQuota(), simple_cases.quota(rng))),
                }
                for _ in range(rng.randint(1, 6))
            ],
        }

    disagreements = []
    for (number, case), told in complete_peer.ask(
        "Simple", "rankings", drawn(random.Random(f"simple ranks {seed}"), cases, draw), lambda case: plain(case[1])
    ):
        reports = {
            f"b{index}": complete(LoadReport(system_resource_usage=broker["usage"]))
            for index, broker in enumerate(case["brokers"])
        }
        quotas = Quotas(default=case["default"], cpu_factor=case["cpuFactor"])
        ranking = rank_brokers(build_simple_snapshot(reports), quotas, {}, SimpleStrategy.LEAST_LOADED_SERVER)
        columns = {
            key: np.array([figures_of(broker[key]) for broker in case["brokers"]]).T
            for key in ("allocated", "preallocated")
        }
        ranking = type(ranking)(**{**{key: getattr(ranking, key) for key in ranking.__dataclass_fields__}, **columns})
        everyone = np.arange(len(reports))
        ours = {
            "brokers": [
                {
                    "load": ranking.load[row],
                    "rate": ranking.message_rate[row],
                    "room": ranking.room[row],
                    "estimated": ranking.estimated[:, row].tolist(),
                    "allocated": ranking.allocated_percent[:, row].tolist(),
                }
                for row in everyone
            ],
            "less": [is_less_loaded(ranking, everyone, than).tolist() for than in everyone.tolist()],
        }
        if told != ours:
            disagreements.append(number)
    print(f"{cases} clusters, {len(disagreements)} differ")
    assert disagreements == []


# ---- quotas ----


def test_quotas_are_learned_and_written_alike(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    def draw(rng: random.Random) -> dict[str, Any]:
        rounds = [simple_cases.cluster(rng)]
        for _ in range(2):
            rounds.append(simple_cases.later(rng, rounds[-1], {}, by_ms=rng.choice((0, 60_000, 1_800_000, 10**8))))
        names = sorted({name for reports in rounds for report in reports.values() for name in report.bundle_stats})
        return {
            "configuration": {},
            "default": simple_cases.quota(rng),
            "average": simple_cases.quota(rng),
            "stored": {name: simple_cases.quota(rng) for name in names if rng.random() < 0.5},
            "cpuFactor": rng.choice((0.025, 0.0125)),
            "memoryFactor": rng.choice((25.0, 12.5)),
            "updatedAt": rng.choice((-1, 990_000)),
            "rounds": rounds,
        }

    def document(case: tuple[int, dict[str, Any]]) -> Any:
        return plain({**case[1], "rounds": [{"reports": documents(reports)} for reports in case[1]["rounds"]]})

    learned, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple", "quotas", drawn(random.Random(f"simple quotas {seed}"), cases, draw), document
    ):
        quotas = Quotas(
            default=case["default"],
            average=case["average"],
            cpu_factor=case["cpuFactor"],
            memory_factor=case["memoryFactor"],
            updated_at_ms=case["updatedAt"],
        )
        for reports, theirs in zip(case["rounds"], told, strict=True):
            quotas = update_quotas(build_simple_snapshot(reports), quotas.learning(case["stored"]))
            learned += quotas.cpu_factor != case["cpuFactor"]
            written = [name for name, _ in quotas_to_write(quotas.bundles, case["stored"].get, case["default"])]
            if average_to_write(quotas, case["default"]) is not None:
                written.append("")
            ours = {
                "quotas": {name: plain(quotas.of(name)) for name in quotas.bundles.names},
                "average": plain(quotas.average),
                "cpuFactor": quotas.cpu_factor,
                "memoryFactor": quotas.memory_factor,
                "wrote": sorted(written),
            }
            if {**theirs, "wrote": sorted(theirs["wrote"])} != ours:
                disagreements.append(number)
                break
    print(f"{cases} cases of three rounds, factors learned in {learned}, {len(disagreements)} differ")
    assert disagreements == []
    assert learned > cases // 10


# ---- placement ----


class PlacementCase:
    def __init__(self, rng: random.Random, *strategies: SimpleStrategy) -> None:
        self.settings = simple_cases.settings(rng, *strategies)
        self.default = simple_cases.quota(rng)
        self.cpu_factor = rng.choice((0.025, 0.015625, 0.1))
        self.cursor = rng.choice((0, 1, 5, 999_999))
        reports = simple_cases.cluster(rng)
        self.rounds: list[tuple[dict[str, LoadReport], list[str], list[str]]] = []
        for number in range(3):
            known = [name for report in reports.values() for name in report.bundle_stats]
            new = [bundle_name(100 + 20 * number + index, rng.choice(simple_cases.NAMESPACES)) for index in range(6)]
            bundles = rng.sample(new + known, min(6, len(new + known)))
            live = [name for name in reports if rng.random() < 0.95]
            self.rounds.append((reports, live, bundles))
            reports = simple_cases.later(rng, reports, {}, by_ms=60_000)
        names = [name for reports, _, bundles in self.rounds for name in bundles]
        names += [name for reports, _, _ in self.rounds for report in reports.values() for name in report.bundle_stats]
        self.stored = {name: simple_cases.quota(rng) for name in sorted(set(names)) if rng.random() < 0.5}

    def document(self, draws: int = 1) -> Any:
        return plain(
            {
                "configuration": overrides(self.settings),
                "default": self.default,
                "stored": self.stored,
                "cpuFactor": self.cpu_factor,
                "cursor": self.cursor,
                "draws": draws,
                "rounds": [
                    {"reports": documents(reports), "live": live, "bundles": bundles}
                    for reports, live, bundles in self.rounds
                ],
            }
        )

    def quotas(self) -> Quotas:
        return Quotas(
            bundles=QuotaTable.of(self.stored), default=self.default, cpu_factor=self.cpu_factor, updated_at_ms=0
        )


def test_bundles_are_placed_alike_round_after_round(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    preallocating = (SimpleStrategy.LEAST_LOADED_SERVER, SimpleStrategy.LEAST_MSG_PER_SECOND)
    codes: set[str] = set()
    disagreements = []
    for (number, case), told in complete_peer.ask(
        "Simple",
        "placements",
        drawn(random.Random(f"simple places {seed}"), cases, lambda rng: PlacementCase(rng, *preallocating)),
        lambda case: case[1].document(),
    ):
        memory, quotas, rng = SimpleMemory(cursor=case.cursor), case.quotas(), random.Random(number)
        for (reports, live, bundles), theirs in zip(case.rounds, told, strict=True):
            ranking, memory = rank(build_simple_snapshot(reports), quotas, memory, case.settings)
            same = dict(zip(sorted(reports), ranking.rank.tolist(), strict=True)) == theirs["ranks"]
            for namespace, ranked in theirs["available"].items():
                same &= {str(load): names for load, names in availability(ranking, namespace).items()} == ranked
            for bundle, chosen in zip(bundles, theirs["chosen"], strict=True):
                placement, ranking, memory = select_broker(
                    ranking, PlacementRequest(bundle), case.settings, quotas, live, rng, memory
                )
                codes.add(placement.reason.code)
                same &= chosen == ([] if placement.broker is None else [placement.broker])
            if not same:
                disagreements.append(number)
                break
    print(f"{cases} cases of three rounds, {len(disagreements)} differ; {', '.join(sorted(codes))}")
    assert disagreements == []
    assert len(codes) == 7


def test_the_weighted_draw_falls_on_the_same_brokers(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Pulsar draws none without weight, and each of at least a tenth of all weight."""
    draws, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple",
        "placements",
        drawn(
            random.Random(f"simple draws {seed}"),
            max(1, cases // 20),
            lambda rng: PlacementCase(rng, SimpleStrategy.WEIGHTED_RANDOM_SELECTION),
        ),
        lambda case: case[1].document(DRAWS),
    ):
        quotas = case.quotas()
        for (reports, live, bundles), theirs in zip(case.rounds, told, strict=True):
            ranking, memory = rank(build_simple_snapshot(reports), quotas, SimpleMemory(), case.settings)
            ranks = dict(zip(sorted(reports), ranking.rank.tolist(), strict=True))
            same = ranks == theirs["ranks"]
            for bundle, drawn_there in zip(bundles, theirs["chosen"], strict=True):
                placement, *_ = select_broker(
                    ranking, PlacementRequest(bundle), case.settings, quotas, live, random.Random(number), memory
                )
                same &= (placement.broker is None) == (not drawn_there)
                if placement.broker is None:
                    continue
                out = {"not_fewest_bundles", "not_live", "topic_kind_disabled"}
                kept = {each.name for each in placement.reason.alternatives if each.code not in out}
                weights = {name: ranks[name] for name in kept | {placement.broker}}
                total = sum(weights.values())
                likely = {name for name, weight in weights.items() if 10 * weight >= total}
                same &= likely <= set(drawn_there)
                same &= set(drawn_there) <= {name for name, weight in weights.items() if weight or not total}
                draws += DRAWS
            if not same:
                disagreements.append(number)
                break
    print(f"{draws} draws, {len(disagreements)} cases differ")
    assert disagreements == []
