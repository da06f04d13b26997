"""Measures the duration of every operation of a metadata store. All operations of a process pass through this
wrapper.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pulsar_barycenter.metadata.store import Guard, MetadataStore, Notification, Record, SessionEvent, Stat

T = TypeVar("T")

Observe = Callable[[str, float], None]
"""Called with the name of an operation and its duration in seconds, whether it succeeded or failed."""


class TimedStore:
    """A metadata store that passes each operation to the store `store`, and calls `observe` with the operation's
    duration. `close` closes `store` too.
    """

    def __init__(self, store: MetadataStore, observe: Observe) -> None:
        self._store = store
        self._observe = observe

    async def _timed(self, name: str, operation: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await operation
        finally:
            self._observe(name, loop.time() - began)

    async def get(self, path: str) -> Record | None:
        return await self._timed("get", self._store.get(path))

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Stat:
        written = self._store.put(
            path,
            value,
            expected_version=expected_version,
            ephemeral=ephemeral,
            sequential=sequential,
            if_own=if_own,
            guard=guard,
        )
        return await self._timed("put", written)

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        deleted = self._store.delete(path, expected_version=expected_version, if_own=if_own, guard=guard)
        await self._timed("delete", deleted)

    async def children(self, path: str) -> list[str]:
        return await self._timed("children", self._store.children(path))

    async def exists(self, path: str) -> bool:
        return await self._timed("exists", self._store.exists(path))

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._store.add_listener(listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._store.add_session_listener(listener)

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return self._store.add_invalidator(invalidate)

    @property
    def session_is_overdue(self) -> bool:
        return self._store.session_is_overdue

    async def close(self) -> None:
        await self._store.close()
