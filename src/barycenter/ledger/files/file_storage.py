"""Ledgers as files of a folder that all brokers share.

The layout of a file is in `file_format`. Appends are committed in groups by the threads of `group_commit`; all
other file work runs on a small pool, so the event loop never waits for a disk.

Fencing. A later owner writes its epoch into the fence field, then reads. The writer reads the field after each
fdatasync and before it reports. Whichever way the two interleave, an entry that is reported was complete in the
file before the fence was written, so the later owner has read it.

Only a writer whose disk was full shortens its file, and it must not do so once fenced: the later owner may have
counted entries of that group. The two exclude each other by a lock on the file, held for some microseconds; a
later owner waits for it for a bounded time, in case the writer's process is stopped just there.
"""

import asyncio
import errno
import fcntl
import os
import struct
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import structlog

from barycenter.ledger.caches import Caches
from barycenter.ledger.entry_index import EntryIndex
from barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerFullError,
    LedgerNotFoundError,
)
from barycenter.ledger.files import file_format as fmt
from barycenter.ledger.files.group_commit import GroupCommitter
from barycenter.ledger.files.open_files import OpenFiles
from barycenter.ledger.storage import EntryInfo, OnDurable

log = structlog.get_logger(__name__)

_MAX_GROUP_BYTES: Final = 8 << 20
_MAX_VECTOR: Final = 512
_JOIN_BELOW_MEAN_BYTES: Final = 16 << 10
_LEDGERS_PER_FOLDER_BITS: Final = 12
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_LOCK_ATTEMPTS: Final = 400
_LOCK_INTERVAL_S: Final = 0.005

T = TypeVar("T")


class FileLedgerStorage:
    """Ledger files under `root`, which is created. `sync` False leaves durability to the operating system: it
    survives the end of the process, not of the machine."""

    def __init__(
        self,
        root: str | Path,
        *,
        sync: bool = True,
        caches: Caches | None = None,
        max_open_files: int = 256,
        commit_threads: int = 2,
    ) -> None:
        self.root = Path(root)
        self.sync = sync
        self.files = OpenFiles(max_open_files)
        self._caches = caches or Caches.of()
        self._commit_threads = commit_threads
        self._committer: GroupCommitter | None = None
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ledger-files")
        self._writers: set[FileLedgerWriter] = set()
        self._closed = False
        self._identity = uuid.uuid4().hex

    @property
    def caches(self) -> Caches:
        return self._caches

    @property
    def identity(self) -> str:
        return self._identity

    def path(self, ledger_id: int) -> str:
        """Return a ledger's file; a folder holds 4096 consecutive ids."""
        return f"{self.root}/{ledger_id >> _LEDGERS_PER_FOLDER_BITS:06x}/{ledger_id:012x}.ledger"

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> "FileLedgerWriter":
        await self.run(partial(_create, self, ledger_id, epoch))
        if self._committer is None:
            self._committer = GroupCommitter(threads=self._commit_threads)
        writer = FileLedgerWriter(self, self._committer, ledger_id, epoch, on_durable)
        self._writers.add(writer)
        return writer

    async def fence(self, ledger_id: int, *, epoch: int) -> "FileLedgerReader":
        index = await self.run(partial(_fence, self, ledger_id, epoch))
        return FileLedgerReader(self, ledger_id, index)

    async def open(self, ledger_id: int, *, entry_count: int) -> "FileLedgerReader":
        index = await self.run(partial(_index, self, ledger_id, entry_count))
        return FileLedgerReader(self, ledger_id, index)

    async def delete(self, ledger_id: int) -> None:
        await self.run(partial(_delete, self, ledger_id))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for writer in list(self._writers):
            await writer.close()
        if self._committer is not None:
            self._committer.stop()
        self._pool.shutdown()
        self.files.close()

    def forget(self, writer: "FileLedgerWriter") -> None:
        self._writers.discard(writer)

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking file work on the pool; its OSErrors come as LedgerErrors."""
        if self._closed:
            raise LedgerClosedError(f"{self.root}: the ledger storage is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            raise _translated(error) from error


def _translated(error: OSError) -> LedgerError:
    text = f"{error.filename or 'ledger file'}: {error.strerror or error}"
    if error.errno in _NO_SPACE:
        return LedgerFullError(text)
    if error.errno == errno.ENOENT:
        return LedgerNotFoundError(text)
    return LedgerError(text)


class _Group(NamedTuple):
    sizes: list[int]
    num_messages: list[int]
    publish_times_ms: list[int]


class FileLedgerWriter:
    """Made by `FileLedgerStorage.create`. `append` and `committed` run on the loop, `commit` on a worker."""

    __slots__ = (
        "_broken",
        "_committer",
        "_drained",
        "_end",
        "_epoch",
        "_failed",
        "_name",
        "_next",
        "_on_durable",
        "_open",
        "_queue",
        "_reader",
        "_seed",
        "_storage",
        "gate",
    )

    def __init__(
        self,
        storage: FileLedgerStorage,
        committer: GroupCommitter,
        ledger_id: int,
        epoch: int,
        on_durable: OnDurable,
    ) -> None:
        self._storage = storage
        self._committer = committer
        self._name = storage.path(ledger_id)
        self._epoch = epoch
        self._on_durable = on_durable
        self._queue: deque[tuple[bytes, int, int]] = deque()
        self._next = 0
        self._open = True
        self._broken = False  # set by a worker
        self._failed = False  # and this when it is reported
        self._reader = FileLedgerReader(storage, ledger_id, EntryIndex())
        self._seed = fmt.seed(ledger_id)
        self._end = fmt.HEADER_SIZE
        self._drained: asyncio.Future[None] | None = None
        self.gate = Lock()

    @property
    def next_entry_id(self) -> int:
        return self._next

    @property
    def reader(self) -> "FileLedgerReader":
        return self._reader

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        if not self._open:
            raise LedgerClosedError(f"{self._name}: the writer is closed")
        self._queue.append((entry, num_messages, publish_time_ms))
        if self.gate.acquire(False):
            self._committer.submit(self)
        entry_id = self._next
        self._next = entry_id + 1
        return entry_id

    async def close(self) -> None:
        self._open = False
        if not self._failed and self._reader.entry_count < self._next:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        self._storage.forget(self)
        self._storage.files.forget(self._name)

    def has_queued(self) -> bool:
        return bool(self._queue)

    def committed(self, outcome: object) -> None:
        if isinstance(outcome, _Group):
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

    def commit(self) -> "_Group | LedgerError | None":
        if self._broken:
            return None
        items = self._take()
        try:
            file = self._storage.files.pin(self._name)
            try:
                self._write(file.descriptor, items)
            finally:
                self._storage.files.unpin(file)
        except OSError as error:
            self._broken = True
            return _translated(error)
        except LedgerError as error:
            self._broken = True
            return error
        except struct.error as error:
            self._broken = True
            return LedgerError(f"{self._name}: a message count or a publish time does not fit: {error}")
        data, counts, times = zip(*items, strict=True)
        return _Group(list(map(len, data)), list(counts), list(times))

    def _take(self) -> list[tuple[bytes, int, int]]:
        queue, items, size = self._queue, [], 0
        for _ in range(len(queue)):
            item = queue.popleft()
            items.append(item)
            size += len(item[0])
            if size >= _MAX_GROUP_BYTES:
                break
        return items

    def _write(self, descriptor: int, items: list[tuple[bytes, int, int]]) -> None:
        """Write a group, make it durable, look for a fence, note that it is durable: in this order."""
        try:
            end = _write_all(descriptor, fmt.encode_entries(items, self._seed), self._end)
            if self._storage.sync:
                os.fdatasync(descriptor)
        except OSError as error:
            if error.errno in _NO_SPACE:
                self._cut_partial_group(descriptor)
            raise OSError(error.errno, error.strerror, self._name) from error
        self._check_fence(descriptor)
        self._end = end
        os.pwrite(descriptor, fmt.encode_mark(end), fmt.MARK_OFFSET)

    def _check_fence(self, descriptor: int) -> None:
        fenced_by = fmt.decode_fence(self._name, os.pread(descriptor, fmt.FENCE_SIZE, fmt.FENCE_OFFSET))
        if fenced_by > self._epoch:
            raise LedgerFencedError(self._name, self._epoch, fenced_by)

    def _cut_partial_group(self, descriptor: int) -> None:
        """Give the space of a failed group back; a later owner that has fenced the ledger keeps what it found."""
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


class FileLedgerReader:
    """Reads entries that are known to be complete; holds no open file of its own."""

    __slots__ = ("_index", "_ledger_id", "_storage")

    def __init__(self, storage: FileLedgerStorage, ledger_id: int, index: EntryIndex) -> None:
        self._storage = storage
        self._ledger_id = ledger_id
        self._index = index

    @property
    def entry_count(self) -> int:
        return len(self._index)

    @property
    def index(self) -> EntryIndex:
        return self._index

    def info(self, entry_id: int) -> EntryInfo:
        return self._index.info(entry_id)

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        stop = min(last + 1, len(self._index))
        if not 0 <= first < stop:
            return []
        stop = self._index.stop_within(first, stop, max_bytes, None)
        begin, end = fmt.offset_of(self._index, first), fmt.offset_of(self._index, stop)
        return await self._storage.run(partial(self._read, begin, end, stop - first))

    def _read(self, begin: int, end: int, count: int) -> list[bytes]:
        path = self._storage.path(self._ledger_id)
        file = self._storage.files.pin(path)
        try:
            data = _read_exactly(file.descriptor, begin, end - begin)
        finally:
            self._storage.files.unpin(file)
        return fmt.decode_entries(path, data, begin, count, fmt.seed(self._ledger_id))

    def close(self) -> None:
        self._storage.files.forget(self._storage.path(self._ledger_id))


def _read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Read `length` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


# ---- blocking file work of the storage, on its pool ----


def _create(storage: FileLedgerStorage, ledger_id: int, epoch: int) -> None:
    """Make the file, header included, durable before anything is told of it."""
    path = storage.path(ledger_id)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        _sync_folder(storage, os.path.dirname(folder))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        raise LedgerError(f"{path}: exists already") from error
    try:
        header = fmt.encode_header(ledger_id, epoch)
        if os.pwrite(descriptor, header, 0) != len(header):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if storage.sync:
            os.fsync(descriptor)
        _sync_folder(storage, folder)
    except BaseException:
        os.close(descriptor)
        os.unlink(path)
        raise
    storage.files.adopt(path, descriptor)


def _sync_folder(storage: FileLedgerStorage, folder: str) -> None:
    if storage.sync:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _delete(storage: FileLedgerStorage, ledger_id: int) -> None:
    path = storage.path(ledger_id)
    storage.files.forget(path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _index(storage: FileLedgerStorage, ledger_id: int, entry_count: int) -> EntryIndex:
    path = storage.path(ledger_id)
    file = storage.files.pin(path)
    try:
        found = _scan(path, file.descriptor, ledger_id, entry_count=entry_count)
    finally:
        storage.files.unpin(file)
    return found.index


def _scan(path: str, descriptor: int, ledger_id: int, *, entry_count: int | None) -> fmt.Scan:
    header = fmt.decode_header(path, os.pread(descriptor, fmt.HEADER_SIZE, 0), ledger_id)
    size = os.fstat(descriptor).st_size
    return fmt.scan(
        path,
        partial(_read_exactly, descriptor),
        size,
        header,
        with_data=entry_count is None,
        entry_count=entry_count,
    )


def _fence(storage: FileLedgerStorage, ledger_id: int, epoch: int) -> EntryIndex:
    """Write the fence, then read: nothing that is reported later than the fence is missing from what is read."""
    path = storage.path(ledger_id)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # its own, as locks belong to an opening of the file
    try:
        _lock(path, descriptor)
        header = fmt.decode_header(path, os.pread(descriptor, fmt.HEADER_SIZE, 0), ledger_id)
        if epoch < header.fenced_by:
            raise LedgerFencedError(path, epoch, header.fenced_by)
        os.pwrite(descriptor, fmt.encode_fence(epoch), fmt.FENCE_OFFSET)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        found = _scan(path, descriptor, ledger_id, entry_count=None)
        if storage.sync:
            os.fdatasync(descriptor)  # entries that the former owner had written and not synced count from now on
    finally:
        os.close(descriptor)
    if found.shortened:
        log.error("ledger_shortened", file=path, end=found.end, entries=len(found.index))
    elif found.torn:
        log.info("ledger_tail_cut", file=path, end=found.end, entries=len(found.index))
    return found.index


def _lock(path: str, descriptor: int) -> None:
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_INTERVAL_S)
        else:
            return
    raise LedgerError(f"{path}: a former owner holds the file's lock; its process may be stopped")
