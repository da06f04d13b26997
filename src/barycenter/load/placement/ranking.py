"""Brokers in the order of their scores, kept in order while scores change one by one."""

from bisect import bisect_left, insort
from itertools import islice
from typing import Final

import numpy as np

from barycenter.load.snapshot.load_snapshot import Flags, Floats

_MANY: Final = 16
"""The order of before helps where fewer than one in so many changed, and more than one in so many is asked for."""


class Ranking:
    """The rows of `scores`, the least score first, of equal ones the first row. No score is NaN."""

    def __init__(self, scores: Floats) -> None:
        self._sort(scores)

    def _sort(self, scores: Floats) -> None:
        order = scores.argsort(kind="stable")
        self._scores = scores
        self._order = list(zip(scores[order].tolist(), order.tolist(), strict=True))

    def follow(self, scores: Floats) -> None:
        """Take other scores of the same rows; costs little where few differ. They are not to be changed after."""
        changed = (scores != self._scores).nonzero()[0].tolist()
        if len(changed) * _MANY > len(scores):
            return self._sort(scores)
        before, order = self._scores, self._order
        for row in changed:
            del order[bisect_left(order, (before.item(row), row))]
            insort(order, (scores.item(row), row))
        self._scores = scores
        return None

    def least(self, among: Flags, count: int) -> list[tuple[float, int]]:
        """Return the first `count` of the rows `among`, each with its score; fewer if there are not so many."""
        if np.count_nonzero(among) * _MANY < len(among):
            rows = among.nonzero()[0]
            return sorted(zip(self._scores[rows].tolist(), rows.tolist(), strict=True))[:count]
        flags = among.tobytes()
        return list(islice((each for each in self._order if flags[each[1]]), count))
