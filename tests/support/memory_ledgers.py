"""Ledgers in memory, for units and simulation: no threads, no files; every delay and fault is a method.

A `MemoryDisk` represents the shared folder and survives crashes; each broker has its own `MemoryLedgerStorage` on
it. Appended entries become durable when the requested delay has passed on the event loop, all queued entries as one
group.
"""

import asyncio
import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerCorruptedError,
    LedgerError,
    LedgerFencedError,
    LedgerFullError,
    LedgerNotFoundError,
)
from pulsar_barycenter.ledger.position import EntryInfo, NewEntry
from pulsar_barycenter.ledger.reader import IndexedReads
from pulsar_barycenter.ledger.storage import Content, Later, OnDurable, draw_counted_id, draw_unused_id, whole_entry
from pulsar_barycenter.metadata.store import MetadataStore


@dataclass(slots=True)
class _StoredLedger:
    ledger_id: int
    epoch: int
    fenced_by: int
    entries: list[bytes] = field(default_factory=list)
    index: EntryIndex = field(default_factory=EntryIndex)
    damaged: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"memory ledger {self.ledger_id}"


class MemoryDisk:
    """The data that survives a crash. `capacity_bytes` None means no limit; it may be changed at any time."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._ledgers: dict[int, _StoredLedger] = {}
        self._storages = 0

    @property
    def ledger_ids(self) -> set[int]:
        """The ids of all ledgers that are stored."""
        return set(self._ledgers)

    @property
    def used_bytes(self) -> int:
        return sum(ledger.index.total_bytes for ledger in self._ledgers.values())

    def next_identity(self) -> str:
        self._storages += 1
        return f"memory-{self._storages}"

    def has_space(self, more: int) -> bool:
        return self.capacity_bytes is None or self.used_bytes + more <= self.capacity_bytes

    def damage(self, ledger_id: int, entry_id: int) -> None:
        """Make the checksum of an entry fail from now on."""
        self.ledger(ledger_id).damaged.add(entry_id)

    def add(self, ledger_id: int, epoch: int) -> _StoredLedger:
        if ledger_id in self._ledgers:
            raise LedgerError(f"memory ledger {ledger_id}: exists already")
        ledger = self._ledgers[ledger_id] = _StoredLedger(ledger_id, epoch, epoch)
        return ledger

    def ledger(self, ledger_id: int) -> _StoredLedger:
        try:
            return self._ledgers[ledger_id]
        except KeyError:
            name = f"memory ledger {ledger_id}"
            raise LedgerNotFoundError(f"{name}: does not exist", name) from None

    def remove(self, ledger_id: int) -> None:
        self._ledgers.pop(ledger_id, None)


class MemoryLedgerReader(IndexedReads):
    remedy = "this is a test"
    gone: Sequence[tuple[int, int]] = ()

    def __init__(self, ledger: _StoredLedger, entry_count: int) -> None:
        self._ledger = ledger
        self._count = entry_count
        self._index = ledger.index
        if lacking := entry_count - len(ledger.index):
            self._index = copy.deepcopy(ledger.index)
            self._index.extend([0] * lacking, [0] * lacking, [0] * lacking)

    @property
    def entry_count(self) -> int:
        return self._count

    @property
    def index(self) -> EntryIndex:
        return self._index

    @property
    def file(self) -> str:
        return self._ledger.name

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        return [(entry_id, entry_id) for entry_id in range(self._count) if self._is_damaged(entry_id)]

    def _is_damaged(self, entry_id: int) -> bool:
        return entry_id in self._ledger.damaged or entry_id >= len(self._ledger.entries)

    async def info(self, entry_id: int) -> EntryInfo:
        if entry_id >= self._count:
            raise IndexError(entry_id)
        return self._index.info(entry_id)

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        stop = min(last + 1, self._count)
        if not 0 <= first < stop:
            return []
        if self._is_damaged(first):
            offset = self._index.bytes_before(first)
            raise LedgerCorruptedError(self.file, offset, f"entry {first} fails its checksum", (first, first))
        stop = self._index.stop_within(first, stop, max_bytes, None)
        return self._ledger.entries[first : next(filter(self._is_damaged, range(first, stop)), stop)]

    def close(self) -> None:
        return

    def grow(self, entry_count: int) -> None:
        self._count = entry_count


class MemoryLedgerStorage:
    """One process's view of a `MemoryDisk`.

    `durability_delay_s` is called once per group and returns seconds of the event loop; without it a group is
    durable in the next turn of the loop.
    """

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        durability_delay_s: Callable[[], float] | None = None,
        caches: Caches | None = None,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self._delay = durability_delay_s
        self._caches = caches or Caches.of(tail_bytes=16 << 20)
        self._writers: dict[MemoryLedgerWriter, None] = {}  # a set's order would differ from run to run
        self._crashed = False
        self._identity = self.disk.next_identity()

    @property
    def caches(self) -> Caches:
        return self._caches

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def bookies(self) -> Sequence[str]:
        return ()

    def store_of_racks(self, store: MetadataStore) -> MetadataStore:
        return store

    def on_groups(self, primary: Collection[str], secondary: Collection[str]) -> "MemoryLedgerStorage":
        return self

    async def new_id(self, store: MetadataStore, later: Later) -> int:
        async def exists(ledger_id: int) -> bool:
            return ledger_id in self.disk.ledger_ids

        return await draw_unused_id(lambda: draw_counted_id(store, later), exists)

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> "MemoryLedgerWriter":
        self._check_alive()
        if not self.disk.has_space(1):
            raise LedgerFullError(f"memory ledger {ledger_id}: no space left")
        writer = MemoryLedgerWriter(self, self.disk.add(ledger_id, epoch), on_durable)
        self._writers[writer] = None
        return writer

    async def fence(self, ledger_id: int, *, epoch: int) -> MemoryLedgerReader:
        self._check_alive()
        ledger = self.disk.ledger(ledger_id)
        if epoch < ledger.fenced_by:
            raise LedgerFencedError(ledger.name, epoch, ledger.fenced_by)
        ledger.fenced_by = epoch
        return MemoryLedgerReader(ledger, len(ledger.entries))

    async def open(self, ledger_id: int, *, entry_count: int, content: Content = whole_entry) -> MemoryLedgerReader:
        self._check_alive()
        ledger = self.disk.ledger(ledger_id)
        return MemoryLedgerReader(ledger, entry_count)

    async def delete(self, ledger_id: int) -> None:
        self._check_alive()
        self.disk.remove(ledger_id)

    async def has_room(self) -> bool:
        self._check_alive()
        return self.disk.has_space(1)

    async def close(self) -> None:
        for writer in list(self._writers):
            await writer.close()

    def crash(self, *, survivors: Callable[[int], int] | None = None) -> None:
        """End this process as SIGKILL or a power failure would: nothing more is reported, every later call fails.

        Of the entries still queued in a writer the first `survivors(queued)` reached the disk nevertheless (default
        none), because a torn tail may contain complete entries.
        """
        self._crashed = True
        for writer in self._writers:
            writer.crash(survivors)
        self._writers.clear()

    def next_delay_s(self) -> float | None:
        return self._delay() if self._delay is not None else None

    def forget(self, writer: "MemoryLedgerWriter") -> None:
        self._writers.pop(writer, None)

    def _check_alive(self) -> None:
        if self._crashed:
            raise LedgerClosedError("this ledger storage has crashed")


class MemoryLedgerWriter:
    def __init__(self, storage: MemoryLedgerStorage, ledger: _StoredLedger, on_durable: OnDurable) -> None:
        self._storage = storage
        self._ledger = ledger
        self._on_durable = on_durable
        self._queue: list[NewEntry] = []
        self._next = 0
        self._reader = MemoryLedgerReader(ledger, 0)
        self._timer: asyncio.Handle | None = None
        self._open = True
        self._drained: asyncio.Future[None] | None = None

    @property
    def reader(self) -> MemoryLedgerReader:
        return self._reader

    @property
    def index(self) -> EntryIndex:
        return self._ledger.index

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        entry_id = self._next
        self.extend([(entry, num_messages, publish_time_ms)])
        return entry_id

    def extend(self, entries: Sequence[NewEntry]) -> None:
        if not self._open:
            raise LedgerClosedError(f"{self._ledger.name}: the writer is closed")
        self._next += len(entries)
        self._queue.extend(entries)
        if entries and self._timer is None:
            self._schedule()

    async def close(self) -> None:
        self._open = False
        if self._queue:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        self._storage.forget(self)

    def crash(self, survivors: Callable[[int], int] | None) -> None:
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        kept = survivors(len(self._queue)) if survivors is not None else 0
        self._store(self._queue[:kept])
        self._queue.clear()
        self._finish()

    def commit_now(self) -> None:
        """Make durable what waits for it, without the delay of the storage."""
        if self._timer is not None:
            self._timer.cancel()
            self._commit()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s = self._storage.next_delay_s()
        self._timer = loop.call_soon(self._commit) if delay_s is None else loop.call_later(delay_s, self._commit)

    def _commit(self) -> None:
        """Make the queue durable, check the fence, report: the order that the fencing protocol requires."""
        self._timer = None
        group, self._queue = self._queue, []
        ledger = self._ledger
        first = len(ledger.entries)
        if not self._storage.disk.has_space(sum(len(entry) for entry, _, _ in group)):
            self._fail(first, LedgerFullError(f"{ledger.name}: no space left"))
            return
        if ledger.fenced_by > ledger.epoch:
            # The entries may be on the disk, as with files: a fence after the write is the usual race.
            self._fail(self._reader.entry_count, LedgerFencedError(ledger.name, ledger.epoch, ledger.fenced_by))
            return
        self._store(group)
        self._reader.grow(len(ledger.entries))
        self._on_durable(len(ledger.entries) - 1, None)
        if not self._queue:
            self._finish()

    def _store(self, group: Sequence[NewEntry]) -> None:
        if group:
            entries, counts, times = zip(*group, strict=True)
            self._ledger.entries.extend(entries)
            self._ledger.index.extend([len(entry) for entry in entries], counts, times)

    def _fail(self, first: int, error: LedgerError) -> None:
        self._open = False
        self._queue.clear()
        self._on_durable(first, error)
        self._finish()

    def _finish(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
