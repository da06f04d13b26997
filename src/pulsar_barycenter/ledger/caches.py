"""The memory that all managed ledgers of a storage share: the newest entries, and the entry indexes of older
ledgers.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Protocol, Self

from pulsar_barycenter.ledger.reader import LedgerReader
from pulsar_barycenter.ledger.tail_cache import TailCache

_READER_BYTES = 1024
_DEFAULT_TAIL_BYTES = 64 << 20
_DEFAULT_READER_BYTES = 32 << 20


class Readable(Protocol):
    """A ledger that may be open for reading: then its `reader` is set."""

    reader: LedgerReader | None


class ReaderCache:
    """The open readers of closed ledgers. Their entry indexes may take `capacity_bytes` of memory in total; beyond that
    the least recently used reader is closed.

    A ledger that is being written keeps its reader, which does not count for this capacity.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._used = 0
        self._ledgers: OrderedDict[Readable, int] = OrderedDict()

    def touch(self, ledger: Readable) -> None:
        if ledger in self._ledgers:
            self._ledgers.move_to_end(ledger)

    def add(self, ledger: Readable) -> None:
        """Count the memory of a closed ledger's reader, and close other readers if the capacity is exceeded. This
        reader always stays open.
        """
        if ledger.reader is None or ledger in self._ledgers:
            return
        index = ledger.reader.index
        weight = _READER_BYTES + (0 if index is None else index.memory_bytes)
        self._ledgers[ledger] = weight
        self._used += weight
        while self._used > self.capacity_bytes and len(self._ledgers) > 1:
            self.remove(next(iter(self._ledgers)))

    def open(self, ledger: Readable, reader: LedgerReader) -> None:
        """Set the reader of a closed ledger and count its memory. If the ledger has a reader already, it keeps that
        one: the caller then uses `reader` for one read only.
        """
        if ledger.reader is None:
            ledger.reader = reader
            self.add(ledger)

    def remove(self, ledger: Readable) -> None:
        """Close a ledger's reader. Reads that have begun finish."""
        self._used -= self._ledgers.pop(ledger, 0)
        reader, ledger.reader = ledger.reader, None
        if reader is not None:
            reader.close()


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches that all managed ledgers of a storage share, and for each managed ledger the number of times that this
    process has it open now.
    """

    tail: TailCache
    readers: ReaderCache
    _open: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, tail_bytes: int = _DEFAULT_TAIL_BYTES, reader_bytes: int = _DEFAULT_READER_BYTES) -> Self:
        return cls(TailCache(tail_bytes), ReaderCache(reader_bytes))

    @property
    def open_paths(self) -> frozenset[str]:
        """The paths of the managed ledgers that this process has open."""
        return frozenset(self._open)

    def register(self, path: str) -> bool:
        """Record that a managed ledger is opened. Return True if this process did not have it open at the time of the
        call.
        """
        self._open[path] += 1
        return self._open[path] == 1

    def unregister(self, path: str) -> None:
        self._open[path] -= 1
        if not self._open[path]:
            del self._open[path]
