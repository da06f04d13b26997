"""How processes on one machine see at once that another has died: each holds a lock on a file of its own.

The kernel drops a file lock when its holder ends, however it ends. A session whose lock can be taken has no
process any more and need not be waited for; one whose process is merely stopped keeps its lock and expires by
time.
"""

import fcntl
import os
import uuid
from pathlib import Path


class SessionFile:
    """A file that this process holds the lock of, from construction to `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        while True:
            self.name = uuid.uuid4().hex
            self._handle = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            if os.fstat(self._handle).st_nlink:
                return
            os.close(self._handle)  # somebody tidied it away before it was locked

    def close(self) -> None:
        """Remove the file and let the lock go. Idempotent."""
        if self._handle >= 0:
            (self._folder / self.name).unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Let the lock go and leave the file, as a process that dies does."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def is_abandoned(folder: Path, name: str) -> bool:
    """Tell whether the process that made the file has ended; False also if the file is gone."""
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
    """Remove the files that dead processes left, except those named in `keep`."""
    for entry in tuple(folder.iterdir()):
        if entry.name not in keep:
            remove_if_abandoned(folder, entry.name)
