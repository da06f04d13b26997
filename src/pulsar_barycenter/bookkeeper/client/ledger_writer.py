"""A ledger that this client has open for writing.

`extend` sends entries and returns the number of the first one at once. `on_confirmed` is called, in the order of the
entries, when entries are confirmed. `add` sends an entry and waits until it is confirmed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pulsar_barycenter.bookkeeper.client.bookie_pool import BookiePool
from pulsar_barycenter.bookkeeper.client.driver import Driver
from pulsar_barycenter.bookkeeper.client.room import Room
from pulsar_barycenter.bookkeeper.errors import BookKeeperError, WriterClosedError
from pulsar_barycenter.bookkeeper.machines.actions import Confirmed, Ended, Failed, Stopped
from pulsar_barycenter.bookkeeper.machines.writer import Writer
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.bookkeeper.metadata.ledger_store import LedgerStore

OnConfirmed: TypeAlias = Callable[[int, BookKeeperError | None], None]
"""Called on the event loop with (last confirmed entry, None), or once with (first entry that is not confirmed, error);
after an error no entry is confirmed any more.
"""


class LedgerWriter:
    """A ledger that is open for writing. Created by `LedgerClient.create`."""

    def __init__(
        self,
        machine: Writer,
        key: bytes,
        pool: BookiePool,
        store: LedgerStore,
        room: Room,
        on_confirmed: OnConfirmed,
    ) -> None:
        self.ledger = machine.ledger
        self._machine = machine
        self._room = room
        self._on_confirmed = on_confirmed
        self._driver = Driver(machine.ledger, key, machine, pool, store, self._result)
        self._released = machine.confirmed_length
        """The bytes of data in the entries, from the first one of the ledger on, that do not count in `room` any
        more."""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Callers of `add`, by the entry that they wait for."""
        self._idle: list[asyncio.Future[None]] = []
        self._end: asyncio.Future[LedgerMetadata] = asyncio.get_running_loop().create_future()
        self._error: BookKeeperError | None = None

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata of the ledger, as this writer knows it."""
        return self._machine.metadata

    @property
    def last_confirmed(self) -> int:
        """The number of the last entry that was confirmed, -1 if there is none."""
        return self._machine.last_confirmed

    @property
    def length(self) -> int:
        """The bytes of data in all entries up to the last confirmed one."""
        return self._machine.confirmed_length

    @property
    def has_room(self) -> bool:
        """Whether `room` would return without waiting."""
        return self._room.is_free

    async def room(self) -> None:
        """Wait until the unconfirmed entries of this client have fewer bytes than the limit, together."""
        await self._room.wait()

    def append(self, data: bytes) -> int:
        """Send an entry, and return its number; see `extend`."""
        return self.extend((data,))

    def extend(self, datas: Sequence[bytes]) -> int:
        """Send entries, and return the number of the first one without waiting for the confirmation. Await `room`
        before the next call.

        Raises:
            EntryTooLargeError: an entry is larger than a bookie accepts; nothing has changed.
            WriterStoppedError: the writer does not write any more.
        """
        machine = self._machine
        entry, length = machine.next_entry, machine.length
        actions = machine.extend(datas)
        self._room.take(machine.length - length)
        self._driver.act(actions)
        return entry

    async def add(self, data: bytes) -> int:
        """Append an entry once the limit of unconfirmed bytes allows it; return its number when it is confirmed.

        Raises:
            EntryTooLargeError: the entry is larger than a bookie accepts; nothing has changed.
            BookKeeperError: the entry is not confirmed, and will not be. It may still be stored.
        """
        await self._room.wait()
        entry = self.append(data)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, confirmed))
        await confirmed
        return entry

    async def close(self) -> LedgerMetadata:
        """Wait until every appended entry is confirmed or has failed, then close the ledger. Return its stored
        metadata.

        A second call returns the same.

        Raises:
            WriterStoppedError: another client took the ledger over, and will close it.
            BookKeeperError: another client closed the ledger with another last entry, or the ledger was deleted.
        """
        if not self._is_idle:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        self._driver.act(self._machine.close())
        return await asyncio.shield(self._end)

    def abandon(self) -> None:
        """Stop writing without closing the ledger. `on_confirmed` is called with an error, which applies to all entries
        that are not confirmed. The next owner of the ledger recovers it.

        If the writer has ended already, `on_confirmed` is not called.
        """
        self._driver.close()
        if self._end.done():
            return
        self._machine.close()  # it appends no more; what it asks for is not carried out
        self._fail(WriterClosedError(f"ledger {self.ledger}: the client was closed before all entries were confirmed"))
        self._finish(
            WriterClosedError(
                f"ledger {self.ledger}: the client was closed; the ledger is left open, and its next owner recovers it"
            )
        )

    def _result(self, result: Confirmed | Stopped | Ended | Failed) -> None:
        match result:
            case Confirmed(last):
                self._confirm(last)
            case Stopped(error):
                self._fail(error)
                if not self._machine.may_close:
                    self._finish(error)
            case Ended(stored):
                if not self._end.done():
                    self._end.set_result(stored.metadata)
            case Failed(error):
                if not self._is_idle:
                    self._fail(error)
                self._finish(error)

    def _confirm(self, last: int) -> None:
        self._release(self._machine.confirmed_length)
        while self._waiting and self._waiting[0][0] <= last:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
        self._on_confirmed(last, None)
        self._wake_if_idle()

    def _fail(self, error: BookKeeperError) -> None:
        if self._error is not None:
            return
        self._error = error
        self._release(self._machine.length)
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()
        self._on_confirmed(self._machine.last_confirmed + 1, error)
        self._wake_if_idle()

    def _finish(self, error: BookKeeperError) -> None:
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # nobody may wait for it

    @property
    def _is_idle(self) -> bool:
        """Whether every appended entry is confirmed or has failed."""
        return self._error is not None or self._machine.last_confirmed == self._machine.next_entry - 1

    def _release(self, length: int) -> None:
        """Count the entries up to `length` bytes of data no more in `room`."""
        released, self._released = self._released, length
        self._room.give(length - released)

    def _wake_if_idle(self) -> None:
        if self._is_idle:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()
