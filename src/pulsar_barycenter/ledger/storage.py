"""The interface of a ledger storage, as managed ledgers use it: append, make durable, fence, read.

`FileLedgerStorage` stores each ledger in a file of a shared folder, `BookKeeperStorage` on bookies. Tests and the
simulation use a storage in memory. All pass `tests/contract/test_ledger_storage.py`.

Fencing. One owner writes a ledger, under one epoch. A later owner fences the ledger first and reads it afterwards. A
writer checks for a fence after its bytes are durable and before it reports them. So the later owner recovers every
entry that a former owner reported, and a former owner cannot report an entry after that.
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Final, Protocol, TypeAlias

from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerError, LedgerUnavailableError
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.reader import LedgerReader, RecoveredLedger
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore

LEDGER_ID_COUNTER: Final = "/counters/ledger-id"
"""The path of the counter that gives the ids of ledgers in files."""

Content: TypeAlias = Callable[[bytes], bytes]
"""A function that returns the part of a stored entry that is an entry of a topic."""

Later: TypeAlias = Callable[[Coroutine[object, object, None]], object]
"""A function that starts a coroutine for which the caller does not wait."""


def whole_entry(entry: bytes) -> bytes:
    return entry


class LedgerWriter(Protocol):
    """Appends to a ledger. A ledger has one writer."""

    @property
    def reader(self) -> LedgerReader:
        """A reader of the entries that are durable so far. It has a new entry just before `on_durable` is called for
        it.
        """
        ...

    @property
    def index(self) -> EntryIndex:
        """Sizes, message counts and publish times of the entries that are durable so far. Callers must not change
        it.
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
        """Queue `entries` in their order, each as `append` does. If this raises, none of them is queued."""
        ...

    async def close(self) -> None:
        """Wait until every appended entry is reported as durable or failed, then release the writer's resources.
        Idempotent.
        """
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

    @property
    def bookies(self) -> Sequence[str]:
        """The ids of the bookies that are registered now, sorted; none for a storage without bookies."""
        ...

    def store_of_racks(self, store: MetadataStore) -> MetadataStore:
        """Return the metadata store whose key `/bookies` has the racks and groups of bookies: `store`, which has the
        brokers' metadata, unless the bookies have another one.
        """
        ...

    def on_groups(self, primary: Collection[str], secondary: Collection[str]) -> "LedgerStorage":
        """Return a view of this storage that creates ledgers on the bookies of the groups `primary`, and also on those
        of `secondary` if the bookies of `primary` are too few. In all else the view is the same as this storage. Do not
        close the view. A storage without bookies returns itself.
        """
        ...

    async def new_id(self, store: MetadataStore, later: Later) -> int:
        """Return the id for a new ledger, higher than all earlier ones. `store` is the brokers' metadata store. `later`
        starts work that may be done after this returns.

        Raises:
            LedgerError: the cluster of bookies gives no id that this release can use.
            LedgerUnavailableError: the metadata store did not answer.
        """
        ...

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        """Create an empty ledger that is written under `epoch`.

        Raises:
            LedgerFullError: the disk is full, or there are too few bookies that accept writes.
            LedgerUnavailableError: the metadata store did not answer; an empty ledger may exist.
            LedgerError: the ledger exists already.
        """
        ...

    async def fence(self, ledger_id: int, *, epoch: int) -> RecoveredLedger:
        """Fence a ledger and take it over under `epoch`: from now on, no entry of a writer with a lower epoch is
        reported as durable.

        Returns a reader of all complete entries. An incomplete last entry (a torn tail) is cut. A second fence with the
        same or a higher epoch is allowed.

        Raises:
            LedgerFencedError: the ledger was fenced or created under a higher epoch.
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. Otherwise the reader says which entries are damaged.
            LedgerUnavailableError: the metadata store or bookies did not answer; a former owner may be fenced.
        """
        ...

    async def open(self, ledger_id: int, *, entry_count: int, content: Content = whole_entry) -> LedgerReader:
        """Open a ledger to which nothing is added any more, for reading its first `entry_count` entries, which it is
        known to have.

        `content` returns the part of an entry that has the message count and the publish time, for a storage that does
        not keep these itself.

        Raises:
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. Otherwise the reader says which entries are damaged; entries
                that are absent at the end count as damaged.
            LedgerUnavailableError: the metadata store or bookies did not answer.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger. It is no error if it does not exist.

        Raises:
            LedgerUnavailableError: the metadata store did not answer.
        """
        ...

    async def has_room(self) -> bool:
        """Return whether there is space for some more messages. A storage in files writes a small file to find out. A
        storage on bookies returns whether enough bookies for a new ledger accept writes.

        Raises:
            LedgerError: the file could not be written for another reason.
        """
        ...

    async def close(self) -> None:
        """Wait until appended entries are reported, then release files, threads and connections. Idempotent."""
        ...


async def draw_counted_id(store: MetadataStore, later: Later) -> int:
    """Return the next number of the counter LEDGER_ID_COUNTER as the id for a new ledger, as `LedgerStorage.new_id`
    does.

    Raises:
        LedgerUnavailableError: the metadata store did not answer.
    """
    try:
        return await next_counter_value(store, LEDGER_ID_COUNTER, later=later)
    except MetadataError as error:
        raise LedgerUnavailableError(str(error)) from error
