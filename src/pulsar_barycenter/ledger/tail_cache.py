"""Keeps the newest entries in memory, so that consumers without a backlog are served without file reads.

All managed ledgers of a storage share one `TailCache`. It limits the total size of the cached entries, and removes the
oldest group first. Entries are kept in the groups in which they became durable, so there is no work for each entry.
"""

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from pulsar_barycenter.ledger.entry_index import EntryIndex

_MERGE_BELOW_ENTRIES: Final = 64
_MERGE_BELOW_SHARE: Final = 16
_OVERHEAD_BYTES: Final = 48
"""The approximate number of bytes that CPython needs for an entry in addition to its content."""


class _Chunk:
    __slots__ = ("entries", "first", "index", "ledger_id", "weight", "window")

    def __init__(self, window: "TailWindow", ledger_id: int, first: int, index: EntryIndex) -> None:
        self.window = window
        self.ledger_id = ledger_id
        self.first = first
        self.index = index
        self.entries: list[bytes] = []
        self.weight = 0


def _first_position(chunk: _Chunk) -> tuple[int, int]:
    return chunk.ledger_id, chunk.first


class TailCache:
    """Limits the memory for the newest entries of all managed ledgers of a storage to `capacity_bytes` in total. If
    there are more, the oldest group of entries is removed. If `capacity_bytes` is 0, no entries are kept in memory.
    """

    __slots__ = ("_chunks", "_used", "capacity_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._chunks: OrderedDict[_Chunk, None] = OrderedDict()
        self._used = 0

    def add(self, chunk: _Chunk, *, new: bool, weight: int) -> None:
        if new:
            self._chunks[chunk] = None
        self._used += weight
        while self._used > self.capacity_bytes and self._chunks:
            oldest, _ = self._chunks.popitem(last=False)
            self._used -= oldest.weight
            oldest.window.forget(oldest)

    def drop(self, chunks: list[_Chunk]) -> None:
        """Remove the groups of entries `chunks` from the cache, because their managed ledger was closed."""
        for chunk in chunks:
            del self._chunks[chunk]
            self._used -= chunk.weight


class TailWindow:
    """The entries of one managed ledger that are in the cache. They are its newest entries, without a gap."""

    __slots__ = ("_cache", "_chunks")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._chunks: list[_Chunk] = []

    def append(self, ledger_id: int, first: int, entries: list[bytes], index: EntryIndex) -> None:
        """Keep `entries`, which have just become durable, in memory. They are consecutive entries of the ledger;
        `first` is the id of the first of them. `index` must contain them all.
        """
        chunks = self._chunks
        last = chunks[-1] if chunks else None
        new = (
            last is None
            or last.ledger_id != ledger_id
            or len(last.entries) >= _MERGE_BELOW_ENTRIES
            or last.weight * _MERGE_BELOW_SHARE >= self._cache.capacity_bytes
        )
        if last is None or new:
            last = _Chunk(self, ledger_id, first, index)
            chunks.append(last)
        last.entries.extend(entries)
        weight = index.bytes_between(first, first + len(entries)) + _OVERHEAD_BYTES * len(entries)
        last.weight += weight
        self._cache.add(last, new=new, weight=weight)

    def forget(self, chunk: _Chunk) -> None:
        """Remove a group of entries, the oldest of this managed ledger. The cache calls this when its capacity is
        exceeded.
        """
        if self._chunks and self._chunks[0] is chunk:
            del self._chunks[0]

    def find(self, ledger_id: int, entry_id: int) -> tuple[int, list[bytes], EntryIndex] | None:
        """Find the cached group of entries that contains the entry `entry_id` of the ledger. Return the id of the first
        entry of the group, the data of its entries, and the index of the ledger. None if the entry is not in the cache.
        """
        chunks = self._chunks
        if not chunks:
            return None
        chunk = chunks[-1]
        if (ledger_id, entry_id) < (chunk.ledger_id, chunk.first):
            at = bisect_right(chunks, (ledger_id, entry_id), key=_first_position) - 1
            if at < 0:
                return None
            chunk = chunks[at]
        if chunk.ledger_id != ledger_id or entry_id >= chunk.first + len(chunk.entries):
            return None
        return chunk.first, chunk.entries, chunk.index

    def clear(self) -> None:
        chunks, self._chunks = self._chunks, []
        self._cache.drop(chunks)
