"""Limits how many bytes of entries may wait for their confirmation."""

import asyncio
from collections import deque


class Room:
    """Counts the bytes of entries that are not confirmed. If they reach the limit, callers wait, and continue in
    order.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def is_free(self) -> bool:
        """Whether there is room now, so that `wait` returns at once."""
        return self._taken < self._limit and not self._waiting

    def take(self, size: int) -> None:
        self._taken += size

    def give(self, size: int) -> None:
        """Count `size` bytes less, because an entry was confirmed or has failed."""
        self._taken -= size
        while self._waiting and self._taken < self._limit:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return  # it takes what it needs, and then wakes the next

    async def wait(self) -> None:
        """Wait until fewer bytes than the limit are counted. The caller has to count the bytes of its own entry before
        it awaits anything else; otherwise another caller may continue as well, and the limit is exceeded.
        """
        if self.is_free:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            asyncio.get_running_loop().call_soon(self.give, 0)
