"""One draw among the brokers whose smoothed usage lies below the candidates' mean by a threshold or more.

What both placements called LeastResourceUsageWithWeight share.
"""

import math
import random
from itertools import repeat
from typing import Final

import numpy as np

from barycenter.load.placement.placer import PlacementChoice, least_rows
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared
from barycenter.load.shedding.plan import sequential_mean
from barycenter.load.snapshot.load_snapshot import Floats, Integers, LoadSnapshot

DIFFERENCE_KEY: Final = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"


def draw_below_average(
    snapshot: LoadSnapshot,
    rows: Integers,
    usage: Floats,
    difference: float,
    rng: random.Random,
    *,
    strategy: str,
    settings: tuple[str, ...],
) -> PlacementChoice:
    """Choose at random among those of `rows` with `usage + difference <= mean`, or among all if there are none.

    `usage` is a fraction for each broker of the snapshot, NaN if it is not known: such a broker has no part in the mean
    and is never below it. There has to be one row at least.
    """
    of_rows = usage[rows]
    mean = sequential_mean(of_rows[~np.isnan(of_rows)])
    best = rows[of_rows + difference <= mean]
    found, line = bool(len(best)), mean - difference
    drawn_from = best if found else rows
    chosen = int(drawn_from[rng.randrange(len(drawn_from)) if len(drawn_from) > 1 else 0])
    nearest = rows[least_rows(of_rows, MAX_ALTERNATIVES + 1)].tolist()
    others = [row for row in nearest if row != chosen][:MAX_ALTERNATIVES]
    figure, figures = float(usage[chosen]), usage[others]
    equal = int(np.count_nonzero(figures + difference <= mean)) if found else len(others)
    compared = (found or len(rows) > 1) and not math.isnan(figure)
    return PlacementChoice(
        broker=chosen,
        strategy=strategy,
        code=Code.BELOW_AVERAGE if found else Code.NONE_BELOW_AVERAGE,
        compared=(_comparison(figure, "<=" if found else ">", line),) if compared else (),
        rejected=_rejected(snapshot, others, figures.tolist(), equal, line),
        rejected_count=len(rows) - 1,
        settings=settings,
    )


def _comparison(usage: float, relation: str, line: float) -> Compared:
    return Compared("smoothed usage", usage, relation, "mean - threshold", line, "%")


def _rejected(
    snapshot: LoadSnapshot, rows: list[int], usage: list[float], equal: int, line: float
) -> tuple[Alternative, ...]:
    """Say why these others, least usage first and unknown last, were not chosen; the first `equal` lost the draw."""
    known = len(rows) - sum(map(math.isnan, usage))
    above = [_comparison(figure, ">", line) for figure in usage[equal:known]]
    unknown = len(rows) - equal - len(above)
    codes = [Code.EQUAL] * equal + [Code.NOT_BELOW_AVERAGE] * len(above) + [Code.NO_LOAD_DATA] * unknown
    names = map(snapshot.brokers.names.__getitem__, rows)
    return tuple(map(Alternative, names, codes, [*repeat(None, equal), *above, *repeat(None, unknown)]))
