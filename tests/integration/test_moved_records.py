"""A cluster of processes whose ownership records go to the metadata store and back, broker by broker, under traffic."""

import asyncio
from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.live_change import cluster_under_traffic
from support.running_cluster import QUICK, Admin, restart_one_by_one

pytestmark = [pytest.mark.full_form, pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
SYNCER = "/admin/v2/brokers/configuration/loadBalancerServiceUnitTableViewSyncer"
WAY = (
    ("SystemTopicToMetadataStoreSyncer", "ServiceUnitStateMetadataStoreTableViewImpl", 1.0),
    ("MetadataStoreToSystemTopicSyncer", "ServiceUnitStateTableViewImpl", 0.0),
)
"""The syncers that are set, the class with which all brokers are restarted then, and what the gauge of it says."""


async def until_moved(cluster: StandaloneCluster, admin: Admin, in_store: float) -> None:
    """Wait until every broker follows the records to their place, and a leader has them copied."""
    while True:
        pages = [(await admin.call("GET", "/metrics", broker=broker.index))[1] for broker in cluster.brokers]
        lines = [line for page in pages for line in str(page).splitlines()]
        places = [float(line.split()[-1]) for line in lines if line.startswith("barycenter_ownership_records_in_store")]
        copied = [float(line.split()[-1]) for line in lines if line.startswith("barycenter_ownership_records_copied")]
        if places == [in_store] * len(cluster.brokers) and copied == [1.0]:
            return
        await asyncio.sleep(0.2)


async def test_a_live_cluster_moves_its_records_and_moves_them_back(tmp_path: Path) -> None:
    configuration = {
        **QUICK,
        "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
        "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateTableViewImpl",
    }
    async with cluster_under_traffic(tmp_path, configuration) as (cluster, admin, topics):
        for syncer, class_name, in_store in WAY:
            await admin.expect(200, "POST", f"{SYNCER}/{syncer}")
            async with asyncio.timeout(60):
                await until_moved(cluster, admin, in_store)
            configuration["loadManagerServiceUnitStateTableViewClassName"] = f"{CHANNEL}.{class_name}"
            await restart_one_by_one(cluster, admin, topics)
        await admin.expect(200, "DELETE", SYNCER)
