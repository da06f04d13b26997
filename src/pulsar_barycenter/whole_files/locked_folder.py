"""Locks a folder of this machine, so that one process at a time writes to it."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_HAS_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)
"""The error numbers with which file systems answer that cannot lock folders, such as NFS."""


class FolderInUseError(Exception):
    """The folder is locked already, by another process or by this one."""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock an existing folder while the block runs. The operating system releases the lock when the process ends for
    any reason.

    The lock excludes only callers of this function. On a file system that cannot lock folders, the block runs
    without a lock.

    Raises:
        FolderInUseError: the folder is locked already, by another process or by this one.
        OSError: the folder cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUseError(
                f"another process uses the folder {folder}; wait until that process has ended, or give another folder"
            ) from None
        except OSError as error:
            if error.errno not in _HAS_NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)
