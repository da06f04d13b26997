"""Shows processes on one machine at once that another process has ended: each process holds a lock on a file of its
own.

The kernel releases a file lock when its process ends, for whatever reason. If the lock of a session's file is free, the
session's process has ended, and no client needs to wait for the session's timeout. A process that is only paused keeps
its lock; its session ends by its timeout.
"""

import fcntl
import os
import uuid
from pathlib import Path


class SessionFile:
    """A file that shows that this process is alive: the process holds the file's lock until `close`."""

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
        """Release the lock, but do not remove the file, as a process that crashes does."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def is_abandoned(folder: Path, name: str) -> bool:
    """Return whether the process that created the lock file has ended. If the file does not exist, return False."""
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
    """Remove the lock files of processes that have ended, except those named in `keep`."""
    for entry in tuple(folder.iterdir()):
        if entry.name not in keep:
            remove_if_abandoned(folder, entry.name)
