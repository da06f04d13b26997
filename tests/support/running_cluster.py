"""A real cluster of processes on loopback for tests: started on free ports, and always ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.standalone.cluster import BrokerProcess, ClusterSettings, StandaloneCluster, free_ports
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock

QUICK = {"metadataStoreSessionTimeoutMillis": "3000", "loadBalancerSheddingEnabled": "false"}
"""Sessions that end soon, and no moves but those that a test asks for."""


class Admin:
    """The admin REST of a running cluster."""

    def __init__(self, session: aiohttp.ClientSession, cluster: StandaloneCluster) -> None:
        self._session = session
        self._cluster = cluster

    async def call(self, method: str, path: str, *, broker: int = 0, json: Any = None) -> tuple[int, Any]:
        """Return the status and the decoded body; redirects are followed with the same method and body."""
        url = f"{self._cluster.brokers[broker].web_url}{path}"
        async with self._session.request(method, url, json=json) as answer:
            text = await answer.text()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, (await answer.json() if is_json and text else text)

    async def expect(self, status: int, method: str, path: str, *, broker: int = 0, json: Any = None) -> Any:
        got, body = await self.call(method, path, broker=broker, json=json)
        assert got == status, f"{method} {path}: {got} {body}"
        return body

    async def create_namespace(self, name: str, bundles: int) -> None:
        await self.expect(204, "PUT", f"/admin/v2/namespaces/{name}", json={"bundles": {"numBundles": bundles}})

    async def bundle_range(self, topic: str, *, broker: int = 0) -> str:
        answer = await self.expect(200, "GET", f"{lookup_path(topic)}/bundle", broker=broker)
        return str(answer).strip('"')

    async def owner(self, topic: str, *, broker: int = 0) -> BrokerProcess:
        answer = await self.expect(200, "GET", lookup_path(topic), broker=broker)
        return next(process for process in self._cluster.brokers if process.service_url == answer["brokerUrl"])


def lookup_path(topic: str) -> str:
    return f"/lookup/v2/topic/{quote(TopicName.parse(topic).lookup_name, safe='/')}"


@asynccontextmanager
async def running_cluster(
    folder: Path,
    *,
    brokers: int = 3,
    configuration: Mapping[str, str] = QUICK,
    pipeline: bool = False,
    metadata_store_url: str = "",
    metadata_store_urls: Sequence[str] = (),
    has_own_folders: bool = False,
) -> AsyncIterator[tuple[StandaloneCluster, Admin]]:
    """Run a cluster whose data is in `folder`; on leaving, stop it in order, and kill the processes that remain.

    `metadata_store_urls` are those of each broker, if they differ. With `has_own_folders` each broker has its data in
    a folder of its own.
    """
    directory = DataDirectory(folder)
    ports = free_ports(2 * brokers)
    with DataDirectoryLock(directory):
        settings = ClusterSettings(
            directory,
            brokers=brokers,
            web_port=ports[0],
            broker_port=ports[brokers],
            configuration=configuration,
            pipeline=pipeline,
            restart=False,
            metadata_store_url=metadata_store_url,
        )
        cluster = StandaloneCluster(settings)
        for index in range(brokers):
            own = settings
            if metadata_store_urls:
                own = replace(own, metadata_store_url=metadata_store_urls[index])
            if has_own_folders:
                own = replace(own, directory=DataDirectory(folder / f"broker-{index}"))
                own.directory.create()
            cluster.brokers[index] = BrokerProcess(index, own)
        try:
            await cluster.start()
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
                yield cluster, Admin(session, cluster)
            await cluster.stop()
        finally:
            await cluster.kill()


async def eventually(holds: Callable[[], Awaitable[bool]], *, within_s: float, what: str) -> None:
    """Call `holds` until it is true; fail naming `what` if it is not within `within_s` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not await holds():
        assert loop.time() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.05)


async def restart_one_by_one(cluster: StandaloneCluster, admin: Admin, topics: list[str]) -> None:
    """Restart every broker in order, each when the previous one serves again; look-ups continue all the while."""
    for broker in cluster.brokers:
        await broker.terminate(timeout_s=60)
        others = [other.index for other in cluster.brokers if other is not broker]
        for topic in topics:
            assert (await admin.owner(topic, broker=others[0])).index in others
        await cluster.start_brokers([broker])
        for topic in topics:
            owners = {(await admin.owner(topic, broker=other.index)).index for other in cluster.brokers}
            assert len(owners) == 1
