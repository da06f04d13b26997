"""Creates, opens, recovers and deletes ledgers.

client = await LedgerClient.open(store)
writer = await client.create(LedgerShape(3, 3, 2), on_confirmed)
reader = await client.recover(ledger)
"""

import asyncio
import random
import weakref
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial

from pulsar_barycenter.bookkeeper.client.bookie_pool import BookiePool
from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.driver import Driver, send_read
from pulsar_barycenter.bookkeeper.client.ledger_reader import LedgerReader
from pulsar_barycenter.bookkeeper.client.ledger_writer import LedgerWriter, OnConfirmed
from pulsar_barycenter.bookkeeper.client.room import Room
from pulsar_barycenter.bookkeeper.errors import UnreadableEntryError, WrongPasswordError
from pulsar_barycenter.bookkeeper.machines.actions import Confirmed, Ended, Failed, Stopped, StoredLedger, Verdict
from pulsar_barycenter.bookkeeper.machines.last_confirmed import Coverage, LastConfirmedRead
from pulsar_barycenter.bookkeeper.machines.placement import ANYWHERE, BookieGroups
from pulsar_barycenter.bookkeeper.machines.recovery import Recovery
from pulsar_barycenter.bookkeeper.machines.writer import Writer
from pulsar_barycenter.bookkeeper.metadata.bookie_registry import BookieRegistry
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import DEFAULT_ROOT
from pulsar_barycenter.bookkeeper.metadata.ledger_store import DrawId, LedgerStore, draw_by_sequential_key
from pulsar_barycenter.bookkeeper.wire.digests import DigestType, EntryCodec, master_key
from pulsar_barycenter.bookkeeper.wire.packets import ADD_HEAD_BYTES
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.store import MetadataStore


class LedgerClient:
    """One client of a cluster of bookies. All methods run on the event loop that opened it."""

    def __init__(self, store: LedgerStore, registry: BookieRegistry, settings: ClientSettings) -> None:
        self.registry = registry
        self._store = store
        self._settings = settings
        self._room = Room(settings.max_unconfirmed_bytes)
        self._pool = BookiePool(registry, settings, random.Random())
        self._writers: weakref.WeakSet[LedgerWriter] = weakref.WeakSet()

    @staticmethod
    async def open(
        store: MetadataStore,
        *,
        root: str = DEFAULT_ROOT,
        draw: DrawId = draw_by_sequential_key,
        settings: ClientSettings | None = None,
    ) -> "LedgerClient":
        """Open a client of the cluster of bookies whose keys in the metadata store are below `root`. `draw` makes the
        id of a new ledger. Closing the client does not close `store`.

        Raises:
            ClusterLayoutError: there is no cluster, or its keys are of a form that this client does not write.
            MetadataError: the store did not answer.
        """
        ledgers = await LedgerStore.open(store, root=root, draw=draw)
        registry = BookieRegistry(store, root)
        await registry.start()
        return LedgerClient(ledgers, registry, settings or ClientSettings())

    @property
    def instance_id(self) -> str:
        """The UUID of the cluster of bookies."""
        return self._store.instance_id

    async def create(
        self, shape: LedgerShape, on_confirmed: OnConfirmed, *, custom: Mapping[str, bytes] | None = None
    ) -> LedgerWriter:
        """Create an empty ledger and open it for writing. `custom` is stored in the ledger's metadata, for other
        programs to read.

        Raises:
            TooFewBookiesError: there are fewer writable bookies than the ensemble size; nothing was written.
            ClusterLayoutError: the cluster uses ledger ids of a length that this client does not create.
            MetadataError: the store did not answer. The ledger may exist; if so, it has no entries.
        """
        ledger, metadata, version = await self._store.create(self._wanted(shape, custom or {}))
        return self._writer(ledger, StoredLedger(metadata, version), shape, on_confirmed)

    async def new_id(self) -> int:
        """Return a new ledger id for `create_at`. No other client of the cluster gets this id.

        Raises:
            ClusterLayoutError: the cluster uses ledger ids of a length that this client does not create.
            MetadataError: the store did not answer.
        """
        return await self._store.draw()

    async def create_at(
        self,
        ledger: int,
        shape: LedgerShape,
        on_confirmed: OnConfirmed,
        *,
        custom: Mapping[str, bytes] | None = None,
        groups: BookieGroups = ANYWHERE,
    ) -> LedgerWriter:
        """Create an empty ledger with an id from `new_id`, and open it for writing. `custom` is stored in the ledger's
        metadata. `groups` are the groups of bookies on which the ledger may be; see `placement.preferred`.

        Raises:
            LedgerExistsError: the ledger exists already.
            TooFewBookiesError, MetadataError: for the same reasons as in `create`.
        """
        stored = StoredLedger(*await self._store.create_at(ledger, self._wanted(shape, custom or {}, groups)))
        return self._writer(ledger, stored, shape, on_confirmed, groups)

    def continue_at(
        self, ledger: int, stored: StoredLedger, shape: LedgerShape, on_confirmed: OnConfirmed, *, length: int
    ) -> LedgerWriter:
        """Open for writing a ledger that a former process of this program created and did not close. `stored` is its
        metadata: the ledger is OPEN, and has the numbers of `shape`.

        Writing continues at the first entry of the ledger's last segment. All entries before it are confirmed, and have
        `length` bytes of data in total. The caller has to make sure that no other client writes to the ledger, and has
        to append, from that entry on, the same entries as the former process.
        """
        return self._writer(ledger, stored, shape, on_confirmed, length=length)

    def _wanted(
        self, shape: LedgerShape, custom: Mapping[str, bytes], groups: BookieGroups = ANYWHERE
    ) -> LedgerMetadata:
        return LedgerMetadata(
            shape.ensemble_size,
            shape.write_quorum,
            shape.ack_quorum,
            (Segment(0, self._pool.choose(shape.ensemble_size, groups)),),
            digest_type=shape.digest_type,
            password=shape.password,
            custom=dict(custom),
        )

    def _writer(
        self,
        ledger: int,
        stored: StoredLedger,
        shape: LedgerShape,
        on_confirmed: OnConfirmed,
        groups: BookieGroups = ANYWHERE,
        length: int = 0,
    ) -> LedgerWriter:
        codec = EntryCodec(ledger, shape.digest_type, shape.password)
        machine = Writer(
            ledger,
            stored,
            codec,
            partial(self._pool.replace, groups=groups),
            max_data_bytes=self.max_data_bytes(shape),
            length=length,
        )
        writer = LedgerWriter(machine, master_key(shape.password), self._pool, self._store, self._room, on_confirmed)
        self._writers.add(writer)
        return writer

    def max_data_bytes(self, shape: LedgerShape) -> int:
        """Return how many bytes of data an entry of a ledger with this shape may have at most (inclusive), so that
        bookies accept it.
        """
        return self._settings.max_frame_bytes - ADD_HEAD_BYTES - EntryCodec(0, shape.digest_type, b"").overhead

    def reader_of(self, writer: LedgerWriter) -> LedgerReader:
        """Return a reader of the entries that `writer` has confirmed, also of those that it confirms later."""
        codec = _codec(writer.ledger, writer.metadata, writer.metadata.password)
        return LedgerReader(
            writer.ledger,
            lambda: writer.metadata,
            lambda: writer.last_confirmed,
            lambda: writer.length,
            codec,
            self._pool,
            self._store,
            self._settings,
        )

    async def recover(self, ledger: int, *, password: bytes = b"") -> LedgerReader:
        """Take a ledger over: its writer confirms no entry any more. Return a reader of all its entries.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            WrongPasswordError: the ledger was created with another password; nothing has changed.
            RecoveryError: the ledger cannot be recovered now. Its writer may be fenced already.
            MetadataError: the store did not answer.
        """
        stored = StoredLedger(*await self._store.read(ledger))
        codec = _codec(ledger, stored.metadata, password)
        machine = Recovery(ledger, stored, codec, self._pool.replace)
        end: asyncio.Future[LedgerMetadata] = asyncio.get_running_loop().create_future()

        def over(result: Confirmed | Stopped | Ended | Failed) -> None:
            if end.done():
                return
            if isinstance(result, Ended):
                end.set_result(result.stored.metadata)
            elif isinstance(result, Failed):
                end.set_exception(result.error)

        driver = Driver(
            ledger, master_key(password), machine, self._pool, self._store, over, on_read=machine.read_answered
        )
        try:
            driver.act(machine.start())
            metadata = await end
        finally:
            driver.close()
        return self._reader(ledger, metadata, metadata.last_entry, metadata.length, codec)

    async def open_unfenced(self, ledger: int, *, password: bytes = b"") -> LedgerReader:
        """Return a reader of a ledger without taking it over. If its writer still writes it, only entries that are
        known to be confirmed are readable.

        This changes nothing. The reader may lack the last confirmed entries of a ledger that is not closed.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            WrongPasswordError: the ledger was created with another password.
            UnreadableEntryError: too many bookies did not answer, so that the last entry is unknown.
            MetadataError: the store did not answer.
        """
        metadata, _ = await self._store.read(ledger)
        codec = _codec(ledger, metadata, password)
        if metadata.state is LedgerState.CLOSED:
            return self._reader(ledger, metadata, metadata.last_entry, metadata.length, codec)
        machine = await self._ask_last_confirmed(ledger, metadata, codec)
        length = max((answer.length for answer in machine.answers), default=0)
        return self._reader(ledger, metadata, machine.last_confirmed, length, codec)

    async def newest_entry(self, ledger: int, *, password: bytes = b"") -> bytes | None:
        """Return the data of the newest entry that a bookie has of a ledger, None if there is none. Of a ledger that is
        not closed, this entry may not be confirmed yet.

        This changes nothing. Raises the errors of `open_unfenced`, and those of `LedgerReader.read`.
        """
        metadata, _ = await self._store.read(ledger)
        codec = _codec(ledger, metadata, password)
        if metadata.state is not LedgerState.CLOSED:
            answers = (await self._ask_last_confirmed(ledger, metadata, codec)).answers
            if answers:
                return max(answers, key=lambda answer: answer.entry).data
        reader = await self.open_unfenced(ledger, password=password)
        if reader.last_entry < 0:
            return None
        (data,) = await reader.read(reader.last_entry, reader.last_entry, max_bytes=0)
        return data

    async def metadata(self, ledger: int) -> LedgerMetadata:
        """Return the metadata of a ledger from the metadata store.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            LedgerMetadataError: the stored value cannot be read.
            MetadataError: the store did not answer.
        """
        return (await self._store.read(ledger))[0]

    async def exists(self, ledger: int) -> bool:
        """Return whether the metadata store has a ledger with this id.

        Raises:
            MetadataError: the store did not answer.
        """
        return await self._store.exists(ledger)

    async def set_custom(self, ledger: int, stored: StoredLedger, custom: Mapping[str, bytes]) -> bool:
        """Replace `custom` in the metadata of a ledger, if the metadata is still `stored`, as it was read. Return
        whether it was replaced; if the metadata has changed, nothing is written.

        Raises:
            MetadataError: it is unknown whether the write took effect.
        """
        try:
            await self._store.swap(ledger, replace(stored.metadata, custom=dict(custom)), stored.version)
        except BadVersionError:
            return False
        return True

    async def stored(self, ledger: int) -> StoredLedger:
        """Return the metadata of a ledger, and the version of its key in the metadata store. Raises the errors of
        `metadata`.
        """
        return StoredLedger(*await self._store.read(ledger))

    def ids(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers of the cluster, also those that other programs created; see
        `LedgerStore.ids`.
        """
        return self._store.ids()

    async def delete(self, ledger: int) -> None:
        """Delete the metadata of a ledger; bookies delete its entries later. It is no error if the ledger does not
        exist.

        Raises:
            MetadataError: the store did not answer. The metadata may have been deleted.
        """
        await self._store.delete(ledger)

    async def close(self) -> None:
        """End all connections. Ledgers that are open for writing are not closed: a later owner of a ledger recovers
        it.
        """
        for writer in list(self._writers):
            writer.abandon()
        self._writers.clear()
        self.registry.close()
        await self._pool.close()

    def _reader(self, ledger: int, metadata: LedgerMetadata, last: int, length: int, codec: EntryCodec) -> LedgerReader:
        return LedgerReader(
            ledger, lambda: metadata, lambda: last, lambda: length, codec, self._pool, self._store, self._settings
        )

    async def _ask_last_confirmed(self, ledger: int, metadata: LedgerMetadata, codec: EntryCodec) -> LastConfirmedRead:
        machine = LastConfirmedRead(metadata, codec, is_fencing=False)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(bookie: str, verdict: Verdict, body: bytes) -> None:
            machine.answered(bookie, verdict, body)
            if machine.coverage is not Coverage.ASKING and not over.done():
                over.set_result(None)

        for read in machine.start():
            send_read(self._pool, ledger, b"", read, lambda *answer, bookie=read.bookie: told(bookie, *answer))
        await over
        if machine.coverage is Coverage.UNAUTHORIZED:
            raise WrongPasswordError(ledger)
        if machine.coverage is Coverage.UNCOVERED:
            raise UnreadableEntryError(
                f"ledger {ledger}: {', '.join(sorted(machine.silent))} did not answer, so the last entry of the "
                "ledger is unknown. Start these bookies, then try again"
            )
        return machine


def _codec(ledger: int, metadata: LedgerMetadata, password: bytes) -> EntryCodec:
    """Return the object that packs and verifies the entries of a ledger.

    Raises:
        WrongPasswordError: the ledger was created with another password.
    """
    if metadata.digest_type is None:
        return EntryCodec(ledger, DigestType.CRC32, password)  # what clients of that time wrote by default
    if metadata.password != password:
        raise WrongPasswordError(ledger)
    return EntryCodec(ledger, metadata.digest_type, password)
