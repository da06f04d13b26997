"""The interface of a ledger storage, as managed ledgers use it: append, make durable, fence, read.

`FileLedgerStorage` stores each ledger in a file of a shared folder. Tests and the simulation use a storage in memory.
Both pass `tests/contract/test_ledger_storage.py`.

Fencing. One owner writes a ledger, under one epoch. A later owner fences the ledger first and reads it afterwards. A
writer looks for the fence after its bytes are durable and before it reports them. So the later owner recovers every
entry that a former owner reported, and a former owner cannot report an entry after that.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.reader import LedgerReader


class LedgerWriter(Protocol):
    """The only writer of a ledger."""

    @property
    def reader(self) -> LedgerReader:
        """Read access to the entries that are durable so far. New entries appear in it just before `on_durable` is
        called.
        """
        ...

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        """Queue `entry` for the next group commit and return its id (0, 1, …). It is not durable yet.

        Durability is reported to the `on_durable` of `LedgerStorage.create`, in order, once for each group.

        Raises:
            LedgerClosedError: `close` was called, or a write failed.
        """
        ...

    def extend(self, entries: Sequence[NewEntry]) -> None:
        """Queue `entries`, each as `append` does. After an error, none of them is queued."""
        ...

    async def close(self) -> None:
        """Wait until every appended entry is reported as durable or failed, then release the file. Idempotent."""
        ...


OnDurable: TypeAlias = Callable[[int, LedgerError | None], None]
"""Called on the event loop with (id of the last durable entry, None), or with (id of the first failed entry, error).
After a failure no later entry of that writer becomes durable.
"""


class LedgerStorage(Protocol):
    """Creates, fences, opens and deletes ledgers."""

    @property
    def caches(self) -> Caches:
        """The memory shared by all managed ledgers of this storage."""
        ...

    @property
    def identity(self) -> str:
        """A text that no other storage object has, in this process or any other."""
        ...

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        """Create an empty ledger that is written under `epoch`.

        Raises:
            LedgerFullError: the disk is full.
            LedgerError: the ledger exists already.
        """
        ...

    async def fence(self, ledger_id: int, *, epoch: int) -> LedgerReader:
        """Take a ledger over under `epoch`: from now on, no entry of a writer with a lower epoch is reported as
        durable.

        Returns a reader of all complete entries. An incomplete last entry (a torn tail) is cut. A second fence with the
        same or a higher epoch is allowed.

        Raises:
            LedgerFencedError: the ledger was fenced or created under a higher epoch.
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. Otherwise the reader says which entries are damaged.
        """
        ...

    async def open(self, ledger_id: int, *, entry_count: int) -> LedgerReader:
        """Open the first `entry_count` entries of a ledger that is known to have that many.

        Raises:
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. Otherwise the reader says which entries are damaged; entries
                that are absent at the end count as damaged.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger. It is no error if it does not exist."""
        ...

    async def has_room(self) -> bool:
        """Return whether the disk has space for some more messages; writes a small file to find out.

        Raises:
            LedgerError: the file could not be written for another reason.
        """
        ...

    async def close(self) -> None:
        """Wait until appended entries are reported, then release files and threads. Idempotent."""
        ...
