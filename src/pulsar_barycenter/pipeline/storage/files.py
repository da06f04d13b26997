"""The files of one data directory, wherever it lies: the few operations that the pipeline needs of a file system.

Paths are relative to the data directory, with `/` between their parts, and never begin with one. What appears under a
path appears whole: a reader finds the content before or the one after, never a part, whenever the writer was killed.
What is unfinished has a name that begins with a dot, which every reader of tables passes over.

`LocalStorage` is a folder of this machine, `spark.hadoop_storage.HadoopStorage` whatever Spark can reach.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")

UNFINISHED = "."
"""How the names of unfinished files begin, and of folders that are being deleted."""


def local_folder(address: str) -> Path | None:
    """Return the local path that `address` names, itself a path or a `file:` address; None if it names another place.

    Raises:
        ValueError: the address is not to be understood.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        return Path(address)
    if scheme[1] != "file":
        return None
    path = address.removeprefix("file:")
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(f"{address}: a file: address names no machine; write file:///…")
    return Path(unquote(path.removeprefix("//")))


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder by its name. `modified_s` is by the clock of the file system; a folder's size means nothing."""

    name: str
    is_folder: bool
    size: int
    modified_s: float


class Storage(Protocol):
    """The files of a data directory; all of it raises OSError for what the file system cannot do."""

    @property
    def local_root(self) -> Path | None:
        """The data directory, if it is a folder of this machine."""
        ...

    def address(self, path: str = "") -> str:
        """Return what Spark and people call `path`; without one, the data directory."""
        ...

    def path_of(self, address: str) -> str:
        """Return the path of a file that Spark calls `address`.

        Raises:
            ValueError: it does not lie in the data directory.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return at most `length` bytes from `offset` on (None: all); none behind the end.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write(self, path: str, content: bytes) -> None:
        """Replace the file by `content`, on the disk when this returns; make its folder if need be."""
        ...

    def new_file(self, path: str) -> AbstractContextManager[Path]:
        """Give a local file to write; it appears under `path`, as by `write`, when the block ends in order."""
        ...

    def local(self, path: str) -> AbstractContextManager[Path]:
        """Give a file of this machine with the content of `path`, to read while the block lasts.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def entries(self, folder: str) -> Sequence[Entry]:
        """Return what lies in the folder, in the order of names; nothing if there is no such folder."""
        ...

    def make_folder(self, path: str) -> None: ...

    def move(self, path: str, to: str) -> None:
        """Give a file another path, in place of one that is there; make its folder if need be.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        ...


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A data directory that is a folder of this machine: files appear by renames, a folder goes out of sight by one."""

    root: Path
    """Absolute."""

    @property
    def local_root(self) -> Path:
        return self.root

    def address(self, path: str = "") -> str:
        return str(self.root / path)

    def path_of(self, address: str) -> str:
        folder = local_folder(address)
        if folder is None:
            raise ValueError(f"{address} is not in {self.root}")
        return folder.relative_to(self.root).as_posix()

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        with (self.root / path).open("rb") as stream:
            stream.seek(offset)
            return stream.read(-1 if length is None else length)

    def write(self, path: str, content: bytes) -> None:
        write_atomically(self.root / path, content)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        with _appearing(self.root / path) as unfinished:
            yield unfinished
            _sync(unfinished)

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
        _make_folder(self.root / path)

    def move(self, path: str, to: str) -> None:
        target = self.root / to
        _make_folder(target.parent)
        (self.root / path).replace(target)
        _sync_folder(target.parent)

    def delete(self, path: str) -> None:
        target = self.root / path
        if not target.is_dir():
            target.unlink(missing_ok=True)
            return
        hidden = _unfinished(target)
        shutil.rmtree(hidden, ignore_errors=True)
        target.rename(hidden)
        shutil.rmtree(hidden)


def clear_unfinished(storage: Storage, folder: str) -> None:
    """Delete what a killed process left unfinished in `folder` itself; no other may be writing there."""
    for entry in storage.entries(folder):
        if entry.name.startswith(UNFINISHED):
            storage.delete(f"{folder}/{entry.name}")


def write_atomically(file: Path, content: bytes) -> None:
    """Replace `file` by `content`: a reader, or a machine that lost power, finds the old or the new, never a part."""
    with _appearing(file) as unfinished, unfinished.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def _appearing(file: Path) -> Iterator[Path]:
    """Give the name of an unfinished file, and rename it to `file` when the block ends in order."""
    _make_folder(file.parent)
    unfinished = _unfinished(file)
    try:
        yield unfinished
        unfinished.replace(file)
        _sync_folder(file.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _unfinished(target: Path) -> Path:
    return target.with_name(f"{UNFINISHED}{target.name}-{os.getpid()}")


def _make_folder(folder: Path) -> None:
    """Make a folder, and those it is in, that stand after the machine lost power."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can be asked for that."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _sync(file: Path) -> None:
    """Wait until what is written to `file`, or the names in it if it is a folder, are on the disk."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(found: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
    for entry in found:
        try:
            stat = entry.stat()
        except FileNotFoundError:  # deleted just now
            continue
        yield Entry(entry.name, entry.is_dir(), stat.st_size, stat.st_mtime)
