"""Producers of a topic that found no room on the disk: held until there is some.

A client whose message is refused (SEND_ERROR with PersistenceError) closes its connection, connects again after a tenth
of a second, attaches its producer and sends the message again: eight rounds a second. The C++ client, and Python's on
top of it (seen with 3.13), counts the send timeout anew whenever the producer is attached, so that `send` does not
return. While the producer is not attached the timeout runs on, and no message is sent in vain. Java's client counts
from the creation of the message.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pulsar_barycenter.ledger.disk_full import DiskFullState
from pulsar_barycenter.ledger.errors import LedgerFullError

HOLD_S: Final = 20.0
"""How long a producer is held before it is refused: clients take 30 s without an answer for a failure."""
ASK_S: Final = 1.0
"""How often the disk is asked for room while a producer is held, however many are."""


class DiskRoom:
    """Asks `has_room` whether the disk takes writes; one for all topics of a broker."""

    def __init__(self, has_room: Callable[[], Awaitable[bool]]) -> None:
        self._has_room = has_room
        self._asked: asyncio.Task[bool] | None = None
        self._ask_at_s = float("-inf")

    async def require(self, topic: str, room: DiskFullState) -> None:
        """Return when a producer may try to write to a topic: at once unless its last write found no room.

        Raises:
            LedgerFullError: there was none for HOLD_S.
            LedgerError: the disk cannot be asked.
        """
        if not room.is_full:
            return
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + HOLD_S
        while room.is_full:
            now_s = loop.time()
            if now_s >= room.retry_at_s and await self._ask():
                room.producer_admitted()
                return
            if now_s >= give_up_at_s:
                raise LedgerFullError(f"{topic}: the disk of the broker is full; no message can be stored")
            await asyncio.sleep(min(ASK_S, give_up_at_s - now_s))

    async def _ask(self) -> bool:
        """Return whether there is room, as of the last ASK_S."""
        now_s = asyncio.get_running_loop().time()
        if self._asked is None or now_s >= self._ask_at_s:
            self._ask_at_s = now_s + ASK_S
            self._asked = asyncio.ensure_future(self._has_room())
        return await asyncio.shield(self._asked)
