"""Detects that a broker lost data that it has open: a file or folder was removed, replaced, or its mount disappeared.

A process can write to an open file after the file was deleted. All writes succeed, and all of them are lost when the
last process closes the file. So device and inode of a path are compared with those at the time it was opened.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_REMOVED_ERRNOS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


class FileIdentity(NamedTuple):
    """Identifies a file on one machine."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class DataFault:
    """A fault of a broker's data files. `is_final`: a process that has the data open cannot recover from it."""

    text: str
    is_final: bool


def identity_of_descriptor(descriptor: int) -> FileIdentity:
    """Return the identity of an open file.

    Raises:
        OSError: the descriptor is not open.
    """
    status = os.fstat(descriptor)
    return FileIdentity(status.st_dev, status.st_ino)


def fault_of(path: str | Path, opened: FileIdentity) -> str | None:
    """Return the fault of the file or folder at `path`, which had the identity `opened` when it was opened; None if it
    is still the same one.

    Errors of another kind, such as an I/O error, are no fault of the path: None is returned, too.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno not in _REMOVED_ERRNOS:
            return None
        return f"{path} is gone: it was removed or renamed, or its file system was unmounted"
    if (status.st_dev, status.st_ino) != opened:
        return f"{path} is not what this process opened: it was replaced, or another file system was mounted there"
    return None


class KeptPath:
    """A file or a folder that has to stay in place while this process has it open."""

    def __init__(self, path: str | Path) -> None:
        """Record the identity of the file or folder that is at `path` now.

        Raises:
            OSError: nothing exists at `path`, or it cannot be accessed.
        """
        self.path = str(path)
        status = os.stat(path)
        self.identity = FileIdentity(status.st_dev, status.st_ino)

    def fault(self) -> str | None:
        """Return the fault of the path (see `fault_of`); None if it is still the same file or folder. Thread-safe; one
        system call.
        """
        return fault_of(self.path, self.identity)


def read_only_fault(folder: str) -> DataFault | None:
    """Return a fault if the file system of a folder is read-only now, otherwise None. It may become writable again."""
    try:
        is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return None
    if not is_read_only:
        return None
    return DataFault(f"{folder} is on a read-only file system; nothing can be written", is_final=False)
