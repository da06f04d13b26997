"""Which broker owns a bundle, as the simple load manager chooses it.

    policies ▸ on its way already ▸ even distribution ▸ still registered ▸ placement strategy

Strategies (`loadBalancerPlacementStrategy`), all by the estimates of `ranking`:

- `leastLoadedServer` fills a broker up to the underload threshold before it uses an idle one, and then keeps loads
  even. Worked example (underload 50 %, overload 85 %): two brokers are at 30 % and 60 %, and one is idle. The bundle
  goes to the first; at 55 % and 60 % it would go to the idle one. Without an idle broker it goes to the less loaded
  one, and if all are above 85 %, to the one with free capacity for the most bundles.
- `leastMsgPerSecond` does the same by the message rates of quotas: the load of the broker with the lowest rate decides
  whether an idle broker is used, and no broker counts as full.
- `weightedRandomSelection` chooses at random, with brokers weighted by free capacity squared. It has no memory, so
  every broker may place bundles. An unknown name means this strategy.

When to use them: with `leastLoadedServer` a small load stays on few brokers. When not: many equal brokers whose load
shall be even from the start (set the underload threshold to 1, or use the modular load manager).

Source: Pulsar's `SimpleLoadManagerImpl.getLeastLoadedBroker` and `findBrokerForPlacement`, `WRRPlacementStrategy`
(4.2). Where we differ: policies that are set after a choice overrule it; even distribution uses the newest reports, in
Pulsar those of the ranking before; weights are summed without the 32-bit overflow; if no broker is ranked, there is
no choice here, and the caller takes a registered broker at random.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from pulsar_barycenter.load.decisions import OVERLOAD_KEY, Placement
from pulsar_barycenter.load.filters.even_distribution import even_distribution
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import FilterOutcome, PlacementRequest, narrowed
from pulsar_barycenter.load.placement.avg_shedder_pins import Pins
from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, no_choice
from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared, Reason
from pulsar_barycenter.load.selection.selection_reason import explained
from pulsar_barycenter.load.simple.quotas import Quotas
from pulsar_barycenter.load.simple.ranking import Ranking, least_loaded, rank_brokers, settled
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings, SimpleStrategy
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

CURSOR_TURNS: Final = 1_000_000
NO_BROKER: Final = 101.0
"""The load (percent) of the least loaded broker if all brokers are idle: above every threshold."""
_STRATEGY_KEY: Final = "loadBalancerPlacementStrategy"
_UNDERLOAD_KEY: Final = "loadBalancerBrokerUnderloadedThresholdPercentage"

Policies = Callable[[LoadSnapshot, PlacementRequest], FilterOutcome]
"""Returns the brokers that the policies of a bundle's namespace allow."""


@dataclass(frozen=True)
class SimpleMemory:
    """What the simple load manager's choice of owners remembers from one call to the next. Immutable.

    `cursor` is the number of placements by leastLoadedServer and leastMsgPerSecond, modulo CURSOR_TURNS. `preallocated`
    maps each bundle that was placed by them, and that its new broker has not reported yet, to this broker.
    """

    cursor: int = 0
    preallocated: Pins = field(default_factory=Pins)


def rank(
    snapshot: LoadSnapshot, quotas: Quotas, memory: SimpleMemory, settings: SimpleSettings
) -> tuple[Ranking, SimpleMemory]:
    """Rank the brokers after new reports. Return the ranking, and the memory without the bundles that their new broker
    has reported, and without those whose new broker has left.
    """
    memory = replace(memory, preallocated=settled(memory.preallocated, snapshot))
    return rank_brokers(snapshot, quotas, memory.preallocated, settings.strategy), memory


def select_broker(
    ranking: Ranking,
    request: PlacementRequest,
    settings: SimpleSettings,
    quotas: Quotas,
    live: Collection[str],
    rng: random.Random,
    memory: SimpleMemory,
    *,
    policies: Policies = policy_candidates,
) -> tuple[Placement, Ranking, SimpleMemory]:
    """Return the owner that the simple load manager chooses for the bundle, with the reason; and the next ranking and
    memory, in which the bundle counts as on its way to that broker.

    `live` are the ids of the brokers that are registered now; a broker of the ranking that is not among them is not a
    candidate. If policies now forbid the broker that a bundle is on its way to, the bundle is placed again; until the
    next ranking it then counts for both brokers.
    """
    snapshot = ranking.snapshot
    outcomes = [policies(snapshot, request)]
    waiting = memory.preallocated.get(request.bundle)
    row = None if waiting is None else snapshot.brokers.index.get(waiting)
    if waiting is not None and (row is None or not snapshot.policies.narrows or outcomes[0].kept[row]):
        reason = Reason(code=Code.PREALLOCATED, strategy=settings.strategy.value, subject=waiting)
        return Placement.because(reason, request.bundle, waiting), ranking, memory
    outcomes.append(even_distribution(snapshot, outcomes[0].kept, request.namespace))
    registered = np.array([name in live for name in snapshot.brokers.names], bool)
    before = outcomes[-1].kept
    outcomes.append(narrowed(before, before & registered, Code.NOT_LIVE))
    candidates = outcomes[-1].kept
    if settings.strategy is SimpleStrategy.WEIGHTED_RANDOM_SELECTION:
        choice = weighted_random_selection(ranking, candidates, rng)
    else:
        ranking = ranking.releasing(request.bundle, candidates, quotas.of(request.bundle))
        choice = least_loaded_server(ranking, candidates, settings, memory.cursor)
    placement = explained(snapshot, request.bundle, choice, outcomes)
    if choice.broker is None or settings.strategy is SimpleStrategy.WEIGHTED_RANDOM_SELECTION:
        return placement, ranking, memory
    name = snapshot.brokers.names[choice.broker]
    ranking = ranking.preallocating(choice.broker, request.bundle, quotas.of(request.bundle))
    memory = SimpleMemory((memory.cursor + 1) % CURSOR_TURNS, memory.preallocated.adding(request.bundle, name))
    return placement, ranking, memory


def availability(ranking: Ranking, namespace: str) -> dict[int, list[str]]:
    """Return the brokers that policies allow for persistent topics of `namespace`, by their rank; ranks and names are
    sorted.

    Source: `SimpleLoadManagerImpl.getResourceAvailabilityFor`. The result is for a namespace and not for a bundle, so
    no broker is removed to distribute bundles evenly. Brokers that are not registered any more may be among the
    results.
    """
    allowed = policy_candidates(ranking.snapshot, PlacementRequest(f"{namespace}/"))
    found: dict[int, list[str]] = {}
    for row in in_line(ranking, allowed.kept).tolist():
        found.setdefault(int(ranking.rank[row]), []).append(ranking.snapshot.brokers.names[row])
    return found


def in_line(ranking: Ranking, candidates: Flags) -> Integers:
    """Return the rows of the candidates in the order in which they are examined: by rank, then by name."""
    rows = np.flatnonzero(candidates)
    ordered: Integers = rows[np.argsort(ranking.rank[rows], kind="stable")]
    return ordered


def least_loaded_server(ranking: Ranking, candidates: Flags, settings: SimpleSettings, cursor: int) -> PlacementChoice:
    """Choose a broker by the strategy `leastLoadedServer`, or by `leastMsgPerSecond` if `settings` name that.

    Let m be the load (in percent) of the least loaded candidate that is not idle, or 101 if all are idle. An idle
    broker has no bundles and none on their way. The first case that applies decides:

    1. If all candidates are idle, or m is above the underload threshold and a candidate is idle: an idle candidate.
    2. If m is 100: the next candidate in turn (not with `leastMsgPerSecond`).
    3. If m is above the overload threshold: the candidate with the most free capacity (not with `leastMsgPerSecond`).
    4. Otherwise: the least loaded candidate that is not idle.
    """
    line = in_line(ranking, candidates)
    name = settings.strategy.value
    if not len(line):
        return no_choice(name)
    by_rate = settings.strategy is SimpleStrategy.LEAST_MSG_PER_SECOND
    idle, busy = line[ranking.idle[line]], line[~ranking.idle[line]]
    least = -1
    if len(busy):
        least = int(busy[np.argmin(ranking.message_rate[busy])]) if by_rate else least_loaded(ranking, busy)
    load = float(ranking.load[least]) if len(busy) else NO_BROKER
    if not len(busy) or (load > settings.underload and len(idle)):
        code, chosen = Code.IDLE_BROKER, int(idle[0])
    elif load >= 100 and not by_rate:
        code, chosen = Code.ALL_FULL, int(line[cursor % len(line)])
    elif load > settings.overload and not by_rate:
        code, chosen = Code.MOST_ROOM, int(line[np.argmax(ranking.free_room[line])])
    else:
        code, chosen = Code.LEAST_MESSAGE_RATE if by_rate else Code.LEAST_LOADED, least
    others = line[line != chosen]
    return PlacementChoice(
        broker=chosen,
        strategy=name,
        code=code,
        figures=partial(
            Figures,
            _compared(ranking, code, least, load, settings),
            tuple(_rejected(ranking, code, chosen, row) for row in others[:MAX_ALTERNATIVES].tolist()),
        ),
        rejected_count=len(others),
        settings=(_STRATEGY_KEY, _UNDERLOAD_KEY) if by_rate else (_STRATEGY_KEY, _UNDERLOAD_KEY, OVERLOAD_KEY),
    )


def _compared(ranking: Ranking, code: Code, least: int, load: float, settings: SimpleSettings) -> tuple[Compared, ...]:
    """Return the comparison of the load of the least loaded candidate with a threshold, which led to the choice; an
    empty tuple if no comparison did.
    """
    if least < 0:
        return ()
    what = f"load of {ranking.snapshot.brokers.names[least]}"

    def compared(relation: str, against: str, percent: float) -> tuple[Compared, ...]:
        return (Compared(what, load / 100, relation, against, percent / 100, "%"),)

    if code is Code.IDLE_BROKER:
        return compared(">", "underload threshold", settings.underload)
    if code is Code.ALL_FULL:
        return compared(">=", "full load", 100)
    if code is Code.MOST_ROOM:
        return compared(">", "overload threshold", settings.overload)
    if code is Code.LEAST_MESSAGE_RATE:
        return ()
    if load <= settings.underload:
        return compared("<=", "underload threshold", settings.underload)
    return compared("<=", "overload threshold", settings.overload)


def _rejected(ranking: Ranking, code: Code, chosen: int, row: int) -> Alternative:
    names, idle = ranking.snapshot.brokers.names, bool(ranking.idle[row])
    mine, best = float(ranking.load[row]) / 100, float(ranking.load[chosen]) / 100
    than = f"of {names[chosen]}"
    load = Compared("load", mine, ">" if mine > best else "=" if mine == best else "<", f"load {than}", best, "%")
    if code is Code.IDLE_BROKER:
        return Alternative(names[row], Code.ANOTHER_IDLE if idle else Code.MORE_LOADED, None if idle else load)
    if code is Code.ALL_FULL:
        return Alternative(names[row], Code.NOT_ITS_TURN)
    if code is Code.MOST_ROOM:
        free, most = float(ranking.free_room[row]), float(ranking.free_room[chosen])
        less = Compared("free capacity", free, "<" if free < most else "=", f"capacity {than}", most, "bundles")
        return Alternative(names[row], Code.LESS_ROOM, less)
    if idle:
        return Alternative(names[row], Code.KEPT_IDLE)
    if code is Code.LEAST_MESSAGE_RATE:
        rate, lowest = float(ranking.message_rate[row]), float(ranking.message_rate[chosen])
        more = Compared("message rate", rate, ">" if rate > lowest else "=", f"rate {than}", lowest, "msg/s")
        return Alternative(names[row], Code.MORE_LOADED, more)
    return Alternative(names[row], Code.MORE_LOADED, load)


def weighted_random_selection(ranking: Ranking, candidates: Flags, rng: random.Random) -> PlacementChoice:
    """Choose a candidate at random, with its rank as weight; all with the same probability if all weights are 0."""
    line = in_line(ranking, candidates)
    name = SimpleStrategy.WEIGHTED_RANDOM_SELECTION.value
    if not len(line):
        return no_choice(name)
    weights = ranking.rank[line].tolist()
    total = sum(weights)
    if total <= 0:
        code, place = Code.NO_ROOM_LEFT, rng.randrange(len(line))
    else:
        code, place = Code.WEIGHTED_DRAW, _place_of(rng.randrange(total), weights)
    chosen = int(line[place])
    others = [(row, weight) for row, weight in zip(line.tolist(), weights, strict=True) if row != chosen]
    names = ranking.snapshot.brokers.names

    def rejected(row: int, weight: int) -> Alternative:
        compared = Compared("weight", float(weight), "of", "total", float(total))
        return Alternative(names[row], Code.NOT_DRAWN, compared if total > 0 else None)

    return PlacementChoice(
        broker=chosen,
        strategy=name,
        code=code,
        figures=partial(
            Figures,
            (Compared("weight", float(weights[place]), "of", "total", float(total)),) if total > 0 else (),
            tuple(rejected(*other) for other in others[:MAX_ALTERNATIVES]),
        ),
        rejected_count=len(others),
        settings=(_STRATEGY_KEY,),
    )


def _place_of(number: int, weights: list[int]) -> int:
    """Return the first position at which the sum of all weights up to this position (inclusive) is greater than
    `number`.
    """
    reached = 0
    for place, weight in enumerate(weights):
        reached += weight
        if number < reached:
            return place
    raise AssertionError("this is a bug: no position was found, although the number is below the sum of all weights")
