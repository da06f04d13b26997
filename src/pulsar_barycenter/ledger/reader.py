"""The interface to read a ledger, for every kind of storage. Entries are read on demand.

Some storages keep the size, message count and publish time of each entry, and have them in memory while a ledger is
open (`index`). Others know these values of an entry only after it was read. `StoredEntries`, `info` and
`first_published_at_or_after` are the same for both.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.position import EntryInfo


class StoredEntries(NamedTuple):
    """Consecutive entries of a ledger, as three lists of one length: data, message counts and publish times (ms since
    1970).
    """

    data: Sequence[bytes]
    num_messages: Sequence[int]
    publish_times_ms: Sequence[int]


class LedgerTotals(NamedTuple):
    """Totals over all entries of a ledger: bytes, messages, and the latest publish time in ms since 1970."""

    size: int = 0
    messages: int = 0
    max_publish_time_ms: int = 0


class LedgerReader(Protocol):
    """Reads entries of a ledger in any order: those that are durable, or that were recovered."""

    @property
    def entry_count(self) -> int: ...

    @property
    def index(self) -> EntryIndex | None:
        """Sizes, message counts and publish times of the ledger's entries; None if they are not in memory. Callers must
        not change it.
        """
        ...

    @property
    def file(self) -> str:
        """Where the ledger is stored, as text for messages and logs."""
        ...

    @property
    def remedy(self) -> str:
        """What an operator can do about damage of the ledger, as text for messages and logs."""
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
            LedgerCorruptedError: the entry is damaged, and this storage has its values in its data only.
            LedgerUnavailableError: the entry cannot be read now.
        """
        ...

    async def first_published_at_or_after(self, time_ms: int, first: int) -> int | None:
        """Return the first entry, from `first` (inclusive) on, whose publish time is `time_ms` or later; None if all
        are older. Without an index this is a binary search, which assumes, as Pulsar does, that publish times increase.

        Raises:
            LedgerCorruptedError, LedgerUnavailableError: for the same reasons as in `info`.
        """
        ...

    async def read_stored(self, first: int, last: int, max_bytes: int, max_messages: int | None) -> StoredEntries:
        """Return the entries that `read` returns, with their message counts and publish times. The entry that reaches
        `max_messages` is the last one; None means no limit.

        Raises:
            LedgerCorruptedError, LedgerUnavailableError: for the same reasons as in `read`.
        """
        ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the entries `first` to `last`, both inclusive, oldest first.

        Returns at least one entry, and further ones while the total is at most `max_bytes`. The result ends before the
        first damaged entry, also if later entries are intact.

        Raises:
            LedgerCorruptedError: the first entry is damaged; the error has the range of damaged entries.
            LedgerUnavailableError: the first entry cannot be read now.
        """
        ...

    def close(self) -> None:
        """Release the ledger's file. Does not wait: reads that have begun continue to their end."""
        ...


class RecoveredLedger(LedgerReader, Protocol):
    """The reader of a ledger that was taken over from a former owner."""

    @property
    def totals(self) -> LedgerTotals:
        """The totals over all entries. Without an index the number of messages is estimated from some of the entries,
        and the latest publish time is the latest among these, which include the last entry.
        """
        ...


class IndexedReads:
    """The base class of readers that have the ledger's `index` in memory."""

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
