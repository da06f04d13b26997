"""The data folder of a cluster on one machine: its paths, and the lock that keeps a second cluster out."""

import errno
import fcntl
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from pulsar_barycenter.standalone.errors import DataDirectoryBusyError, DataDirectoryUnusableError, NoLockFileError

_MAX_HOLDER_BYTES: Final = 32
_HOLDER: Final = re.compile(rb"[0-9]{0,20}\s?")
"""The content of a lock file: the id of the process that holds the lock, or held it last."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths in the data directory: the folder of `--data`, which has all durable state of the cluster."""

    root: Path

    @property
    def metadata(self) -> Path:
        return self.root / "metadata.sqlite"

    @property
    def lock(self) -> Path:
        return self.root / "cluster.lock"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def configurations(self) -> Path:
        return self.root / "conf"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def decisions(self) -> Path:
        return self.root / "decisions"

    def create(self) -> None:
        """Create the folders of the data directory.

        Raises:
            DataDirectoryUnusableError: a folder cannot be created.
        """
        try:
            for folder in (self.root, self.logs, self.configurations):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DataDirectoryUnusableError(self.root, error) from error


def holder_of(directory: DataDirectory) -> int | None:
    """Return the id of the process that runs a cluster in `directory`; None if no process runs a cluster there, or if
    its id cannot be read.
    """
    try:
        file = os.open(directory.lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        content = os.pread(file, _MAX_HOLDER_BYTES, 0)
        return int(content) if _HOLDER.fullmatch(content) and content.strip() else None
    except OSError:
        return None
    finally:
        os.close(file)
    return None


class DataDirectoryLock:
    """A context manager that locks a data directory for one cluster, until the block or the process ends.

    Raises (on entering):
        DataDirectoryBusyError: another process holds the lock.
        DataDirectoryUnusableError: the folder cannot be created or written.
        NoLockFileError: another file is at the path of the lock; it is not changed.
    """

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._file: int | None = None

    def __enter__(self) -> "DataDirectoryLock":
        self._directory.create()
        path = self._directory.lock
        try:
            # do not follow a link at this path: its target may be a file of another user
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            content = os.pread(file, _MAX_HOLDER_BYTES + 1, 0)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ESPIPE):
                raise NoLockFileError(path) from error
            raise DataDirectoryUnusableError(self._directory.root, error) from error
        if not _HOLDER.fullmatch(content):
            os.close(file)
            raise NoLockFileError(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = content.decode().strip() or "unknown"
            os.close(file)
            raise DataDirectoryBusyError(self._directory.root, holder) from None
        with suppress(OSError):  # on a full disk the lock works, but the file does not name its holder
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
