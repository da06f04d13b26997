"""From a store's URL, as `metadataStoreUrl` gives it, to an open store.

| URL            | store                                                                             |
|----------------|-----------------------------------------------------------------------------------|
| `sqlite:PATH`  | the SQLite file PATH, shared by processes on one machine                          |
| `memory:NAME`  | memory of this process, shared by all who open the same name while one is open    |
"""

import weakref

from barycenter.metadata.clock import Clock
from barycenter.metadata.memory.memory_store import MemoryBackend
from barycenter.metadata.sqlite.sqlite_store import SqliteStore
from barycenter.metadata.store import MetadataStore

_memory: weakref.WeakValueDictionary[str, MemoryBackend] = weakref.WeakValueDictionary()


class UnknownStoreError(ValueError):
    """The URL names no store that there is."""

    def __init__(self, url: str) -> None:
        super().__init__(f"metadata store URL {url!r}: expected sqlite:PATH or memory:NAME")
        self.url = url


async def open_store(url: str, *, session_timeout_ms: int = 10_000, clock: Clock | None = None) -> MetadataStore:
    """Open a session with the store at `url`.

    Raises:
        UnknownStoreError: no store has such a URL.
        MetadataError: the store cannot be opened.
    """
    scheme, _, rest = url.partition(":")
    if not rest:
        raise UnknownStoreError(url)
    if scheme == "sqlite":
        return await SqliteStore.open(rest, session_timeout_ms=session_timeout_ms, clock=clock)
    if scheme == "memory":
        backend = _memory.get(rest)
        if backend is None:
            backend = _memory[rest] = MemoryBackend()
        return backend.connect(clock, session_timeout_ms)
    raise UnknownStoreError(url)
