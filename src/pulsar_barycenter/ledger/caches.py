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
    """A ledger with an optional reader. `reader` is None while the ledger is not open for reading."""

    reader: LedgerReader | None


class ReaderCache:
    """The open readers of closed ledgers. If their entry indexes take more than `capacity_bytes` of memory in total,
    the least recently used readers are closed.

    The reader of a ledger that is still being written does not count for this capacity, and is not closed by the cache.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._used = 0
        self._ledgers: OrderedDict[Readable, int] = OrderedDict()

    def touch(self, ledger: Readable) -> None:
        if ledger in self._ledgers:
            self._ledgers.move_to_end(ledger)

    def add(self, ledger: Readable) -> None:
        """Count the memory of a closed ledger's reader, which is open already. If the capacity is then exceeded, close
        the least recently used readers of other ledgers, but never the reader that is added, even if it alone exceeds
        the capacity.
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
        """Make `reader` the reader of a closed ledger and count its memory. If the ledger has a reader already, do
        nothing: the ledger keeps its reader, and the caller may use `reader` for the read for which it was opened.
        """
        if ledger.reader is None:
            ledger.reader = reader
            self.add(ledger)

    def remove(self, ledger: Readable) -> None:
        """Close a ledger's reader and remove it from the cache. Reads that have begun continue to their end."""
        self._used -= self._ledgers.pop(ledger, 0)
        reader, ledger.reader = ledger.reader, None
        if reader is not None:
            reader.close()


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches that all managed ledgers of a storage share. In addition, it counts for each managed ledger how many
    times this process has it open now.
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
        """Record that this process opens the managed ledger at `path`. Return True if this process did not have it open
        before the call.
        """
        self._open[path] += 1
        return self._open[path] == 1

    def unregister(self, path: str) -> None:
        self._open[path] -= 1
        if not self._open[path]:
            del self._open[path]
