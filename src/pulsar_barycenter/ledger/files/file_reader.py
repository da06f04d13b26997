"""Reads the entries of a ledger's file."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerCorruptedError, repair_hint
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.examine import examine, read_exactly
from pulsar_barycenter.ledger.files.folder import LedgerFolder
from pulsar_barycenter.ledger.position import joined
from pulsar_barycenter.ledger.reader import IndexedReads


class FileLedgerReader(IndexedReads):
    """Reads the entries of a ledger's file. `found` is what was found in the file: only entries that are complete. The
    reader does not keep the file open: it gets the open file from `folder` for each read.

    Damage in the head (header) of an entry is found when the ledger is opened. The data of entries is not read then, so
    damage in the data is found when the entry is read. The first read that finds damage examines the whole file, to
    find all damage of the ledger. `is_growing` is True if a writer still adds entries to `found`; then the reader must
    not replace this object, and does not examine the file.
    """

    __slots__ = ("_folder", "_found", "_heads", "_is_examined", "_ledger_id")

    def __init__(self, folder: LedgerFolder, ledger_id: int, found: fmt.Scan, *, is_growing: bool = False) -> None:
        self._folder = folder
        self._ledger_id = ledger_id
        self._found = found
        self._heads = fmt.Heads.of(ledger_id, found.version)
        self._is_examined = is_growing or found.offsets is not None

    @property
    def entry_count(self) -> int:
        return len(self._found.index)

    @property
    def index(self) -> EntryIndex:
        return self._found.index

    @property
    def file(self) -> str:
        return self._folder.path(self._ledger_id)

    @property
    def remedy(self) -> str:
        return repair_hint(self.file)

    @property
    def gone(self) -> Sequence[tuple[int, int]]:
        return self._found.gone

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        return joined((damage.first, damage.last) for damage in self._found.damage)

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        found = self._found
        stop = min(last + 1, len(found.index))
        if not 0 <= first < stop:
            return []
        at = bisect_right(found.damage, first, key=_first_entry)
        if at and first <= found.damage[at - 1].last:
            raise self._error(found.damage[at - 1])
        if at < len(found.damage):
            stop = min(stop, found.damage[at].first)
        stop = found.index.stop_within(first, stop, max_bytes, None)
        begin = found.offset_of(first)
        size = found.index.bytes_between(first, stop) + fmt.ENTRY_HEADER_SIZE * (stop - first)
        try:
            return await self._folder.run(partial(self._read, begin, size, first, stop - first))
        except LedgerCorruptedError:
            await self._find_all_damage()
            raise

    def _error(self, damage: fmt.Damage) -> LedgerCorruptedError:
        detail = f"the entries {damage.first} to {damage.last} cannot be read"
        return LedgerCorruptedError(self.file, damage.begin, detail, (damage.first, damage.last))

    async def _find_all_damage(self) -> None:
        """Examine the whole file for damage, because a read found damage. If the file is intact, no damage is recorded:
        then the disk returned wrong bytes to that read only.
        """
        if not self._is_examined:
            self._is_examined = True
            found = await self._folder.run(self._examine)
            if len(found.index) >= len(self._found.index):
                self._found = found

    def _examine(self) -> fmt.Scan:
        file = self._folder.files.pin(self.file)
        try:
            count = len(self._found.index)
            return examine(self.file, file.descriptor, self._ledger_id, entry_count=count, with_data=True)
        finally:
            self._folder.files.unpin(file)

    def _read(self, begin: int, size: int, first: int, count: int) -> list[bytes]:
        file = self._folder.files.pin(self.file)
        try:
            data = read_exactly(file.descriptor, begin, size)
        finally:
            self._folder.files.unpin(file)
        return fmt.decode_entries(self.file, data, begin, first, count, self._heads)

    def close(self) -> None:
        self._folder.files.forget(self.file)


def _first_entry(damage: fmt.Damage) -> int:
    return damage.first
