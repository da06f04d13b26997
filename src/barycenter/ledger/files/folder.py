"""The folder of the ledgers' files: where each stands, which are open, and the threads that wait for the disk."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFullError, LedgerNotFoundError
from barycenter.ledger.files.open_files import OpenFiles

_LEDGERS_PER_FOLDER_BITS: Final = 12
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

T = TypeVar("T")


class LedgerFolder:
    """What a storage and its writers and readers share. `sync` says whether bytes are forced to the disk."""

    def __init__(self, root: str, *, sync: bool, max_open_files: int) -> None:
        self.root = root
        self.sync = sync
        self.files = OpenFiles(max_open_files)
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ledger-files")
        self._closed = False

    def path(self, ledger_id: int) -> str:
        """Return a ledger's file; a folder holds 4096 consecutive ids."""
        return f"{self.root}/{ledger_id >> _LEDGERS_PER_FOLDER_BITS:06x}/{ledger_id:012x}.ledger"

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


def in_our_terms(error: OSError) -> LedgerError:
    text = f"{error.filename or 'ledger file'}: {error.strerror or error}"
    if error.errno in NO_SPACE:
        return LedgerFullError(text)
    if error.errno == errno.ENOENT:
        return LedgerNotFoundError(text)
    return LedgerError(text)
