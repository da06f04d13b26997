"""From a store's URL, as `metadataStoreUrl` gives it, to an open store.

| URL            | store                                                                             |
|----------------|-----------------------------------------------------------------------------------|
| `sqlite:PATH`  | the SQLite file PATH, shared by processes on one machine                          |
| `memory:NAME`  | memory of this process, shared by all who open the same name while one is open    |
| `zk:HOST:PORT,…` | the ZooKeeper of these servers, `/PATH` behind the last for a part of it; also without `zk:` |
| `etcd:http://HOST:PORT,…` | the etcd of these servers; `https` for TLS, `/NAME` behind the last for a part of it |
| `oxia://HOST:PORT/NAMESPACE` | the Oxia that has this server, `/NAME` behind the namespace for a part of it |
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
"""What the URLs of stores begin with that serve the processes of one machine."""

_SERVERS: Final = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):\d+(,([\w.-]+|\[[0-9a-fA-F:]+\]):\d+)*(/.*)?", re.ASCII)
"""Servers of a ZooKeeper, and a path; older configurations of Pulsar have no more."""

_memory: weakref.WeakValueDictionary[str, MemoryBackend] = weakref.WeakValueDictionary()


class UnknownStoreError(ValueError):
    """The URL names no store that there is."""

    def __init__(self, url: str) -> None:
        # what has an @ may have a password before it
        said = repr(url) if "@" not in url else f"{url.partition(':')[0]}:…"
        super().__init__(f"metadata store URL {said}: expected {' or '.join(FORMS)}")


def check_url(url: str) -> None:
    """Return if there is a kind of store with such a URL; whether it can be reached is not looked at.

    Raises:
        UnknownStoreError: there is none.
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
    """Open a session with the store at `url`.

    An operation of a store that is reached over a network fails after `operation_timeout_s`; what else there is to say
    of such a one, as keys for TLS, is in the file `config_path`, if that is not blank.

    Raises:
        UnknownStoreError: no store has such a URL.
        MetadataError: the store cannot be opened.
        ModuleNotFoundError: a library that this store needs is not installed.
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
        from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore  # brings gRPC, which other stores do without
        from pulsar_barycenter.metadata.etcd.settings import read_settings

        return await EtcdStore.open(
            read_settings(rest, config_path),
            session_timeout_ms=session_timeout_ms,
            operation_timeout_s=operation_timeout_s,
            clock=clock,
        )
    if scheme == "oxia":
        from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore  # brings gRPC, too
        from pulsar_barycenter.metadata.oxia.settings import read_settings as read_oxia_settings

        return await OxiaStore.open(
            read_oxia_settings(rest, config_path),
            session_timeout_ms=session_timeout_ms,
            operation_timeout_s=operation_timeout_s,
            clock=clock,
        )
    # brings kazoo, which others do without
    from pulsar_barycenter.metadata.zookeeper.settings import read_settings as read_zookeeper_settings
    from pulsar_barycenter.metadata.zookeeper.zookeeper_store import ZooKeeperStore

    return await ZooKeeperStore.open(
        rest if scheme == "zk" else url,
        session_timeout_ms=session_timeout_ms,
        operation_timeout_s=operation_timeout_s,
        settings=read_zookeeper_settings(config_path),
    )


def data_checks(url: str) -> tuple[Callable[[], DataFault | None], ...]:
    """Return what tells whether the file of the store at `url`, which is open, is still there; nothing where the
    store is no file of this machine.

    Raises:
        OSError: it cannot be looked at.
    """
    scheme, _, path = url.partition(":")
    if scheme != "sqlite":
        return ()
    kept = KeptPath(path)

    def check() -> DataFault | None:
        fault = kept.fault()
        return None if fault is None else DataFault(fault, is_final=True)

    return (check,)
