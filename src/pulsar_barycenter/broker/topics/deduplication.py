"""Drops messages that a producer sent twice, by the highest sequence id of each producer name.

A producer that reconnects sends messages again for which it got no receipt. The broker stores a message only if its
sequence id is higher than the highest stored id of the producer's name.

These ids must survive a restart. They are stored as a snapshot in the properties of a cursor of their own. The entries
after this cursor are newer than the snapshot; they are read again when the topic is loaded. This is the only reason to
read old metadata while a topic is loaded. The cursor also protects these entries from being trimmed.

A message is identified by its highest sequence id: a batch of a Java client has one; other batches have only their
first id. All chunks of a message have the same id, so the id is recorded with the last chunk.

Clients choose the names, so their number is limited. A producer that is not attached is removed after some time, and
earlier if there are too many names: the one that left first is removed first (`SequenceIds`). Source: Pulsar's
`MessageDeduplication`. There only the size of snapshots is limited, and the names to leave out are arbitrary.
"""

import enum
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from operator import itemgetter, lt
from typing import Any, Final

import msgspec
import structlog

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import LedgerCorruptedError, LedgerNotFoundError
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import read_metadata
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

CURSOR_NAME: Final = "pulsar.dedup"
SNAPSHOT_BYTES: Final = 512 << 10
"""The maximum size of a snapshot as JSON, in bytes: half of the size that ZooKeeper accepts for one key."""
_LONGEST_ID: Final = 20
_ID: Final = re.compile("-?[0-9]{1,20}", re.ASCII)
_READ_ENTRIES: Final = 500
_READ_BYTES: Final = 1 << 20
_END_OF_LEDGER: Final = 2**62
_NO_ID: Final = -1
_ID_OF: Final = itemgetter(1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeduplicationSettings:
    """The settings of deduplication.

    A snapshot of the sequence ids is stored when `snapshot_entries` entries were written since the last snapshot, or
    when `snapshot_interval_ms` have passed since it and there are new entries. An interval of 0 means that time has no
    effect. At most `max_producers` producer names are recorded. The name of a producer that left is removed after
    `inactivity_ms`.
    """

    snapshot_entries: int = 1_000
    snapshot_interval_ms: int = 120_000
    max_producers: int = 10_000
    inactivity_ms: int = 360 * 60_000

    @staticmethod
    def of(config: BrokerConfig) -> "DeduplicationSettings":
        return DeduplicationSettings(
            snapshot_entries=config.broker_deduplication_entries_interval,
            snapshot_interval_ms=round(config.broker_deduplication_snapshot_interval_seconds * 1000),
            max_producers=config.broker_deduplication_max_number_of_producers,
            inactivity_ms=round(config.broker_deduplication_producer_inactivity_timeout_minutes * 60_000),
        )


class DuplicateStatus(enum.Enum):
    NEW = "new"
    STORED = "stored"
    """The message is durable already. The producer gets a receipt, as if it had been stored now."""
    PENDING = "pending"
    """The message is being written, and the write may fail. The producer has to try again later."""


class SequenceIds:
    """The highest stored sequence id of each producer name. Times are from the caller's clock, in ms.

    At most `max_names` names are recorded. If there would be more, the names that have been absent longest are removed,
    but never the name of an attached producer. A name is *absent* if its producer is not attached: since the producer
    left, or since its last stored message if this is later.
    """

    __slots__ = ("_absent", "_attached", "_highest", "_max_names")

    def __init__(self, max_names: int) -> None:
        self._max_names = max_names
        self._highest: dict[str, int] = {}
        self._attached: set[str] = set()
        self._absent: dict[str, int] = {}
        """When each producer that is not attached left, in ms; the one that left first is first."""

    def __len__(self) -> int:
        return len(self._highest)

    def get(self, name: str) -> int:
        """Return the highest stored id of a producer name, -1 if none is known."""
        return self._highest.get(name, -1)

    def record(self, name: str, highest: int, now_ms: int) -> list[str]:
        """Record that a message of the producer `name` with the sequence id `highest` is stored. If there are more than
        `max_names` names then, remove absent ones, and return the removed names.
        """
        self._highest[name] = max(highest, self._highest.get(name, -1))
        if name not in self._attached:
            self._left(name, now_ms)
        return self._forget_excess()

    def attached(self, name: str) -> None:
        """Record that a producer of that name is attached: the name is not removed while the producer stays."""
        self._attached.add(name)
        self._absent.pop(name, None)

    def detached(self, name: str, now_ms: int) -> list[str]:
        """Record that the producer of that name left. If there are more than `max_names` names, remove absent ones, and
        return the removed names.
        """
        self._attached.discard(name)
        if name in self._highest:
            self._left(name, now_ms)
        return self._forget_excess()

    def _left(self, name: str, now_ms: int) -> None:
        self._absent.pop(name, None)
        self._absent[name] = now_ms

    def _forget_excess(self) -> list[str]:
        forgotten = []
        while len(self._highest) > self._max_names and self._absent:
            forgotten.append(self._forget_longest_absent())
        return forgotten

    def forget_absent(self, before_ms: int) -> list[str]:
        """Remove the names of producers that left before `before_ms` (exclusive); return these names."""
        forgotten = []
        while self._absent and next(iter(self._absent.values())) < before_ms:
            forgotten.append(self._forget_longest_absent())
        return forgotten

    def _forget_longest_absent(self) -> str:
        name = next(iter(self._absent))
        del self._absent[name]
        del self._highest[name]
        return name

    def snapshot(self, max_bytes: int) -> dict[str, int]:
        """Return the highest sequence ids by producer name, for a snapshot. If the limits leave names out, these are
        the names that have been absent longest: first come the attached producers, then the absent ones, beginning with
        the one that left last.

        The result has at most `max_names` names, and at most `max_bytes` bytes as JSON.
        """
        found: dict[str, int] = {}
        for name in self._by_weight():
            max_bytes -= len(msgspec.json.encode(name)) + _LONGEST_ID + 4  # colon, comma and the quotes of the id
            if len(found) == self._max_names or max_bytes < 0:
                break
            found[name] = self._highest[name]
        return found

    def _by_weight(self) -> Iterator[str]:
        yield from (name for name in self._highest if name in self._attached)
        yield from reversed(self._absent)


class Deduplication:
    """The sequence ids of one topic's producers: the highest stored ids, and the ids of entries that the ledger is
    writing (pending entries).
    """

    __slots__ = (
        "_clock", "_cursor", "_is_storing", "_ledger", "_pushed", "_queue", "_since_snapshot", "_snapshot_at_ms",
        "_stored", "settings",
    )  # fmt: skip

    def __init__(
        self, ledger: ManagedLedger[Any], cursor: Cursor, settings: DeduplicationSettings, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._cursor = cursor
        self.settings = settings
        """The settings of deduplication, which the topic may replace at any time."""
        self._clock = clock
        self._stored = SequenceIds(settings.max_producers)
        self._pushed: dict[str, int] = {}
        """The highest id given to the ledger, by producer name, of names with pending entries."""
        # One item per entry in the ledger's queue: the producer's name, and the id to record when the entry is
        # durable. The id is _NO_ID for a chunk that is not the last of its message.
        self._queue: deque[tuple[str, int]] = deque()
        self._since_snapshot = 0
        self._snapshot_at_ms = clock.now_ms()
        self._is_storing = False

    @staticmethod
    async def open(ledger: ManagedLedger[Any], settings: DeduplicationSettings, clock: Clock) -> "Deduplication":
        """Return the sequence ids of a topic's producers, read from the last snapshot and from the entries after it.

        Damaged and missing entries are skipped: a repetition of a lost message is not a duplicate, but the only copy.

        Raises:
            LedgerError: an entry could not be read for another reason than damage.
        """
        cursor = await ledger.open_cursor(CURSOR_NAME, EARLIEST)
        memory = Deduplication(ledger, cursor, settings, clock)
        for name, highest in cursor.properties.items():
            if _ID.fullmatch(highest) is None:
                log.error(
                    "deduplication_incomplete", topic=ledger.name, producer=name, error=f"{highest[:40]!r} is not an id"
                )
                continue
            memory._stored.record(name, int(highest), clock.now_ms())
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
        return memory

    def _replay(self, entry: Entry) -> None:
        try:
            metadata = read_metadata(entry.data)
        except MalformedFrameError:
            return
        if not _more_chunks(metadata):
            name, highest = metadata.producer_name, max(metadata.sequence_id, metadata.highest_sequence_id)
            self._stored.record(name, highest, self._clock.now_ms())
        self._since_snapshot += 1

    @property
    def topic(self) -> str:
        return self._ledger.name

    def producer_attached(self, name: str) -> None:
        """Record that a producer of that name attached: the name is not removed while the producer stays."""
        self._stored.attached(name)

    def producer_detached(self, name: str) -> None:
        """Record that the producer of that name left. If it does not come back, its name is removed after
        `inactivity_ms`.
        """
        self._log_forgotten(self._stored.detached(name, self._clock.now_ms()))

    def last_sequence_id(self, producer: str) -> int:
        """Return the highest stored id of that producer, -1 if there is none."""
        return self._stored.get(producer)

    def check(self, producer: str, sequence_id: int, highest_id: int) -> DuplicateStatus:
        """Return the status of a message: NEW, STORED or PENDING (being written). The higher one of `sequence_id` and
        `highest_id` is compared with the known ids, because clients that do not set `highest_id` send 0.
        """
        highest = max(sequence_id, highest_id)
        if highest <= self._stored.get(producer):
            return DuplicateStatus.STORED
        return DuplicateStatus.PENDING if highest <= self._pushed.get(producer, -1) else DuplicateStatus.NEW

    def ids_of_new(self, producer: str, sequence_ids: Sequence[int], highest_ids: Sequence[int]) -> list[int]:
        """Return the ids of messages of one producer, if all messages are new and their ids ascend. Otherwise return an
        empty list. In this case the caller must handle the messages one by one: `check` a message, give it to the
        ledger, call `pushed`, then check the next one.
        """
        ids = list(map(max, sequence_ids, highest_ids))
        known = max(self._stored.get(producer), self._pushed.get(producer, -1))
        return ids if known < ids[0] and all(map(lt, ids, ids[1:])) else []

    def pushed_new(self, producer: str, ids: Sequence[int]) -> None:
        """Record that messages with these ids were given to the ledger. `ids` is a result of `ids_of_new`."""
        self._pushed[producer] = ids[-1]
        self._queue.extend(zip(repeat(producer), ids))

    def pushed(self, producer: str, sequence_id: int, highest_id: int, entry: bytes, *, is_chunk: bool) -> None:
        """Record that a new message of `producer` was given to the ledger. `entry` is its entry. `is_chunk` is True if
        the entry is a chunk; only the last chunk of a message counts for its sequence id.
        """
        if is_chunk and _more_chunks(read_metadata(entry)):
            self._queue.append((producer, _NO_ID))
        else:
            highest = self._pushed[producer] = max(sequence_id, highest_id)
            self._queue.append((producer, highest))

    def persisted(self, entries: int) -> bool:
        """Record that the oldest `entries` pending entries are durable. Return True if the caller has to store a
        snapshot now, because `snapshot_entries` entries were written since the last one.
        """
        now_ms = self._clock.now_ms()
        durable = list(islice(iter(self._queue.popleft, None), entries))
        if _NO_ID in map(_ID_OF, durable):
            durable = [pair for pair in durable if pair[1] != _NO_ID]
        # The ids of a producer ascend, so its last one counts. Names are recorded in the order of these last ids.
        last = dict(durable)
        for producer in reversed(dict(reversed(durable))):
            highest = last[producer]
            self._log_forgotten(self._stored.record(producer, highest, now_ms))
            if self._pushed.get(producer, -1) <= highest:
                self._pushed.pop(producer, None)
        self._since_snapshot += entries
        return self._since_snapshot >= self.settings.snapshot_entries and not self._is_storing

    def failed(self) -> None:
        """Record that all pending entries have failed: none of them will become durable, so their ids are new if they
        come again.
        """
        self._queue.clear()
        self._pushed.clear()

    def is_due(self, now_ms: int) -> bool:
        """Return whether a snapshot has to be stored because of time: the interval since the last one has passed, ids
        have changed since then, and no snapshot is being stored.
        """
        interval_ms = self.settings.snapshot_interval_ms
        is_over = interval_ms > 0 and now_ms - self._snapshot_at_ms >= interval_ms
        return is_over and self._since_snapshot > 0 and not self._is_storing

    def forget_inactive(self, now_ms: int) -> bool:
        """Remove the names of producers that left more than `inactivity_ms` ago. Return True if names were removed and
        no snapshot is being stored: then the caller has to store one.
        """
        forgotten = self._stored.forget_absent(now_ms - self.settings.inactivity_ms)
        self._log_forgotten(forgotten)
        self._since_snapshot += len(forgotten)
        return bool(forgotten) and not self._is_storing

    def _log_forgotten(self, forgotten: list[str]) -> None:
        if forgotten:
            log.debug("deduplication_forgot_producers", topic=self._ledger.name, producers=len(forgotten))

    async def snapshot(self) -> None:
        """Store a snapshot of the sequence ids up to the last durable entry. If no entry was stored and no name was
        removed since the last snapshot, do nothing.

        Raises:
            LedgerError: the snapshot could not be stored. The next load of the topic then reads more entries.
        """
        new, self._since_snapshot = self._since_snapshot, 0
        if new == 0:
            return
        known = self._stored.snapshot(SNAPSHOT_BYTES)
        if len(known) < len(self._stored):
            left_out = len(self._stored) - len(known)
            log.warning("deduplication_snapshot_incomplete", topic=self._ledger.name, left_out=left_out)
        self._is_storing = True
        self._snapshot_at_ms = self._clock.now_ms()
        try:
            self._cursor.ack_cumulative(self._ledger.last_position)
            await self._cursor.set_properties({name: str(highest) for name, highest in known.items()})
        except BaseException:
            self._since_snapshot += new
            raise
        finally:
            self._is_storing = False


def _more_chunks(metadata: MessageMetadata) -> bool:
    return metadata.num_chunks_from_msg > 1 and metadata.chunk_id < metadata.num_chunks_from_msg - 1
