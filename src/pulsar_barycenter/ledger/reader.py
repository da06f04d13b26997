"""The interface to read a ledger, of any storage: its entry index is in memory, its entries are read on demand."""

from collections.abc import Sequence
from typing import Protocol

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.position import EntryInfo


class LedgerReader(Protocol):
    """Random access to the recovered or durable entries of a ledger."""

    @property
    def entry_count(self) -> int: ...

    @property
    def index(self) -> EntryIndex:
        """Sizes, counts and times of the entries. It belongs to the reader and must not be changed."""
        ...

    @property
    def file(self) -> str:
        """Where the ledger is stored, for messages and logs."""
        ...

    @property
    def gone(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of entries that a repair removed; sorted and disjoint."""
        ...

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of entries that are known to be damaged; sorted and disjoint."""
        ...

    def info(self, entry_id: int) -> EntryInfo: ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the entries `first` to `last`, both inclusive, oldest first.

        Returns at least one entry, and further ones while the total is at most `max_bytes`. Entries after a damaged one
        are left out.

        Raises:
            LedgerCorruptedError: the first entry is damaged; the error has the range of damaged entries.
        """
        ...

    def close(self) -> None:
        """Release the file. Reads that have begun finish."""
        ...
