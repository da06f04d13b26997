"""Locks by key: operations on one key run one after the other, operations on different keys do not wait."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _KeyLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class KeyLocks(Generic[Key]):
    """One lock for each key. A lock exists only while it is held or a caller waits for it."""

    def __init__(self) -> None:
        self._locks: dict[Key, _KeyLock] = {}

    def __contains__(self, key: Key) -> bool:
        """Return whether the lock of `key` is held, or a caller waits for it."""
        return key in self._locks

    @asynccontextmanager
    async def hold(self, key: Key) -> AsyncIterator[None]:
        """Context manager: hold the lock of `key` during the `with` statement, and wait first until no other caller
        holds it. Callers get the lock in the order of their calls.
        """
        entry = self._locks.setdefault(key, _KeyLock())
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._locks[key]
