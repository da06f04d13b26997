"""Many moves of the DeviationShedder at once, while the same broker stays the greatest.

Its bundles leave from the heaviest on, each for the broker that is the least then. As long as none of these becomes the
least or the greatest again, that is the order in which they stood. So a whole row of moves is tried as arrays and holds
up to the first one that the rule, looked at one by one, would have made otherwise.
"""

from dataclasses import dataclass

import numpy as np

from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

_WORTH_WHILE = 8
"""Fewer moves at once are made faster one by one."""


@dataclass(frozen=True, slots=True)
class Run:
    """Columns over the moves as in `Moves`, without the rows; the metric of each broker and its squares after them."""

    receivers: Integers
    least: Floats
    greatest: Floats
    values: Floats
    squares: float


def run(
    values: Floats, left_out: Flags, source: int, weights: Floats, squares: float, mean: float, threshold: float
) -> Run:
    """Move bundles of these falling weights from `source`, the first so many of them that can go in one row.

    `values` is each broker's metric, `squares` the sum of what they were squared, brokers `left_out` included.
    """
    values, taken = values.copy(), 0
    others = np.flatnonzero(~left_out)
    others = others[others != source]
    kept: list[tuple[Integers, Floats, Floats]] = []
    while len(others) and taken < len(weights):
        order = others[np.argsort(values[others], kind="stable")]
        weight = weights[taken : taken + len(order)]
        order, second = order[: len(weight)], values[order[-1]]
        greatest = np.subtract.accumulate(np.concatenate((values[source : source + 1], weight)))
        before, left, least = greatest[:-1], greatest[1:], values[order]
        gained = least + weight
        changes = left * left + gained * gained - (before * before + least * least)
        sums = np.add.accumulate(np.concatenate(([squares], changes)))
        holds = (gained < before) & (before > second) & _deviates(before, sums[:-1], len(values), mean, threshold)
        holds[1:] &= (least[1:] < np.minimum.accumulate(gained)[:-1]) & (
            before[1:] > np.maximum.accumulate(gained)[:-1]
        )
        count = len(holds) if holds.all() else int(np.argmin(holds))
        if count < _WORTH_WHILE:
            break
        values[order[:count]], values[source] = gained[:count], left[count - 1]
        squares, taken = float(sums[count]), taken + count
        kept.append((order[:count], least[:count], before[:count]))
    if not kept:
        return Run(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), values, squares)
    receivers, lows, highs = (np.concatenate(column) for column in zip(*kept, strict=True))
    return Run(receivers, lows, highs, values, squares)


def _deviates(greatest: Floats, squares: Floats, count: int, mean: float, threshold: float) -> Flags:
    variance = squares / count - mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return (variance > 0) & ((greatest - mean) / np.sqrt(variance) > threshold)


def reported_twice(snapshot: LoadSnapshot, rows: Integers) -> bool:
    """Tell whether another broker reports one of the bundles in `rows`, too; rows of one name stand side by side."""
    bundles = snapshot.bundles
    for step in (-1, 1):
        mine = rows[(rows + step >= 0) & (rows + step < len(bundles))]
        beside = mine + step
        alike = (bundles.owner[beside] != bundles.owner[mine]) & (bundles.namespace[beside] == bundles.namespace[mine])
        pairs = zip(beside[alike].tolist(), mine[alike].tolist(), strict=True)
        if any(bundles.names[one] == bundles.names[other] for one, other in pairs):
            return True
    return False
