"""A random choice among brokers whose smoothed usage is below the mean of the candidates by at least a threshold.

Both placement strategies called LeastResourceUsageWithWeight share it.
"""

import math
import random
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Final

import numpy as np

from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, least_rows
from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared
from pulsar_barycenter.load.shedding.plan import sequential_mean
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats

DIFFERENCE_KEY: Final = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"


def draw_below_average(
    brokers: BrokerTable,
    candidates: Flags,
    usage: Floats,
    difference: float,
    rng: random.Random,
    *,
    strategy: str,
    settings: tuple[str, ...],
) -> PlacementChoice:
    """Choose at random among the candidates with `usage + difference <= mean`, or among all candidates if there are
    none.

    `usage` is a fraction for each broker, and the mean is that of the candidates. NaN means unknown: such a broker does
    not count for the mean, and never counts as below the mean. `strategy` and `settings` (keys) are only named in the
    reason. There must be at least one candidate. The caller must not change the arrays afterwards.
    """
    of_candidates = usage[candidates]
    mean = sequential_mean(of_candidates)
    if math.isnan(mean):
        mean = sequential_mean(of_candidates[~np.isnan(of_candidates)])
    is_below = usage + difference <= mean
    is_below &= candidates
    best = is_below.nonzero()[0]
    found = bool(len(best))
    drawn_from = best if found else candidates.nonzero()[0]
    chosen = drawn_from.item(rng.randrange(len(drawn_from)) if len(drawn_from) > 1 else 0)
    return PlacementChoice(
        chosen,
        strategy,
        Code.BELOW_AVERAGE if found else Code.NONE_BELOW_AVERAGE,
        len(of_candidates) - 1,
        settings,
        partial(_figures, brokers.names, candidates, usage, difference, mean, chosen, found),
    )


def _figures(
    names: Sequence[str],
    candidates: Flags,
    usage: Floats,
    difference: float,
    mean: float,
    chosen: int,
    found: bool,
) -> Figures:
    rows, line = candidates.nonzero()[0], mean - difference
    nearest = rows[least_rows(usage[rows], MAX_ALTERNATIVES + 1)].tolist()
    others = [row for row in nearest if row != chosen][:MAX_ALTERNATIVES]
    value, values = float(usage[chosen]), usage[others]
    equal = int(np.count_nonzero(values + difference <= mean)) if found else len(others)
    is_compared = (found or len(rows) > 1) and not math.isnan(value)
    compared = (_comparison(value, "<=" if found else ">", line),) if is_compared else ()
    return Figures(compared, _rejected(names, others, values.tolist(), equal, line))


def _comparison(usage: float, relation: str, line: float) -> Compared:
    return Compared("smoothed usage", usage, relation, "mean - threshold", line, "%")


def _rejected(
    names: Sequence[str], rows: list[int], usage: list[float], equal: int, line: float
) -> tuple[Alternative, ...]:
    """Return why the brokers in `rows` (lowest usage first, unknown usage last) were not chosen; `usage` are their
    usages, in the same order. The first `equal` brokers could have been chosen as well, but the random draw chose
    another one. The others are above the limit `line`, or their usage is unknown.
    """
    known = len(rows) - sum(map(math.isnan, usage))
    above = [_comparison(value, ">", line) for value in usage[equal:known]]
    unknown = len(rows) - equal - len(above)
    codes = [Code.EQUAL] * equal + [Code.NOT_BELOW_AVERAGE] * len(above) + [Code.NO_LOAD_DATA] * unknown
    return tuple(
        map(Alternative, map(names.__getitem__, rows), codes, [*repeat(None, equal), *above, *repeat(None, unknown)])
    )
