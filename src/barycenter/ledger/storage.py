"""Where ledgers live, as managed ledgers see it: append, make durable, fence, read.

`FileLedgerStorage` keeps each ledger in a file of a shared folder; `MemoryLedgerStorage` keeps them in a
process for units and simulation. One suite, `tests/contract/test_ledger_storage.py`, runs on both.

Fencing. A ledger is written by one owner under one epoch. A later owner fences it first and reads it
afterwards; a writer looks for the fence after its bytes are durable and before it reports them. So every entry
that a former owner reported is among those that the later owner recovers, and none can be reported after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from barycenter.ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """What is kept beside an entry, so that dispatch never opens it. `publish_time_ms` is the producer's."""

    size: int
    num_messages: int
    publish_time_ms: int


class LedgerWriter(Protocol):
    """The one appender of a ledger."""

    @property
    def next_entry_id(self) -> int: ...

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        """Queue `entry` for the next group commit and return its id (0, 1, …); it is not durable yet.

        Durability is reported to the `on_durable` of `LedgerStorage.create`, in order, once per group.
        Raises LedgerClosedError after `close`.
        """
        ...

    async def close(self) -> None:
        """Wait until all that was appended is durable or failed, then release the file. Idempotent."""
        ...


OnDurable = Callable[[int, LedgerError | None], None]
"""Called on the event loop with the id of the last durable entry and None, or with the first entry that
failed and why. After a failure no later entry of that writer becomes durable."""


class LedgerReader(Protocol):
    """Random access to the recovered or durable entries of a ledger."""

    @property
    def entry_count(self) -> int: ...

    def info(self, entry_id: int) -> EntryInfo: ...

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        """Return the entries `first`..`last`, both inclusive, oldest first; at least one, and no more than
        `max_bytes` together beyond the first.

        Raises:
            LedgerCorruptedError: an entry's checksum does not hold.
        """
        ...

    async def close(self) -> None: ...


class LedgerStorage(Protocol):
    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        """Create an empty ledger written under `epoch`."""
        ...

    async def fence(self, ledger_id: int, *, epoch: int) -> LedgerReader:
        """Take a ledger over under `epoch`: no writer of a lower epoch gets another entry reported.

        Returns a reader of all complete entries; an incomplete last entry (a torn tail) is cut.
        Fencing twice is allowed; by a lower epoch than before raises LedgerFencedError.
        """
        ...

    async def open(self, ledger_id: int, *, entry_count: int) -> LedgerReader:
        """Open a closed ledger of known length, or the durable part of one that is being written."""
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger; one that is absent is no error."""
        ...
