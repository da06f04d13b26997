"""Writes a file under another name in the same folder, and renames it when it is complete."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

UNFINISHED: Final = "."
"""The prefix of the names of unfinished files. Readers of a folder ignore such names."""


def unfinished_name(path: Path) -> Path:
    """Return a path in the folder of `path` for a file that is not complete yet; no other writer uses the same path.
    The caller writes the file, and renames it to `path` when it is complete.
    """
    return path.with_name(f"{UNFINISHED}{path.name}-{os.urandom(8).hex()}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """While the block runs, add the name `path` to each OSError that names no file, such as the error of a full
    disk.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield the path of an unfinished file, into which the block writes; rename the file to `path` if the block ends
    without an error.

    Otherwise the unfinished file is deleted, and an earlier file at `path` stays. A process that is killed leaves its
    unfinished file. The folder must exist. This alone does not make the content durable: see `write_durably`.

    Raises:
        OSError: the file cannot be renamed.
    """
    unfinished = unfinished_name(path)
    try:
        with naming(path):
            yield unfinished
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file `path` by `content`. After a loss of power the file may be empty or missing.

    Raises:
        OSError: the file cannot be written. An earlier file at `path` stays.
    """
    with appearing(path) as unfinished:
        unfinished.write_bytes(content)


def write_durably(path: Path, content: bytes) -> None:
    """Replace the file `path` by `content`. When this returns, the new content is durable: it survives a loss of power.
    Missing folders are created durably, too.

    Raises:
        OSError: the file cannot be written. An earlier file at `path` stays.
    """
    make_folder(path.parent)
    with appearing(path) as unfinished, unfinished.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably.

    Raises:
        OSError: a folder cannot be created.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are durable. On a file system that does not support this, do
    nothing.

    Raises:
        OSError: the folder cannot be read, or the names cannot be made durable.
    """
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are durable.

    Raises:
        OSError: the file or folder cannot be opened, or its content cannot be made durable.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
