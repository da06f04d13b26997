"""A cluster of processes that goes from the modular to the extensible load manager and back, broker by broker."""

from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from support.live_change import cluster_under_traffic
from support.running_cluster import QUICK, restart_one_by_one

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"


@pytest.mark.parametrize(
    "place",
    [
        "ServiceUnitStateTableViewImpl",
        pytest.param("ServiceUnitStateMetadataStoreTableViewImpl", marks=pytest.mark.full_form),
    ],
)
async def test_a_live_cluster_changes_its_load_manager_and_changes_it_back(tmp_path: Path, place: str) -> None:
    configuration = {**QUICK, "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.{place}"}
    async with cluster_under_traffic(tmp_path, configuration) as (cluster, admin, topics):
        await admin.expect(200, "POST", "/admin/v2/brokers/configuration/loadManagerMigrationEnabled/true")
        for kind in (ManagerKind.EXTENSIBLE, ManagerKind.MODULAR):
            configuration["loadManagerClassName"] = kind.class_name
            await restart_one_by_one(cluster, admin, topics)
            reports = [
                await admin.call("GET", "/admin/v2/broker-stats/load-report", broker=broker.index)
                for broker in cluster.brokers
            ]
            assert {status for status, _ in reports} == {500 if kind is ManagerKind.EXTENSIBLE else 200}
        await admin.expect(200, "DELETE", "/admin/v2/brokers/configuration/loadManagerMigrationEnabled")
