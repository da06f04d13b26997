"""The decision on a leader's snapshot, saved and read again, is what the leader then does."""

import random
from typing import Any

import pytest

from pulsar_barycenter.load.rounds.round import RoundMemory, round_of
from pulsar_barycenter.load.snapshot.document import decode_snapshot, encode_snapshot
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.snapshots.decided_by import configured
from pulsar_barycenter.snapshots.snapshot_file import of_document
from support.balanced_cluster import Balanced, settled, shed_scenario, traffic
from support.control_cluster import ControlCluster


@pytest.mark.parametrize(
    ("shedder", "placer"),
    [
        ("ThresholdShedder", "LeastLongTermMessageRate"),
        ("OverloadShedder", "LeastResourceUsageWithWeight"),
        ("UniformLoadShedder", "RoundRobinBrokerSelector"),
        ("DeviationShedder", "LeastLongTermMessageRate"),
        ("AvgShedder", "AvgShedder"),
    ],
)
def test_the_leader_does_what_its_snapshot_says(shedder: str, placer: str, tmp_path: Any) -> None:
    seen: list[int] = []

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        leader = brokers[0]
        leader.configure(
            load_balancer_load_shedding_strategy=shedder,
            load_balancer_load_placement_strategy=placer,
            load_balancer_avg_shedder_hit_count_high_threshold=2,
            load_balancer_shedding_grace_period_minutes=1.0,
            max_unload_percentage=0.5,
        )
        leader.carries(*(traffic(5e7 + 1e6 * place, rate=2000 + place) for place in range(8)))
        await leader.report(90)
        await settled(brokers)
        for _ in range(3):
            found = of_document(
                decode_snapshot(encode_snapshot(await leader.do(lambda manager: manager.snapshot_document()))), tmp_path
            )
            config = configured(found, None, (), None, None)
            cycle = round_of(config)
            memory = RoundMemory(cycle.start(found.memory).shedding, (await leader.manager.leader()).selection_memory)
            rng = random.Random()
            rng.setstate(leader.manager._context.env.random.getstate())
            outcome, _ = cycle.run(found.snapshot, memory, rng)
            before = len(leader.peers.unloads)
            await leader.do(lambda manager: manager.shed())
            done = [(source, bundle, destination) for source, bundle, destination in leader.peers.unloads[before:]]
            assert done == [(move.source, move.bundle, move.destination) for move in outcome.moves]
            seen.append(len(done))

    shed_scenario(scenario)
    assert any(seen)
