"""Describes the damage of a ledger's file, and replaces the file by one that contains every intact entry.

No broker may use the files meanwhile; `folder.exclusive` ensures that. The repaired file is written completely next to
the damaged one. The damaged file gets a second name; then one rename puts the repaired file in its place. If the repair
is interrupted at any point, the path of the ledger's file leads to the damaged or to the repaired file, and the damaged
file still exists in both cases.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerCorruptedError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.examine import examine, read_exactly
from pulsar_barycenter.ledger.files.folder import FILE_MODE, FOLDER_MODE, ledger_path
from pulsar_barycenter.ledger.position import joined

UNFINISHED: Final = ".unfinished"
KEPT: Final = ".damaged"
"""The suffix that a damaged file has in its name after a repaired file has replaced it."""


class FileState(StrEnum):
    WHOLE = "whole"
    DAMAGED = "damaged"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    """The state of a ledger's file in which no entry was found."""


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A ledger's file and its state. `entries` is the number of entries that the ledger is known to have; None if the
    ledger was never closed, so that this number is not known.
    """

    ledger_id: int
    path: str
    entries: int | None
    state: FileState
    detail: str = ""
    epoch: int = 0
    found: fmt.Scan = field(default_factory=fmt.Scan)

    @property
    def lost(self) -> list[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of entries that cannot be read.

        If the whole file cannot be read or is missing, this is the range of all `entries`, or no range if `entries` is
        None.
        """
        if self.state in (FileState.MISSING, FileState.UNREADABLE):
            return [(0, self.entries - 1)] if self.entries else []
        return joined((damage.first, damage.last) for damage in self.found.damage)

    @property
    def readable(self) -> list[tuple[int, int]]:
        """The ranges (first, last), both inclusive, of intact entries."""
        ranges = []
        first = 0
        for lost in [*sorted([*self.lost, *self.found.gone]), (len(self.found.index), 0)]:
            if lost[0] > first:
                ranges.append((first, lost[0] - 1))
            first = max(first, lost[1] + 1)
        return ranges


def inspect(root: str, ledger_id: int, entries: int | None) -> LedgerFile:
    """Read a ledger's file from its first byte to its last, and return its state. `entries` is the number of entries
    that the ledger is known to have, or None. A missing file is no error: it is a state.

    Raises:
        OSError: the file exists but cannot be read.
        LedgerVersionError: a later release wrote the file.
    """
    path = ledger_path(root, ledger_id)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return LedgerFile(ledger_id, path, entries, FileState.MISSING, "the file does not exist")
    try:
        return _inspect(path, descriptor, ledger_id, entries)
    finally:
        os.close(descriptor)


def _inspect(path: str, descriptor: int, ledger_id: int, entries: int | None) -> LedgerFile:
    details, epoch = [], 0
    try:
        header = fmt.decode_header(path, os.pread(descriptor, fmt.HEADER_SIZE, 0), ledger_id)
        epoch = header.fenced_by
        if header.durable is None:
            details.append("the checksum of the durable mark does not match")
    except LedgerCorruptedError as error:
        details.append(error.detail)
    try:
        found = examine(path, descriptor, ledger_id, entry_count=entries, with_data=True)
    except LedgerCorruptedError as error:
        return LedgerFile(ledger_id, path, entries, FileState.UNREADABLE, error.detail)
    if found.shortened:
        details.append(
            f"the file ends at byte {found.end}, before its durable mark: entries that were made durable are missing"
        )
    elif found.damage:
        ranges_text = ", ".join(f"{damage.begin}-{damage.end - 1}" for damage in found.damage)
        details.append(f"the checksums of these bytes do not match: {ranges_text}")
    elif found.offsets is not None:
        details.append("there are bytes between entries that belong to no entry")
    state = FileState.DAMAGED if details else FileState.WHOLE
    return LedgerFile(ledger_id, path, entries, state, "; ".join(details), epoch, found)


def repair(damaged: LedgerFile, *, epoch: int) -> str | None:
    """Replace a ledger's damaged file by a file that has every intact entry at its position, and a marker for each lost
    entry.

    The caller passes as `epoch` the epoch of the last owner or a higher one. The repaired file gets this epoch, or the
    epoch in the damaged file if that is higher. Returns the path at which the damaged file is kept; None if there was
    no file.

    Raises:
        OSError: the repair failed, for example because the disk is full. The damaged file is not changed. It still has
            its path, and may have a second name in the same folder too.
    """
    path = damaged.path
    unfinished = path + UNFINISHED
    _make_folder(os.path.dirname(path))
    with suppress(FileNotFoundError):
        os.unlink(unfinished)
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            _write(descriptor, damaged, max(epoch, damaged.epoch))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        kept = None if damaged.state is FileState.MISSING else _keep(path)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    _sync_folder(os.path.dirname(path))
    return kept


def _write(descriptor: int, damaged: LedgerFile, epoch: int) -> None:
    os.write(descriptor, fmt.encode_header(damaged.ledger_id, epoch))
    for part in _parts(damaged):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.pwrite(descriptor, fmt.encode_mark(end), fmt.MARK_OFFSET)


def _parts(damaged: LedgerFile) -> Iterator[bytes]:
    """Yield the bytes that follow the header of the repaired file: every intact entry, which is read and checked again,
    and a marker for each lost or removed entry.
    """
    heads = fmt.Heads.of(damaged.ledger_id)
    if damaged.state in (FileState.MISSING, FileState.UNREADABLE):
        yield fmt.encode_gone(heads, 0, damaged.entries or 0)
        return
    found = damaged.found
    absent = {at for first, last in [*damaged.lost, *found.gone] for at in range(first, last + 1)}
    source = os.open(damaged.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        old_heads = fmt.Heads.of(damaged.ledger_id, found.version)
        for entry_id in range(len(found.index)):
            if entry_id in absent:
                yield fmt.encode_gone(heads, entry_id, 1)
                continue
            at = found.offset_of(entry_id)
            size, num_messages, publish_time_ms = found.index.info(entry_id)
            data = read_exactly(source, at, fmt.ENTRY_HEADER_SIZE + size)
            (whole,) = fmt.decode_entries(damaged.path, data, at, entry_id, 1, old_heads)
            yield b"".join(fmt.encode_entries([(whole, num_messages, publish_time_ms)], heads, entry_id))
    finally:
        os.close(source)


def _keep(path: str) -> str:
    """Give the damaged file a second name (hard link) that is not in use, and return it. If an earlier repair that
    failed has given it a second name, return that name.
    """
    number = 1
    while True:
        kept = path + KEPT + ("" if number == 1 else f"-{number}")
        try:
            os.link(path, kept, follow_symlinks=False)
        except FileExistsError:
            if os.path.samestat(os.lstat(path), os.lstat(kept)):
                return kept
            number += 1
        else:
            return kept


def _make_folder(folder: str) -> None:
    if not os.path.isdir(folder):
        os.mkdir(folder, FOLDER_MODE)
        _sync_folder(os.path.dirname(folder))


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
