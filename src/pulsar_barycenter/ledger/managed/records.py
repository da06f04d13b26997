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
    """A ledger in a topic's list. If `closed` is True, the counts are final. Otherwise the ledger may have more entries
    than they say: they are not updated while the ledger is written.
    """

    ledger_id: int
    entries: int = 0
    size: int = 0
    messages: int = 0
    max_publish_time: int = 0
    closed: bool = False
    created_at: int = 0


class OwnedRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The base class of records in the metadata store that contain the epoch of the owner that wrote them."""

    epoch: int = 0


class ManagedLedgerRecord(OwnedRecord, frozen=True, rename="camel"):
    """The record of a topic: its list of ledgers, oldest first, and its properties.

    `open` is True until the owner of `epoch`, in the process `opened_by`, has closed the topic. The ledgers in
    `deleting` do not belong to the topic any more, but they may still exist. `compacted` are the compacted ledgers that
    may exist; readers use at most one of them (see `compacted_topic`). `terminated` is the position [ledger, entry] of
    the last entry of a terminated topic. A topic without compacted ledgers has no field `compacted`; a topic that was
    not terminated has no field `terminated`.
    """

    open: bool = False
    opened_by: str = ""
    ledgers: tuple[LedgerRecord, ...] = ()
    deleting: tuple[int, ...] = ()
    compacted: tuple[LedgerRecord, ...] | UnsetType = UNSET
    terminated: tuple[int, int] | UnsetType = UNSET
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Check the list, which may come from the store.

        Raises:
            ValueError: a number of a ledger is negative, or the ids do not increase. When a stored value is decoded,
                msgspec raises its DecodeError instead.
        """
        before = -1
        for ledger in self.ledgers:
            if ledger.ledger_id <= before or ledger.entries < 0 or ledger.size < 0:
                raise ValueError(
                    f"ledger {ledger.ledger_id} follows ledger {before}, with the number of entries {ledger.entries:,}"
                    f" and the size {ledger.size:,}; ids must increase from 0 on, and numbers must not be negative"
                )
            before = ledger.ledger_id

    @property
    def compacted_ledgers(self) -> tuple[LedgerRecord, ...]:
        return () if isinstance(self.compacted, UnsetType) else self.compacted


class CursorRecord(OwnedRecord, frozen=True, rename="camel"):
    """The record of a durable cursor. A position is [ledger, entry]. `ranges` are the ranges of acknowledged entries
    after the mark-delete position, [ledger, first, last], both ends inclusive.

    `partial` are the entries of which only some messages are acknowledged, [ledger, entry, words]; `partial_acks`
    describes the words. If there are none, the record has no field `partial`. A broker of an earlier release ignores
    this field, and removes it when it writes the record. All messages of these entries are then delivered again.
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
    """Reads and writes one record in the metadata store for one owner. The caller makes only one write at a time."""

    @property
    def path(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def lock(self) -> asyncio.Lock:
        """The lock for this record. Callers hold it while they build the record and write it, so that a later state is
        never overwritten by an earlier one.
        """
        ...

    async def load(self) -> R | None:
        """Read the stored record, keep its version for the next write, and return the record; None if it does not
        exist. An empty value counts as a record with default values.

        Raises:
            LedgerUnavailableError: the store did not answer, or the stored value is not a record of this kind.
        """
        ...

    async def take_over(self, record: R) -> bool:
        """Replace the record that `load` returned by `record`, and return True. If the stored record has changed since
        `load`, write nothing and return False.

        Raises:
            LedgerUnavailableError: the store did not answer; it is unknown whether `record` was written.
        """
        ...

    async def write(self, record: R) -> None:
        """Write `record`, which has the epoch of this keeper's owner.

        Raises:
            LedgerFencedError: a later owner has written the record; nothing was written.
            LedgerDeletedError: the record was deleted; nothing was written.
            LedgerUnavailableError: the store did not answer, or cannot store the record; it is unknown whether it was
                written.
        """
        ...

    async def confirm(self) -> None:
        """Check that no other owner has written the record. If this returns without an error, the next owner will read
        everything that was stored before this call.

        Raises:
            LedgerFencedError: a later owner has written the record.
            LedgerDeletedError: the record was deleted.
            LedgerUnavailableError: the store did not answer.
        """
        ...

    async def leave(self) -> None:
        """Complete the stored record for the next owner, which may be a Python or a Java broker: if a part of the
        record that was written last is stored in a form that the next owner cannot read, store it in another form.
        Called once, after the last `write`.

        Raises:
            LedgerFencedError: a later owner has written the record.
            LedgerDeletedError: the record was deleted.
            LedgerUnavailableError: the store did not answer; it is unknown whether the record was written.
        """
        ...

    async def delete(self) -> None:
        """Delete the record. It is no error if it does not exist.

        Raises:
            LedgerFencedError: a later owner has written the record; it was not deleted.
            LedgerUnavailableError: the store did not answer; it is unknown whether the record was deleted.
        """
        ...


class RecordForm(Protocol):
    """How the records of topics are stored: their format, how a write fails if another owner has taken over, and how
    many open ledgers a list may have. In the methods, `store` is the metadata store of the cluster, `path` the path of
    the topic's record, and `name` the encoded name of a cursor.
    """

    @property
    def compaction_refusal(self) -> str:
        """Why this broker compacts no topic, as text: records in this form cannot name its compacted ledgers. "" if
        they can.
        """
        ...

    async def check_topic(self, store: MetadataStore, path: str) -> None:
        """Check that this broker can serve the topic whose record is at `path`. A topic that does not exist yet can be
        served. Changes no record of the topic.

        Raises:
            ForeignTopicError: only Java brokers can serve the topic.
            LedgerUnavailableError: the store did not answer, or a record cannot be read.
        """
        ...

    @property
    def succession(self) -> Succession:
        """The order in which a new ledger is listed and the former ledger of the topic is ended."""
        ...

    def ledgers(self, store: MetadataStore, path: str, *, epoch: int) -> RecordKeeper[ManagedLedgerRecord]:
        """Return the object that reads and writes the topic's record, with its list of ledgers, for the owner of
        `epoch`.
        """
        ...

    def cursor(self, store: MetadataStore, path: str, name: str, *, epoch: int) -> RecordKeeper[CursorRecord]:
        """Return the object that reads and writes a cursor's record, for the owner of `epoch`."""
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
    """Reads and writes a record that contains the epoch of its owner. If the stored record has a higher epoch than this
    owner's, another owner has taken over, and writes raise LedgerFencedError.
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
    """Decode `value`, a topic's list of ledgers that is stored at `path` in the form of `RecordsWithEpochs`.

    Raises:
        InvalidValueError: the value is not such a list.
    """
    return decode(path, value, ManagedLedgerRecord)
