"""Reading a ledger, whichever storage it lies in: its columns in memory, its entries where they are."""

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
        """The columns of the entries; the reader's own, not to be changed."""
        ...

    @property
    def file(self) -> str:
        """Where the ledger lies, for people."""
        ...

    @property
    def gone(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last) of entries that are no more, as a repair left them; sorted and disjoint."""
        ...

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        """The ranges (first, last) of entries that are known to be damaged; sorted and disjoint."""
        ...

    def info(self, entry_id: int) -> EntryInfo: ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the entries `first`..`last`, both inclusive, oldest first; at least one, and no more than
        `max_bytes` together beyond the first. What lies behind a damaged entry is left out.

        Raises:
            LedgerCorruptedError: the first entry is damaged; the error says up to where.
        """
        ...

    def close(self) -> None:
        """Let the file go; reads under way finish."""
        ...
