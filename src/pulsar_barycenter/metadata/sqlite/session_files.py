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
    """A new file in `folder`, on which this process holds a lock until `close`. The lock shows other processes that
    this process is alive, because the operating system releases it when the process ends.
    """

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
        """Release the lock, but leave the file, as after a crash of the process."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def is_abandoned(folder: Path, name: str) -> bool:
    """Return True if the file `name` in `folder` exists and no process holds its lock, so that the process that created
    it has ended. Return False if the file does not exist or cannot be opened.
    """
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
    """Remove the files in `folder` whose locks no process holds, because the processes that created them have ended.
    Files whose names are in `keep` are not removed.
    """
    for entry in tuple(folder.iterdir()):
        if entry.name not in keep:
            remove_if_abandoned(folder, entry.name)
