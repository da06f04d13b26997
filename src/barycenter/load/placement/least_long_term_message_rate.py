"""LeastLongTermMessageRate: the broker whose bundles carry the least long-term message rate.

Worked example: two brokers at 100 and 110 msg/s get two bundles of 20 msg/s. The first goes to broker 1, whose score is
120 from then on because the bundle counts as preallocated; the second goes to broker 2, although no report came
in between.

When to use it: like brokers, alike messages. When not: unlike brokers (it knows rates, not capacity), or together
with a shedder that goes by usage, which may undo what it does.

Source: Pulsar's `LeastLongTermMessageRate` (4.x: weighted usage in the overload test).
"""

import heapq
import math
import random
from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared
from barycenter.load.reports import DEFAULT_WEIGHTS, ResourceWeights
from barycenter.load.snapshot import Flags, Floats, Indices, LoadSnapshot
from barycenter.load.weights import resource_weights

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastLongTermMessageRate"
_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class LeastLongTermMessageRateSettings:
    """`overload_limit` is a fraction."""

    overload_limit: float = 0.85
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @staticmethod
    def of(config: "BrokerConfig") -> "LeastLongTermMessageRateSettings":
        return LeastLongTermMessageRateSettings(
            overload_limit=config.load_balancer_broker_overloaded_threshold_percentage / 100.0,
            weights=resource_weights(config),
        )


def long_term_scores(snapshot: LoadSnapshot, settings: LeastLongTermMessageRateSettings) -> Floats:
    """Return each broker's score, msg/s, of which the least wins: long-term rate in + out, preallocated bundles added.

    Infinite above the overload limit (strict). Neither short-term data nor the bundle to be placed play a part.
    """
    usage = snapshot.brokers.weighted_usage(settings.weights)
    return np.where(
        usage > settings.overload_limit, np.inf, snapshot.preallocated_long_rate + snapshot.brokers.long.rate
    )


def least_long_term_message_rate(
    snapshot: LoadSnapshot, candidates: Flags, settings: LeastLongTermMessageRateSettings, rng: random.Random
) -> PlacementChoice:
    """Choose among the candidates with the least score, at random between equals; all overloaded are equal, too."""
    rows = np.flatnonzero(candidates)
    if not len(rows):
        return no_choice(NAME)
    scores = long_term_scores(snapshot, settings)
    least = float(scores[rows].min())
    best = rows[scores[rows] == least].tolist()
    chosen = best[rng.randrange(len(best))] if len(best) > 1 else best[0]
    overloaded = bool(np.isinf(least))
    usage = snapshot.brokers.weighted_usage(settings.weights)
    others = sorted((row for row in rows.tolist() if row != chosen), key=lambda row: (scores[row], row))
    return PlacementChoice(
        broker=chosen,
        strategy=NAME,
        code=Code.ALL_OVERLOADED if overloaded else Code.LEAST_LONG_TERM_RATE,
        compared=_compared(snapshot, chosen, others, scores, usage, settings),
        rejected=tuple(_rejected(snapshot, row, least, scores, usage, settings) for row in others[:MAX_ALTERNATIVES]),
        rejected_count=len(others),
        settings=(_KEY,),
    )


def _compared(
    snapshot: LoadSnapshot,
    chosen: int,
    others: list[int],
    scores: Floats,
    usage: Floats,
    settings: LeastLongTermMessageRateSettings,
) -> tuple[Compared, ...]:
    if np.isinf(scores[chosen]):
        return (Compared("usage", float(usage[chosen]), ">", "overload limit", settings.overload_limit, "%"),)
    if not others or np.isinf(scores[others[0]]):
        return (Compared("usage", float(usage[chosen]), "<=", "overload limit", settings.overload_limit, "%"),)
    next_best = snapshot.brokers.names[others[0]]
    figure, other = float(scores[chosen]), float(scores[others[0]])
    return (Compared("long-term rate", figure, "<=", f"that of {next_best}", other, "msg/s"),)


def _rejected(
    snapshot: LoadSnapshot,
    row: int,
    least: float,
    scores: Floats,
    usage: Floats,
    settings: LeastLongTermMessageRateSettings,
) -> Alternative:
    name, score = snapshot.brokers.names[row], float(scores[row])
    if score == least:
        return Alternative(name, Code.EQUAL)
    if np.isinf(score):
        over = Compared("usage", float(usage[row]), ">", "overload limit", settings.overload_limit, "%")
        return Alternative(name, Code.OVERLOADED, over)
    return Alternative(name, Code.HIGHER_RATE, Compared("long-term rate", score, ">", "least", least, "msg/s"))


def place_all(
    snapshot: LoadSnapshot,
    long_rates: Floats,
    settings: LeastLongTermMessageRateSettings,
    rng: random.Random,
) -> Indices:
    """Place bundles of these long-term rates (msg/s) one after the other and return their brokers' rows.

    The same as choosing each with `least_long_term_message_rate` among all brokers and preallocating it to the broker
    chosen, draws included, but with brokers kept in groups of equal score: O(log brokers) a bundle. All -1 without
    brokers.
    """
    placed = np.full(len(long_rates), -1, np.int32)
    scores = long_term_scores(snapshot, settings).tolist()
    preallocated, reported = snapshot.preallocated_long_rate.tolist(), snapshot.brokers.long.rate.tolist()
    groups: dict[float, list[int]] = {}
    for row, score in enumerate(scores):
        groups.setdefault(score, []).append(row)
    heap = list(groups)
    heapq.heapify(heap)
    for bundle, rate in enumerate(long_rates.tolist()):
        while heap and heap[0] not in groups:
            heapq.heappop(heap)
        if not heap:
            break
        score = heap[0]
        best = groups[score]
        if len(best) > 1:
            row = best.pop(rng.randrange(len(best)))
        else:
            row = best[0]
            del groups[score]
        placed[bundle] = row
        preallocated[row] += rate
        new_score = preallocated[row] + reported[row] if score < math.inf else score
        if new_score in groups:
            insort(groups[new_score], row)
        else:
            groups[new_score] = [row]
            heapq.heappush(heap, new_score)
    return placed
