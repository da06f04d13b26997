"""Appending to a ledger's file: entries are queued on the loop and committed in groups by a worker thread.

A group is written, made durable, and only then is the fence looked for; nothing is reported before that, and nothing of
a file that has lost its name (`check_file`) or whose folder has (`LedgerFolder.require_there`). Only a
writer whose disk was full shortens its file, and it must not do so once fenced: the later owner may have counted
entries of that group. The two exclude each other by a lock on the file, held for some microseconds.
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

from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerNotFoundError,
    how_to_mend,
)
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_reader import FileLedgerReader
from pulsar_barycenter.ledger.files.folder import NO_SPACE, LedgerFolder, in_our_terms
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


_NOTHING: Final = _Group([], [], [])


class FileLedgerWriter:
    """Made by `FileLedgerStorage.create`; calls `on_closed` at its end. `append` and `committed` run on the loop,
    `commit` on a worker."""

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
        self._lost: LedgerError | None = None  # set by the thread that checks
        self._epoch = epoch
        self._on_durable = on_durable
        self._on_closed = on_closed
        self._queue: deque[NewEntry] = deque()
        self._next = 0
        self._open = True
        self._broken = False  # set by a worker
        self._failed = False  # and this when it is reported
        self._reader = FileLedgerReader(folder, ledger_id, fmt.Scan(), is_growing=True)
        self._heads = fmt.Heads.of(ledger_id)
        self._written = 0
        self._end = fmt.HEADER_SIZE
        self._drained: asyncio.Future[None] | None = None
        self.gate = Lock()

    @property
    def reader(self) -> FileLedgerReader:
        return self._reader

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
        """Have the writer fail with its next group if the file is not where it was created; for a thread of its own.

        A file that a later owner of the topic fenced may be deleted by that owner: this is no loss.
        """
        if self._lost is not None or not self._open:
            return
        fault = fault_of(self._name, self._file.identity)
        if fault is not None and self._open:
            self._lost = self._fenced_error() or LedgerNotFoundError(f"{fault}. {how_to_mend(self._name)}", self._name)
            if not isinstance(self._lost, LedgerFencedError):
                log.error("ledger_file_lost", file=self._name, reason=fault, mend=how_to_mend(self._name))

    def _fenced_error(self) -> LedgerFencedError | None:
        """Return that a later owner fenced the file, if it did, and if the file is open here."""
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
            return _NOTHING  # they were queued before a group was taken, and went with it; the gate was locked after it
        try:
            file = self._folder.files.pin(self._name)
            try:
                self._require_kept()
                if file is not self._file:
                    self._require_same(file)
                self._write(file.descriptor, items)
                self._require_kept()
            finally:
                self._folder.files.unpin(file)
        except OSError as error:
            self._broken = True
            return in_our_terms(error)
        except LedgerError as error:
            self._broken = True
            return error
        except struct.error as error:
            self._broken = True
            return LedgerError(f"{self._name}: a message count or a publish time does not fit: {error}")
        data, counts, times = zip(*items, strict=True)
        return _Group(list(map(len, data)), list(counts), list(times))

    def _require_kept(self) -> None:
        """Raise what was found of the file or its folder; no system call, so it costs the path of messages nothing."""
        lost = self._folder.lost or self._lost
        if lost is not None:
            raise lost

    def _require_same(self, file: OpenFile) -> None:
        """Take over another opening of the file, unless another file is there; its number may be given anew."""
        header = fmt.decode_header(self._name, os.pread(file.descriptor, fmt.HEADER_SIZE, 0), self._ledger_id)
        if file.identity != self._file.identity or header.epoch != self._epoch:
            raise LedgerNotFoundError(f"{self._name}: was replaced. {how_to_mend(self._name)}", self._name)
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
        """Write a group, make it durable, look for a fence, note that it is durable: in this order."""
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
        """Give the space of a failed group back; a later owner that has fenced the ledger keeps what it found.

        Between machines the lock is a lease, which may have ended unseen: what was written there stays, as a torn tail.
        """
        if self._folder.direct:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # it is being fenced this moment
        try:
            self._check_fence(descriptor)
            os.ftruncate(descriptor, self._end)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write_all(descriptor: int, parts: Sequence[bytes], offset: int) -> int:
    """Write `parts` at `offset`, small ones joined, and return where they end."""
    total = sum(map(len, parts))
    if total < _JOIN_BELOW_MEAN_BYTES * len(parts):
        parts = [b"".join(parts)]
    for at in range(0, len(parts), _MAX_VECTOR):
        vector: list[bytes | memoryview] = list(parts[at : at + _MAX_VECTOR])
        while vector:
            written = os.pwritev(descriptor, vector, offset)
            offset += written
            while vector and written >= len(vector[0]):
                written -= len(vector.pop(0))
            if written:
                vector[0] = memoryview(vector[0])[written:]
    return offset
