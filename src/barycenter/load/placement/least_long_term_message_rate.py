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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared
from barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from barycenter.load.reports.weights import resource_weights
from barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastLongTermMessageRate"
_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_SEVERAL: Final = -1


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
    nearest = rows[np.argsort(scores[rows], kind="stable")][: MAX_ALTERNATIVES + 1].tolist()
    others = [row for row in nearest if row != chosen][:MAX_ALTERNATIVES]
    return PlacementChoice(
        broker=chosen,
        strategy=NAME,
        code=Code.ALL_OVERLOADED if overloaded else Code.LEAST_LONG_TERM_RATE,
        compared=_compared(snapshot, chosen, others, scores, usage, settings),
        rejected=tuple(_rejected(snapshot, row, least, scores, usage, settings) for row in others),
        rejected_count=len(rows) - 1,
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
    candidates: Flags,
    long_rates: Floats,
    settings: LeastLongTermMessageRateSettings,
    rng: random.Random,
) -> Indices:
    """Place bundles of these long-term rates (msg/s) one after the other and return their brokers' rows.

    The same as choosing each with `least_long_term_message_rate` and preallocating it to the broker chosen, draws
    included, in a third of a microsecond each. All -1 without candidates.
    """
    rows = np.flatnonzero(candidates)
    if not len(rows):
        return np.full(len(long_rates), -1, np.int32)
    rates = np.where(np.isfinite(long_rates), long_rates, 0.0).tolist()
    scores = long_term_scores(snapshot, settings)[rows].tolist()
    on_their_way, reported = snapshot.preallocated_long_rate[rows].tolist(), snapshot.brokers.long.rate[rows].tolist()
    reported = [math.inf if score == math.inf else rate for score, rate in zip(scores, reported, strict=True)]
    return rows.astype(np.int32)[_place_on_least(scores, rates, on_their_way, reported, rng)]


def _place_on_least(
    scores: list[float], rates: list[float], on_their_way: list[float], reported: list[float], rng: random.Random
) -> list[int]:
    """Return for each of `rates` the broker of the least score then; a score is what is on its way and reported.

    A score is in the heap once, whoever has it: a broker, or several, which are put in order when their turn comes.
    """
    heap: list[float] = []
    brokers: dict[float, int] = {}
    several: dict[float, list[int]] = {}

    def join(score: float, broker: int) -> None:
        found = brokers.get(score)
        if found is None:
            brokers[score] = broker
            heapq.heappush(heap, score)
        elif found == _SEVERAL:
            several[score].append(broker)
        else:
            brokers[score], several[score] = _SEVERAL, [found, broker]

    for broker, score in enumerate(scores):
        join(score, broker)
    placed: list[int] = []
    in_order = math.nan
    # a loop that runs for each of many bundles: what it calls has a short name
    getrandbits, replace_least, place = rng.getrandbits, heapq.heapreplace, placed.append
    for rate in rates:
        score = heap[0]
        broker = brokers[score]
        if broker != _SEVERAL:
            place(broker)
            on_their_way[broker] = carried = on_their_way[broker] + rate
            new_score = carried + reported[broker]
            if new_score not in brokers:
                del brokers[score]
                brokers[new_score] = broker
                replace_least(heap, new_score)
            elif new_score != score:
                del brokers[score]
                heapq.heappop(heap)
                join(new_score, broker)
            continue
        group = several[score]
        if score != in_order:
            group.sort()
            in_order = score
        count = len(group)
        where = 0 if count == 1 else getrandbits(count.bit_length())
        while where >= count:  # as `randrange` draws
            where = getrandbits(count.bit_length())
        broker = group[where]
        place(broker)
        on_their_way[broker] = carried = on_their_way[broker] + rate
        new_score = carried + reported[broker]
        if new_score == score:
            continue
        del group[where]
        if not group:
            del brokers[score], several[score]
            heapq.heappop(heap)
        join(new_score, broker)
    return placed
