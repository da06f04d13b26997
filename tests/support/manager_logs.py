"""The reports and decisions that brokers of each load manager write to one data folder, on virtual time."""

import asyncio
from pathlib import Path
from typing import Any, Final

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment, at_once
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.load_manager.pipeline_feed import NoPipeline
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import ResourceUsage, SystemResourceUsage
from support.control_cluster import ControlCluster, on_virtual_time, topic

MANAGERS: Final = {
    ManagerKind.MODULAR: ModularLoadManager,
    ManagerKind.EXTENSIBLE: ExtensibleLoadManager,
    ManagerKind.SIMPLE: SimpleLoadManager,
}
BROKERS: Final = {kind: f"127.0.0.1:{8081 + number}" for number, kind in enumerate(MANAGERS)}
"""The one broker of each load manager, by its id."""


def record_every_manager(data: Path) -> None:
    """Run a broker of each load manager in a cluster of its own: it assigns bundles, reports, and sheds none."""
    for kind in MANAGERS:
        _record(data, kind)


def _record(data: Path, kind: ManagerKind) -> None:
    managers: list[Any] = []

    def factory(context: LoadManagerContext) -> Any:
        environment = LoadManagerEnvironment(
            FixedUsage(SystemResourceUsage(cpu=ResourceUsage(40.0, 100.0))),
            FileReportLog(data / "load-reports", retention_hours=24),
            NoPipeline(),
            DecisionLog(context.urls.broker_id, data / "decisions"),
            offload=at_once,
        )
        managers.append(MANAGERS[kind](context, environment))
        return managers[0]

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(2)
        broker = cluster.make(
            int(BROKERS[kind].rpartition(":")[2]),
            factory,
            load_manager_class_name=kind.class_name,
            load_manager_service_unit_state_table_view_class_name="ServiceUnitStateMetadataStoreTableViewImpl",
        )
        await broker.start()
        for number in range(8):
            await broker.lookup(topic(f"t{number}"))
        await cluster.until(lambda: len(broker.owned) == 2, "both bundles have an owner")
        await broker.run(managers[0].write_report(force=True))
        await asyncio.sleep(1)
        await broker.run(managers[0].shed())
        await broker.run(managers[0].stop())

    on_virtual_time(scenario)
