"""Which row of the previous table each row of a table was."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Integers

_LONGEST: Final = 1 << 14


def rows_before(before: Sequence[str], names: Sequence[str]) -> Integers | None:
    """Return for each of `names` its position in `before`, -1 if it is not there. None: the two lists are equal.

    `before` and `names` are both sorted. Equal stretches of them are compared at once, so a few differences among a
    million names cost little. If a name occurs several times, its first occurrences are matched with one another.
    """
    if names is before or (len(names) == len(before) and _equal(before, 0, names, 0, len(names))):
        return None
    found = np.full(len(names), -1, np.int64)
    old = new = 0
    while old < len(before) and new < len(names):
        if before[old] == names[new]:
            length = _common(before, old, names, new)
            found[new : new + length] = np.arange(old, old + length)
            old, new = old + length, new + length
        elif before[old] < names[new]:
            old += 1
        else:
            new += 1
    return found


def _common(before: Sequence[str], old: int, names: Sequence[str], new: int) -> int:
    """Return how many consecutive names are equal, counted from position `old` of `before` and position `new` of
    `names`. The names at these two positions must be equal.
    """
    most, known, step = min(len(before) - old, len(names) - new), 1, 2
    while step and known < most:
        step = min(step, most - known)
        if _equal(before, old + known, names, new + known, step):
            known, step = known + step, min(2 * step, _LONGEST)
        elif step == 1:
            break
        else:
            step //= 2
            most = min(most, known + 2 * step + 1)
    return known


def _equal(before: Sequence[str], old: int, names: Sequence[str], new: int, count: int) -> bool:
    return list(before[old : old + count]) == list(names[new : new + count])
