"""Typed values of the metadata store, kept in memory until a notification says that they changed.

A race: a read begins, the key changes, the notification arrives, then the read's answer arrives. That answer is
outdated. So an invalidation also detaches the reads that are running. Their callers, who asked before the change, get
the answer, but the cache does not keep it.

A lost notification does not make an entry wrong for ever. An entry older than `refresh_after_s` is read again in the
background when it is used; an entry twice as old is not used: the caller waits for a new read.

Source: Pulsar's `MetadataCache`, and the children cache of its `AbstractMetadataStore`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.metadata.codec import Codec, JsonCodec
from pulsar_barycenter.metadata.errors import (
    AlreadyExistsError,
    BadVersionError,
    InvalidValueError,
    MetadataError,
    StoreClosedError,
)
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    MetadataStore,
    Notification,
    NotificationType,
    Stat,
    ancestors,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")
V = TypeVar("V")

FIRST_BACKOFF_S = 0.005
MAX_BACKOFF_S = 3.0
GIVE_UP_AFTER_S = 30.0
REFRESH_AFTER_S = 300.0
"""The default age in seconds from which a cached value is read again; a broker sets
`metadataStoreCacheExpirySeconds`.
"""


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    loaded_at_s: float


class _LoadingCache(Generic[V]):
    """A cache of values by path, which it reads by the function `load`. If several callers need the value of one path
    at the same time, it is read once for all of them. Times are seconds of the event loop's clock.

    At most `max_entries` values are kept; the value that was read first is removed first.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[str], Coroutine[Any, Any, V]],
        *,
        refresh_after_s: float,
        max_entries: int,
    ) -> None:
        self._name = name
        self._load = load
        self._refresh_after_s = refresh_after_s
        self._expire_after_s = refresh_after_s * 2
        self._entries: Recent[str, _Entry[V]] = Recent(max_entries)
        self._loads: dict[str, asyncio.Task[V]] = {}
        self._tasks = BackgroundTasks("metadata_not_cached", expected=(MetadataError,))  # callers get the error

    def peek(self, path: str) -> _Entry[V] | None:
        """Return the cached value of `path`, with the time at which it was read; None if it is not cached or has
        expired. Never reads from the store.
        """
        entry = self._entries.get(path)
        if entry is None or _now() - entry.loaded_at_s >= self._expire_after_s:
            return None
        return entry

    async def get(self, path: str) -> V:
        entry = self.peek(path)
        if entry is not None:
            if _now() - entry.loaded_at_s >= self._refresh_after_s:
                self.start_load(path)
            return entry.value
        load = self.start_load(path)
        try:
            return await asyncio.shield(load)  # a caller that is cancelled must not cancel the load for the others
        except asyncio.CancelledError:
            if load.cancelled() and not _is_cancelled():
                raise StoreClosedError(path) from None
            raise

    def start_load(self, path: str) -> asyncio.Task[V]:
        task = self._loads.get(path)
        if task is None:
            task = self._tasks.start(self._load(path), f"{self._name} load {path}")
            self._loads[path] = task
            task.add_done_callback(lambda done: self._loaded(path, done))
        return task

    @property
    def is_empty(self) -> bool:
        """Whether the cache has no value and no read from the store is running."""
        return not (self._entries or self._loads)

    def drop(self, path: str, *, reload: bool = False) -> None:
        """Remove the value of `path` from the cache. If `reload` is True, and the value was cached or was being read,
        read it again in the background.
        """
        was_known = self._entries.pop(path) is not None
        was_loading = self._loads.pop(path, None) is not None
        if reload and (was_known or was_loading):
            self.start_load(path)

    def drop_all(self) -> None:
        self._entries.clear()
        self._loads.clear()

    def close(self) -> None:
        self.drop_all()
        self._tasks.cancel()

    def _loaded(self, path: str, task: asyncio.Task[V]) -> None:
        is_current = self._loads.get(path) is task
        if is_current:
            del self._loads[path]
        if task.cancelled() or task.exception() is not None or not is_current:
            return  # reading the exception also marks it as retrieved; the callers get it from the task
        self._entries.put(path, _Entry(task.result(), _now()))


class MetadataCache(Generic[T]):
    """A cache of values in a metadata store that have the same type. A value is read and decoded again only after it
    has changed, or when it has expired. It is also cached that a key does not exist.

    All callers get the same object for a value, and must not change it. After a caller has written a key, every cache
    of this store object returns the new value. Close the cache before the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        value_type: type[T],
        *,
        codec: Codec[T] | None = None,
        refresh_after_s: float = REFRESH_AFTER_S,
        max_entries: int = 100_000,
    ) -> None:
        self._store = store
        self._codec: Codec[T] = codec or JsonCodec(value_type)
        name = f"cache of {getattr(value_type, '__name__', value_type)}"
        self._values = _LoadingCache(
            name,
            self._load_value,
            refresh_after_s=refresh_after_s,
            max_entries=max_entries,
        )
        self._children = _LoadingCache(
            f"{name}, children",
            self._load_children,
            refresh_after_s=refresh_after_s,
            max_entries=max_entries,
        )
        self._stop_watching = store.add_invalidator(self._invalidated)
        self._closed = False

    async def get(self, path: str) -> T | None:
        """Return the value at `path`, or None if the key does not exist.

        Raises:
            InvalidValueError: the stored value is not of this type; nothing is cached.
        """
        found = await self.get_with_stat(path)
        return None if found is None else found[0]

    async def get_with_stat(self, path: str) -> tuple[T, Stat] | None:
        self._check_open(path)
        return await self._values.get(path)

    def get_if_cached(self, path: str) -> T | None:
        """Return the value at `path` if it is in the cache. Return None if it is not cached, and also if it is cached
        that the key does not exist. Never reads from the store.
        """
        entry = self._values.peek(path)
        return None if entry is None or entry.value is None else entry.value[0]

    async def exists(self, path: str) -> bool:
        """Return whether `path` is a key of the store, even if its value cannot be decoded."""
        self._check_open(path)
        try:
            return await self._values.get(path) is not None
        except InvalidValueError:
            return True

    async def children(self, path: str) -> list[str]:
        """Return the names of the keys directly below `path`, sorted. The list is a copy, which the caller
        can change.
        """
        self._check_open(path)
        return list(await self._children.get(path))

    async def create(self, path: str, value: T) -> T:
        """Create the key `path` with `value`, and return `value`.

        Raises:
            AlreadyExistsError: the key exists; nothing was written.
        """
        self._check_open(path)
        try:
            await self._put(path, value, expected_version=MUST_NOT_EXIST)
        except BadVersionError as error:
            raise AlreadyExistsError(path) from error
        try:
            await self._values.get(path)
        except MetadataError as error:
            log.debug("metadata_cache_load_failed", path=path, error=str(error))  # the creation itself succeeded
        return value

    async def put(self, path: str, value: T, *, ephemeral: bool = False) -> Stat:
        """Write `value` to the key `path`. The key is created if it does not exist, and is overwritten whatever its
        version is. `ephemeral` has the same meaning as in `MetadataStore.put`.
        """
        self._check_open(path)
        return await self._put(path, value, ephemeral=ephemeral)

    async def read_modify_update_or_create(self, path: str, modify: Callable[[T | None], T]) -> T:
        """Replace the value at `path` by the result of `modify(value)`, and return the new value. If the key does not
        exist, `modify` gets None, and the key is created.

        `modify` gets a copy of the value, which it can change. It must have no other effects, because it is called
        again each time another client has changed the key in the meantime.

        Raises:
            BadVersionError: other clients changed the key during each attempt, for 30 seconds; nothing was written.
        """
        self._check_open(path)
        give_up_at_s = _now() + GIVE_UP_AFTER_S
        back_off = Doubling(FIRST_BACKOFF_S, MAX_BACKOFF_S)
        while True:
            found = await self.get_with_stat(path)
            current, version = (
                (None, MUST_NOT_EXIST) if found is None else (self._copy(path, found[0]), found[1].version)
            )
            changed = modify(current)
            try:
                await self._put(path, changed, expected_version=version)
            except BadVersionError:
                self.invalidate(path)
                wait_s = back_off.next_s()
                if _now() + wait_s > give_up_at_s:
                    raise
                await asyncio.sleep(wait_s)
            else:
                return changed

    async def delete(self, path: str) -> None:
        """Delete the key at `path`, whatever its version is.

        Raises:
            NotFoundError: the key does not exist.
        """
        self._check_open(path)
        await self._store.delete(path)
        self._values.drop(path)

    def invalidate(self, path: str) -> None:
        """Remove the value of `path` from the cache, so that the next call reads it from the store."""
        self._values.drop(path)

    def close(self) -> None:
        """Stop following changes of the store, and remove all values from the cache. Idempotent."""
        self._closed = True
        self._stop_watching()
        self._values.close()
        self._children.close()

    async def _put(self, path: str, value: T, *, expected_version: int | None = None, ephemeral: bool = False) -> Stat:
        data = self._codec.encode(value)
        return await self._store.put(path, data, expected_version=expected_version, ephemeral=ephemeral)

    async def _load_value(self, path: str) -> tuple[T, Stat] | None:
        record = await self._store.get(path)
        return None if record is None else (self._codec.decode(path, record.value), record.stat)

    async def _load_children(self, path: str) -> tuple[str, ...]:
        return tuple(await self._store.children(path))

    def _copy(self, path: str, value: T) -> T:
        return self._codec.decode(path, self._codec.encode(value))

    def _invalidated(self, change: Notification | None) -> None:
        if change is None:
            self._values.drop_all()
            self._children.drop_all()
        elif change.type is NotificationType.CHILDREN_CHANGED:
            self._children.drop(change.path)
        else:
            self._values.drop(change.path, reload=change.type is not NotificationType.DELETED)
            if change.type is not NotificationType.MODIFIED and not self._children.is_empty:
                for above in (*ancestors(change.path), "/"):
                    self._children.drop(above)

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreClosedError(path)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _now() -> float:
    return asyncio.get_running_loop().time()
