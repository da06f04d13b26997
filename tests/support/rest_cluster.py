"""Real brokers with their REST servers on loopback, in one process, on a memory store and a memory disk."""

import asyncio
import io
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from pulsar_barycenter.admin.client import MAX_REDIRECTS
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.data_watch import DataCheck
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.contract import LoadManagerFactory
from pulsar_barycenter.broker.rest.server import start_web
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.load.reports.load_over_time import LoadTables
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from support.control_cluster import HashLoadManager
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage

SESSION_MS = 10_000


class Answer:
    """The answer to a request: status, JSON (None if there is no body), headers."""

    def __init__(self, status: int, body: bytes, headers: Any) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else None

    @property
    def reason(self) -> str:
        return str(self.json["reason"])

    @property
    def location(self) -> str:
        return str(self.headers["Location"])


class RestCluster:
    """`load_tables` is the function from which brokers that are added later read past loads; None: they read none."""

    def __init__(self, load_tables: LoadTables | None = None) -> None:
        self.load_tables = load_tables
        self.backend = MemoryBackend()
        self.disk = MemoryDisk()
        self.store: MemoryStore = self.backend.connect(SystemClock(), SESSION_MS)
        self.brokers: list[Broker] = []
        self._data = tempfile.TemporaryDirectory()
        self._stores: list[MemoryStore] = []
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))

    def authorize(self, token: str) -> None:
        """Send this token with all requests from now on."""
        self.session.headers["Authorization"] = f"Bearer {token}"

    async def open_ledgers(self) -> tuple[LedgerStorage, RecordForm]:
        """Return the ledger storage of another broker, and the form of the records of topics."""
        return MemoryLedgerStorage(self.disk), RECORDS_WITH_EPOCHS

    async def add(
        self, factory: LoadManagerFactory = HashLoadManager, *, data_checks: Sequence[DataCheck] = (), **settings: Any
    ) -> Broker:
        own = {"broker_service_port": 0, "web_service_port": 0, "barycenter_data_dir": self._data.name}
        config = msgspec.structs.replace(BrokerConfig(), **{**own, **settings})
        store = self.backend.connect(SystemClock(), SESSION_MS)
        ledgers, records = await self.open_ledgers()
        env = Environment(
            store,
            ledgers,
            SystemClock(),
            random.Random(len(self._stores)),
            HttpPeers.of(config),
            records,
            data_checks=tuple(data_checks),
        )
        web = partial(start_web, load_tables=self.load_tables)
        broker = Broker(config, env, web=web, load_manager=factory)
        self._stores.append(store)
        await broker.start()
        self.brokers.append(broker)
        return broker

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        at: Broker | None = None,
        follow: bool = True,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Send a request to `at`, by default the first broker. `path` is encoded already.

        Redirects are followed as Pulsar's clients do: with the same headers, to any broker.
        """
        url = f"{(at or self.brokers[0]).urls.web_url}{path}"
        sent = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        target = URL(url, encoded=True).update_query({key: str(value) for key, value in query.items()})
        for _ in range(MAX_REDIRECTS):
            data = io.BytesIO(sent) if isinstance(body, bytes) and sent is not None else sent
            async with self.session.request(
                method, target, data=data, allow_redirects=False, headers=headers
            ) as response:
                answer = Answer(response.status, await response.read(), response.headers)
            if not follow or answer.status not in (307, 308):
                break
            target = URL(answer.location, encoded=True)
        return answer

    async def expect(self, status: int, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        answer = await self.call(method, path, body, **options)
        assert answer.status == status, f"{method} {path}: {answer.status} {answer.body!r}"
        return answer

    async def create_namespace(self, name: str = "public/ns", bundles: int = 4) -> None:
        await self.expect(204, "PUT", f"/admin/v2/namespaces/{name}", {"bundles": {"numBundles": bundles}})
        for broker in self.brokers:  # every broker has heard of it
            async with asyncio.timeout(30):
                while (await self.call("GET", f"/admin/v2/namespaces/{name}", at=broker)).status != 200:
                    await asyncio.sleep(0.005)

    def by_id(self, broker_id: str) -> Broker:
        return next(broker for broker in self.brokers if broker.broker_id == broker_id)

    async def owner(self, topic: str, *, at: Broker | None = None) -> Broker:
        """Return the broker that a lookup of `domain/tenant/namespace/topic` names."""
        answer = await self.expect(200, "GET", f"/lookup/v2/topic/{topic}", at=at)
        url = answer.json["httpUrl"]
        return next(broker for broker in self.brokers if broker.urls.web_url == url)

    async def close(self) -> None:
        await self.session.close()
        for broker in self.brokers:
            await broker.stop()
        for store in (*self._stores, self.store):
            await store.close()
        self._data.cleanup()


@asynccontextmanager
async def rest_cluster(brokers: int = 1, **settings: Any) -> AsyncIterator[RestCluster]:
    """Start a cluster; orderly stops are immediate."""
    cluster = RestCluster()
    try:
        for _ in range(brokers):
            await cluster.add(**{"broker_shutdown_timeout_ms": 0, **settings})
        yield cluster
    finally:
        await cluster.close()
