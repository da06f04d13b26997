"""The entries that are acknowledged after a cursor's mark-delete position, as sorted ranges for each ledger."""

from bisect import bisect_right
from collections.abc import Iterator


class AckedRanges:
    """A set of acknowledged entries, stored as ranges with inclusive ends. Ranges that follow one another without a gap
    are joined.

    Adding or looking up an entry takes O(log n) comparisons, where n is the number of ranges in its ledger. In
    addition, adding may move the list of these ranges in memory once.
    """

    __slots__ = ("_ledgers", "entries")

    def __init__(self) -> None:
        self._ledgers: dict[int, tuple[list[int], list[int]]] = {}
        self.entries = 0
        """The number of entries in the set."""

    @property
    def count(self) -> int:
        """The number of ranges in the set."""
        return sum(len(firsts) for firsts, _ in self._ledgers.values())

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield (ledger, first, last), both inclusive, in order."""
        for ledger_id in sorted(self._ledgers):
            firsts, lasts = self._ledgers[ledger_id]
            for first, last in zip(firsts, lasts, strict=True):
                yield ledger_id, first, last

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        ranges = self._ledgers.get(ledger_id)
        if ranges is None:
            return False
        at = bisect_right(ranges[0], entry_id) - 1
        return at >= 0 and entry_id <= ranges[1][at]

    def add(self, ledger_id: int, entry_id: int) -> bool:
        """Add an entry; return False if the set contains it already."""
        ranges = self._ledgers.get(ledger_id)
        if ranges is None:
            self._ledgers[ledger_id] = ([entry_id], [entry_id])
            self.entries += 1
            return True
        firsts, lasts = ranges
        at = bisect_right(firsts, entry_id)
        if at and entry_id <= lasts[at - 1]:
            return False
        joins_left = at > 0 and lasts[at - 1] == entry_id - 1
        joins_right = at < len(firsts) and firsts[at] == entry_id + 1
        if joins_left and joins_right:
            lasts[at - 1] = lasts[at]
            del firsts[at], lasts[at]
        elif joins_left:
            lasts[at - 1] = entry_id
        elif joins_right:
            firsts[at] = entry_id
        else:
            firsts.insert(at, entry_id)
            lasts.insert(at, entry_id)
        self.entries += 1
        return True

    def restore(self, ledger_id: int, first: int, last: int) -> None:
        """Add a range that was stored: the entries `first` to `last`, both inclusive. It must be after all ranges of
        this ledger that are in the set.
        """
        firsts, lasts = self._ledgers.setdefault(ledger_id, ([], []))
        firsts.append(first)
        lasts.append(last)
        self.entries += last - first + 1

    def take_from(self, ledger_id: int, entry_id: int) -> int | None:
        """If the lowest range of the ledger begins with `entry_id`, remove this range, and return its last entry id
        (inclusive). Otherwise return None.
        """
        ranges = self._ledgers.get(ledger_id)
        if ranges is None or ranges[0][0] != entry_id:
            return None
        last = ranges[1][0]
        del ranges[0][0], ranges[1][0]
        if not ranges[0]:
            del self._ledgers[ledger_id]
        self.entries -= last - entry_id + 1
        return last

    def remove_through(self, ledger_id: int, entry_id: int) -> None:
        """Remove all entries of lower ledger ids, and the entries of the ledger `ledger_id` up to `entry_id`
        (inclusive).
        """
        for other in [known for known in self._ledgers if known < ledger_id]:
            firsts, lasts = self._ledgers.pop(other)
            self.entries -= sum(lasts) - sum(firsts) + len(firsts)
        ranges = self._ledgers.get(ledger_id)
        if ranges is None:
            return
        firsts, lasts = ranges
        stop = bisect_right(firsts, entry_id)
        for at in range(stop):
            self.entries -= min(lasts[at], entry_id) - firsts[at] + 1
        if stop and lasts[stop - 1] > entry_id:
            stop -= 1
            firsts[stop] = entry_id + 1
        del firsts[:stop], lasts[:stop]
        if not firsts:
            del self._ledgers[ledger_id]

    def clear(self) -> None:
        self._ledgers.clear()
        self.entries = 0
