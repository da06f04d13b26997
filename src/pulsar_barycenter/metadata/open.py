"""Opens a metadata store by its URL, the value of `metadataStoreUrl`.

| URL            | store                                                                             |
|----------------|-----------------------------------------------------------------------------------|
| `sqlite:PATH`  | the SQLite file PATH, shared by processes on one machine                          |
| `memory:NAME`  | memory of this process, shared by all stores with the same name while one is open |
| `zk:HOST:PORT,…` | ZooKeeper at these servers, below `/PATH` if it follows the last; `zk:` may be omitted |
| `etcd:http://HOST:PORT,…` | etcd at these servers; `https` for TLS; below `/NAME` if it follows the last |
| `oxia://HOST:PORT/NAMESPACE` | the Oxia cluster of this server; below `/NAME` if it follows the namespace |
"""

import re
import weakref
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.files.data_faults import DataFault, KeptPath
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import MetadataStore

FORMS: Final = (
    "sqlite:PATH",
    "memory:NAME",
    "zk:HOST:PORT",
    "etcd:http://HOST:PORT",
    "oxia://HOST:PORT/NAMESPACE",
)

SCHEMES: Final = ("sqlite", "memory", "zk", "etcd", "oxia")

OF_ONE_MACHINE: Final = ("sqlite:", "memory:")
"""The prefixes of the URLs of stores that only processes of one machine can share."""

_SERVERS: Final = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):\d+(,([\w.-]+|\[[0-9a-fA-F:]+\]):\d+)*(/.*)?", re.ASCII)
"""Matches the URL of ZooKeeper servers without a scheme, with an optional path, as in older configurations of
Pulsar.
"""

_memory: weakref.WeakValueDictionary[str, MemoryBackend] = weakref.WeakValueDictionary()


class UnknownStoreError(ValueError):
    """The URL of a metadata store does not have the form of any supported kind of store."""

    def __init__(self, url: str) -> None:
        # a password may precede an @
        shown = repr(url) if "@" not in url else f"{url.partition(':')[0]}:…"
        super().__init__(f"metadata store URL {shown}: expected {' or '.join(FORMS)}")


def check_url(url: str) -> None:
    """Check that a URL has the form of the URL of one of the supported metadata stores. Does not connect to it.

    Raises:
        UnknownStoreError: it has another form.
    """
    scheme, _, rest = url.partition(":")
    known = (scheme in SCHEMES and scheme != "zk") or _SERVERS.fullmatch(rest if scheme == "zk" else url)
    if not rest or not known:
        raise UnknownStoreError(url)


async def open_store(
    url: str,
    *,
    session_timeout_ms: int = 10_000,
    operation_timeout_s: float = 30.0,
    config_path: str = "",
    clock: Clock | None = None,
) -> MetadataStore:
    """Open a session with the metadata store at `url`.

    On a store that is reached by the network, an operation that gets no answer within `operation_timeout_s` seconds
    raises StoreUnavailableError. `config_path`, if not blank, is a file with further settings of such a store, for
    example certificates. `clock` is used for the times in a Stat by stores that have no clock of their own.

    Raises:
        UnknownStoreError: `url` does not have the form of any supported store's URL.
        MetadataError: the store cannot be opened.
        ModuleNotFoundError: a library that this kind of store needs is not installed.
    """
    check_url(url)
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return await SqliteStore.open(rest, session_timeout_ms=session_timeout_ms, clock=clock)
    if scheme == "memory":
        backend = _memory.get(rest)
        if backend is None:
            backend = _memory[rest] = MemoryBackend()
        return backend.connect(clock, session_timeout_ms)
    if scheme == "etcd":
        from pulsar_barycenter.metadata.etcd.etcd_settings import read_settings
        from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore  # imports gRPC, which other stores do not need

        return await EtcdStore.open(
            read_settings(rest, config_path),
            session_timeout_ms=session_timeout_ms,
            operation_timeout_s=operation_timeout_s,
            clock=clock,
        )
    if scheme == "oxia":
        from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings as read_oxia_settings
        from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore  # imports gRPC as well

        return await OxiaStore.open(
            read_oxia_settings(rest, config_path),
            session_timeout_ms=session_timeout_ms,
            operation_timeout_s=operation_timeout_s,
            clock=clock,
        )
    # imports kazoo, which other stores do not need
    from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import read_settings as read_zookeeper_settings
    from pulsar_barycenter.metadata.zookeeper.zookeeper_store import ZooKeeperStore

    return await ZooKeeperStore.open(
        rest if scheme == "zk" else url,
        session_timeout_ms=session_timeout_ms,
        operation_timeout_s=operation_timeout_s,
        settings=read_zookeeper_settings(config_path),
    )


def data_checks(url: str) -> tuple[Callable[[], DataFault | None], ...]:
    """Return functions that check the file of the metadata store at `url`, which is open. Each returns a fault if the
    file was removed or replaced since this call, otherwise None. If the store is not in a file, return no functions.

    Raises:
        OSError: the file cannot be accessed.
    """
    scheme, _, path = url.partition(":")
    if scheme != "sqlite":
        return ()
    kept = KeptPath(path)

    def check() -> DataFault | None:
        fault = kept.fault()
        return None if fault is None else DataFault(fault, is_final=True)

    return (check,)
