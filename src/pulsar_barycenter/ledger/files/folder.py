"""The folder with the ledgers' files: their paths, which of them are open, and the threads that do file work."""

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFolderInUseError,
    LedgerFolderLostError,
    LedgerFullError,
    LedgerNotFoundError,
    LedgerUnreadableError,
    repair_hint,
)
from pulsar_barycenter.ledger.files.open_files import OpenFiles
from pulsar_barycenter.metadata.files.data_faults import KeptPath

_LEDGERS_PER_FOLDER_BITS: Final = 12
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""The permissions of new folders: only the brokers' user may read messages. Existing files and folders keep their
permissions.
"""
_FIXED_BY_OPERATOR: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENOTDIR})
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

T = TypeVar("T")


class LedgerFolder:
    """The folder with the ledgers' files. It keeps a limited number of these files open. If `sync` is True, writers
    force their bytes to the disk (fdatasync).

    `flags` are the flags with which ledger files are opened. If `direct` is True, files are read and written without
    this machine's page cache. So a write does not change the bytes around it, and a read returns what other machines
    wrote.
    """

    def __init__(self, root: str, *, sync: bool, max_open_files: int, direct: bool) -> None:
        """Create the folder if necessary, and hold a shared lock on it until `close`. Other brokers can hold this lock
        too.

        Raises:
            LedgerFolderInUseError: the folder's files are being checked or repaired.
            LedgerError: the folder cannot be created or written to.
        """
        self.root = root
        self._lock = shared_lock(root)
        self._kept = (KeptPath(root), KeptPath(f"{root}/lock"))
        self.lost: LedgerFolderLostError | None = None
        """Set when the folder is found to be removed or replaced. From then on nothing is written or reported."""
        self.sync = sync
        self.direct = direct
        self.flags = os.O_RDWR | os.O_CLOEXEC | (os.O_DIRECT | os.O_DSYNC if direct else 0)
        self.files = OpenFiles(max_open_files, self.flags)
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ledger-files")
        self._closed = False

    def require_there(self) -> None:
        """Check that the folder was not removed or replaced since it was opened. Thread-safe.

        Raises:
            LedgerFolderLostError: this check, or an earlier one, found that the folder was removed or replaced.
        """
        if self.lost is None:
            fault = next(filter(None, (kept.fault() for kept in self._kept)), None)
            if fault is not None:
                self.lost = LedgerFolderLostError(fault)
        if self.lost is not None:
            raise self.lost

    def path(self, ledger_id: int) -> str:
        """Return the path of a ledger's file. It is in a subfolder, which has the files of 4096 consecutive
        ledger ids.
        """
        return ledger_path(self.root, ledger_id)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which may block on files, on a thread of the pool, and return its result. An OSError is raised as
        the corresponding LedgerError.

        Raises:
            LedgerClosedError: `refuse_work` was called before.
        """
        if self._closed:
            raise LedgerClosedError(
                f"{self.root}: the ledger storage is closed, because its broker stops or has stopped"
            )
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            raise ledger_error(error) from error

    def refuse_work(self) -> None:
        """From now on `run` raises a LedgerClosedError. Work that was passed to `run` before continues."""
        self._closed = True

    def close(self) -> None:
        """Wait until the work that was passed to `run` is done, then close the files and release the folder's lock.
        This blocks.
        """
        self._pool.shutdown()
        self.files.close()
        os.close(self._lock)


def ledger_path(root: str, ledger_id: int) -> str:
    return f"{root}/{ledger_id >> _LEDGERS_PER_FOLDER_BITS:06x}/{ledger_id:012x}.ledger"


def ledger_files(root: str) -> Iterator[tuple[int, str]]:
    """Yield (ledger id, path) for each ledger file in the folder `root` and its subfolders, lowest id first. Other
    files are ignored.
    """
    for path in sorted(Path(root).glob("*/*.ledger")):
        with suppress(ValueError):
            ledger_id = int(path.stem, 16)
            if ledger_path(root, ledger_id) == str(path):
                yield ledger_id, str(path)


def shared_lock(root: str) -> int:
    """Take a shared lock on the folder, which several brokers can hold at the same time, and create the folder if
    necessary. Return the lock's file descriptor; the caller closes it to release the lock.

    Raises:
        LedgerFolderInUseError: the folder's files are being checked or repaired.
        LedgerError: the folder cannot be created or written to.
    """
    try:
        os.makedirs(root, mode=FOLDER_MODE, exist_ok=True)
        return _locked(root, fcntl.LOCK_SH)
    except BlockingIOError:
        raise LedgerFolderInUseError(
            f"{root}: the ledgers are being checked or repaired by `barycenter ledger`; wait until that has ended"
        ) from None
    except OSError as error:
        raise ledger_error(error) from error


@contextmanager
def exclusive(root: str) -> Iterator[None]:
    """Context manager: lock the folder so that no broker can use it; create it if necessary.

    Raises:
        LedgerFolderInUseError: a broker uses the folder.
        LedgerError: the folder cannot be created or written to.
    """
    try:
        os.makedirs(root, mode=FOLDER_MODE, exist_ok=True)
        descriptor = _locked(root, fcntl.LOCK_EX)
    except BlockingIOError:
        raise LedgerFolderInUseError(f"{root}: a broker uses these ledgers; stop the broker first") from None
    except OSError as error:
        raise ledger_error(error) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(root: str, kind: int) -> int:
    """Open the file named `lock` in the folder, which is created if necessary, lock it, and return its descriptor.
    `kind` is LOCK_SH (shared) or LOCK_EX (exclusive) of the module fcntl. Nothing is written to the file.

    Raises:
        BlockingIOError: another process has a lock that excludes this one.
        OSError: the file cannot be opened, for example because it is a symbolic link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{root}/lock", flags, FILE_MODE)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def ledger_error(error: OSError) -> LedgerError:
    """Return the LedgerError that corresponds to an OSError, chosen by its errno."""
    text = f"{error.filename or 'ledger file'}: {error.strerror or error}"
    if error.errno in NO_SPACE:
        return LedgerFullError(text)
    if error.errno == errno.ENOENT:
        file = str(error.filename or "")
        return LedgerNotFoundError(f"{text}. {repair_hint(file)}", file)
    if error.errno in _FIXED_BY_OPERATOR and error.filename is not None:
        return LedgerUnreadableError(text, str(error.filename))
    return LedgerError(text)
