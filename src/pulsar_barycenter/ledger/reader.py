"""The interface to read a ledger, of any storage. Entries are read on demand.

Some storages keep sizes, message counts and publish times of all entries beside the entries, and have them in memory
while a ledger is open (`index`). Others know them of an entry only once it was read. `StoredEntries`, `info` and
`first_published_at_or_after` are the same for both.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.position import EntryInfo


class StoredEntries(NamedTuple):
    """Consecutive entries of a ledger, in columns: their data, message counts and publish times (ms since 1970)."""

    data: Sequence[bytes]
    num_messages: Sequence[int]
    publish_times_ms: Sequence[int]


class LedgerTotals(NamedTuple):
    """All entries of a ledger together: bytes, messages, and the latest publish time in ms since 1970."""

    size: int = 0
    messages: int = 0
    max_publish_time_ms: int = 0


class LedgerReader(Protocol):
    """Random access to the recovered or durable entries of a ledger."""

    @property
    def entry_count(self) -> int: ...

    @property
    def index(self) -> EntryIndex | None:
        """Sizes, counts and times of the entries; None if they are not in memory. It belongs to the reader and must not
        be changed.
        """
        ...

    @property
    def file(self) -> str:
        """Where the ledger is stored, for messages and logs."""
        ...

    @property
    def remedy(self) -> str:
        """What an operator can do about damage, for messages and logs."""
        ...

    @property
    def gone(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of entries that a repair removed; sorted and disjoint."""
        ...

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of entries that are known to be damaged; sorted and disjoint."""
        ...

    async def info(self, entry_id: int) -> EntryInfo:
        """Return size, message count and publish time of an entry.

        Raises:
            LedgerCorruptedError: the entry is damaged, and its values are known from its data only.
            LedgerUnavailableError: the entry cannot be read now.
        """
        ...

    async def first_published_at_or_after(self, time_ms: int, first: int) -> int | None:
        """Return the first entry, from `first` (inclusive) on, whose publish time is `time_ms` or later; None if all
        are older. Without an index this is a bisection, which takes publish times for growing, as Pulsar does.

        Raises:
            LedgerCorruptedError, LedgerUnavailableError: as `info`.
        """
        ...

    async def read_stored(self, first: int, last: int, max_bytes: int, max_messages: int | None) -> StoredEntries:
        """Return what `read` returns, with counts and times. The entry that reaches `max_messages` is the last one;
        None means no limit.

        Raises:
            LedgerCorruptedError, LedgerUnavailableError: as `read`.
        """
        ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the entries `first` to `last`, both inclusive, oldest first.

        Returns at least one entry, and further ones while the total is at most `max_bytes`. Entries after a damaged one
        are left out.

        Raises:
            LedgerCorruptedError: the first entry is damaged; the error has the range of damaged entries.
            LedgerUnavailableError: the first entry cannot be read now.
        """
        ...

    def close(self) -> None:
        """Release the file. Reads that have begun finish."""
        ...


class RecoveredLedger(LedgerReader, Protocol):
    """The reader of a ledger that was taken over."""

    @property
    def totals(self) -> LedgerTotals:
        """The sums over all entries. Without an index the messages are estimated from some of the entries, and the
        latest publish time is that of these entries, the last one among them.
        """
        ...


class IndexedReads:
    """Reads of a ledger whose `index` is in memory; the base of such readers."""

    __slots__ = ()

    @property
    def index(self) -> EntryIndex:
        raise NotImplementedError

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        raise NotImplementedError

    @property
    def totals(self) -> LedgerTotals:
        index = self.index
        count = len(index)
        latest_ms = index.max_publish_time(0, count) if count else 0
        return LedgerTotals(index.total_bytes, index.messages_between(0, count), latest_ms)

    async def info(self, entry_id: int) -> EntryInfo:
        return self.index.info(entry_id)

    async def first_published_at_or_after(self, time_ms: int, first: int) -> int | None:
        return self.index.first_published_at_or_after(time_ms, first)

    async def read_stored(self, first: int, last: int, max_bytes: int, max_messages: int | None) -> StoredEntries:
        index = self.index
        stop = index.stop_within(first, min(last + 1, len(index)), max_bytes, max_messages)
        data = await self.read(first, stop - 1, max_bytes)
        stop = first + len(data)
        return StoredEntries(data, index.message_counts(first, stop), index.publish_times(first, stop))
