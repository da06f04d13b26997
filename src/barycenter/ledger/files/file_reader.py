"""Reading the entries of a ledger's file."""

from bisect import insort
from collections.abc import Sequence
from functools import partial

from barycenter.ledger.entry_index import EntryIndex
from barycenter.ledger.errors import LedgerCorruptedError
from barycenter.ledger.files import file_format as fmt
from barycenter.ledger.files.examine import read_exactly
from barycenter.ledger.files.folder import LedgerFolder
from barycenter.ledger.position import EntryInfo


class FileLedgerReader:
    """Reads entries that are known to be complete; holds no open file of its own.

    Damage is found when the ledger is opened, or, as data is not read then, when an entry is read.
    """

    __slots__ = ("_damage", "_folder", "_found", "_heads", "_ledger_id")

    def __init__(self, folder: LedgerFolder, ledger_id: int, found: fmt.Scan) -> None:
        self._folder = folder
        self._ledger_id = ledger_id
        self._found = found
        self._heads = fmt.Heads.of(ledger_id, found.version)
        self._damage = [(damage.first, damage.last) for damage in found.damage]

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
    def gone(self) -> Sequence[tuple[int, int]]:
        return self._found.gone

    @property
    def damage(self) -> Sequence[tuple[int, int]]:
        return self._damage

    def info(self, entry_id: int) -> EntryInfo:
        return self._found.index.info(entry_id)

    async def read(self, first: int, last: int, max_bytes: int) -> Sequence[bytes]:
        found = self._found
        stop = min(last + 1, len(found.index))
        if not 0 <= first < stop:
            return []
        for damage in found.damage:
            if damage.first <= first <= damage.last:
                detail = f"the entries {damage.first} to {damage.last} cannot be read"
                raise LedgerCorruptedError(self.file, damage.begin, detail, (damage.first, damage.last))
            if damage.first > first:
                stop = min(stop, damage.first)
                break
        stop = found.index.stop_within(first, stop, max_bytes, None)
        begin = found.offset_of(first)
        size = found.index.bytes_between(first, stop) + fmt.ENTRY_HEADER_SIZE * (stop - first)
        try:
            return await self._folder.run(partial(self._read, begin, size, first, stop - first))
        except LedgerCorruptedError as error:
            if error.entries is not None and error.entries not in self._damage:
                insort(self._damage, error.entries)
            raise

    def _read(self, begin: int, size: int, first: int, count: int) -> list[bytes]:
        file = self._folder.files.pin(self.file)
        try:
            data = read_exactly(file.descriptor, begin, size)
        finally:
            self._folder.files.unpin(file)
        return fmt.decode_entries(self.file, data, begin, first, count, self._heads)

    def close(self) -> None:
        self._folder.files.forget(self.file)
