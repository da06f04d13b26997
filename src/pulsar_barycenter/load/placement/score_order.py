"""Brokers in the order of their scores, kept in order while scores change one by one."""

from bisect import bisect_left
from itertools import islice
from typing import Final

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats

_MANY: Final = 16
"""The previous order is reused if fewer than one in this many scores changed, and more than one in this many rows is
needed."""


class ScoreOrder:
    """The rows of `scores` sorted by score, lowest first; of equal scores the lower row comes first. No score is
    NaN.
    """

    def __init__(self, scores: Floats) -> None:
        self._sort(scores)

    def _sort(self, scores: Floats) -> None:
        order = scores.argsort(kind="stable")
        self._scores = scores
        self._rows: list[int] = order.tolist()
        self._keys = list(zip(scores[order].tolist(), self._rows, strict=True))

    def follow(self, scores: Floats) -> None:
        """Replace the scores by new ones of the same rows, and sort again; cheap if few scores differ. The caller must
        not change the array afterwards.
        """
        changed = (scores != self._scores).nonzero()[0].tolist()
        if len(changed) * _MANY > len(scores):
            return self._sort(scores)
        before, keys, rows = self._scores, self._keys, self._rows
        for row in changed:
            place = bisect_left(keys, (before.item(row), row))
            del keys[place], rows[place]
            key = (scores.item(row), row)
            place = bisect_left(keys, key)
            keys.insert(place, key)
            rows.insert(place, row)
        self._scores = scores
        return None

    def least(self, among: Flags, flagged: int, count: int) -> list[int]:
        """Return the rows with the lowest scores, lowest first: at most `count`, and only rows that are flagged in
        `among`. `flagged` is the number of flags that are set.
        """
        if flagged * _MANY < len(among):
            few = among.nonzero()[0]
            found: list[int] = few[self._scores[few].argsort(kind="stable")[:count]].tolist()
            return found
        return list(islice(filter(among.tobytes().__getitem__, self._rows), count))
