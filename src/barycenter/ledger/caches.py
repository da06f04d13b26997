"""The memory that all managed ledgers of a storage share: the tail of entries, and the columns of older ledgers."""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barycenter.ledger.storage import LedgerReader
from barycenter.ledger.tail_cache import TailCache

if TYPE_CHECKING:
    from barycenter.ledger.segments import Segment

_READER_BYTES = 1024
_DEFAULT_TAIL_BYTES = 64 << 20
_DEFAULT_READER_BYTES = 32 << 20


class ReaderCache:
    """The ledgers that are open for reading besides those being written; the least recently used one closes first."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._used = 0
        self._segments: OrderedDict[Segment, int] = OrderedDict()

    @property
    def used_bytes(self) -> int:
        return self._used

    def touch(self, segment: "Segment") -> None:
        if segment in self._segments:
            self._segments.move_to_end(segment)

    def add(self, segment: "Segment") -> None:
        """Account for the reader of a closed ledger; the one just added stays in any case."""
        if segment.reader is None or segment in self._segments:
            return
        weight = _READER_BYTES + segment.reader.index.memory_bytes
        self._segments[segment] = weight
        self._used += weight
        while self._used > self.capacity_bytes and len(self._segments) > 1:
            self.remove(next(iter(self._segments)))

    def open(self, segment: "Segment", reader: LedgerReader) -> None:
        """Keep a reader for a closed ledger; if it got one meanwhile, that one stays and this serves one read."""
        if segment.reader is None:
            segment.reader = reader
            self.add(segment)

    def remove(self, segment: "Segment") -> None:
        """Close a ledger's reader; reads under way finish."""
        self._used -= self._segments.pop(segment, 0)
        reader, segment.reader = segment.reader, None
        if reader is not None:
            reader.close()


@dataclass(frozen=True, slots=True)
class Caches:
    tail: TailCache
    readers: ReaderCache
    _open: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(tail_bytes: int = _DEFAULT_TAIL_BYTES, reader_bytes: int = _DEFAULT_READER_BYTES) -> "Caches":
        return Caches(TailCache(tail_bytes), ReaderCache(reader_bytes))

    def register(self, path: str) -> bool:
        """Note that a managed ledger is being opened; return True if this process has it open only this once."""
        self._open[path] += 1
        return self._open[path] == 1

    def unregister(self, path: str) -> None:
        self._open[path] -= 1
        if not self._open[path]:
            del self._open[path]
