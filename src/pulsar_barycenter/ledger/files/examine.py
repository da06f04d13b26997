"""Reading an open ledger file from its first byte to its last: quickly while it holds, carefully where it does not."""

import errno
import os
from functools import partial
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerCorruptedError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.survey import survey

_BLOCK: Final = 4096


def examine(path: str, descriptor: int, ledger_id: int, *, entry_count: int | None, with_data: bool) -> fmt.Scan:
    """Return the entries of a ledger's file; damage is in the answer.

    `with_data` checks the data too, not the entries' heads alone; where a head is damaged the data is always checked.
    With `entry_count` the ledger is known to have as many, those that lack are damaged.

    Raises:
        LedgerCorruptedError: the file is not of this ledger, or so damaged that nothing of it was found.
        LedgerVersionError: a later release wrote it.
    """
    size = os.lseek(descriptor, 0, os.SEEK_END)  # asked of the disk where a file is opened past caches, as fstat is not
    read = partial(read_exactly, descriptor)
    try:
        header = fmt.decode_header(path, read(0, fmt.HEADER_SIZE), ledger_id)
    except LedgerCorruptedError:
        found = survey(read, size, ledger_id, None, entry_count=entry_count)
        if not any(found.offsets or ()):
            raise
        return found
    try:
        return fmt.scan(path, read, size, header, with_data=with_data, entry_count=entry_count)
    except LedgerCorruptedError:
        return survey(read, size, ledger_id, header, entry_count=entry_count)


def read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Read `length` bytes; fewer only at the end of the file.

    Blocks that the disk cannot give come as zeros, which no checksum takes for an entry: so the rest can be read.
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
