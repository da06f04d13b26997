"""The operations that the pipeline needs of a file system, for one data directory (`Storage`).

Paths are relative to the data directory, have `/` between their parts, and do not begin with `/`. A file appears as a
whole: a reader finds the old or the new content, never a part, even if the writer is killed. An unfinished file has a
name that begins with a dot; readers of tables ignore such files.

`LocalStorage` is for a folder of this machine, `spark.hadoop_storage.HadoopStorage` for all that Spark can reach.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from pulsar_barycenter.whole_files.appearing import (
    UNFINISHED,
    appearing,
    make_folder,
    sync,
    sync_folder,
    unfinished_name,
    write_durably,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def local_folder(address: str) -> Path | None:
    """Return the local path of `address`, a path or a `file:` address; None for an address of another scheme.

    Raises:
        ValueError: a `file:` address names a host.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        return Path(address)
    if scheme[1] != "file":
        return None
    path = address.removeprefix("file:")
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(f"{address} names a host, which a file: address cannot have: write file:///…")
    return Path(unquote(path.removeprefix("//")))


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder. `name` is its name without a path. `modified_s` is the time of its last change (epoch s) by the
    file system's clock. `size` is in bytes, and has no meaning for a folder.
    """

    name: str
    is_folder: bool
    size: int
    modified_s: float


class ReadableStorage(Protocol):
    """The files of a data directory, to be read. All paths are relative to the directory. Every method raises OSError
    if the file system fails.
    """

    @property
    def local_root(self) -> Path | None:
        """The path of the data directory, if it is a folder of this machine; otherwise None."""
        ...

    def address(self, path: str = "") -> str:
        """Return the full path or URL of the file or folder `path`, as Spark and messages need it. Without `path`,
        return that of the data directory.
        """
        ...

    def path_of(self, address: str) -> str:
        """Return the path, relative to the data directory, of the file with the full path or URL `address`. It is the
        inverse of the method `address`; Spark names files by such addresses.

        Raises:
            ValueError: the file is not in the data directory.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return at most `length` bytes from `offset` on (None: all); empty at or after the end of the file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def local(self, path: str) -> AbstractContextManager[Path]:
        """Yield a local file with the content of `path`, which the caller only reads. It is valid until the block ends.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def entries(self, folder: str) -> Sequence[Entry]:
        """Return the files and folders directly in `folder`, sorted by name; empty if there is no such folder."""
        ...


class Storage(ReadableStorage, Protocol):
    """The files of a data directory, to be read and written. All paths are relative to the directory. Every method
    raises OSError if the file system fails.
    """

    def write(self, path: str, content: bytes) -> None:
        """Replace the content of the file `path` by `content`, or create the file and missing folders. When this
        returns, the file is durable.
        """
        ...

    def new_file(self, path: str) -> AbstractContextManager[Path]:
        """Yield the path of a local file to which the caller writes. If the block ends without an error, the file
        replaces the file at `path`, and is durable. If the block ends with an error, it is deleted, and the file at
        `path` stays.
        """
        ...

    def make_folder(self, path: str) -> None: ...

    def move(self, path: str, to: str) -> None:
        """Move the file `path` to the path `to`. A file there is replaced; a missing folder is created.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content, if it exists."""
        ...


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A data directory that is a folder of this machine. Readers see a written file only when it is complete, and a
    deleted folder disappears with all its content at once.
    """

    root: Path
    """Absolute."""

    @property
    def local_root(self) -> Path:
        return self.root

    def address(self, path: str = "") -> str:
        return str(self.root / path)

    def path_of(self, address: str) -> str:
        folder = local_folder(address)
        if folder is None or not folder.is_relative_to(self.root):
            raise ValueError(f"{address} is outside the folder {self.root}")
        return folder.relative_to(self.root).as_posix()

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        with (self.root / path).open("rb") as stream:
            stream.seek(offset)
            return stream.read(-1 if length is None else length)

    def write(self, path: str, content: bytes) -> None:
        write_durably(self.root / path, content)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        target = self.root / path
        make_folder(target.parent)
        with appearing(target) as unfinished:
            yield unfinished
            sync(unfinished)
        sync_folder(target.parent)

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        file = self.root / path
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}")
        yield file

    def entries(self, folder: str) -> Sequence[Entry]:
        try:
            with os.scandir(self.root / folder) as found:
                return sorted(_entries(found), key=lambda entry: entry.name)
        except FileNotFoundError:
            return ()

    def make_folder(self, path: str) -> None:
        make_folder(self.root / path)

    def move(self, path: str, to: str) -> None:
        target = self.root / to
        make_folder(target.parent)
        (self.root / path).replace(target)
        sync_folder(target.parent)

    def delete(self, path: str) -> None:
        target = self.root / path
        if not target.is_dir():
            target.unlink(missing_ok=True)
            return
        hidden = unfinished_name(target)
        target.rename(hidden)
        shutil.rmtree(hidden)


def clear_unfinished(storage: Storage, folder: str) -> None:
    """Delete what a killed process left directly in `folder`: unfinished files, and folders that were only partly
    deleted. Subfolders are not searched.

    No other process may write to the folder meanwhile.
    """
    for entry in storage.entries(folder):
        if entry.name.startswith(UNFINISHED):
            storage.delete(f"{folder}/{entry.name}")


def _entries(found: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
    for entry in found:
        try:
            stat = entry.stat()
        except FileNotFoundError:  # deleted just now
            continue
        yield Entry(entry.name, entry.is_dir(), stat.st_size, stat.st_mtime)
