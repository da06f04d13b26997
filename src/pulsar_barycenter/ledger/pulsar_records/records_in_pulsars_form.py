"""Reads and writes the records of topics as Pulsar stores them, so that Java and Python brokers can own topics in turn.

The records have no epoch. An owner replaces exactly the version that it read or wrote last. If the version is another
one, another owner has the topic, and this one stops. There is one exception: the store did not answer earlier writes of
this owner, one of which took effect. The version is then the next one, and the value has the bytes of that write; the
owner continues with that version.

The ledger of a cursor is written and closed before the cursor's key names it. It is deleted after the key no longer
names it. A crash in between leaves a ledger that no key names, as with Pulsar.

Source: `MetaStoreImpl` and `ManagedCursorImpl` of Pulsar.
"""

import asyncio
import hashlib
from collections.abc import Awaitable
from typing import Protocol, TypeVar

import structlog

from pulsar_barycenter.ledger.errors import (
    LedgerDeletedError,
    LedgerError,
    LedgerFencedError,
    LedgerUnavailableError,
)
from pulsar_barycenter.ledger.managed.records import CursorRecord, ManagedLedgerRecord, RecordKeeper
from pulsar_barycenter.ledger.managed.succession import END_FIRST, Succession
from pulsar_barycenter.ledger.pulsar_records.cursors_mapping import (
    NO_LEDGER,
    info_of_cursor,
    needs_ledger,
    position_of_cursor,
    record_of_cursor,
    record_of_position,
)
from pulsar_barycenter.ledger.pulsar_records.errors import PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.ledgers_mapping import info_of_ledgers, record_of_ledgers
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    NONE,
    ManagedCursorInfo,
    ManagedLedgerInfo,
)
from pulsar_barycenter.ledger.pulsar_records.record_codec import (
    StoredCursor,
    StoredLedgers,
    read_cursor,
    read_ledgers,
    read_position,
    write_position,
    write_record,
)
from pulsar_barycenter.ledger.pulsar_records.topic_check import TopicCheck
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError, NotFoundError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore, Record
from pulsar_barycenter.naming.topic import decode_local_name

log = structlog.get_logger(__name__)

T = TypeVar("T")


class CursorLedgers(Protocol):
    """The ledgers on bookies that store the cursors which are too large for their keys."""

    async def last_entry(self, ledger_id: int) -> bytes | None:
        """Fence a ledger, so that its former writer can add no entry, and return its last entry. None if the ledger
        does not exist or has no entry.

        Raises:
            LedgerError: the ledger cannot be read now.
        """
        ...

    async def write(self, topic: str, cursor: str, entry: bytes) -> int:
        """Create a ledger, write `entry` as its only entry, close it, and return its id. The names `topic` and `cursor`
        are stored in the custom metadata of the ledger.

        Raises:
            LedgerError: the entry was not stored.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger. It is no error if it does not exist.

        Raises:
            LedgerError: it is unknown whether the ledger was deleted.
        """
        ...


class RecordReplacedError(LedgerFencedError):
    """Another owner has written the record of a topic or cursor: its version is not the one that this owner has read or
    written last. Records in Pulsar's form have no epoch, so the epoch of the other owner is not known.
    """

    def __init__(self, path: str, version: int, found: int) -> None:
        LedgerError.__init__(
            self, f"{path}: this owner wrote version {version}, but another owner has written version {found} since"
        )
        self.epoch = version


class RecordsInPulsarsForm:
    """How records of topics and cursors are stored in clusters with Java brokers: in Pulsar's form. `cursor_ledgers`
    stores the cursors that are too large for their keys.
    """

    __slots__ = ("_check", "_clock", "_cursor_ledgers")

    def __init__(self, cursor_ledgers: CursorLedgers, clock: Clock) -> None:
        self._cursor_ledgers = cursor_ledgers
        self._clock = clock
        self._check = TopicCheck(cursor_ledgers.last_entry, clock)

    @property
    def compaction_refusal(self) -> str:
        return (
            "with barycenterLedgerRecords=pulsar, brokers of Barycenter compact no topic, because Java brokers cannot "
            "read their compacted ledgers. Compact it while a Java broker serves it; only Java brokers serve it then"
        )

    async def check_topic(self, store: MetadataStore, path: str) -> None:
        try:
            await self._check.run(store, path)
        except PulsarRecordError as error:
            raise _unusable(path, error) from error

    @property
    def succession(self) -> Succession:
        return END_FIRST

    def ledgers(self, store: MetadataStore, path: str, *, epoch: int) -> RecordKeeper[ManagedLedgerRecord]:
        return LedgersKeeper(VersionedValue(store, path), epoch)

    def cursor(self, store: MetadataStore, path: str, name: str, *, epoch: int) -> RecordKeeper[CursorRecord]:
        return CursorKeeper(VersionedValue(store, f"{path}/{name}"), epoch, self._cursor_ledgers, self._clock)


class VersionedValue:
    """The value of a key that only the owner of a topic writes. Each write succeeds only if the key still has the
    version that this owner has read or written last (the *known version*).
    """

    __slots__ = ("_lock", "_store", "_unanswered", "path", "version")

    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self.path = path
        self.version = MUST_NOT_EXIST
        self._unanswered: set[bytes] = set()
        self._lock: asyncio.Lock | None = None

    @property
    def lock(self) -> asyncio.Lock:
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    async def load(self) -> bytes | None:
        """Read the value, and keep its version as the known version. Return None if the key does not exist.

        Raises:
            LedgerUnavailableError: the store did not answer.
        """
        found = await self._answer(self._store.get(self.path))
        self._unanswered.clear()
        self.version = MUST_NOT_EXIST if found is None else found.stat.version
        return None if found is None else found.value

    async def put(self, value: bytes) -> bool:
        """Write `value` and return True, if the key still has the known version. Otherwise write nothing and return
        False.

        Raises:
            LedgerUnavailableError: the store did not answer; it is unknown whether the value was written.
        """
        is_new = self.version == MUST_NOT_EXIST
        try:
            stat = await self._answer(self._store.put(self.path, value, expected_version=self.version))
        except BadVersionError:
            return False
        except LedgerUnavailableError:
            self._unanswered.add(_digest(value))
            raise
        self.version = stat.version
        self._unanswered.clear()
        if is_new and not value:
            # ZooKeeper takes a node of the first version without data for one that has only nodes below it
            return await self.put(value)
        return True

    async def replace(self, value: bytes) -> None:
        """Write `value`. The key must have the known version, or the version that an earlier write of this owner
        created which the store did not answer.

        Raises:
            LedgerFencedError: another owner has written the key, or deleted it; nothing was written.
            LedgerUnavailableError: the store did not answer; it is unknown whether the value was written.
        """
        while not await self.put(value):
            found = await self._answer(self._store.get(self.path))
            if not self._is_own(found):
                raise self._lost(found)

    async def confirm(self) -> None:
        """Check that no other owner has written the key.

        Raises:
            LedgerFencedError: another owner has written the key, or deleted it.
            LedgerUnavailableError: the store did not answer.
        """
        found = await self._answer(self._store.get(self.path))
        if (found is None or found.stat.version != self.version) and not self._is_own(found):
            raise self._lost(found)

    async def delete(self) -> None:
        """Delete the key. It is no error if it does not exist.

        Raises:
            LedgerFencedError: another owner has written the key; it was not deleted.
            LedgerUnavailableError: the store did not answer; it is unknown whether the key was deleted.
        """
        while True:
            try:
                return await self._answer(self._store.delete(self.path, expected_version=self.version))
            except NotFoundError:
                return None
            except BadVersionError:
                found = await self._answer(self._store.get(self.path))
                if found is not None and not self._is_own(found):
                    raise self._lost(found) from None

    def _is_own(self, found: Record | None) -> bool:
        """Return whether `found`, the key as it was read, was written by an earlier write of this owner that the store
        did not answer. If so, its version becomes the known version. `found` is None if the key does not exist.
        """
        if found is None or found.stat.version != self.version + 1 or _digest(found.value) not in self._unanswered:
            return False
        self.version = found.stat.version
        self._unanswered.clear()
        return True

    def _lost(self, found: Record | None) -> LedgerFencedError:
        if found is None:
            return LedgerDeletedError(self.path, self.version)
        return RecordReplacedError(self.path, self.version, found.stat.version)

    async def _answer(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except (BadVersionError, NotFoundError):
            raise
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error


class LedgersKeeper:
    """Reads and writes the record of a topic, with its list of ledgers, in Pulsar's form."""

    __slots__ = ("_stored", "_value", "epoch")

    def __init__(self, value: VersionedValue, epoch: int) -> None:
        self._value = value
        self._stored = StoredLedgers(ManagedLedgerInfo(), NONE)
        self.epoch = epoch

    @property
    def path(self) -> str:
        return self._value.path

    @property
    def lock(self) -> asyncio.Lock:
        return self._value.lock

    async def load(self) -> ManagedLedgerRecord | None:
        value = await self._value.load()
        if value is None:
            self._stored = StoredLedgers(ManagedLedgerInfo(), NONE)
            return None
        try:
            self._stored = read_ledgers(self.path, value)
            return record_of_ledgers(self._stored.info)
        except PulsarRecordError as error:
            raise _unusable(self.path, error) from error

    async def take_over(self, record: ManagedLedgerRecord) -> bool:
        stored, value = self._built(record)
        if not await self._value.put(value):
            return False
        self._stored = stored
        return True

    async def write(self, record: ManagedLedgerRecord) -> None:
        stored, value = self._built(record)
        await self._value.replace(value)
        self._stored = stored

    async def confirm(self) -> None:
        await self._value.confirm()

    async def leave(self) -> None:
        return

    async def delete(self) -> None:
        await self._value.delete()

    def _built(self, record: ManagedLedgerRecord) -> tuple[StoredLedgers, bytes]:
        try:
            stored = StoredLedgers(info_of_ledgers(self._stored.info, record), self._stored.compression)
            return stored, write_record(self.path, stored)
        except PulsarRecordError as error:
            raise _unusable(self.path, error) from error


class CursorKeeper:
    """Reads and writes a cursor's record in Pulsar's form: in the cursor's key, or in a ledger that the key names.

    Java brokers write partly acknowledged entries into keys and ledgers, but read them from ledgers only. A new ledger
    for each write would cost too much. So a record that fits into the key is written to the key, even if it has partly
    acknowledged entries. Only when the owner leaves the topic, such a record is written to a ledger, for the next
    owner.
    """

    __slots__ = ("_clock", "_last", "_ledgers", "_name", "_stored", "_topic", "_unnamed", "_value", "epoch")

    def __init__(self, value: VersionedValue, epoch: int, ledgers: CursorLedgers, clock: Clock) -> None:
        _, _, topic = value.path.removeprefix("/").partition("/")
        self._topic, _, encoded = topic.rpartition("/")
        self._name = decode_local_name(encoded)
        self._value = value
        self._ledgers = ledgers
        self._clock = clock
        self._stored = StoredCursor(ManagedCursorInfo(cursorsLedgerId=NO_LEDGER), NONE)
        self._last = CursorRecord()
        """The record that this owner took over or wrote last."""
        self._unnamed: set[int] = set()
        """The ledgers that this owner made, and that the last known value of the key does not name."""
        self.epoch = epoch

    @property
    def path(self) -> str:
        return self._value.path

    @property
    def lock(self) -> asyncio.Lock:
        return self._value.lock

    async def load(self) -> CursorRecord | None:
        value = await self._value.load()
        if value is None:
            self._stored = StoredCursor(ManagedCursorInfo(cursorsLedgerId=NO_LEDGER), NONE)
            return None
        try:
            self._stored = read_cursor(self.path, value)
            return await self._record(self._stored.info)
        except PulsarRecordError as error:
            raise _unusable(self.path, error) from error

    async def _record(self, info: ManagedCursorInfo) -> CursorRecord:
        ledger_id = info.cursorsLedgerId
        if ledger_id == NO_LEDGER:
            return record_of_cursor(self._name, info)
        entry = await self._ledgers.last_entry(ledger_id)
        if entry is None:
            # as Pulsar: what was acknowledged after the key was written is delivered again
            log.warning("cursor_ledger_lost", path=self.path, ledger=ledger_id)
            return record_of_cursor(self._name, info)
        return record_of_position(self._name, info, read_position(ledger_id, entry))

    async def take_over(self, record: CursorRecord) -> bool:
        stored, value = await self._built(record, in_ledger=needs_ledger(record))
        if not await self._value.put(value):
            await self._delete(stored.info.cursorsLedgerId)
            return False
        await self._adopt(stored)
        self._last = record
        return True

    async def write(self, record: CursorRecord) -> None:
        await self._write(record, in_ledger=needs_ledger(record))

    async def leave(self) -> None:
        if self._last.partial_acks and self._stored.info.cursorsLedgerId == NO_LEDGER:
            await self._write(self._last, in_ledger=True)

    async def _write(self, record: CursorRecord, *, in_ledger: bool) -> None:
        stored, value = await self._built(record, in_ledger=in_ledger)
        try:
            await self._value.replace(value)
        except LedgerFencedError:
            # not those of writes without an answer: the later owner may have found them
            await self._delete(stored.info.cursorsLedgerId)
            raise
        await self._adopt(stored)
        self._last = record

    async def confirm(self) -> None:
        await self._value.confirm()

    async def delete(self) -> None:
        await self._value.delete()
        for ledger_id in [self._stored.info.cursorsLedgerId, *self._unnamed]:
            await self._delete(ledger_id)

    async def _built(self, record: CursorRecord, *, in_ledger: bool) -> tuple[StoredCursor, bytes]:
        before, compression = self._stored
        now_ms = self._clock.now_ms()
        try:
            info = info_of_cursor(self._name, before, record, ledger_id=NO_LEDGER, now_ms=now_ms)
            if in_ledger:
                entry = write_position(position_of_cursor(info, record))
                ledger_id = await self._ledgers.write(self._topic, self._name, entry)
                self._unnamed.add(ledger_id)
                info = info_of_cursor(self._name, before, record, ledger_id=ledger_id, now_ms=now_ms)
            stored = StoredCursor(info, compression)
            return stored, write_record(self.path, stored)
        except PulsarRecordError as error:
            raise _unusable(self.path, error) from error

    async def _adopt(self, stored: StoredCursor) -> None:
        self._unnamed.add(self._stored.info.cursorsLedgerId)
        self._unnamed.discard(stored.info.cursorsLedgerId)
        self._stored = stored
        for ledger_id in list(self._unnamed):
            await self._delete(ledger_id)

    async def _delete(self, ledger_id: int) -> None:
        self._unnamed.discard(ledger_id)
        if ledger_id == NO_LEDGER:
            return
        try:
            await self._ledgers.delete(ledger_id)
        except LedgerError as error:
            log.warning("cursor_ledger_not_deleted", path=self.path, ledger=ledger_id, error=str(error))


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _unusable(path: str, error: PulsarRecordError) -> LedgerUnavailableError:
    text = str(error)
    return LedgerUnavailableError(text if text.startswith(path) else f"{path}: {text}")
