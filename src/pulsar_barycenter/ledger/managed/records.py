"""What the metadata store keeps of a topic's ledgers and cursors, and how only the latest owner writes it.

Each record carries the epoch of the owner that wrote it. An owner first takes a record over: it reads it and replaces
just that version, so it knows all that was written before. From then on a write whose expected version fails is
decided by the epochs: under a higher one the writer has been replaced and is told so, under its own (a write whose
outcome it never learned) or a lower one (a version number that came again after a deletion) it writes again.
"""

import asyncio
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pulsar_barycenter.ledger.errors import LedgerDeletedError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError, MetadataError, NotFoundError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore


class LedgerRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A ledger of a topic; while it is not closed the figures are those of its creation."""

    ledger_id: int
    entries: int = 0
    size: int = 0
    messages: int = 0
    max_publish_time: int = 0
    closed: bool = False
    created_at: int = 0


class OwnedRecord(msgspec.Struct, frozen=True, rename="camel"):
    epoch: int = 0


class ManagedLedgerRecord(OwnedRecord, frozen=True, rename="camel"):
    """A topic's ledgers, oldest first. `open` tells that an owner of `epoch`, in the process `opened_by`, has not
    closed it; the ledgers in `deleting` are no longer part of it but their files may still exist. `compacted` are the
    compacted ledgers whose files may exist, one of them in force at most (see `compacted_topic`); a topic that has
    none says nothing of them."""

    open: bool = False
    opened_by: str = ""
    ledgers: tuple[LedgerRecord, ...] = ()
    deleting: tuple[int, ...] = ()
    compacted: tuple[LedgerRecord, ...] | UnsetType = UNSET
    properties: dict[str, str] = {}

    @property
    def compacted_ledgers(self) -> tuple[LedgerRecord, ...]:
        return () if isinstance(self.compacted, UnsetType) else self.compacted


class CursorRecord(OwnedRecord, frozen=True, rename="camel"):
    """A durable cursor: positions are [ledger, entry], ranges [ledger, first, last], both ends inclusive."""

    mark_delete: tuple[int, int] = (-1, -1)
    ranges: tuple[tuple[int, int, int], ...] = ()
    properties: dict[str, str] = {}


R = TypeVar("R", bound=OwnedRecord)


class RecordKeeper:
    """Writes one record on behalf of one owner; one write at a time."""

    __slots__ = ("_lock", "_store", "epoch", "path", "version")

    def __init__(self, store: MetadataStore, path: str, *, epoch: int, version: int = MUST_NOT_EXIST) -> None:
        self._store = store
        self.path = path
        self.epoch = epoch
        self.version = version
        self._lock: asyncio.Lock | None = None

    @property
    def lock(self) -> asyncio.Lock:
        """Held by whoever builds and writes the record, so that a later state is never overwritten by an earlier."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    async def load(self, kind: type[R]) -> R | None:
        """Return the stored record and remember its version; an empty value is a record of defaults.

        Raises:
            LedgerUnavailableError: the store did not answer, or holds something else.
        """
        try:
            found = await self._store.get(self.path)
            self.version = MUST_NOT_EXIST if found is None else found.stat.version
            return None if found is None else decode(self.path, found.value, kind)
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error

    async def take_over(self, record: OwnedRecord) -> bool:
        """Write `record` in place of what `load` returned; False, and nothing written, if it has changed since.

        Raises:
            LedgerUnavailableError: the store did not answer; the write may have happened.
        """
        value = msgspec.json.encode(record)
        try:
            stat = await self._store.put(self.path, value, expected_version=self.version)
        except BadVersionError:
            return False
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        self.version = stat.version
        return True

    async def write(self, record: OwnedRecord) -> None:
        """Write `record`, whose epoch is the keeper's.

        Raises:
            LedgerFencedError: an owner of a higher epoch has written it; LedgerDeletedError: it was deleted.
            LedgerUnavailableError: the store did not answer; the write may have happened.
        """
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
        """Return if the record is still this owner's: whoever takes over will see all that was stored before.

        Raises:
            LedgerFencedError: an owner of a higher epoch has written it; LedgerDeletedError: it was deleted.
            LedgerUnavailableError: the store did not answer.
        """
        try:
            found = await self._store.get(self.path)
            epoch = None if found is None else decode(self.path, found.value, OwnedRecord).epoch
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        if epoch is None:
            raise LedgerDeletedError(self.path, self.epoch)
        if epoch > self.epoch:
            raise LedgerFencedError(self.path, self.epoch, epoch)

    async def delete(self) -> None:
        """Delete the record; one that is absent is no error.

        Raises:
            LedgerFencedError: an owner of a higher epoch has written it.
            LedgerUnavailableError: the store did not answer.
        """
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
        raise InvalidValueError(path, f"not a {kind.__name__}: {error}") from error
