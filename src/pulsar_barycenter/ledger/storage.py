"""The interface of a ledger storage, as managed ledgers use it: append, make durable, fence, read.

`FileLedgerStorage` stores each ledger in a file of a shared folder, `BookKeeperStorage` on bookies. Tests and the
simulation use a storage in memory. All pass `tests/contract/test_ledger_storage.py`.

Fencing. One owner writes a ledger, under one epoch. A later owner fences the ledger first and reads it afterwards. A
writer checks for a fence after its bytes are durable and before it reports them. So the later owner recovers every
entry that a former owner reported, and a former owner cannot report an entry after that.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
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

Draw: TypeAlias = Callable[[], Awaitable[int]]
"""A function that returns the next number of a counter of ledger ids."""

Exists: TypeAlias = Callable[[int], Awaitable[bool]]
"""A function that returns whether there is a ledger with that id."""

_MAX_DRAWS: Final = 100


def whole_entry(entry: bytes) -> bytes:
    return entry


class LedgerWriter(Protocol):
    """Appends entries to one ledger. Each ledger has only one writer."""

    @property
    def reader(self) -> LedgerReader:
        """A reader of the entries that are durable. It is updated before `on_durable` is called, so it can read the
        entries that `on_durable` reports.
        """
        ...

    @property
    def index(self) -> EntryIndex:
        """Sizes, message counts and publish times of the entries that are durable. The writer adds to it; callers must
        not change it.
        """
        ...

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        """Queue `entry` for the next group commit, and return its id (0, 1, …). The entry is not durable yet when this
        returns. `publish_time_ms` is in ms since 1970.

        When a group is durable, the writer calls the function `on_durable` that was passed to `LedgerStorage.create`,
        once for each group, in order.

        Raises:
            LedgerClosedError: `close` was called, or a write failed.
        """
        ...

    def extend(self, entries: Sequence[NewEntry]) -> None:
        """Queue `entries` in their order, as `append` does for one entry. If an error is raised, none of them is
        queued.
        """
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
    """The interface of a ledger storage: creates, fences, opens and deletes ledgers."""

    @property
    def caches(self) -> Caches:
        """The caches that all managed ledgers of this storage share."""
        ...

    @property
    def identity(self) -> str:
        """A text that identifies this storage object: no other object, in this process or in another, has the same
        text.
        """
        ...

    @property
    def bookies(self) -> Sequence[str]:
        """The ids of the bookies that are registered now, sorted; empty for a storage without bookies."""
        ...

    def store_of_racks(self, store: MetadataStore) -> MetadataStore:
        """Return the metadata store that has the racks and groups of the bookies, at its key `/bookies`. This is the
        bookies' metadata store if they have their own, otherwise `store`, the brokers' metadata store.
        """
        ...

    def on_groups(self, primary: Collection[str], secondary: Collection[str]) -> "LedgerStorage":
        """Return a view of this storage that creates new ledgers on the bookies of the groups `primary`, and also on
        those of the groups `secondary` if the former are too few. Apart from this, the view is the same as this
        storage. Callers do not close the view. A storage without bookies returns itself.
        """
        ...

    async def new_id(self, store: MetadataStore, later: Later) -> int:
        """Return the id for a new ledger, which is higher than all ids that this or another broker got before, unless
        the counter of ids was lost. No ledger with this id exists. `store` is the brokers' metadata store.
        `later` is a function that starts a coroutine in the background; it is called with work for which the caller
        need not wait.

        Raises:
            LedgerError: the counter of ids gave many ids of ledgers that exist, or that of bookies is at an id that
                this release cannot use.
            LedgerUnavailableError: the metadata store did not answer.
        """
        ...

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        """Create the empty ledger `ledger_id`, and return its writer, which writes under `epoch`. The writer calls
        `on_durable` with (id of the last durable entry, None) after each group, or with (id of the first failed entry,
        error) after a failure.

        Raises:
            LedgerFullError: the disk is full, or there are too few bookies that accept writes.
            LedgerUnavailableError: the metadata store did not answer; an empty ledger may have been created.
            LedgerError: the ledger exists already.
        """
        ...

    async def fence(self, ledger_id: int, *, epoch: int) -> RecoveredLedger:
        """Fence a ledger and recover it under `epoch`. When this has returned, no entry of a writer with a lower epoch
        is reported as durable any more.

        Returns a reader of all complete entries. An incomplete last entry (a torn tail) is ignored: no writer has
        reported it as durable. A ledger can be fenced again, under the same or a higher epoch.

        Raises:
            LedgerFencedError: the ledger was fenced or created under a higher epoch.
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. If only some entries are damaged, no error is raised, and the
                reader's `damage` has them.
            LedgerUnavailableError: the metadata store or bookies did not answer; it is unknown whether the former owner
                is fenced.
        """
        ...

    async def open(self, ledger_id: int, *, entry_count: int, content: Content = whole_entry) -> LedgerReader:
        """Open a ledger to which no entry is added any more, to read its first `entry_count` entries. The ledger is
        known to have this number of entries.

        `content` is a function that returns, from a stored entry, the part that is the topic's entry. A storage that
        does not store message counts and publish times reads them from this part.

        Raises:
            LedgerNotFoundError: the ledger does not exist.
            LedgerCorruptedError: no entry can be read. If only some entries are damaged, no error is raised, and the
                reader's `damage` has them; entries that are absent at the end count as damaged.
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
        """Return whether more messages can be stored now. A storage in files writes a small file to find out. A storage
        on bookies checks whether enough bookies for a new ledger accept writes.

        Raises:
            LedgerError: the small file cannot be written, and the reason is not a full disk.
        """
        ...

    async def close(self) -> None:
        """Wait until all appended entries are reported as durable or failed, then release files, threads and
        connections. Idempotent.
        """
        ...


async def draw_unused_id(draw: Draw, exists: Exists) -> int:
    """Return an id for a new ledger. `draw` returns the next number of the counter of ids; `exists`, whether a ledger
    has that id.

    A counter that was deleted, or restored from an older copy, gives ids that ledgers have. Such an id must not get
    into a topic's record: when the ledger cannot be created, the owner of the record deletes that id.

    Raises:
        LedgerError: the counter gave _MAX_DRAWS ids of ledgers that exist; later calls continue after them.
    """
    ledger_id = -1
    for _ in range(_MAX_DRAWS):
        ledger_id = await draw()
        if not await exists(ledger_id):
            return ledger_id
    raise LedgerError(
        f"the counter of ledger ids is at {ledger_id}, and the ledgers with its last {_MAX_DRAWS} ids exist: the"
        " counter was deleted, or restored from an older copy. Each attempt to store a message advances it; try"
        " again until it is above all ledgers"
    )


async def draw_counted_id(store: MetadataStore, later: Later) -> int:
    """Return the next number of the counter LEDGER_ID_COUNTER, as the id for a new ledger. `later` is a function that
    starts a coroutine in the background, for work for which the caller need not wait.

    Raises:
        LedgerUnavailableError: the metadata store did not answer.
    """
    try:
        return await next_counter_value(store, LEDGER_ID_COUNTER, later=later)
    except MetadataError as error:
        raise LedgerUnavailableError(str(error)) from error
