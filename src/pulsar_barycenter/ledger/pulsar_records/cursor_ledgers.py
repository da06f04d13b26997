"""The ledgers on bookies that store cursors. Those that Java brokers wrote are read; each that this code writes has one
entry.

A Java broker adds an entry to such a ledger for each change of the cursor, so the last entry is the current state.
Reading first takes over (fences) the ledger, because another owner may still add to it.

Source: `ManagedCursorImpl.recoverFromLedger` and `persistPositionToLedger` of Pulsar.
"""

import asyncio

import structlog

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.client.ledger_writer import LedgerWriter
from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    EntryTooLargeError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_writer import CLOSE_TIMEOUT_S
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors, ledger_name
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.pulsar_records.ledger_marks import of_cursor
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


class CursorLedgersOnBookies:
    """Stores cursors in ledgers on one cluster of bookies. BookKeeper chooses the ids of new ledgers; they get the
    quorums in `shape`.
    """

    __slots__ = ("_client", "_shape")

    def __init__(self, client: LedgerClient, shape: LedgerShape) -> None:
        self._client = client
        self._shape = shape

    async def last_entry(self, ledger_id: int) -> bytes | None:
        with ledger_errors(ledger_id):
            try:
                ledger = await self._client.recover(ledger_id, password=self._shape.password)
                if ledger.last_entry < 0:
                    return None
                (entry,) = await ledger.read(ledger.last_entry, ledger.last_entry, max_bytes=0)
                return entry
            except (NoSuchLedgerError, NoSuchEntryError):
                return None

    async def write(self, topic: str, cursor: str, entry: bytes) -> int:
        largest = self._client.max_data_bytes(self._shape)
        if len(entry) > largest:
            raise LedgerError(f"cursor {cursor} of {topic}: {EntryTooLargeError(len(entry), largest)}")
        with ledger_errors(-1):
            writer = await self._client.create(self._shape, _nobody_waits, custom=of_cursor(topic, cursor))
        with ledger_errors(writer.ledger):
            try:
                await writer.add(entry)
            except BookKeeperError:
                writer.abandon()
                await self._forget(writer.ledger)
                raise
        await self._close(writer)
        return writer.ledger

    async def delete(self, ledger_id: int) -> None:
        with ledger_errors(ledger_id):
            await self._client.delete(ledger_id)

    async def _close(self, writer: LedgerWriter) -> None:
        """Close the ledger that `writer` has written. If that fails, no error is raised: the next owner of the topic
        closes the ledger, and finds its entry.
        """
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await writer.close()
        except (BookKeeperError, TimeoutError) as error:
            reason = str(error) or f"the metadata store did not answer within {CLOSE_TIMEOUT_S:g} s"
            log.info("ledger_left_open", ledger=writer.ledger, reason=reason)

    async def _forget(self, ledger_id: int) -> None:
        """Delete a ledger that was created for a cursor and that the cursor's key does not name. If that fails, it is
        only logged.
        """
        try:
            await self._client.delete(ledger_id)
        except MetadataError as error:
            log.warning("cursor_ledger_not_deleted", ledger=ledger_name(ledger_id), error=str(error))


def _nobody_waits(_entry: int, _error: BookKeeperError | None) -> None:
    return
