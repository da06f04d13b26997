"""The durable cursors of a topic: loads them with the topic, creates and deletes them. Their records are children of
the topic's record.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.records import CursorRecord, ManagedLedgerRecord, RecordForm, RecordKeeper
from pulsar_barycenter.ledger.managed.segments import LedgerOwner
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import decode_local_name, encode_local_name


class TopicCursors:
    """The durable cursors of the managed ledger `owner`. `keeper` reads and writes the topic's record; the records of
    the cursors are below its path.
    """

    __slots__ = ("_ahead", "_form", "_keeper", "_owner", "_store", "by_name", "deleting")

    def __init__(
        self, owner: LedgerOwner, store: MetadataStore, form: RecordForm, keeper: RecordKeeper[ManagedLedgerRecord]
    ) -> None:
        self._owner = owner
        self._store = store
        self._form = form
        self._keeper = keeper
        self._ahead: dict[str, tuple[RecordKeeper[CursorRecord], CursorRecord]] = {}
        self.by_name: dict[str, Cursor] = {}
        self.deleting: dict[str, Cursor] = {}
        """Cursors whose deletion has begun and that the store may still have, because it did not answer."""

    async def read_ahead(self) -> None:
        """Read the records of the cursors before the topic is taken over. An error is ignored: `load` reads again what
        could not be read.
        """
        with suppress(MetadataError):
            names = await self._store.children(self._keeper.path)
            keepers = {name: self._cursor_keeper(name) for name in names}
            found = await asyncio.gather(*(keeper.load() for keeper in keepers.values()), return_exceptions=True)
            for (name, keeper), record in zip(keepers.items(), found, strict=True):
                if isinstance(record, CursorRecord):
                    self._ahead[name] = keeper, record

    async def load(self) -> None:
        """Take over all cursors: write the owner's epoch into their records. After that, the former owner's writes to
        these records fail.

        Call this after the topic was taken over. It reads the names of the cursors again, because the former owner may
        have created a cursor after `read_ahead`.

        Raises:
            LedgerFencedError, LedgerUnavailableError: a cursor could not be taken over.
        """
        ahead, self._ahead = self._ahead, {}
        try:
            async with asyncio.TaskGroup() as group:
                for name, (keeper, record) in ahead.items():
                    group.create_task(self._take(name, keeper, record), name=f"load-cursor-{name}")
                for name in await self._names():
                    if name not in ahead:
                        group.create_task(self._take(name, self._cursor_keeper(name)), name=f"load-cursor-{name}")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _names(self) -> list[str]:
        try:
            return await self._store.children(self._keeper.path)
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error

    async def _take(
        self, encoded_name: str, keeper: RecordKeeper[CursorRecord], record: CursorRecord | None = None
    ) -> None:
        """Take over one cursor. `record` is its stored record if `keeper` has read it already; None if it has to be
        read.
        """
        while True:
            record = record or await keeper.load()
            if record is None:
                return
            if await keeper.take_over(msgspec.structs.replace(record, epoch=keeper.epoch)):
                break
            record = None
        name = decode_local_name(encoded_name)
        mark_delete = Position(*record.mark_delete)
        cursor = Cursor(self._owner, name, mark_delete, keeper=keeper, properties=record.properties)
        cursor.restore(record)
        self.by_name[name] = cursor

    def _cursor_keeper(self, encoded_name: str) -> RecordKeeper[CursorRecord]:
        keeper = self._keeper
        return self._form.cursor(self._store, keeper.path, encoded_name, epoch=keeper.epoch)

    async def create(self, name: str, mark_delete: Position, properties: Mapping[str, str]) -> Cursor:
        """Store a new cursor, then check that this owner still has the topic. If a cursor of that name exists already,
        it is deleted first.

        Raises:
            LedgerFencedError: a later owner has the topic; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not accept the cursor.
        """
        await self.delete(name)
        keeper = self._cursor_keeper(encode_local_name(name))
        cursor = Cursor(self._owner, name, mark_delete, keeper=keeper, properties=properties)
        self.by_name[name] = cursor
        try:
            await cursor.store()
            await self._keeper.confirm()
        except LedgerError as error:
            self.by_name.pop(name, None)
            cursor.abandon()
            if isinstance(error, LedgerFencedError):
                self._owner.fenced(error)
            raise
        return cursor

    async def delete(self, name: str) -> bool:
        """Delete a cursor and return True; return False if it does not exist.

        Raises:
            LedgerFencedError: a later owner has the topic; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not answer. The cursor is then in `deleting`, and the caller
                has to call this again.
        """
        cursor = self.by_name.pop(name, None) or self.deleting.get(name)
        if cursor is None:
            return False
        self.deleting[name] = cursor
        cursor.abandon()
        try:
            await cursor.delete()
        except LedgerFencedError as error:
            self._owner.fenced(error)
            raise
        self.deleting.pop(name, None)
        return True

    def abandon(self) -> None:
        """Never write the records of the cursors again. Acknowledgements that are not stored are lost."""
        for cursor in self.by_name.values():
            cursor.abandon()
