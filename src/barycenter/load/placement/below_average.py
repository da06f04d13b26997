"""One draw among the brokers whose smoothed usage lies below the candidates' mean by a threshold or more.

What both placements called LeastResourceUsageWithWeight share.
"""

import random
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
    best, mean = below_average(rows, usage, difference)
    drawn_from = (best if len(best) else rows).tolist()
    chosen = drawn_from[rng.randrange(len(drawn_from))] if len(drawn_from) > 1 else drawn_from[0]
    found = bool(len(best))
    line = mean - difference
    compared = (found or len(rows) > 1) and not np.isnan(usage[chosen])
    return PlacementChoice(
        broker=chosen,
        strategy=strategy,
        code=Code.BELOW_AVERAGE if found else Code.NONE_BELOW_AVERAGE,
        compared=(_comparison(float(usage[chosen]), "<=" if found else ">", line),) if compared else (),
        rejected=_rejected(snapshot, rows, usage, chosen, line, set(drawn_from)),
        rejected_count=len(rows) - 1,
        settings=settings,
    )


def below_average(rows: Integers, usage: Floats, difference: float) -> tuple[Integers, float]:
    """Return those of `rows` with `usage + difference <= mean`, which may be none, and the mean of those known."""
    candidates = usage[rows]
    mean = sequential_mean(candidates[~np.isnan(candidates)])
    return rows[candidates + difference <= mean], mean


def _comparison(usage: float, relation: str, line: float) -> Compared:
    return Compared("smoothed usage", usage, relation, "mean - threshold", line, "%")


def _rejected(
    snapshot: LoadSnapshot, rows: Integers, usage: Floats, chosen: int, line: float, equal: set[int]
) -> tuple[Alternative, ...]:
    """Return the other candidates, least usage first, unknown last; those drawn from were equally good."""
    some = rows[least_rows(usage[rows], MAX_ALTERNATIVES + 1)].tolist()
    others = [row for row in some if row != chosen][:MAX_ALTERNATIVES]
    return tuple(_alternative(snapshot.brokers.names[row], float(usage[row]), line, row in equal) for row in others)


def _alternative(name: str, usage: float, line: float, equal: bool) -> Alternative:
    if equal:
        return Alternative(name, Code.EQUAL)
    if np.isnan(usage):
        return Alternative(name, Code.NO_LOAD_DATA)
    return Alternative(name, Code.NOT_BELOW_AVERAGE, _comparison(usage, ">", line))
