"""The memory that all managed ledgers of a storage share: the tail of entries, and the columns of older ledgers."""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Protocol, Self

from pulsar_barycenter.ledger.reader import LedgerReader
from pulsar_barycenter.ledger.tail_cache import TailCache

_READER_BYTES = 1024
_DEFAULT_TAIL_BYTES = 64 << 20
_DEFAULT_READER_BYTES = 32 << 20


class Readable(Protocol):
    """A ledger that has a reader while it is open for reading."""

    reader: LedgerReader | None


class ReaderCache:
    """The ledgers that are open for reading besides those being written; the least recently used one closes first."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._used = 0
        self._ledgers: OrderedDict[Readable, int] = OrderedDict()

    def touch(self, ledger: Readable) -> None:
        if ledger in self._ledgers:
            self._ledgers.move_to_end(ledger)

    def add(self, ledger: Readable) -> None:
        """Account for the reader of a closed ledger; the one just added stays in any case."""
        if ledger.reader is None or ledger in self._ledgers:
            return
        weight = _READER_BYTES + ledger.reader.index.memory_bytes
        self._ledgers[ledger] = weight
        self._used += weight
        while self._used > self.capacity_bytes and len(self._ledgers) > 1:
            self.remove(next(iter(self._ledgers)))

    def open(self, ledger: Readable, reader: LedgerReader) -> None:
        """Keep a reader for a closed ledger; if it got one meanwhile, that one stays and this serves one read."""
        if ledger.reader is None:
            ledger.reader = reader
            self.add(ledger)

    def remove(self, ledger: Readable) -> None:
        """Close a ledger's reader; reads under way finish."""
        self._used -= self._ledgers.pop(ledger, 0)
        reader, ledger.reader = ledger.reader, None
        if reader is not None:
            reader.close()


@dataclass(frozen=True, slots=True)
class Caches:
    tail: TailCache
    readers: ReaderCache
    _open: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, tail_bytes: int = _DEFAULT_TAIL_BYTES, reader_bytes: int = _DEFAULT_READER_BYTES) -> Self:
        return cls(TailCache(tail_bytes), ReaderCache(reader_bytes))

    def register(self, path: str) -> bool:
        """Note that a managed ledger is being opened; return True if this process has it open only this once."""
        self._open[path] += 1
        return self._open[path] == 1

    def unregister(self, path: str) -> None:
        self._open[path] -= 1
        if not self._open[path]:
            del self._open[path]
