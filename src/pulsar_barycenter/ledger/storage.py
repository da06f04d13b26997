"""Where ledgers live, as managed ledgers see it: append, make durable, fence, read.

`FileLedgerStorage` keeps each ledger in a file of a shared folder. `tests/contract/test_ledger_storage.py` holds it to
this, and the ledgers in memory that tests and simulation run on.

Fencing. A ledger is written by one owner under one epoch. A later owner fences it first and reads it
afterwards; a writer looks for the fence after its bytes are durable and before it reports them. So every entry
that a former owner reported is among those that the later owner recovers, and none can be reported after.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.reader import LedgerReader


class LedgerWriter(Protocol):
    """The one appender of a ledger."""

    @property
    def reader(self) -> LedgerReader:
        """Read access to what is durable so far; it grows just before `on_durable` is called."""
        ...

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        """Queue `entry` for the next group commit and return its id (0, 1, …); it is not durable yet.

        Durability is reported to the `on_durable` of `LedgerStorage.create`, in order, once per group.
        Raises LedgerClosedError after `close` and after a failure.
        """
        ...

    def extend(self, entries: Sequence[NewEntry]) -> None:
        """Queue `entries`, as `append` does one: all of them or, if it raises, none."""
        ...

    async def close(self) -> None:
        """Wait until all that was appended is durable or failed and reported, then release the file. Idempotent."""
        ...


OnDurable: TypeAlias = Callable[[int, LedgerError | None], None]
"""Called on the event loop with the id of the last durable entry and None, or with the first entry that
failed and why. After a failure no later entry of that writer becomes durable."""


class LedgerStorage(Protocol):
    @property
    def caches(self) -> Caches:
        """The memory shared by all managed ledgers of this storage."""
        ...

    @property
    def identity(self) -> str:
        """A text that no other storage object, of this or another process, ever has."""
        ...

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        """Create an empty ledger written under `epoch`.

        Raises:
            LedgerFullError: there is no space.
            LedgerError: it exists already.
        """
        ...

    async def fence(self, ledger_id: int, *, epoch: int) -> LedgerReader:
        """Take a ledger over under `epoch`: no writer of a lower epoch gets another entry reported.

        Returns a reader of all complete entries; an incomplete last entry (a torn tail) is cut.
        Fencing twice is allowed; by a lower epoch than before, or than the writer's, raises LedgerFencedError.

        Raises:
            LedgerNotFoundError: there is no such ledger.
            LedgerCorruptedError: nothing of it can be read; else the reader tells which entries are damaged.
        """
        ...

    async def open(self, ledger_id: int, *, entry_count: int) -> LedgerReader:
        """Open the first `entry_count` entries of a ledger that is known to have as many.

        Raises:
            LedgerNotFoundError: there is no such ledger.
            LedgerCorruptedError: nothing of it can be read; else the reader tells which entries are damaged, those
                that it lacks at the end among them.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger; one that is absent is no error."""
        ...

    async def has_room(self) -> bool:
        """Tell whether the disk takes a few messages more, by trying.

        Raises:
            LedgerError: it cannot be tried.
        """
        ...

    async def close(self) -> None:
        """Wait for what was appended, then release files and threads. Idempotent."""
        ...
