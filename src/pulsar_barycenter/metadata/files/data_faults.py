"""Data that a broker lost while it had it open: a file or a folder removed, replaced, or on a mount that went away.

An open file can be written to after its name is gone. All of it succeeds, and all of it is lost with the last process
that has it open. So what a path names is compared with what it named when it was opened, by device and inode.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


class FileIdentity(NamedTuple):
    """What tells two files of a machine apart."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class DataFault:
    """What is wrong with a broker's data. `is_final`: the process that has it open cannot get it back."""

    text: str
    is_final: bool


def identity_of_descriptor(descriptor: int) -> FileIdentity:
    """Return the identity of an open file.

    Raises:
        OSError: it is not open.
    """
    status = os.fstat(descriptor)
    return FileIdentity(status.st_dev, status.st_ino)


def fault_of(path: str | Path, opened: FileIdentity) -> str | None:
    """Return what happened to the file or folder at `path` since it was opened as `opened`; None: nothing.

    A path that cannot be looked at for another reason, such as an I/O error, says nothing.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno not in _GONE:
            return None
        return f"{path} is gone: it was removed or renamed, or its mount went away"
    if (status.st_dev, status.st_ino) != opened:
        return f"{path} is not what this process opened: it was replaced, or another file system was mounted there"
    return None


class KeptPath:
    """A file or a folder that has to stay where it is as long as this process has it open."""

    def __init__(self, path: str | Path) -> None:
        """Note what is at `path` now.

        Raises:
            OSError: nothing is, or it cannot be looked at.
        """
        self.path = str(path)
        status = os.stat(path)
        self.identity = FileIdentity(status.st_dev, status.st_ino)

    def fault(self) -> str | None:
        """Return what happened to it since; None: nothing. For any thread; one system call."""
        return fault_of(self.path, self.identity)


def read_only_fault(folder: str) -> DataFault | None:
    """Return that the file system of a folder is read-only now, if it is; it may become writable again."""
    try:
        is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return None
    if not is_read_only:
        return None
    return DataFault(f"{folder} is on a file system that is read-only; nothing can be written", is_final=False)
