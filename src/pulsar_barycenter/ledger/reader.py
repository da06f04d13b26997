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
    """Consecutive entries of a ledger, as three lists with one item for each entry: data, message count, and publish
    time (ms since 1970).
    """

    data: Sequence[bytes]
    num_messages: Sequence[int]
    publish_times_ms: Sequence[int]


class LedgerTotals(NamedTuple):
    """Totals over all entries of a ledger: the size in bytes, the number of messages, and the latest publish time in ms
    since 1970.
    """

    size: int = 0
    messages: int = 0
    max_publish_time_ms: int = 0


class LedgerReader(Protocol):
    """Reads the durable entries of a ledger, in any order."""

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
        """The file or the BookKeeper ledger in which the entries are stored, as text for messages and logs."""
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
            LedgerCorruptedError: the entry is damaged. Not raised by a storage that keeps these values apart from the
                entry's data.
            LedgerUnavailableError: the entry cannot be read now.
        """
        ...

    async def first_published_at_or_after(self, time_ms: int, first: int) -> int | None:
        """Return the id of the first entry, from the id `first` (inclusive) on, whose publish time is `time_ms` (ms
        since 1970) or later; None if all are older. If `index` is None, this is a binary search. It assumes, as Pulsar
        does, that later entries have later publish times.

        Raises:
            LedgerCorruptedError: an entry whose publish time is needed is damaged. Not raised by every storage.
            LedgerUnavailableError: an entry cannot be read now.
        """
        ...

    async def read_stored(self, first: int, last: int, max_bytes: int, max_messages: int | None) -> StoredEntries:
        """Return the same entries as `read`, with their message counts and publish times. In addition, the result ends
        after the entry with which it reaches `max_messages` messages (None: no limit).

        Raises:
            LedgerCorruptedError: the first entry is damaged.
            LedgerUnavailableError: the first entry cannot be read now.
        """
        ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the data of entries, oldest first, from the id `first` to at most `last`, both inclusive; an empty
        list if the ledger has no entry `first`.

        Otherwise at least one entry is returned. The result ends before the entry with which it would exceed
        `max_bytes` in total, and before the first damaged entry, even if later entries are intact.

        Raises:
            LedgerCorruptedError: the first entry is damaged; the error has the range of damaged entries.
            LedgerUnavailableError: the first entry cannot be read now.
        """
        ...

    def close(self) -> None:
        """Release the ledger's file or connection. Reads that have begun continue to their end; this does not wait for
        them.
        """
        ...


class RecoveredLedger(LedgerReader, Protocol):
    """The reader of a ledger that a new owner has fenced and recovered."""

    @property
    def totals(self) -> LedgerTotals:
        """The totals over all entries. If `index` is None, only some entries were read, among them the last one: the
        number of messages is then an estimate from these entries, and the publish time is the latest of theirs.
        """
        ...


class IndexedReads:
    """The base class of readers that have `index`, the sizes, message counts and publish times of all entries, in
    memory.
    """

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
