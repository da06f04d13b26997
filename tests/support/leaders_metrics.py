"""The metrics of a broker that leads and serves a topic, with each load manager."""

from pathlib import Path
from typing import Any

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.load.managers import ManagerKind
from support.rest_cluster import RestCluster
from support.wire_client import WireClient


async def scrape_of_leader(kind: ManagerKind, folder: Path) -> str:
    """Return the metrics of a broker, after its first load report, some messages and a round of shedding."""
    settings: dict[str, Any] = {
        "load_manager_class_name": kind.class_name,
        "broker_shutdown_timeout_ms": 0,
        "barycenter_data_dir": str(folder),
        "expose_consumer_level_metrics_in_prometheus": True,
        "expose_producer_level_metrics_in_prometheus": True,
        "expose_bundles_metrics_in_prometheus": True,
    }
    if kind is ManagerKind.EXTENSIBLE:
        settings["load_manager_service_unit_state_table_view_class_name"] = "ServiceUnitStateMetadataStoreTableViewImpl"
    cluster = RestCluster()
    try:
        broker = await cluster.add(configured_load_manager, **settings)
        await cluster.create_namespace(bundles=1)
        await cluster.owner("persistent/public/ns/t")
        assert broker.urls.broker_url is not None
        client = await WireClient.connect(int(broker.urls.broker_url.rpartition(":")[2]))
        await client.produce("persistent://public/ns/t")
        await client.subscribe("persistent://public/ns/t", permits=1)
        await client.send_all(1)
        await broker.load_manager.write_report(force=True)
        await broker.control.rounds.shedding().run()
        text = (await cluster.expect(200, "GET", "/metrics")).body.decode()
        client.close()
    finally:
        await cluster.close()
    return text
