"""The folder of the ledgers' files: where each stands, which are open, and the threads that wait for the disk."""

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
    how_to_mend,
)
from pulsar_barycenter.ledger.files.open_files import OpenFiles
from pulsar_barycenter.metadata.files.data_faults import KeptPath

_LEDGERS_PER_FOLDER_BITS: Final = 12
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Messages are for the brokers' user alone; files and folders that are there keep the rights they have."""
_A_HAND_MENDS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENOTDIR})
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

T = TypeVar("T")


class LedgerFolder:
    """What a storage and its writers and readers share. `sync` says whether bytes are forced to the disk.

    `flags` are those with which files of ledgers are opened. With `direct` no byte passes through this machine's
    caches: a write carries the bytes it was given and none of the page around them, and a read has what other machines
    wrote.
    """

    def __init__(self, root: str, *, sync: bool, max_open_files: int, direct: bool) -> None:
        """Make the folder if need be, and hold it together with others until `close`.

        Raises:
            LedgerFolderInUseError: its files are being checked or repaired.
            LedgerError: it cannot be made or written to.
        """
        self.root = root
        self._lock = shared_lock(root)
        self._kept = (KeptPath(root), KeptPath(f"{root}/lock"))
        self.lost: LedgerFolderLostError | None = None
        """Set once, when the folder was found removed or replaced: nothing is written or reported from then on."""
        self.sync = sync
        self.direct = direct
        self.flags = os.O_RDWR | os.O_CLOEXEC | (os.O_DIRECT | os.O_DSYNC if direct else 0)
        self.files = OpenFiles(max_open_files, self.flags)
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ledger-files")
        self._closed = False

    def require_there(self) -> None:
        """Return if the folder is still where it was opened; for any thread.

        Raises:
            LedgerFolderLostError: it was removed or replaced, now or before.
        """
        if self.lost is None:
            fault = next(filter(None, (kept.fault() for kept in self._kept)), None)
            if fault is not None:
                self.lost = LedgerFolderLostError(fault)
        if self.lost is not None:
            raise self.lost

    def path(self, ledger_id: int) -> str:
        """Return a ledger's file; a folder holds 4096 consecutive ids."""
        return ledger_path(self.root, ledger_id)

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking file work on the pool; its OSErrors come as LedgerErrors."""
        if self._closed:
            raise LedgerClosedError(f"{self.root}: the ledger storage is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            raise in_our_terms(error) from error

    def refuse_work(self) -> None:
        """Take no more work; what was begun goes on."""
        self._closed = True

    def close(self) -> None:
        """Wait for the work that was begun, and close the files."""
        self._pool.shutdown()
        self.files.close()
        os.close(self._lock)


def ledger_path(root: str, ledger_id: int) -> str:
    return f"{root}/{ledger_id >> _LEDGERS_PER_FOLDER_BITS:06x}/{ledger_id:012x}.ledger"


def ledger_files(root: str) -> Iterator[tuple[int, str]]:
    """Yield the ledgers' files with their ids, the lowest first; other files are passed over."""
    for path in sorted(Path(root).glob("*/*.ledger")):
        with suppress(ValueError):
            ledger_id = int(path.stem, 16)
            if ledger_path(root, ledger_id) == str(path):
                yield ledger_id, str(path)


def shared_lock(root: str) -> int:
    """Hold the folder, which is made if need be, together with others that use it; return the descriptor to close.

    Raises:
        LedgerFolderInUseError: its files are being checked or repaired.
        LedgerError: it cannot be made or written to.
    """
    try:
        os.makedirs(root, mode=FOLDER_MODE, exist_ok=True)
        return _locked(root, fcntl.LOCK_SH)
    except BlockingIOError:
        raise LedgerFolderInUseError(
            f"{root}: the ledgers are being checked or repaired by `barycenter ledger`; wait until it has ended"
        ) from None
    except OSError as error:
        raise in_our_terms(error) from error


@contextmanager
def exclusive(root: str) -> Iterator[None]:
    """Hold the folder, which is made if need be, alone.

    Raises:
        LedgerFolderInUseError: a broker runs on it.
        LedgerError: it cannot be made or written to.
    """
    try:
        os.makedirs(root, mode=FOLDER_MODE, exist_ok=True)
        descriptor = _locked(root, fcntl.LOCK_EX)
    except BlockingIOError:
        raise LedgerFolderInUseError(f"{root}: a broker runs on these ledgers; stop it first") from None
    except OSError as error:
        raise in_our_terms(error) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(root: str, kind: int) -> int:
    """Lock the file `lock` of the folder; it has no content, and a link in its place is refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{root}/lock", flags, FILE_MODE)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def in_our_terms(error: OSError) -> LedgerError:
    text = f"{error.filename or 'ledger file'}: {error.strerror or error}"
    if error.errno in NO_SPACE:
        return LedgerFullError(text)
    if error.errno == errno.ENOENT:
        file = str(error.filename or "")
        return LedgerNotFoundError(f"{text}. {how_to_mend(file)}", file)
    if error.errno in _A_HAND_MENDS and error.filename is not None:
        return LedgerUnreadableError(text, str(error.filename))
    return LedgerError(text)
