"""Reads the entries of a ledger on bookies.

For a ledger that this process writes, the message counts and publish times of all entries are in memory
(`WrittenReader`). For any other ledger they are taken from the entries that are read (`OpenedReader`).
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from pulsar_barycenter.bookkeeper.client.ledger_reader import LedgerReader
from pulsar_barycenter.bookkeeper.errors import NoSuchEntryError
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import (
    LostEntriesError,
    ledger_errors,
    ledger_name,
    remedy_of,
)
from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerCorruptedError, LedgerError
from pulsar_barycenter.ledger.position import EntryInfo, joined
from pulsar_barycenter.ledger.reader import IndexedReads, LedgerTotals, StoredEntries
from pulsar_barycenter.ledger.storage import Content, whole_entry

Describe: TypeAlias = Callable[[bytes], tuple[int, int]]
"""A function that returns the message count and the publish time (ms since 1970) of an entry. It must not raise."""

_MAX_SAMPLES: Final = 64
_MAX_SAMPLE_BYTES: Final = 4 << 20


class BookieReads:
    """The base class of readers of a ledger on bookies. They read the first `entry_count` entries of the ledger.

    An entry that none of its bookies has is lost. `read` ends before a lost entry. If the first entry requested is
    lost, `read` raises LostEntriesError.
    """

    gone: Sequence[tuple[int, int]] = ()

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._lost: list[tuple[int, int]] = []

    @property
    def entry_count(self) -> int:
        raise NotImplementedError

    @property
    def file(self) -> str:
        return ledger_name(self._ledger.ledger)

    @property
    def remedy(self) -> str:
        return remedy_of(self._ledger.ledger)

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        present = self._ledger.last_entry + 1
        lacking = [(present, self.entry_count - 1)] if present < self.entry_count else []
        return joined([*self._lost, *lacking])

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        stop = min(last + 1, self.entry_count)
        if not 0 <= first < stop:
            return []
        for begin, end in self.damage:
            if begin <= first <= end:
                raise LostEntriesError(
                    self._ledger.ledger,
                    f"the entries {begin} to {end} cannot be read: none of the bookies that should have them has them",
                    (begin, end),
                )
            if begin > first:
                stop = min(stop, begin)
                break
        try:
            with ledger_errors(self._ledger.ledger):
                return await self._ledger.read(first, stop - 1, max_bytes=max_bytes)
        except LedgerError as error:
            if isinstance(error.__cause__, NoSuchEntryError):
                self._lost = joined([*self._lost, (first, first)])
                raise LostEntriesError(self._ledger.ledger, str(error.__cause__), (first, first)) from error
            raise

    def close(self) -> None:
        return


class WrittenReader(BookieReads, IndexedReads):
    """Reads a ledger that this process writes: those entries that its writer has already reported as durable. `index`
    has the size, message count and publish time of each of them. The writer appends to `index`.
    """

    def __init__(self, ledger: LedgerReader, index: EntryIndex) -> None:
        super().__init__(ledger)
        self._index = index

    @property
    def index(self) -> EntryIndex:
        return self._index

    @property
    def entry_count(self) -> int:
        return len(self._index)


class OpenedReader(BookieReads):
    """Reads a ledger that is closed or was recovered, so that no entry is added any more. Message counts and publish
    times are not in memory: they are decoded from the entries that are read.
    """

    index = None

    def __init__(
        self, ledger: LedgerReader, entry_count: int, describe: Describe, content: Content = whole_entry
    ) -> None:
        super().__init__(ledger)
        self._entry_count = entry_count
        self._describe = describe
        self._content = content
        self.totals = LedgerTotals()
        """The totals of the ledger, which `measure` sets; see `RecoveredLedger.totals`."""

    @property
    def entry_count(self) -> int:
        return self._entry_count

    async def read_stored(self, first: int, last: int, max_bytes: int, max_messages: int | None) -> StoredEntries:
        data = await self.read(first, last, max_bytes)
        described = [self._describe(self._content(entry)) for entry in data]
        stop = len(data)
        if max_messages is not None and max_messages > 0:
            sums = accumulate(count for count, _ in described)
            stop = next((at + 1 for at, total in enumerate(sums) if total >= max_messages), stop)
        counts = [count for count, _ in described[:stop]]
        return StoredEntries(data[:stop], counts, [time_ms for _, time_ms in described[:stop]])

    async def info(self, entry_id: int) -> EntryInfo:
        (data,) = await self.read(entry_id, entry_id, 0)
        return EntryInfo(len(data), *self._describe(self._content(data)))

    async def first_published_at_or_after(self, time_ms: int, first: int) -> int | None:
        stop, found = self._entry_count, None
        while first < stop:
            middle = (first + stop) // 2
            probe, published_ms = await self._first_readable(middle, stop)
            if published_ms is None or published_ms >= time_ms:
                found, stop = (found if published_ms is None else probe), middle
            else:
                first = probe + 1
        return found

    async def _first_readable(self, first: int, stop: int) -> tuple[int, int | None]:
        """Return the id and the publish time of the first entry from `first` (inclusive) to `stop` (exclusive) that is
        not lost. If all of them are lost, return `stop` and None.
        """
        while first < stop:
            try:
                return first, (await self.info(first)).publish_time_ms
            except LedgerCorruptedError as error:
                first = first + 1 if error.entries is None else error.entries[1] + 1
        return stop, None

    async def measure(self, length: int) -> None:
        """Set `totals`: the number of bytes, which is `length`, and the message count and the latest publish time of
        the ledger. These two are estimated from some of its entries, among them the last entry.

        At most _MAX_SAMPLES entries, of about _MAX_SAMPLE_BYTES in total, are read. If the ledger has no more entries
        than that, the totals are exact. Lost entries are ignored.

        Raises:
            LedgerUnavailableError: entries cannot be read now.
        """
        count = self._entry_count
        if not count:
            return
        samples = max(1, min(_MAX_SAMPLES, count, _MAX_SAMPLE_BYTES * count // max(length, 1)))
        ids = [count - 1 - count * number // samples for number in range(samples)]
        results = await asyncio.gather(*(self.info(entry_id) for entry_id in ids), return_exceptions=True)
        read: list[EntryInfo] = []
        for result in results:
            if isinstance(result, EntryInfo):
                read.append(result)
            elif not isinstance(result, LedgerCorruptedError):
                raise result
        messages = round(sum(info.num_messages for info in read) * count / len(read)) if read else count
        self.totals = LedgerTotals(length, messages, max((info.publish_time_ms for info in read), default=0))
