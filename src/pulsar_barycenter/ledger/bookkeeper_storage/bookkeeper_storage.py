"""A `LedgerStorage` whose ledgers are on bookies of Apache BookKeeper."""

import asyncio
import uuid
from collections.abc import Collection, Sequence
from copy import copy
from typing import Final

import structlog

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.client.ledger_reader import LedgerReader
from pulsar_barycenter.bookkeeper.errors import BookKeeperError
from pulsar_barycenter.bookkeeper.machines.placement import ANYWHERE, BookieGroups
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import DEFAULT_ROOT
from pulsar_barycenter.bookkeeper.metadata.ledger_store import DrawId, draw_by_sequential_key
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_reader import Describe, OpenedReader
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_writer import BookieWriter, Confirmations
from pulsar_barycenter.ledger.bookkeeper_storage.marks import epoch_of, marks_of, with_epoch
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors, ledger_name
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.ledger.storage import Content, Later, OnDurable, draw_unused_id, whole_entry
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.counted import count_of

log = structlog.get_logger(__name__)

_MAX_FENCE_ATTEMPTS: Final = 20


async def connect(
    store: MetadataStore,
    *,
    root: str = DEFAULT_ROOT,
    draw: DrawId = draw_by_sequential_key,
    settings: ClientSettings | None = None,
) -> LedgerClient:
    """Return a client of the bookies whose keys are below `root` in `store`. `draw` is the function that gets an unused
    ledger id from `store`. Closing the client does not close `store`.

    Raises:
        LedgerError: there is no cluster of bookies, or its keys have a form that this release of Barycenter cannot
            write.
        MetadataError: the store did not answer.
    """
    try:
        return await LedgerClient.open(store, root=root, draw=draw, settings=settings)
    except BookKeeperError as error:
        raise LedgerError(str(error)) from error


def shortage_of(client: LedgerClient, shape: LedgerShape) -> str:
    """Return why no ledger with the ensemble size in `shape` can be created now, as text: fewer bookies accept writes
    than that. Return "" if enough bookies accept writes.
    """
    writable, wanted = client.registry.writable, shape.ensemble_size
    if len(writable) >= wanted:
        return ""
    names = f" ({', '.join(writable)})" if writable else ""
    return (
        f"{count_of(len(writable), 'bookie')}{names} accept writes, but managedLedgerDefaultEnsembleSize={wanted}:"
        " no message can be stored. Start more bookies, or lower this key and the two quorums"
    )


class BookKeeperStorage:
    """The ledgers of topics on one cluster of bookies. New ledgers get the ensemble size and the quorums in `shape`.

    `describe` is a function that returns the message count and the publish time of an entry. `cluster` is the id of the
    cluster of brokers, which is stored with each new ledger. `has_own_store` is True if the metadata of the bookies is
    in another metadata store than the metadata of the brokers.
    """

    def __init__(
        self,
        client: LedgerClient,
        shape: LedgerShape,
        describe: Describe,
        caches: Caches,
        *,
        cluster: str = "",
        has_own_store: bool = False,
    ) -> None:
        self.client = client
        self._shape = shape
        self._describe = describe
        self._caches = caches
        self._cluster = cluster
        self._has_own_store = has_own_store
        self._groups = ANYWHERE
        self._writers: dict[BookieWriter, None] = {}
        self._identity = uuid.uuid4().hex
        self._is_closed = False

    @property
    def caches(self) -> Caches:
        return self._caches

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def shortage(self) -> str:
        """Why no ledger can be created now, as text: too few bookies accept writes. "" if enough bookies
        accept writes.
        """
        return shortage_of(self.client, self._shape)

    @property
    def bookies(self) -> Sequence[str]:
        registry = self.client.registry
        return sorted((*registry.writable, *registry.read_only))

    def store_of_racks(self, store: MetadataStore) -> MetadataStore:
        return self.client.registry.store if self._has_own_store else store

    def on_groups(self, primary: Collection[str], secondary: Collection[str]) -> "BookKeeperStorage":
        groups = BookieGroups(frozenset(primary), frozenset(secondary))
        if groups == self._groups:
            return self
        placed = copy(self)  # the writers, the client and the caches are shared
        placed._groups = groups
        return placed

    async def new_id(self, store: MetadataStore, later: Later) -> int:
        with ledger_errors(-1):
            return await draw_unused_id(self.client.new_id, self.client.exists)

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> BookieWriter:
        confirmations = Confirmations()
        with ledger_errors(ledger_id):
            ledger = await self.client.create_at(
                ledger_id,
                self._shape,
                confirmations,
                custom=marks_of(self._cluster, epoch),
                groups=self._groups,
            )
        writer = BookieWriter(
            self.client,
            ledger,
            confirmations,
            epoch=epoch,
            max_data_bytes=self.client.max_data_bytes(self._shape),
            on_durable=on_durable,
            on_closed=lambda writer: self._writers.pop(writer, None),
        )
        self._writers[writer] = None
        return writer

    async def fence(self, ledger_id: int, *, epoch: int) -> OpenedReader:
        with ledger_errors(ledger_id):
            await self._store_epoch(ledger_id, epoch)
            ledger = await self.client.recover(ledger_id, password=self._shape.password)
        reader = OpenedReader(ledger, ledger.last_entry + 1, self._describe)
        await reader.measure(ledger.metadata.length)
        return reader

    async def open(self, ledger_id: int, *, entry_count: int, content: Content = whole_entry) -> OpenedReader:
        with ledger_errors(ledger_id):
            ledger = await self._ended(ledger_id)
        return OpenedReader(ledger, entry_count, self._describe, content)

    async def delete(self, ledger_id: int) -> None:
        with ledger_errors(ledger_id):
            await self.client.delete(ledger_id)

    async def has_room(self) -> bool:
        return not self.shortage

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.gather(*(writer.close() for writer in list(self._writers)))
        await self.client.close()

    async def _store_epoch(self, ledger_id: int, epoch: int) -> None:
        """Store `epoch` in the ledger's metadata if the metadata has a lower epoch or none. If it has this epoch
        already, write nothing.

        Raises:
            LedgerFencedError: the ledger's metadata has a higher epoch; nothing was written.
            LedgerUnavailableError: other clients changed the metadata during each attempt.
        """
        for _ in range(_MAX_FENCE_ATTEMPTS):
            stored = await self.client.stored(ledger_id)
            found = epoch_of(stored.metadata.custom)
            if found > epoch:
                raise LedgerFencedError(ledger_name(ledger_id), epoch, found)
            if found == epoch:
                return
            if await self.client.set_custom(ledger_id, stored, with_epoch(stored.metadata.custom, epoch)):
                return
        raise LedgerUnavailableError(
            f"{ledger_name(ledger_id)}: other clients changed the ledger's metadata during each of "
            f"{_MAX_FENCE_ATTEMPTS} attempts. Try again"
        )

    async def _ended(self, ledger_id: int) -> LedgerReader:
        """Return a reader of a ledger to which no broker appends any more. If the ledger is still open, because its
        writer did not close it, recover and close it first.
        """
        password = self._shape.password
        if (await self.client.metadata(ledger_id)).state is LedgerState.CLOSED:
            return await self.client.open_unfenced(ledger_id, password=password)
        log.info("ledger_closed_late", ledger=ledger_id)
        return await self.client.recover(ledger_id, password=password)
