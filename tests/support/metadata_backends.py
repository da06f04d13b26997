"""The metadata stores that the contract suite runs on, and what its tests need in addition to the contract.

A new store is one more class with an entry in BACKENDS.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kazoo.client import KazooClient

from pulsar_barycenter.metadata.etcd.etcd_settings import read_settings
from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings as read_oxia_settings
from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import MetadataStore, Notification, SessionEvent
from pulsar_barycenter.metadata.timed_store import TimedStore
from pulsar_barycenter.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from support.etcd_server import EtcdServer, shared_etcd
from support.oxia_server import OxiaServer, shared_oxia
from support.zookeeper_server import ZooKeeperServer, shared_zookeeper

SESSION_TIMEOUT_MS = 1500
DEADLINE_S = 20.0
"""How long a test waits for what must come; far more than it takes."""


class Backend(Protocol):
    """One shared store of some kind; every `connect` returns another client with its own session."""

    is_durable: bool
    """Whether keys outlive the last client."""

    knows_makers: bool
    """Whether a lasting key says that this session made it, as ephemeral ones do in every store."""

    tells_of_parents: bool
    """Whether what lies above a key is told of when it comes and goes, though it is no key itself."""

    keeps_parents_of_sequences: bool
    """Whether what lies above sequential keys stays when they go, as a key without a value."""

    async def connect(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> MetadataStore: ...

    async def expire(self, client: Any) -> None:
        """End the client's session without its knowledge."""
        ...

    async def close(self) -> None: ...


class _Backend:
    is_durable = True
    knows_makers = True
    tells_of_parents = False
    keeps_parents_of_sequences = False

    def __init__(self, folder: Path) -> None:
        self._clients: list[MetadataStore] = []

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


class InMemory(_Backend):
    is_durable = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shared = MemoryBackend()

    async def connect(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> MemoryStore:
        client = self.shared.connect(None, session_timeout_ms)
        self._clients.append(client)
        return client

    async def expire(self, client: MemoryStore) -> None:
        self.shared.expire_session(client)


class Timed(_Backend):
    """A store in memory whose operations are timed; `operations` are the recorded ones."""

    is_durable = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shared = MemoryBackend()
        self.operations: list[str] = []

    async def connect(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> TimedStore:
        client = TimedStore(
            self.shared.connect(None, session_timeout_ms), lambda name, _seconds: self.operations.append(name)
        )
        self._clients.append(client)
        return client

    async def expire(self, client: TimedStore) -> None:
        assert isinstance(client._store, MemoryStore)
        self.shared.expire_session(client._store)


class InSqlite(_Backend):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "metadata.db"

    @property
    def store_url(self) -> str:
        """The `metadataStoreUrl` by which another process opens the store."""
        return f"sqlite:{self.path}"

    async def connect(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> SqliteStore:
        client = await SqliteStore.open(self.path, session_timeout_ms=session_timeout_ms)
        self._clients.append(client)
        return client

    async def expire(self, client: SqliteStore) -> None:
        session = client.session
        assert session is not None
        file = SqliteFile(self.path, patience_s=5, kept_changes=1000)
        try:
            file.begin()
            file.end_session(session)
            file.commit()
        finally:
            file.close()


class InEtcd(_Backend):
    """Keys below a separate prefix, in the server that all tests of the process share unless one is given."""

    def __init__(self, folder: Path, server: EtcdServer | None = None) -> None:
        super().__init__(folder)
        self.server = shared_etcd() if server is None else server
        self.url = f"{self.server.url}/{uuid.uuid4().hex}"

    @property
    def store_url(self) -> str:
        """The `metadataStoreUrl` by which another process opens the store."""
        return f"etcd:{self.url}"

    async def connect(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> EtcdStore:
        client = await EtcdStore.open(read_settings(self.url), session_timeout_ms=session_timeout_ms)
        self._clients.append(client)
        return client

    async def expire(self, client: EtcdStore) -> None:
        await asyncio.to_thread(self.server.call, "lease/revoke", {"ID": client.session})


class InOxia(_Backend):
    """Keys below a separate prefix, in the server that all tests of the process share unless one is given."""

    def __init__(self, folder: Path, server: OxiaServer | None = None) -> None:
        super().__init__(folder)
        self.server = shared_oxia() if server is None else server
        self.url = f"{self.server.url}/{uuid.uuid4().hex}"

    @property
    def store_url(self) -> str:
        """The `metadataStoreUrl` by which another process opens the store."""
        return f"oxia:{self.url}"

    async def connect(self, session_timeout_ms: int = 2 * SESSION_TIMEOUT_MS) -> OxiaStore:
        client = await OxiaStore.open(read_oxia_settings(self.url), session_timeout_ms=session_timeout_ms)
        self._clients.append(client)
        return client

    async def expire(self, client: OxiaStore) -> None:
        assert client.session is not None
        await asyncio.to_thread(self.server.end_session, client.session)


class InZooKeeper(_Backend):
    """Keys below a separate chroot, in the server that all tests of the process share unless one is given."""

    knows_makers = False
    tells_of_parents = True
    keeps_parents_of_sequences = True

    def __init__(self, folder: Path, server: ZooKeeperServer | None = None) -> None:
        super().__init__(folder)
        self.server = shared_zookeeper() if server is None else server
        self.servers = f"{self.server.endpoint}/{uuid.uuid4().hex}"

    @property
    def store_url(self) -> str:
        """The `metadataStoreUrl` by which another process opens the store."""
        return f"zk:{self.servers}"

    async def connect(self, session_timeout_ms: int = 4 * SESSION_TIMEOUT_MS) -> ZooKeeperStore:
        client = await ZooKeeperStore.open(self.servers, session_timeout_ms=session_timeout_ms)
        self._clients.append(client)
        return client

    async def expire(self, client: ZooKeeperStore) -> None:
        known = client._keeper.link_of(None)._client.client_id
        assert known is not None
        twin = KazooClient(self.server.endpoint, client_id=known)
        await asyncio.to_thread(twin.start)
        await asyncio.to_thread(twin.stop)
        await asyncio.to_thread(twin.close)


_AnyBackend = TypeVar("_AnyBackend", bound=Backend)

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "memory": InMemory,
    "sqlite": InSqlite,
    "zookeeper": InZooKeeper,
    "etcd": InEtcd,
    "oxia": InOxia,
}


@asynccontextmanager
async def open_backend(name: str, folder: Path) -> AsyncIterator[Backend]:
    async with closing_clients(BACKENDS[name](folder)) as backend:
        yield backend


@asynccontextmanager
async def closing_clients(backend: _AnyBackend) -> AsyncIterator[_AnyBackend]:
    """Close the clients when the block ends, however it ends: kazoo's threads use the global random numbers."""
    try:
        yield backend
    finally:
        await backend.close()


class Heard:
    """The notifications of a listener until now, to wait on."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._news = asyncio.Event()

    @classmethod
    def changes(cls, store: MetadataStore) -> "Heard":
        heard = cls()
        store.add_listener(heard.hear)
        return heard

    @classmethod
    def session_events(cls, store: MetadataStore) -> "Heard":
        heard = cls()
        store.add_session_listener(heard.hear)
        return heard

    def hear(self, told: Notification | SessionEvent | object) -> None:
        self.told.append(told)
        self._news.set()

    async def until(self, holds: Callable[[list[Any]], bool]) -> list[Any]:
        """Return the notifications as soon as `holds` accepts them."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not holds(self.told):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"heard only {self.told}") from None
        return self.told

    async def until_heard(self, *wanted: object) -> list[Any]:
        return await self.until(lambda told: all(each in told for each in wanted))


async def eventually(what: Callable[[], Awaitable[object] | object]) -> Any:
    """Return the first truthy answer of `what`, called repeatedly until a generous deadline."""
    answer: object = None
    with suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            while True:
                answer = what()
                if isinstance(answer, Awaitable):
                    answer = await answer
                if answer:
                    return answer
                await asyncio.sleep(0.005)
    raise AssertionError(f"still {answer!r} after {DEADLINE_S} s")
