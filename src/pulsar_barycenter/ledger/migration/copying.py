"""Writes one ledger of a file to bookies, and compares it with its file, entry by entry."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.client.ledger_writer import LedgerWriter
from pulsar_barycenter.bookkeeper.errors import BookKeeperError, NoSuchLedgerError, TooFewBookiesError
from pulsar_barycenter.bookkeeper.machines.actions import StoredLedger
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.marks import marks_of
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFullError
from pulsar_barycenter.ledger.files.file_format import HEADER_SIZE
from pulsar_barycenter.ledger.migration.planning import SourceLedger, Step, step_of
from pulsar_barycenter.ledger.migration.source_files import offset_after, read_group
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.counted import count_of

_READ_BYTES: Final = 4 << 20


class _Confirmations:
    """Collects what the BookKeeper client reports about the entries of one ledger: `errors` are the errors, and
    `changed` is set after each report.
    """

    def __init__(self) -> None:
        self.errors: list[BookKeeperError] = []
        self.changed = asyncio.Event()

    def __call__(self, entry: int, error: BookKeeperError | None) -> None:
        if error is not None:
            self.errors.append(error)
        self.changed.set()

    def check(self) -> None:
        if self.errors:
            raise self.errors[0]


class LedgerCopier:
    """Copies ledgers from their files to the bookies of `client`. A ledger that it creates gets the quorums in `shape`,
    and belongs to the cluster of brokers with the id `cluster`.
    """

    def __init__(self, client: LedgerClient, shape: LedgerShape, cluster: str) -> None:
        self._client = client
        self._shape = shape
        self._cluster = cluster

    async def copy(self, ledger: SourceLedger) -> bool:
        """Copy a ledger to the bookies, as far as an earlier attempt has not copied it, and close it there. Then read
        back all its entries and compare them with the entries in the file. Return True if this call created the ledger
        or wrote to it, False if an earlier attempt had written and closed it.

        A ledger is closed only after the bookies have confirmed all entries.

        Raises:
            LedgerError: the ledger cannot be written or read, or its entries on the bookies differ from those in the
                file.
            MetadataError: a store did not answer.
        """
        with ledger_errors(ledger.ledger_id):
            stored = await self._stored(ledger.ledger_id)
            step = step_of(ledger, None if stored is None else stored.metadata, self._cluster, self._shape)
            try:
                if step is Step.CREATE:
                    await self._create(ledger)
                elif stored is not None and step is Step.CONTINUE:
                    await self._continue(ledger, stored)
            except TooFewBookiesError as error:
                raise LedgerFullError(
                    f"ledger {ledger.ledger_id}: too few bookies answer to store the entries of this ledger, which"
                    " stays open. Start bookies, then run this command again"
                ) from error
            await self._compare(ledger)
        return step is not Step.COMPARE

    async def _stored(self, ledger_id: int) -> StoredLedger | None:
        try:
            return await self._client.stored(ledger_id)
        except NoSuchLedgerError:
            return None

    async def _create(self, ledger: SourceLedger) -> None:
        confirmations = _Confirmations()
        custom = marks_of(self._cluster, ledger.epoch)
        writer = await self._client.create_at(ledger.ledger_id, self._shape, confirmations, custom=custom)
        await self._write(ledger, writer, confirmations, first=0)

    async def _continue(self, ledger: SourceLedger, stored: StoredLedger) -> None:
        first = stored.metadata.last_segment.first
        length = 0
        async for at, group in _groups(ledger):
            length += sum(map(len, group[: max(0, first - at)]))
        confirmations = _Confirmations()
        writer = self._client.continue_at(ledger.ledger_id, stored, self._shape, confirmations, length=length)
        await self._write(ledger, writer, confirmations, first=first)

    async def _write(
        self, ledger: SourceLedger, writer: LedgerWriter, confirmations: _Confirmations, *, first: int
    ) -> None:
        """Append the entries from the id `first` on. When the bookies have confirmed all of them, close the ledger. If
        an error is raised, the ledger stays open, and a later attempt continues it.
        """
        try:
            async for at, group in _groups(ledger):
                for data in group[max(0, first - at) :]:
                    await writer.room()
                    confirmations.check()
                    writer.append(data)
            while writer.last_confirmed < ledger.entries - 1:
                confirmations.check()
                confirmations.changed.clear()
                await confirmations.changed.wait()
            await writer.close()
        finally:
            writer.abandon()

    async def _compare(self, ledger: SourceLedger) -> None:
        reader = await self._client.open_unfenced(ledger.ledger_id, password=self._shape.password)
        metadata = reader.metadata
        ends = (metadata.state, metadata.last_entry + 1, metadata.length)
        if ends != (LedgerState.CLOSED, ledger.entries, ledger.length):
            raise LedgerError(
                f"ledger {ledger.ledger_id} on the bookies is {ends[0].name} with {count_of(ends[1], 'entry')} of"
                f" {ends[2]:,} bytes, its file has {count_of(ledger.entries, 'entry')} of {ledger.length:,} bytes. Run"
                " this command again"
            )
        async for at, group in _groups(ledger):
            done = 0
            while done < len(group):
                found = await reader.read(at + done, at + len(group) - 1, max_bytes=_READ_BYTES)
                _check_equal(ledger, at + done, group[done : done + len(found)], found)
                done += len(found)


def _check_equal(ledger: SourceLedger, first: int, expected: list[bytes], found: list[bytes]) -> None:
    for entry, (wanted, data) in enumerate(zip(expected, found, strict=True), first):
        if wanted != data:
            position = Position(ledger.ledger_id, entry)
            raise LedgerError(
                f"entry {position} on the bookies differs from {ledger.path}: {len(data):,} bytes on the bookies,"
                f" {len(wanted):,} in the file; if these are equal, the bytes differ. The cluster was not"
                " switched to the bookies, and the brokers can continue on the files. To copy the ledger again,"
                " delete it on the bookies with `bookkeeper shell deleteledger`, wait until the bookies have"
                " removed the entries (gcWaitTime), and run this command again"
            )


async def _groups(ledger: SourceLedger) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Yield all entries of a ledger's file, in groups: the id of the first entry of the group, and the data of its
    entries. The file is read on a separate thread.
    """
    first, offset = 0, HEADER_SIZE
    while first < ledger.entries:
        group = await asyncio.to_thread(read_group, ledger, first, offset)
        yield first, group
        first += len(group)
        offset = offset_after(offset, group)
