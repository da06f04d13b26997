"""Reads a ledger's file from its first byte to its last: in one fast pass if the file is intact, entry by entry if it
is damaged.
"""

import errno
import os
from functools import partial
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerCorruptedError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.salvage import salvage

_BLOCK: Final = 4096


def examine(path: str, descriptor: int, ledger_id: int, *, entry_count: int | None, with_data: bool) -> fmt.Scan:
    """Return what is in a ledger's file: sizes and offsets of the entries, and the damaged parts. `descriptor` is the
    open file at `path`.

    If `with_data` is True, the data of each entry is checked, otherwise only the head (header) of each entry. If a head
    is damaged, the data is always checked. If `entry_count` is given, the ledger is known to have that number of
    entries, and those that are absent at the end of the file count as damaged.

    Raises:
        LedgerCorruptedError: the file belongs to another ledger, or has a damaged header and no intact entry.
        LedgerVersionError: a later release wrote the file.
    """
    # with direct I/O, lseek asks the disk for the size; fstat may return a cached one
    size = os.lseek(descriptor, 0, os.SEEK_END)
    read = partial(read_exactly, descriptor)
    try:
        header = fmt.decode_header(path, read(0, fmt.HEADER_SIZE), ledger_id)
    except LedgerCorruptedError:
        found = salvage(read, size, ledger_id, None, entry_count=entry_count)
        if not any(found.offsets or ()):
            raise
        return found
    try:
        return fmt.scan(path, read, size, header, with_data=with_data, entry_count=entry_count)
    except LedgerCorruptedError:
        return salvage(read, size, ledger_id, header, entry_count=entry_count)


def read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Return the `length` bytes of a file that begin at `offset`; fewer if the file ends before that.

    Blocks of 4 KiB that the disk cannot read (EIO) are returned as zeros. No checksum matches zeros, so these blocks
    count as damaged, and the rest of the file can still be read.
    """
    try:
        return _read(descriptor, offset, length)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    length = min(length, max(os.fstat(descriptor).st_size - offset, 0))
    parts = []
    for at in range(offset, offset + length, _BLOCK):
        size = min(_BLOCK, offset + length - at)
        try:
            parts.append(_read(descriptor, at, size))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(bytes(size))
    return b"".join(parts)


def _read(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
