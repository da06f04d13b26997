"""How processes on one machine find at once that another one has ended: each holds a lock on a file of its own.

The kernel releases a file lock when its process ends, for whatever reason. If a session's lock can be taken, its
process has ended and its timeout need not be waited for. A process that is only stopped keeps its lock; its session
expires.
"""

import fcntl
import os
import uuid
from pathlib import Path


class SessionFile:
    """A file whose lock this process holds, from construction to `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        while True:
            self.name = uuid.uuid4().hex
            self._handle = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            if os.fstat(self._handle).st_nlink:
                return
            os.close(self._handle)  # another process removed it before it was locked

    def close(self) -> None:
        """Remove the file and release the lock. Idempotent."""
        if self._handle >= 0:
            (self._folder / self.name).unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Release the lock and leave the file, as a process that crashes does."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def is_abandoned(folder: Path, name: str) -> bool:
    """Return whether the process that created the file has ended; False also if the file does not exist."""
    try:
        handle = os.open(folder / name, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def remove_if_abandoned(folder: Path, name: str) -> None:
    if is_abandoned(folder, name):
        (folder / name).unlink(missing_ok=True)


def remove_abandoned(folder: Path, *, keep: set[str]) -> None:
    """Remove the files of processes that have ended, except those named in `keep`."""
    for entry in tuple(folder.iterdir()):
        if entry.name not in keep:
            remove_if_abandoned(folder, entry.name)
