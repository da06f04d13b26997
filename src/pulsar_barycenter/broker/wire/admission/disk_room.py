"""Holds the PRODUCER requests of a topic whose last write found the disk full, until there is room again.

Problem: a client whose message is refused (SEND_ERROR with PersistenceError) closes its connection, connects again
after a tenth of a second, attaches its producer and sends the message again: eight attempts a second. The C++ client,
and the Python client on top of it (observed with version 3.13 of the Python client), restarts the send timeout whenever
the producer is attached, so that `send` never returns. While the request of the producer is held, the send timeout
continues, and no message is sent only to be refused. (The Java client counts from the creation of the message.)
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pulsar_barycenter.ledger.disk_full import DiskFullState
from pulsar_barycenter.ledger.errors import LedgerFullError

HOLD_S: Final = 20.0
"""The number of seconds that a producer is held before it is refused. Clients fail after 30 s without an answer."""
ASK_S: Final = 1.0
"""The number of seconds between two checks of the disk while producers are held; one check serves all of them."""


class DiskRoom:
    """Lets producers wait while the disk is full. `has_room` is a function that checks whether the disk has room. There
    is one object for all topics of a broker.
    """

    def __init__(self, has_room: Callable[[], Awaitable[bool]]) -> None:
        self._has_room = has_room
        self._check: asyncio.Task[bool] | None = None
        self._check_at_s = float("-inf")

    async def require(self, topic: str, room: DiskFullState) -> None:
        """Return when a producer may attach to a topic. `room` is the state of that topic: if its last write did not
        find the disk full, this returns at once. Otherwise it waits until the disk has room.

        Raises:
            LedgerFullError: the disk was still full after HOLD_S seconds.
            LedgerError: the check of the disk failed.
        """
        if not room.is_full:
            return
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + HOLD_S
        while room.is_full:
            now_s = loop.time()
            if now_s >= room.retry_at_s and await self._has_room_now():
                room.producer_admitted()
                return
            if now_s >= give_up_at_s:
                raise LedgerFullError(
                    f"{topic}: the disk of the broker is full; no message can be stored until there is free space"
                )
            await asyncio.sleep(min(ASK_S, give_up_at_s - now_s))

    async def _has_room_now(self) -> bool:
        """Return whether the disk has room. The result of the last check is used again for ASK_S seconds."""
        now_s = asyncio.get_running_loop().time()
        if self._check is None or now_s >= self._check_at_s:
            self._check_at_s = now_s + ASK_S
            self._check = asyncio.ensure_future(self._has_room())
        return await asyncio.shield(self._check)
