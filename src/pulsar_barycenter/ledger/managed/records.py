"""The records of a topic's ledgers and cursors in the metadata store, and the rule by which only the latest owner can
write them.

Each record has the epoch of the owner that wrote it. A new owner first takes over the record: it reads the record and
replaces exactly the version that it read. So it knows everything that was written before.

A `RecordForm` says how records are stored; the broker passes it when it opens a topic. `RecordsWithEpochs` is the form
of clusters without Java brokers. In this form, if a write fails because the record has an unexpected version, the epoch
in the record decides. A higher epoch in the record: another owner has taken over, and the writer gets
LedgerFencedError. The writer's own epoch (an earlier write whose outcome it did not learn) or a lower one (the record
was deleted and created again, and the version number repeats): the writer writes again.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pulsar_barycenter.ledger.errors import LedgerDeletedError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.succession import SUCCESSOR_FIRST, Succession
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError, MetadataError, NotFoundError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore


class LedgerRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A ledger in a topic's list. If it is `closed`, its counts are final; otherwise they are those from when it was
    created.
    """

    ledger_id: int
    entries: int = 0
    size: int = 0
    messages: int = 0
    max_publish_time: int = 0
    closed: bool = False
    created_at: int = 0


class OwnedRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A record in the metadata store that contains the epoch of the owner that wrote it."""

    epoch: int = 0


class ManagedLedgerRecord(OwnedRecord, frozen=True, rename="camel"):
    """The record of a topic: its ledgers, oldest first, and its properties.

    `open` is True while an owner of `epoch`, in the process `opened_by`, has not closed the topic. Ledgers in
    `deleting` do not belong to the topic, but their files may still exist. `compacted` are the compacted ledgers whose
    files may exist; at most one of them is in force (see `compacted_topic`). `terminated` is the position [ledger,
    entry] of the last entry of a terminated topic. The record of a topic without compacted ledgers, or that was not
    terminated, has no such field.
    """

    open: bool = False
    opened_by: str = ""
    ledgers: tuple[LedgerRecord, ...] = ()
    deleting: tuple[int, ...] = ()
    compacted: tuple[LedgerRecord, ...] | UnsetType = UNSET
    terminated: tuple[int, int] | UnsetType = UNSET
    properties: dict[str, str] = {}

    @property
    def compacted_ledgers(self) -> tuple[LedgerRecord, ...]:
        return () if isinstance(self.compacted, UnsetType) else self.compacted


class CursorRecord(OwnedRecord, frozen=True, rename="camel"):
    """The record of a durable cursor. Positions are [ledger, entry], ranges [ledger, first, last], both ends inclusive.

    `partial` are the entries of which only some messages are acknowledged, [ledger, entry, words]; see `partial_acks`
    for the words. The record of a cursor without such entries has no such field. A broker of an earlier release ignores
    the field and drops it when it writes the record. Then these entries are delivered again as a whole.
    """

    mark_delete: tuple[int, int] = (-1, -1)
    ranges: tuple[tuple[int, int, int], ...] = ()
    properties: dict[str, str] = {}
    partial: tuple[tuple[int, int, tuple[int, ...]], ...] | UnsetType = UNSET

    @property
    def partial_acks(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        return () if isinstance(self.partial, UnsetType) else self.partial


R = TypeVar("R", bound=OwnedRecord)

ReadList: TypeAlias = Callable[[str, bytes], ManagedLedgerRecord]
"""Returns a topic's list of ledgers from its path and its stored value, for tools.

Raises InvalidValueError: the value is not a list of that form.
"""


class RecordKeeper(Protocol[R]):
    """Reads and writes one record for one owner, one write at a time."""

    @property
    def path(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def lock(self) -> asyncio.Lock:
        """The lock for this record. Hold it while you build and write the record, so that a later state is never
        overwritten by an earlier one.
        """
        ...

    async def load(self) -> R | None:
        """Read the stored record, remember its version, and return it; None if there is none. An empty value counts as
        a record with default values.

        Raises:
            LedgerUnavailableError: the store did not answer, or the stored value is not a record of this kind.
        """
        ...

    async def take_over(self, record: R) -> bool:
        """Replace the record that `load` returned by `record`. If the stored record has changed since, write nothing
        and return False.

        Raises:
            LedgerUnavailableError: the store did not answer; the record may be written.
        """
        ...

    async def write(self, record: R) -> None:
        """Write `record`, which has the epoch of this keeper's owner.

        Raises:
            LedgerFencedError: a later owner has written the record.
            LedgerDeletedError: the record was deleted.
            LedgerUnavailableError: the store did not answer, or cannot keep the record; the record may be written.
        """
        ...

    async def confirm(self) -> None:
        """Check that this owner's record has not been replaced. If this succeeds, the next owner will read everything
        that was stored before this call. Raises the errors of `write`.
        """
        ...

    async def leave(self) -> None:
        """Make sure that the next owner, a Python or a Java broker, finds all of the record that this owner took over
        or wrote last. Call it when nothing more will be written. Raises the errors of `write`.
        """
        ...

    async def delete(self) -> None:
        """Delete the record. It is no error if it does not exist. Raises the errors of `write`."""
        ...


class RecordForm(Protocol):
    """How the records of topics are stored: their format, what proves that an owner still has a topic, and how many
    open ledgers a list may have. `store` is the metadata store of the cluster, `path` the path of the topic's record,
    `name` an encoded name of a cursor.
    """

    @property
    def compaction_refusal(self) -> str:
        """Why the records cannot name a compacted ledger of this broker, so that it compacts no topic; "" if they
        can.
        """
        ...

    async def check_topic(self, store: MetadataStore, path: str) -> None:
        """Check that this broker can serve a topic, which may not exist yet. Changes no record of the topic.

        Raises:
            ForeignTopicError: only Java brokers can.
            LedgerUnavailableError: the store did not answer, or a record cannot be read.
        """
        ...

    @property
    def succession(self) -> Succession:
        """The order of the steps by which a topic gets its next ledger."""
        ...

    def ledgers(self, store: MetadataStore, path: str, *, epoch: int) -> RecordKeeper[ManagedLedgerRecord]:
        """Return the object that reads and writes a topic's list of ledgers, for the owner with `epoch`."""
        ...

    def cursor(self, store: MetadataStore, path: str, name: str, *, epoch: int) -> RecordKeeper[CursorRecord]:
        """Return the object that reads and writes a cursor's record, for the owner with `epoch`."""
        ...


class RecordsWithEpochs:
    """How records are stored in clusters without Java brokers: as JSON, with the epoch of the owner in each record."""

    __slots__ = ()

    @property
    def compaction_refusal(self) -> str:
        return ""

    async def check_topic(self, store: MetadataStore, path: str) -> None:
        return

    @property
    def succession(self) -> Succession:
        return SUCCESSOR_FIRST

    def ledgers(self, store: MetadataStore, path: str, *, epoch: int) -> RecordKeeper[ManagedLedgerRecord]:
        return EpochKeeper(store, path, ManagedLedgerRecord, epoch=epoch)

    def cursor(self, store: MetadataStore, path: str, name: str, *, epoch: int) -> RecordKeeper[CursorRecord]:
        return EpochKeeper(store, f"{path}/{name}", CursorRecord, epoch=epoch)


RECORDS_WITH_EPOCHS: Final = RecordsWithEpochs()


class EpochKeeper(Generic[R]):
    """Reads and writes a record that has an epoch. A higher epoch in the stored record shows that another owner has
    taken over.
    """

    __slots__ = ("_kind", "_lock", "_store", "epoch", "path", "version")

    def __init__(
        self, store: MetadataStore, path: str, kind: type[R], *, epoch: int, version: int = MUST_NOT_EXIST
    ) -> None:
        self._store = store
        self._kind = kind
        self.path = path
        self.epoch = epoch
        self.version = version
        self._lock: asyncio.Lock | None = None

    @property
    def lock(self) -> asyncio.Lock:
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    async def load(self) -> R | None:
        try:
            found = await self._store.get(self.path)
            self.version = MUST_NOT_EXIST if found is None else found.stat.version
            return None if found is None else decode(self.path, found.value, self._kind)
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error

    async def take_over(self, record: R) -> bool:
        value = msgspec.json.encode(record)
        try:
            stat = await self._store.put(self.path, value, expected_version=self.version)
        except BadVersionError:
            return False
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        self.version = stat.version
        return True

    async def write(self, record: R) -> None:
        value = msgspec.json.encode(record)
        try:
            while True:
                try:
                    stat = await self._store.put(self.path, value, expected_version=self.version)
                except BadVersionError:
                    await self._adopt()
                else:
                    self.version = stat.version
                    return
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error

    async def _adopt(self) -> None:
        creating = self.version == MUST_NOT_EXIST
        found = await self._store.get(self.path)
        if found is None:
            if creating:
                return
            raise LedgerDeletedError(self.path, self.epoch)
        other = decode(self.path, found.value, OwnedRecord)
        if other.epoch > self.epoch:
            raise LedgerFencedError(self.path, self.epoch, other.epoch)
        self.version = found.stat.version

    async def confirm(self) -> None:
        try:
            found = await self._store.get(self.path)
            epoch = None if found is None else decode(self.path, found.value, OwnedRecord).epoch
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        if epoch is None:
            raise LedgerDeletedError(self.path, self.epoch)
        if epoch > self.epoch:
            raise LedgerFencedError(self.path, self.epoch, epoch)

    async def leave(self) -> None:
        return

    async def delete(self) -> None:
        try:
            while True:
                try:
                    await self._store.delete(self.path, expected_version=self.version)
                except NotFoundError:
                    return
                except BadVersionError:
                    await self._adopt()
                else:
                    return
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error


def decode(path: str, value: bytes, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(value or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise InvalidValueError(path, f"the stored value is not a {kind.__name__}: {error}") from error


def read_list_with_epoch(path: str, value: bytes) -> ManagedLedgerRecord:
    """Return a topic's list of ledgers in the form of `RecordsWithEpochs`. Raises as `ReadList`."""
    return decode(path, value, ManagedLedgerRecord)
