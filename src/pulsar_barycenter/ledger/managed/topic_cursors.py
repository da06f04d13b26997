"""The durable cursors of a topic, which are the children of its record: loaded with it, created, deleted."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.cursor import Cursor, CursorOwner
from pulsar_barycenter.ledger.managed.records import CursorRecord, RecordKeeper
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import decode_local_name, encode_local_name


class TopicCursors:
    """The cursors of `owner`, whose record `keeper` writes."""

    __slots__ = ("_ahead", "_keeper", "_owner", "_store", "by_name")

    def __init__(self, owner: CursorOwner, store: MetadataStore, keeper: RecordKeeper) -> None:
        self._owner = owner
        self._store = store
        self._keeper = keeper
        self._ahead: dict[str, tuple[RecordKeeper, CursorRecord]] = {}
        self.by_name: dict[str, Cursor] = {}

    async def read_ahead(self) -> None:
        """Read what `load` will need while the topic is still being taken over; what cannot be read, it reads again."""
        with suppress(MetadataError):
            names = await self._store.children(self._keeper.path)
            keepers = {name: self._cursor_keeper(name) for name in names}
            found = await asyncio.gather(
                *(each.load(CursorRecord) for each in keepers.values()), return_exceptions=True
            )
            for (name, keeper), record in zip(keepers.items(), found, strict=True):
                if isinstance(record, CursorRecord):
                    self._ahead[name] = keeper, record

    async def load(self) -> None:
        """Take all cursors over under the owner's epoch: from here on the former owner's writes to them fail.

        The topic was taken over before: which cursors there are is read after that, or one that the former owner made
        in between would be missed.

        Raises:
            LedgerFencedError, LedgerUnavailableError
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

    async def _take(self, encoded_name: str, keeper: RecordKeeper, record: CursorRecord | None = None) -> None:
        """Take a cursor over; `record` is what the keeper has read of it, if it has."""
        while True:
            record = record or await keeper.load(CursorRecord)
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

    def _cursor_keeper(self, encoded_name: str) -> RecordKeeper:
        return RecordKeeper(self._store, f"{self._keeper.path}/{encoded_name}", epoch=self._keeper.epoch)

    async def create(self, name: str, mark_delete: Position, properties: Mapping[str, str]) -> Cursor:
        """Store a new cursor, and make sure that the topic is still the owner's.

        Raises:
            LedgerFencedError: it is not; the owner was told.
            LedgerUnavailableError: the metadata store did not take it.
        """
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
        """Delete a cursor; return False if there is none.

        Raises:
            LedgerFencedError: a later owner has the topic; the owner was told.
            LedgerUnavailableError: the metadata store did not answer.
        """
        cursor = self.by_name.pop(name, None)
        if cursor is None:
            return False
        cursor.abandon()
        try:
            await cursor.delete()
        except LedgerFencedError as error:
            self._owner.fenced(error)
            raise
        return True

    def abandon(self) -> None:
        """Have nothing more written; what is not stored is lost."""
        for cursor in self.by_name.values():
            cursor.abandon()
