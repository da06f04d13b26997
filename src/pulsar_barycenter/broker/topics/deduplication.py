"""Dropping what a producer sent twice: the highest sequence id of each producer name, in memory and with the topic.

What is known is a snapshot, kept in the properties of a cursor of its own, and the entries behind that cursor, which
are read again when the topic is loaded: the only reason why old metadata is ever read then. The cursor also keeps
those entries from being trimmed.

A message is compared by its highest sequence id (a Java batch names one, others have only the first). All chunks of
a message share one id, so it is recorded with the last of them. Source: Pulsar's `MessageDeduplication`.
"""

import enum
from collections import deque
from typing import Final

import structlog

from pulsar_barycenter.ledger.errors import LedgerCorruptedError, LedgerNotFoundError
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import read_metadata
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

CURSOR_NAME: Final = "pulsar.dedup"
SNAPSHOT_ENTRIES: Final = 1000
_READ_ENTRIES: Final = 500
_READ_BYTES: Final = 1 << 20
_END_OF_LEDGER: Final = 2**62

log = structlog.get_logger(__name__)


class DuplicateStatus(enum.Enum):
    NEW = "new"
    STORED = "stored"
    """It is durable already: answer as if it had been stored now."""
    PENDING = "pending"
    """It is under way and may still fail: the producer must try again later."""


class Deduplication:
    """One topic's memory of its producers."""

    __slots__ = ("_cursor", "_ledger", "_persisted", "_pushed", "_queue", "_since_snapshot")

    def __init__(self, ledger: ManagedLedger, cursor: Cursor) -> None:
        self._ledger = ledger
        self._cursor = cursor
        self._persisted: dict[str, int] = {}
        self._pushed: dict[str, int] = {}
        # For each entry in the ledger's queue: whose it is, and the id to record, None for a chunk before the last.
        self._queue: deque[tuple[str, int | None]] = deque()
        self._since_snapshot = 0

    @staticmethod
    async def open(ledger: ManagedLedger) -> "Deduplication":
        """Read the snapshot and what was stored after it.

        Entries that cannot be read are passed over: of a message that is lost no second one is a duplicate.

        Raises:
            LedgerError: an entry could not be read for another reason than damage.
        """
        cursor = await ledger.open_cursor(CURSOR_NAME, EARLIEST)
        memory = Deduplication(ledger, cursor)
        memory._persisted = {name: int(highest) for name, highest in cursor.properties.items()}
        position = cursor.first_unacked
        while position <= ledger.last_position:
            try:
                entries = await ledger.read(position, _READ_ENTRIES, _READ_BYTES)
            except (LedgerCorruptedError, LedgerNotFoundError) as error:
                log.error("deduplication_incomplete", topic=ledger.name, position=str(position), error=str(error))
                entries_lost = error.entries if isinstance(error, LedgerCorruptedError) else None
                last = entries_lost[1] if entries_lost is not None else _END_OF_LEDGER
                position = ledger.next_valid(Position(position.ledger_id, last))
                continue
            if not entries:
                break
            for entry in entries:
                memory._replay(entry)
            position = ledger.next_valid(entries[-1].position)
        memory._pushed = dict(memory._persisted)
        return memory

    def _replay(self, entry: Entry) -> None:
        try:
            metadata = read_metadata(entry.data)
        except MalformedFrameError:
            return
        if not _more_chunks(metadata):
            name, highest = metadata.producer_name, max(metadata.sequence_id, metadata.highest_sequence_id)
            self._persisted[name] = max(highest, self._persisted.get(name, -1))
        self._since_snapshot += 1

    def last_sequence_id(self, producer: str) -> int:
        """Return the highest id stored of that producer, -1 if there is none."""
        return self._persisted.get(producer, -1)

    def check(self, producer: str, sequence_id: int, highest_id: int) -> DuplicateStatus:
        """Compare a message with what came before it; `highest_id` 0 or below `sequence_id` says nothing."""
        highest = max(sequence_id, highest_id)
        if highest > self._pushed.get(producer, -1):
            return DuplicateStatus.NEW
        return DuplicateStatus.STORED if highest <= self._persisted.get(producer, -1) else DuplicateStatus.PENDING

    def pushed(self, producer: str, sequence_id: int, highest_id: int, entry: bytes, *, is_chunk: bool) -> None:
        """A new message was given to the ledger."""
        highest: int | None = max(sequence_id, highest_id)
        if is_chunk and _more_chunks(read_metadata(entry)):
            highest = None
        else:
            self._pushed[producer] = highest or 0
        self._queue.append((producer, highest))

    def persisted(self, entries: int) -> bool:
        """So many of the entries pushed first are durable; tell whether a snapshot is due."""
        for _ in range(entries):
            producer, highest = self._queue.popleft()
            if highest is not None:
                self._persisted[producer] = highest
        self._since_snapshot += entries
        return self._since_snapshot >= SNAPSHOT_ENTRIES

    def failed(self) -> None:
        """Nothing that was pending will become durable."""
        self._queue.clear()
        self._pushed = dict(self._persisted)

    async def snapshot(self) -> None:
        """Write what is known up to the last durable entry.

        Raises:
            LedgerError: it could not be written; more is read again when the topic is loaded.
        """
        if self._since_snapshot == 0:
            return
        self._since_snapshot = 0
        self._cursor.ack_cumulative(self._ledger.last_position)
        await self._cursor.set_properties({name: str(highest) for name, highest in self._persisted.items()})


def _more_chunks(metadata: MessageMetadata) -> bool:
    return metadata.num_chunks_from_msg > 1 and metadata.chunk_id < metadata.num_chunks_from_msg - 1
