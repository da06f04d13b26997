"""A cluster of processes in a temporary folder, for benchmarks."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pulsar_barycenter.standalone.cluster import ClusterSettings, StandaloneCluster, free_ports
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock


@asynccontextmanager
async def running_cluster(
    brokers: int,
    configuration: Mapping[str, str] | None = None,
    *,
    pipeline: bool = False,
    started: int | None = None,
    metadata_store_url: str = "",
) -> AsyncIterator[StandaloneCluster]:
    """Run a cluster; `started` of its brokers, all unless it is told, run from the start, and no pipeline then."""
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder:
        directory = DataDirectory(Path(folder))
        ports = free_ports(2 * brokers)
        with DataDirectoryLock(directory):
            cluster = StandaloneCluster(
                ClusterSettings(
                    directory,
                    brokers=brokers,
                    web_port=ports[0],
                    broker_port=ports[brokers],
                    configuration=dict(configuration or {}),
                    pipeline=pipeline,
                    restart=False,
                    metadata_store_url=metadata_store_url,
                )
            )
            try:
                await (cluster.start() if started is None else cluster.start_brokers(cluster.brokers[:started]))
                yield cluster
                await cluster.stop()
            finally:
                await asyncio.shield(cluster.kill())
