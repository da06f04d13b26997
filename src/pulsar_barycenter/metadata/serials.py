"""One after the other by key: what is done to one key waits for what is under way on it, and for nothing else."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Serial:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Serials(Generic[Key]):
    """Keeps a lock for each key that somebody holds or waits for, and none of others."""

    def __init__(self) -> None:
        self._of: dict[Key, _Serial] = {}

    def __contains__(self, key: Key) -> bool:
        """Tell whether something is done to the key, or waits."""
        return key in self._of

    @asynccontextmanager
    async def hold(self, key: Key) -> AsyncIterator[None]:
        """Be the only one, once all who came before are done."""
        serial = self._of.setdefault(key, _Serial())
        serial.users += 1
        try:
            async with serial.lock:
                yield
        finally:
            serial.users -= 1
            if not serial.users:
                del self._of[key]
