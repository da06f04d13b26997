"""Reading the entries of a ledger's file."""

import os
from collections.abc import Sequence
from functools import partial

from barycenter.ledger.entry_index import EntryIndex
from barycenter.ledger.files import file_format as fmt
from barycenter.ledger.files.folder import LedgerFolder
from barycenter.ledger.position import EntryInfo


class FileLedgerReader:
    """Reads entries that are known to be complete; holds no open file of its own."""

    __slots__ = ("_folder", "_index", "_ledger_id")

    def __init__(self, folder: LedgerFolder, ledger_id: int, index: EntryIndex) -> None:
        self._folder = folder
        self._ledger_id = ledger_id
        self._index = index

    @property
    def entry_count(self) -> int:
        return len(self._index)

    @property
    def index(self) -> EntryIndex:
        return self._index

    def info(self, entry_id: int) -> EntryInfo:
        return self._index.info(entry_id)

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        stop = min(last + 1, len(self._index))
        if not 0 <= first < stop:
            return []
        stop = self._index.stop_within(first, stop, max_bytes, None)
        begin, end = fmt.offset_of(self._index, first), fmt.offset_of(self._index, stop)
        return await self._folder.run(partial(self._read, begin, end, stop - first))

    def _read(self, begin: int, end: int, count: int) -> list[bytes]:
        path = self._folder.path(self._ledger_id)
        file = self._folder.files.pin(path)
        try:
            data = read_exactly(file.descriptor, begin, end - begin)
        finally:
            self._folder.files.unpin(file)
        return fmt.decode_entries(path, data, begin, count, fmt.seed(self._ledger_id))

    def close(self) -> None:
        self._folder.files.forget(self._folder.path(self._ledger_id))


def read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Read `length` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
