"""The entries of a ledger that are missing: removed by a repair, or skipped because they cannot be read."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from pulsar_barycenter.ledger.position import joined


class MissingEntries:
    """The missing entries of a ledger: disjoint, sorted ranges of entry ids, both ends inclusive."""

    __slots__ = ("_firsts", "_lasts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def add(self, ranges: Iterable[tuple[int, int]]) -> bool:
        """Add ranges (first, last) of missing entry ids, both ends inclusive. Return True if at least one of these
        entries was not missing before.
        """
        before = self.count
        kept = joined([*self, *ranges])
        self._firsts, self._lasts = [first for first, _ in kept], [last for _, last in kept]
        self.count = sum(last - first + 1 for first, last in kept)
        return self.count > before

    def present_from(self, entry_id: int) -> int:
        """Return the lowest entry id that is not missing and is `entry_id` or higher."""
        at = bisect_right(self._firsts, entry_id) - 1
        return self._lasts[at] + 1 if at >= 0 and entry_id <= self._lasts[at] else entry_id

    def present_until(self, entry_id: int) -> int:
        """Return the highest entry id that is not missing and is `entry_id` or lower; -1 if there is none."""
        at = bisect_right(self._firsts, entry_id) - 1
        return self._firsts[at] - 1 if at >= 0 and entry_id <= self._lasts[at] else entry_id

    def next_after(self, entry_id: int, stop: int) -> int:
        """Return the lowest missing entry id that is higher than `entry_id` and lower than `stop`; `stop` if there is
        none.
        """
        at = bisect_right(self._firsts, entry_id)
        return min(stop, self._firsts[at]) if at < len(self._firsts) else stop

    def between(self, first: int, stop: int) -> int:
        """Return the number of missing entry ids from `first` (inclusive) to `stop` (exclusive)."""
        return sum(max(min(last + 1, stop) - max(begin, first), 0) for begin, last in self)
