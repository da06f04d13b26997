"""Reads entries of a ledger, several at the same time. An entry is requested from one bookie after the other.

If all bookies fail, the ledger's metadata is read again: BookKeeper's auto recovery may have moved the entries of a
closed ledger to other bookies.
"""

import asyncio
from collections.abc import Callable

from pulsar_barycenter.bookkeeper.client.bookie_pool import BookiePool
from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings
from pulsar_barycenter.bookkeeper.client.driver import send_read
from pulsar_barycenter.bookkeeper.errors import NoSuchEntryError, UnreadableEntryError, WrongPasswordError
from pulsar_barycenter.bookkeeper.machines.actions import SendRead, Verdict
from pulsar_barycenter.bookkeeper.machines.entry_read import EntryRead, ReadState
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.bookkeeper.metadata.ledger_store import LedgerStore
from pulsar_barycenter.bookkeeper.wire.digests import Entry, EntryCodec


class LedgerReader:
    """Reads the entries that are known to belong to a ledger: from 0 to `last_entry`, inclusive."""

    def __init__(
        self,
        ledger: int,
        metadata: Callable[[], LedgerMetadata],
        last_entry: Callable[[], int],
        length: Callable[[], int],
        codec: EntryCodec,
        pool: BookiePool,
        store: LedgerStore,
        settings: ClientSettings,
    ) -> None:
        self.ledger = ledger
        self._metadata = metadata
        self._last_entry = last_entry
        self._length = length
        self._codec = codec
        self._pool = pool
        self._store = store
        self._settings = settings

    @property
    def metadata(self) -> LedgerMetadata:
        return self._metadata()

    @property
    def last_entry(self) -> int:
        """The number of the last entry that can be read, -1 if there is none."""
        return self._last_entry()

    async def read(self, first: int, last: int, *, max_bytes: int) -> list[bytes]:
        """Return the data of the entries `first` to `last`, both inclusive, oldest first.

        Returns at least one entry, and further ones while the total is at most `max_bytes`. How many entries are read
        at the same time depends on their mean size; it is at most `max_reads`.

        Raises:
            NoSuchEntryError: the entries are not part of the ledger, or the first one is on none of the ledger's
                bookies.
            UnreadableEntryError: no bookie returned the first one.
        """
        if not 0 <= first <= last <= self.last_entry:
            raise NoSuchEntryError(
                f"ledger {self.ledger}: entries {first} to {last} were requested, but the ledger has entries 0 to "
                f"{self.last_entry}"
            )
        found: list[bytes] = []
        total = asked = 0
        begin = first
        while first <= last:
            count = min(last - first + 1, self._settings.max_reads, self._fitting(max_bytes - total, found))
            for entry in await self._read_all(first, count, is_first=not found):
                total += len(entry.data)
                if found and total > max_bytes:
                    return found
                found.append(entry.data)
            first = begin + len(found)
            if len(found) < asked + count or total >= max_bytes:
                return found
            asked += count
        return found

    def _fitting(self, room: int, found: list[bytes]) -> int:
        """Return how many entries of the mean size of this ledger fit into `room` bytes, at least 1."""
        usual = self._length() // (self.last_entry + 1)
        if found:
            usual = max(usual, sum(map(len, found)) // len(found))
        return max(1, room // max(1, usual))

    async def _read_all(self, first: int, count: int, *, is_first: bool) -> list[Entry]:
        """Read `count` entries from `first` on, all at the same time. If an entry cannot be read, return only the
        entries before it.

        If already the entry `first` cannot be read: with `is_first`, which says that the caller has no entry yet, raise
        its error; without, return an empty list.
        """
        reads = await asyncio.gather(
            *(self._read_entry(entry) for entry in range(first, first + count)), return_exceptions=True
        )
        entries: list[Entry] = []
        for read in reads:
            if isinstance(read, BaseException):
                if is_first and not entries:
                    raise read
                break
            entries.append(read)
        return entries

    async def _read_entry(self, entry: int) -> Entry:
        read = await self._ask(self.metadata, entry)
        if read.state in (ReadState.ABSENT, ReadState.UNKNOWN):
            moved, _ = await self._store.read(self.ledger)
            if moved.write_set(entry) != self.metadata.write_set(entry):
                read = await self._ask(moved, entry)
        if read.state is ReadState.FOUND:
            return read.found[0]
        if read.state is ReadState.UNAUTHORIZED:
            raise WrongPasswordError(self.ledger)
        reasons = "; ".join(read.reasons)
        if read.state is ReadState.ABSENT:
            raise NoSuchEntryError(f"ledger {self.ledger}: entry {entry} is lost, no bookie has it: {reasons}")
        raise UnreadableEntryError(f"ledger {self.ledger}: entry {entry} cannot be read now: {reasons}. Try again")

    async def _ask(self, metadata: LedgerMetadata, entry: int) -> EntryRead:
        loop = asyncio.get_running_loop()
        members = metadata.write_set(entry)
        read = EntryRead(entry, members, self._codec, absent_after=len(members))
        done: asyncio.Future[None] = loop.create_future()

        def send(asks: list[SendRead]) -> None:
            for ask in asks:
                send_read(self._pool, self.ledger, b"", ask, lambda *answer, bookie=ask.bookie: told(bookie, *answer))

        def told(bookie: str, verdict: Verdict, body: bytes) -> None:
            send(read.answered(bookie, verdict, body))
            if read.state is not ReadState.ASKING and not done.done():
                done.set_result(None)

        send(read.ask_next())
        for _ in members[1:]:
            await asyncio.wait([done], timeout=self._settings.speculative_read_s)
            if done.done():
                return read
            send(read.ask_next())
        await done
        return read
