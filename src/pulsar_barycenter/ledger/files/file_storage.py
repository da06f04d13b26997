"""A `LedgerStorage` whose ledgers are files of a folder that all brokers share.

The threads of `group_commit` commit appends. All other file work runs on the small thread pool of the `LedgerFolder`,
so the event loop never waits for a disk.

Fencing. A later owner writes its epoch into the fence field, then reads the file. The writer reads the field after each
fdatasync and before it reports. In every order of these steps, an entry that is reported was complete in the file
before the fence was written, so the later owner has read it.

Both owners must see the file itself and not a cache of their machine. Where a file system caches what other machines
may change, files are opened for direct I/O (`LedgerFolder`).

The fence is written under the file's lock, because a writer whose disk is full holds the lock while it shortens the
file (`file_writer`). The wait for the lock is limited to two seconds, in case the writer's process is stopped at that
moment.
"""

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import (
    LedgerCorruptedError,
    LedgerError,
    LedgerFencedError,
    LedgerFolderLostError,
)
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.examine import examine
from pulsar_barycenter.ledger.files.file_reader import FileLedgerReader
from pulsar_barycenter.ledger.files.file_writer import FileLedgerWriter
from pulsar_barycenter.ledger.files.folder import FILE_MODE, FOLDER_MODE, NO_SPACE, LedgerFolder
from pulsar_barycenter.ledger.files.group_commit import GroupCommitter
from pulsar_barycenter.ledger.files.open_files import OpenFile
from pulsar_barycenter.ledger.storage import Content, Later, OnDurable, draw_counted_id, draw_unused_id, whole_entry
from pulsar_barycenter.metadata.files.data_faults import DataFault, read_only_fault
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

_PROBE_BYTES: Final = 64 << 10
_LOCK_ATTEMPTS: Final = 400
_LOCK_INTERVAL_S: Final = 0.005


class FileLedgerStorage:
    """Stores ledgers as files in the folder `root`, which is created if necessary.

    With `sync` False the operating system decides when bytes reach the disk: entries survive the end of the process,
    but not a crash of the machine. With `direct` True, the page cache of this machine is not used. This is for a file
    system that several machines mount (see `folder_needs`).

    Raises (on construction):
        LedgerFolderInUseError: the folder's files are being checked or repaired.
        LedgerError: the folder cannot be created or written to.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        sync: bool = True,
        caches: Caches | None = None,
        max_open_files: int = 256,
        commit_threads: int = 2,
        direct: bool = False,
    ) -> None:
        self.folder = LedgerFolder(str(Path(root)), sync=sync, max_open_files=max_open_files, direct=direct)
        self._caches = caches or Caches.of()
        self._commit_threads = commit_threads
        self._committer: GroupCommitter | None = None
        self._writers: set[FileLedgerWriter] = set()
        self._closed = False
        self._identity = uuid.uuid4().hex

    @property
    def caches(self) -> Caches:
        return self._caches

    @property
    def identity(self) -> str:
        return self._identity

    def check(self) -> DataFault | None:
        """Check that the folder, and the files that are being written, are still at the paths where they were opened.
        Return a fault if the folder was removed or replaced, or if its file system is read-only; otherwise None.

        After a check found that the folder was removed or replaced, no writer reports another entry as durable, and no
        ledger is created. If only the file of one writer was removed or replaced, None is returned, and that writer
        fails when it writes its next group of entries. This method blocks: call it on a separate thread, and never
        twice at the same time.
        """
        try:
            self.folder.require_there()
        except LedgerFolderLostError as error:
            return DataFault(str(error), is_final=True)
        for writer in list(self._writers):
            writer.check_file()
        return read_only_fault(self.folder.root)

    @property
    def bookies(self) -> Sequence[str]:
        return ()

    def store_of_racks(self, store: MetadataStore) -> MetadataStore:
        return store

    def on_groups(self, primary: Collection[str], secondary: Collection[str]) -> "FileLedgerStorage":
        return self

    async def new_id(self, store: MetadataStore, later: Later) -> int:
        return await draw_unused_id(lambda: draw_counted_id(store, later), self._exists)

    async def _exists(self, ledger_id: int) -> bool:
        return await self.folder.run(partial(os.path.lexists, self.folder.path(ledger_id)))

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> FileLedgerWriter:
        created = await self.folder.run(partial(_create, self.folder, ledger_id, epoch))
        if self._committer is None:
            self._committer = GroupCommitter(threads=self._commit_threads)
        writer = FileLedgerWriter(
            self.folder, self._committer, ledger_id, created, epoch, on_durable, self._writers.discard
        )
        self._writers.add(writer)
        return writer

    async def fence(self, ledger_id: int, *, epoch: int) -> FileLedgerReader:
        found = await self.folder.run(partial(_fence, self.folder, ledger_id, epoch))
        return FileLedgerReader(self.folder, ledger_id, found)

    async def open(self, ledger_id: int, *, entry_count: int, content: Content = whole_entry) -> FileLedgerReader:
        found = await self.folder.run(partial(_open, self.folder, ledger_id, entry_count))
        return FileLedgerReader(self.folder, ledger_id, found)

    async def delete(self, ledger_id: int) -> None:
        await self.folder.run(partial(_delete, self.folder, ledger_id))

    async def has_room(self) -> bool:
        return await self.folder.run(partial(_has_room, self.folder))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.folder.refuse_work()
        for writer in list(self._writers):
            await writer.close()
        if self._committer is not None:
            self._committer.stop()
        self.folder.close()


# ---- blocking file work of the storage, on its pool ----


def _create(folder: LedgerFolder, ledger_id: int, epoch: int) -> OpenFile:
    """Create the file of a new ledger, with its header. Make the file, and its name in the folder, durable if the
    folder's `sync` is True. If the root folder is missing, raise LedgerFolderLostError and do not create the folder
    again.
    """
    folder.require_there()
    path = folder.path(ledger_id)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        with suppress(FileExistsError):
            os.mkdir(parent, mode=FOLDER_MODE)
        _sync(folder, os.path.dirname(parent))
    try:
        descriptor = os.open(path, folder.flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError as error:
        raise LedgerError(
            f"{path}: the file of a new ledger exists already, so the ledger cannot be created; check that this folder"
            " and the metadata store are of the same cluster, and that neither was restored from an old copy"
        ) from error
    try:
        header = fmt.encode_header(ledger_id, epoch)
        if os.pwrite(descriptor, header, 0) != len(header):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if folder.sync:
            os.fsync(descriptor)
        _sync(folder, parent)
    except BaseException:
        os.close(descriptor)
        os.unlink(path)
        raise
    return folder.files.adopt(path, descriptor)


def _sync(folder: LedgerFolder, path: str) -> None:
    if folder.sync:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _has_room(folder: LedgerFolder) -> bool:
    """Test whether the disk has space: write a file of 64 KiB, make it durable, and remove it. Return False if the disk
    is full. Other errors are raised.
    """
    folder.require_there()
    path = f"{folder.root}/room-{uuid.uuid4().hex}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            written = os.pwrite(descriptor, bytes(_PROBE_BYTES), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            os.unlink(path)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        return False
    return written == _PROBE_BYTES


def _delete(folder: LedgerFolder, ledger_id: int) -> None:
    path = folder.path(ledger_id)
    folder.files.forget(path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _open(folder: LedgerFolder, ledger_id: int, entry_count: int) -> fmt.Scan:
    path = folder.path(ledger_id)
    file = folder.files.pin(path)
    try:
        return examine(path, file.descriptor, ledger_id, entry_count=entry_count, with_data=False)
    finally:
        folder.files.unpin(file)


def _fence(folder: LedgerFolder, ledger_id: int, epoch: int) -> fmt.Scan:
    """Write the fence into a ledger's file, then read the whole file and return what was found. Once the fence is
    written, the former owner's writer reports no further entries as durable. So the result contains every entry that it
    reported.

    The fence is also written if the header is damaged, but intact entries show that the file belongs to this ledger.

    Raises:
        LedgerFencedError: an owner with a higher epoch has fenced the ledger; nothing was written.
        LedgerError: a former owner keeps the lock of the file.
    """
    path = folder.path(ledger_id)
    descriptor = os.open(path, folder.flags)  # locks belong to an open file description, so this needs its own
    try:
        _lock(path, descriptor)
        fenced_by = _fenced_by(path, descriptor, ledger_id)
        if epoch < fenced_by:
            raise LedgerFencedError(path, epoch, fenced_by)
        os.pwrite(descriptor, fmt.encode_fence(epoch), fmt.FENCE_OFFSET)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        found = examine(path, descriptor, ledger_id, entry_count=None, with_data=True)
        if folder.sync:
            os.fdatasync(descriptor)  # entries that the former owner wrote without a sync count from now on
    finally:
        os.close(descriptor)
    if found.shortened:
        log.error("ledger_shortened", file=path, end=found.end, entries=len(found.index))
    elif found.torn:
        log.info("ledger_tail_cut", file=path, end=found.end, entries=len(found.index))
    return found


def _fenced_by(path: str, descriptor: int, ledger_id: int) -> int:
    """Return the epoch in the fence field of a ledger's file; 0 if the field is damaged, but intact entries show that
    the file belongs to this ledger.

    Raises:
        LedgerCorruptedError: the header is damaged, and the file has no intact entry of this ledger.
    """
    data = os.pread(descriptor, fmt.HEADER_SIZE, 0)
    try:
        return fmt.decode_header(path, data, ledger_id).fenced_by
    except LedgerCorruptedError:
        examine(path, descriptor, ledger_id, entry_count=None, with_data=True)
    with suppress(LedgerCorruptedError):
        return fmt.decode_fence(path, data[fmt.FENCE_OFFSET : fmt.FENCE_OFFSET + fmt.FENCE_SIZE])
    return 0


def _lock(path: str, descriptor: int) -> None:
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_INTERVAL_S)
        else:
            return
    raise LedgerError(
        f"{path}: a former owner still has the lock of the file. Its process may be paused: end that process"
    )
