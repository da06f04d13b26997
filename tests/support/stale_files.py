"""Two machines that mount one folder, each with a page cache that the other does not refresh.

Replaces `os` and `fcntl` in the modules of the ledgers' files, and does what Linux' NFS client does in the worst
case: a page that was read is read from the cache until the file is opened again or locked; a size is that of the
last opening; a write into a cached page is sent as the whole page when the file is synced, with all stale bytes of
others in it. A file opened with O_DIRECT goes to the server byte by byte.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from pulsar_barycenter.ledger.files import examine, file_storage, file_writer, folder, open_files

PAGE = 4096
MODULES = (examine, file_storage, file_writer, folder, open_files)


@dataclass
class _File:
    """A file as one machine caches it. `dirty` are ranges [begin, end) that the server does not have."""

    size: int = 0
    pages: dict[int, bytearray] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    dirty: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class _Opened:
    machine: str
    inode: int
    direct: bool


class StaleFiles:
    """`os` for files below the folders of `machines`, which are one folder. `before` is called before every
    operation on such a file with the machine and the operation's name, and may do other operations."""

    def __init__(self, *machines: Path) -> None:
        self._machines = tuple(map(str, machines))
        self._opened: dict[int, _Opened] = {}
        self._files: dict[tuple[str, int], _File] = {}
        self._lock = RLock()
        self.before: Callable[[str, str], None] = lambda machine, operation: None

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags & ~(os.O_DIRECT | os.O_DSYNC), mode)
        machine = next((each for each in self._machines if path.startswith(f"{each}/")), None)
        if machine is not None and not flags & os.O_DIRECTORY:
            with self._lock:
                opened = _Opened(machine, os.fstat(descriptor).st_ino, bool(flags & os.O_DIRECT))
                self._opened[descriptor] = opened
                self._forget(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        with self._lock:
            if descriptor in self._opened:
                self._flush(descriptor)
                del self._opened[descriptor]
        os.close(descriptor)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        with self._operation(descriptor, "pread") as file:
            if file is None:
                return os.pread(descriptor, length, offset)
            end = min(offset + length, file.size)
            for number in range(offset // PAGE, -(-end // PAGE)):
                if number not in file.whole:
                    self._fill(descriptor, file, number)
            return b"".join(
                file.pages[number][max(offset - number * PAGE, 0) : min(end - number * PAGE, PAGE)]
                for number in range(offset // PAGE, -(-end // PAGE))
            )

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        return self.pwritev(descriptor, [data], offset)

    def pwritev(self, descriptor: int, parts: Sequence[bytes | memoryview], offset: int) -> int:
        with self._operation(descriptor, "pwrite") as file:
            if file is None:
                return os.pwritev(descriptor, parts, offset)
            data = b"".join(parts)
            for at in range(len(data)):
                number, place = divmod(offset + at, PAGE)
                file.pages.setdefault(number, bytearray(PAGE))[place] = data[at]
            file.dirty.append((offset, offset + len(data)))
            file.size = max(file.size, offset + len(data))
            return len(data)

    def fsync(self, descriptor: int) -> None:
        self.fdatasync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        with self._operation(descriptor, "sync") as file:
            if file is not None:
                self._flush(descriptor)

    def lseek(self, descriptor: int, offset: int, whence: int) -> int:
        with self._operation(descriptor, "size") as file:
            return os.lseek(descriptor, offset, whence) if file is None else file.size + offset

    def fstat(self, descriptor: int) -> os.stat_result:
        found = os.fstat(descriptor)
        with self._operation(descriptor, "size"), self._lock:
            file = self._remembered(descriptor)  # also of one that is opened past the memory: attributes are kept
            return found if file is None else os.stat_result((*found[:6], file.size, *found[7:]))

    def flock(self, descriptor: int, kind: int) -> None:
        """Taking and releasing a lock both send unsent writes; taking one drops the cache."""
        with self._operation(descriptor, "lock") as file:
            if file is not None:
                self._flush(descriptor)
            fcntl.flock(descriptor, kind)
            if file is not None and not kind & fcntl.LOCK_UN:
                self._forget(descriptor)

    @contextmanager
    def _operation(self, descriptor: int, name: str) -> Iterator[_File | None]:
        """Yield the file in the cache, None if it is not there."""
        opened = self._opened.get(descriptor)
        if opened is not None:
            self.before(opened.machine, name)
        with self._lock:
            yield None if opened is None or opened.direct else self._remembered(descriptor)

    def _remembered(self, descriptor: int) -> _File | None:
        opened = self._opened.get(descriptor)
        return None if opened is None else self._files.get((opened.machine, opened.inode))

    def _forget(self, descriptor: int) -> None:
        opened = self._opened[descriptor]
        self._flush(descriptor)
        self._files[opened.machine, opened.inode] = _File(os.fstat(descriptor).st_size)

    def _fill(self, descriptor: int, file: _File, number: int) -> None:
        """Cache a whole page, with the writes here that are not sent yet."""
        here, page = file.pages.get(number), bytearray(os.pread(descriptor, PAGE, number * PAGE).ljust(PAGE, b"\0"))
        for begin, end in file.dirty:
            for at in range(max(begin, number * PAGE), min(end, (number + 1) * PAGE)):
                assert here is not None
                page[at - number * PAGE] = here[at - number * PAGE]
        file.pages[number] = page
        file.whole.add(number)

    def _flush(self, descriptor: int) -> None:
        file = self._remembered(descriptor)
        if file is None:
            return
        for begin, end in file.dirty:
            for number in range(begin // PAGE, -(-end // PAGE)):
                first, last = max(begin, number * PAGE), min(end, (number + 1) * PAGE)
                if number in file.whole:
                    first, last = number * PAGE, min((number + 1) * PAGE, file.size)
                os.pwrite(descriptor, file.pages[number][first - number * PAGE : last - number * PAGE], first)
        file.dirty.clear()


class _Locks:
    """`fcntl` that tells of locks."""

    def __init__(self, files: StaleFiles) -> None:
        self.flock = files.flock

    def __getattr__(self, name: str) -> Any:
        return getattr(fcntl, name)


def two_machines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[StaleFiles, Path, Path]:
    """Return the files, and one folder as each of two machines mounts it."""
    server, first, second = (folder / name for name in ("server", "first", "second"))
    server.mkdir()
    first.symlink_to(server)
    second.symlink_to(server)
    files = StaleFiles(first, second)
    for module in MODULES:
        monkeypatch.setattr(module, "os", files)
        if hasattr(module, "fcntl"):
            monkeypatch.setattr(module, "fcntl", _Locks(files))
    return files, first, second
