"""Detects that a broker lost data that it has open: a file or folder was removed, replaced, or its mount disappeared.

A process can write to an open file after the file was deleted. All writes succeed, and all of them are lost when the
last process closes the file. So the device and inode numbers of a path are compared with those of the file that was
opened.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_REMOVED_ERRNOS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


class FileIdentity(NamedTuple):
    """Identifies a file or folder on one machine: the number of its device, and the number of its inode."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class DataFault:
    """What is wrong with a broker's data files, as text. If `is_final` is True, a process that has the files open
    cannot continue; it has to be restarted after an operator has fixed the fault.
    """

    text: str
    is_final: bool


def identity_of_descriptor(descriptor: int) -> FileIdentity:
    """Return the identity of the open file with this descriptor.

    Raises:
        OSError: the descriptor is not open.
    """
    status = os.fstat(descriptor)
    return FileIdentity(status.st_dev, status.st_ino)


def fault_of(path: str | Path, opened: FileIdentity) -> str | None:
    """Check that the file or folder at `path` is the one with the identity `opened`. Return None if it is, otherwise
    what is wrong, as text: it is missing, or was replaced.

    If it cannot be accessed for another reason, such as an I/O error, also return None, because this does not show that
    it was removed or replaced.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno not in _REMOVED_ERRNOS:
            return None
        return f"{path} is missing: it was removed or renamed, or its file system was unmounted"
    if (status.st_dev, status.st_ino) != opened:
        return f"{path} is not what this process opened: it was replaced, or another file system was mounted there"
    return None


class KeptPath:
    """The path of a file or folder that must not be moved, replaced or deleted while this process uses it."""

    def __init__(self, path: str | Path) -> None:
        """Record the identity of the file or folder that is at `path` now.

        Raises:
            OSError: nothing exists at `path`, or it cannot be accessed.
        """
        self.path = str(path)
        status = os.stat(path)
        self.identity = FileIdentity(status.st_dev, status.st_ino)

    def fault(self) -> str | None:
        """Return what is wrong, as text, if the file or folder was removed or replaced; otherwise None (see
        `fault_of`). Thread-safe.
        """
        return fault_of(self.path, self.identity)


def read_only_fault(folder: str) -> DataFault | None:
    """Return a fault if the file system of `folder` is read-only now, otherwise None. The fault is not final, because
    the file system may become writable again.
    """
    try:
        is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return None
    if not is_read_only:
        return None
    return DataFault(f"{folder} is on a read-only file system; nothing can be written", is_final=False)
