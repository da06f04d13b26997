"""The durable cursors of a topic, which are the children of its record: loaded with it, created, deleted."""

import asyncio
from collections.abc import Mapping

import msgspec

from barycenter.ledger.errors import LedgerError, LedgerFencedError, LedgerUnavailableError
from barycenter.ledger.managed.cursor import Cursor, CursorOwner
from barycenter.ledger.managed.records import CursorRecord, RecordKeeper
from barycenter.ledger.position import Position
from barycenter.metadata.errors import MetadataError
from barycenter.metadata.store import MetadataStore
from barycenter.naming.topic import decode_local_name, encode_local_name


class TopicCursors:
    """The cursors of `owner`, whose record `keeper` writes."""

    __slots__ = ("_keeper", "_owner", "_store", "by_name")

    def __init__(self, owner: CursorOwner, store: MetadataStore, keeper: RecordKeeper) -> None:
        self._owner = owner
        self._store = store
        self._keeper = keeper
        self.by_name: dict[str, Cursor] = {}

    async def load(self) -> None:
        """Take all cursors over under the owner's epoch: from here on the former owner's writes to them fail.

        Raises:
            LedgerFencedError, LedgerUnavailableError
        """
        try:
            names = await self._store.children(self._keeper.path)
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        try:
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self._load(name), name=f"load-cursor-{name}")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _load(self, encoded_name: str) -> None:
        keeper = self._cursor_keeper(encoded_name)
        while True:
            record = await keeper.load(CursorRecord)
            if record is None:
                return
            if await keeper.take_over(msgspec.structs.replace(record, epoch=keeper.epoch)):
                break
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
