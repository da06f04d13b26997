"""The load manager of running brokers is exchanged over REST; an impossible change is refused with a reason."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.load.managers import ManagerKind
from support.rest_cluster import RestCluster

KEY = "loadManagerClassName"
CONFIGURATION = "/admin/v2/brokers/configuration"


async def configured(tmp_path: Path, **settings: Any) -> RestCluster:
    """Return a cluster of two brokers that run what their configuration names."""
    cluster = RestCluster()
    for number in range(2):
        folder = str(tmp_path / str(number))
        await cluster.add(configured_load_manager, broker_shutdown_timeout_ms=0, barycenter_data_dir=folder, **settings)
    await cluster.create_namespace(bundles=4)
    return cluster


async def until_all_run(cluster: RestCluster, manager: ManagerKind) -> None:
    """Return when every broker reports that load manager."""
    async with asyncio.timeout(30):
        for broker in cluster.brokers:
            while True:
                report = (await cluster.expect(200, "GET", "/admin/v2/broker-stats/load-report", at=broker)).json
                if report["loadManagerClassName"] == manager.class_name:
                    break
                await asyncio.sleep(0.01)


async def test_bundles_decisions_and_metrics_go_on_when_the_load_manager_is_exchanged(tmp_path: Path) -> None:
    cluster = await configured(tmp_path)
    try:
        owners = {f"t{n}": await cluster.owner(f"persistent/public/ns/t{n}") for n in range(8)}
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        decisions = "/barycenter/v1/decisions"
        before = (await cluster.expect(200, "GET", decisions, at=leader)).json
        assert before
        for manager in (ManagerKind.SIMPLE, ManagerKind.MODULAR):
            await cluster.expect(200, "POST", f"{CONFIGURATION}/{KEY}/{manager.class_name}")
            await until_all_run(cluster, manager)
            for topic, owner in owners.items():
                assert await cluster.owner(f"persistent/public/ns/{topic}", at=leader) is owner
            assert b"pulsar_lb_cpu_usage" in (await cluster.expect(200, "GET", "/metrics", at=leader)).body
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/unload")
        for topic in owners:
            await cluster.owner(f"persistent/public/ns/{topic}")
        after = (await cluster.expect(200, "GET", decisions, at=leader)).json
        assert after[: len(before)] == before  # what the first manager decided is not forgotten
        assert [record["number"] for record in after] == list(range(1, len(after) + 1))
    finally:
        await cluster.close()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (KEY, ManagerKind.EXTENSIBLE.class_name, "restart the brokers one by one"),
        (KEY, "ModularLoadManagerImp", "did you mean ModularLoadManagerImpl?"),
        ("loadBalancerLoadSheddingStrategy", "TransferShedder", "belongs to the extensible load manager"),
    ],
)
async def test_what_brokers_cannot_run_is_refused_with_a_sentence(
    tmp_path: Path, key: str, value: str, said: str
) -> None:
    cluster = await configured(tmp_path)
    try:
        answer = await cluster.expect(412, "POST", f"{CONFIGURATION}/{key}/{value}")
        assert said in answer.reason
        assert (await cluster.expect(200, "GET", f"{CONFIGURATION}/values")).json == {}
    finally:
        await cluster.close()
