"""The brokers in the order of a value that changes for a few of them at a time, such as the room of each.

Asking numpy for the highest of a thousand values takes several times as long as keeping them in a heap.
"""

from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats

_NONE: Final = -1
_MOST_PASSED: Final = 8
"""So many brokers that may not be chosen are passed over; then all values are looked at, which takes as long."""


class Roomiest:
    """Finds the broker with the highest value. `values` has the value of each broker; none is NaN."""

    def __init__(self, values: Floats) -> None:
        self._values: Floats = values.copy()
        self._heap = [(-value, row) for row, value in enumerate(values.tolist())]
        heapify(self._heap)

    @property
    def highest(self) -> float:
        """The highest value of all brokers."""
        return self._values.item(self._top())

    def set(self, row: int, value: float) -> None:
        """Change the value of the broker in this row."""
        self._values[row] = value
        heappush(self._heap, (-value, row))

    def among(self, may: Flags, other_than: int = _NONE) -> tuple[int, float]:
        """Return the row of the broker with the highest value of those that `may` flags, and its value; of equal ones,
        the first one. The broker in the row `other_than` is not chosen. If there is no broker to choose, the value is
        minus infinity.
        """
        row = self._top()
        if row not in (_NONE, other_than) and may.item(row):
            return row, self._values.item(row)
        passed: list[tuple[float, int]] = []
        while (row := self._top()) != _NONE and len(passed) <= _MOST_PASSED:
            if row != other_than and may.item(row):
                break
            passed.append(heappop(self._heap))
        else:
            row = _NONE
        for one in passed:
            heappush(self._heap, one)
        if row != _NONE:
            return row, self._values.item(row)
        values = np.where(may, self._values, -np.inf)
        if other_than != _NONE:
            values[other_than] = -np.inf
        row = int(values.argmax())
        return row, values.item(row)

    def _top(self) -> int:
        """Return the row of the highest value in the heap, after dropping former values; _NONE if the heap is empty."""
        while self._heap:
            value, row = self._heap[0]
            if -value == self._values.item(row):
                return row
            heappop(self._heap)
        return _NONE
