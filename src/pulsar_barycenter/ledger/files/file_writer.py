"""Appends to a ledger's file: the event loop queues entries, a worker thread commits them in groups.

A group is written and made durable; then the fence is read; only then is the group reported. If the file was replaced
or deleted (`check_file`), or its folder (`LedgerFolder.require_there`), nothing is reported.

If the disk is full, the writer cuts the incomplete group off the file. It must not do so after the ledger is fenced,
because the later owner may have counted entries of that group. A lock on the file, held for microseconds, prevents that
both happen at the same time.
"""

import asyncio
import fcntl
import os
import struct
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, NamedTuple

import structlog

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerNotFoundError,
    repair_hint,
)
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_reader import FileLedgerReader
from pulsar_barycenter.ledger.files.folder import NO_SPACE, LedgerFolder, ledger_error
from pulsar_barycenter.ledger.files.group_commit import GroupCommitter
from pulsar_barycenter.ledger.files.open_files import OpenFile
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.storage import OnDurable
from pulsar_barycenter.metadata.files.data_faults import fault_of

log = structlog.get_logger(__name__)

_MAX_GROUP_BYTES: Final = 8 << 20
_MAX_VECTOR: Final = 512
_JOIN_BELOW_MEAN_BYTES: Final = 16 << 10


class _Group(NamedTuple):
    sizes: list[int]
    num_messages: list[int]
    publish_times_ms: list[int]


_EMPTY_GROUP: Final = _Group([], [], [])


class FileLedgerWriter:
    """Writes a ledger's file. Created by `FileLedgerStorage.create`. When `close` has waited for the last entry, it
    calls `on_closed` with this writer. `append` and `committed` run on the event loop, `commit` on a worker thread.
    """

    __slots__ = (
        "_broken",
        "_committer",
        "_drained",
        "_end",
        "_epoch",
        "_failed",
        "_file",
        "_folder",
        "_heads",
        "_ledger_id",
        "_lost",
        "_name",
        "_next",
        "_on_closed",
        "_on_durable",
        "_open",
        "_queue",
        "_reader",
        "_written",
        "gate",
    )

    def __init__(
        self,
        folder: LedgerFolder,
        committer: GroupCommitter,
        ledger_id: int,
        created: OpenFile,
        epoch: int,
        on_durable: OnDurable,
        on_closed: Callable[["FileLedgerWriter"], None],
    ) -> None:
        self._folder = folder
        self._committer = committer
        self._name = folder.path(ledger_id)
        self._ledger_id = ledger_id
        self._file = created
        self._lost: LedgerError | None = None  # set by the thread that calls `check_file`
        self._epoch = epoch
        self._on_durable = on_durable
        self._on_closed = on_closed
        self._queue: deque[NewEntry] = deque()
        self._next = 0
        self._open = True
        self._broken = False  # set by a worker
        self._failed = False  # set when the failure is reported
        self._reader = FileLedgerReader(folder, ledger_id, fmt.Scan(), is_growing=True)
        self._heads = fmt.Heads.of(ledger_id)
        self._written = 0
        self._end = fmt.HEADER_SIZE
        self._drained: asyncio.Future[None] | None = None
        self.gate = Lock()

    @property
    def reader(self) -> FileLedgerReader:
        return self._reader

    @property
    def index(self) -> EntryIndex:
        return self._reader.index

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        entry_id = self._next
        self.extend([(entry, num_messages, publish_time_ms)])
        return entry_id

    def extend(self, entries: Sequence[NewEntry]) -> None:
        if not self._open:
            raise LedgerClosedError(f"{self._name}: the writer is closed")
        self._queue.extend(entries)
        self._next += len(entries)
        if entries and self.gate.acquire(False):
            self._committer.submit(self)

    async def close(self) -> None:
        self._open = False
        if not self._failed and self._reader.entry_count < self._next:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        self._on_closed(self)
        self._folder.files.forget(self._name)

    def check_file(self) -> None:
        """Check that the file is still at the path where it was created. If it is not, the writer fails when it writes
        its next group of entries. This method blocks: call it on a separate thread.

        A later owner of the topic, which has fenced the file, may delete it. The writer then fails with
        LedgerFencedError, and nothing is logged. Otherwise the missing or replaced file is logged as an error.
        """
        if self._lost is not None or not self._open:
            return
        fault = fault_of(self._name, self._file.identity)
        if fault is not None and self._open:
            self._lost = self._fenced_error() or LedgerNotFoundError(f"{fault}. {repair_hint(self._name)}", self._name)
            if not isinstance(self._lost, LedgerFencedError):
                log.error("ledger_file_lost", file=self._name, reason=fault, mend=repair_hint(self._name))

    def _fenced_error(self) -> LedgerFencedError | None:
        """Return a LedgerFencedError if a later owner has fenced the ledger. Return None if no later owner has fenced
        it, or if this is unknown, because the file is not open in this process or cannot be read.
        """
        file = self._folder.files.pin_open(self._name)
        if file is None:
            return None
        try:
            self._check_fence(file.descriptor)
        except LedgerFencedError as error:
            return error
        except (LedgerError, OSError):
            return None
        finally:
            self._folder.files.unpin(file)
        return None

    def has_queued(self) -> bool:
        return bool(self._queue)

    def committed(self, outcome: object) -> None:
        if isinstance(outcome, _Group) and outcome.sizes:
            self._reader.index.extend(*outcome)
            self._on_durable(self._reader.entry_count - 1, None)
        elif isinstance(outcome, LedgerError):
            self._open = False
            self._failed = True
            self._queue.clear()
            self._on_durable(self._reader.entry_count, outcome)
        drained = self._failed or self._reader.entry_count == self._next
        if drained and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # ---- on a worker thread ----

    def commit(self) -> _Group | LedgerError | None:
        if self._broken:
            return None
        items = self._take()
        if not items:
            return _EMPTY_GROUP  # another commit took these entries before this one locked the gate
        try:
            file = self._folder.files.pin(self._name)
            try:
                self._require_not_lost()
                if file is not self._file:
                    self._require_same(file)
                self._write(file.descriptor, items)
                self._require_not_lost()
            finally:
                self._folder.files.unpin(file)
        except OSError as error:
            self._broken = True
            return ledger_error(error)
        except LedgerError as error:
            self._broken = True
            return error
        except struct.error as error:
            self._broken = True
            return LedgerError(f"{self._name}: the message count or publish time of an entry is out of range: {error}")
        data, counts, times = zip(*items, strict=True)
        return _Group(list(map(len, data)), list(counts), list(times))

    def _require_not_lost(self) -> None:
        """Raise the error that an earlier `check_file`, or an earlier check of the folder, has recorded; return if
        there is none. Does not look at the files itself.
        """
        lost = self._folder.lost or self._lost
        if lost is not None:
            raise lost

    def _require_same(self, file: OpenFile) -> None:
        """Check that `file`, which was opened again at the writer's path, is the file that this writer created; from
        then on use `file`. The epoch in the header is compared too, because a file that was created later may have the
        same inode number.

        Raises:
            LedgerNotFoundError: `file` is another file.
        """
        header = fmt.decode_header(self._name, os.pread(file.descriptor, fmt.HEADER_SIZE, 0), self._ledger_id)
        if file.identity != self._file.identity or header.epoch != self._epoch:
            raise LedgerNotFoundError(
                f"{self._name}: the file was replaced by another one. {repair_hint(self._name)}", self._name
            )
        self._file = file

    def _take(self) -> list[NewEntry]:
        queue, items, size = self._queue, [], 0
        for _ in range(len(queue)):
            item = queue.popleft()
            items.append(item)
            size += len(item[0])
            if size >= _MAX_GROUP_BYTES:
                break
        return items

    def _write(self, descriptor: int, items: list[NewEntry]) -> None:
        """Write a group of entries, make it durable, check that no later owner has fenced the file, then write the
        durable mark: in this order.

        Raises:
            LedgerFencedError: a later owner has fenced the file; it is unknown whether that owner has read this group.
            OSError: the group was not written completely.
        """
        try:
            end = _write_all(descriptor, fmt.encode_entries(items, self._heads, self._written), self._end)
            if self._folder.sync:
                os.fdatasync(descriptor)
        except OSError as error:
            if error.errno in NO_SPACE:
                self._cut_partial_group(descriptor)
            raise OSError(error.errno, error.strerror, self._name) from error
        self._check_fence(descriptor)
        self._end = end
        self._written += len(items)
        os.pwrite(descriptor, fmt.encode_mark(end), fmt.MARK_OFFSET)

    def _check_fence(self, descriptor: int) -> None:
        fenced_by = fmt.decode_fence(self._name, os.pread(descriptor, fmt.FENCE_SIZE, fmt.FENCE_OFFSET))
        if fenced_by > self._epoch:
            raise LedgerFencedError(self._name, self._epoch, fenced_by)

    def _cut_partial_group(self, descriptor: int) -> None:
        """Remove a group of entries that was not written completely from the end of the file. If a later owner has
        fenced the ledger, or is fencing it now, remove nothing, because that owner may have read the group.

        With direct I/O, several machines use the file, and this process cannot notice when its lock expires. Then the
        bytes always stay in the file, as a torn tail.
        """
        if self._folder.direct:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # it is being fenced at this moment
        try:
            self._check_fence(descriptor)
            os.ftruncate(descriptor, self._end)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write_all(descriptor: int, parts: Sequence[bytes], offset: int) -> int:
    """Write `parts` one after the other to a file, beginning at `offset`; return the offset after the last byte. Small
    parts are joined before they are written.
    """
    total = sum(map(len, parts))
    if total < _JOIN_BELOW_MEAN_BYTES * len(parts):
        parts = [b"".join(parts)]
    for at in range(0, len(parts), _MAX_VECTOR):
        vector: list[bytes | memoryview] = list(parts[at : at + _MAX_VECTOR])
        while (written := os.pwritev(descriptor, vector, offset)) < sum(map(len, vector)):
            offset += written
            while written >= len(vector[0]):
                written -= len(vector.pop(0))
            vector[0] = memoryview(vector[0])[written:]
        offset += written
    return offset
