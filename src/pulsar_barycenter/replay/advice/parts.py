"""Divides a history into a settling part, which is not judged, parts that are used for choosing, and held-out parts.

A configuration is run once from beginning to end, and measured on each part. So the cost of changing to it falls into
the settling part, each later part begins with the state that this configuration reached, and the choice depends on
nothing after the parts used for choosing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import msgspec

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import Event
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import Measures, measure
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.simulator import Cluster, replay

CHOOSING: Final = 6
TELLING: Final = 4
"""The number of held-out parts. They are as long as the `CHOOSING` parts that are used for choosing."""
SHORTEST_MS: Final = 3_600_000
LONGEST_SETTLING_MS: Final = 86_400_000
_LEAST_STEPS: Final = 40


class Parts(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The parts into which the history is divided, without gaps: first `settling`, then the parts in `choosing`, then
    those in `telling`, which are held out. A part is a pair of its first step, inclusive, and its end, exclusive.
    """

    settling: tuple[int, int]
    choosing: tuple[tuple[int, int], ...]
    telling: tuple[tuple[int, int], ...]

    @property
    def held_out(self) -> tuple[int, int]:
        return self.telling[0][0], self.telling[-1][1]


def parts_of(steps: int, step_ms: int) -> Parts:
    """Divide a history of `steps` steps. The first quarter, but at most a day, is for settling. Of the rest, the first
    three fifths are used for choosing, and the last two fifths are held out, that is, they only check the choice.

    Raises:
        ReplayInputError: the history is shorter than an hour or than 40 steps.
    """
    if steps * step_ms < SHORTEST_MS or steps < _LEAST_STEPS:
        raise ReplayInputError(
            f"a history of {steps * step_ms / 60_000:g} min in {count_of(steps, 'step')} is too short to choose"
            " settings by one part of it and to check them by another; give at least an hour, in at least"
            f" {_LEAST_STEPS} steps"
        )
    first = max(1, min(steps // 4, LONGEST_SETTLING_MS // step_ms))
    count = CHOOSING + TELLING
    edges = [first + (steps - first) * number // count for number in range(count + 1)]
    every = tuple(pairwise(edges))
    return Parts(settling=(0, first), choosing=every[:CHOOSING], telling=every[CHOOSING:])


class Trial(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One replay of a scenario, with its measures on each part of the history, on all held-out parts together, and on
    the whole history.
    """

    scenario: Scenario
    settling: Measures
    choosing: tuple[Measures, ...]
    telling: tuple[Measures, ...]
    held_out: Measures
    whole: Measures


def attempt(
    scenario: Scenario, demand: Demand, cluster: Cluster, events: Iterable[Event], base: Mapping[str, str], parts: Parts
) -> Trial:
    """Replay the whole history with a scenario's strategy, settings and seed, and return the measures on each part.

    Whether a broker is overloaded is always judged by the limit in the present configuration `base`, even if the
    scenario sets another limit. So the measures of different scenarios can be compared.
    """
    config = with_overrides(BrokerConfig(), base)
    limit = config.load_balancer_broker_overloaded_threshold_percentage / 100
    outcome = replace(replay(demand, cluster, scenario.config(base), events, seed=scenario.seed), overload_limit=limit)
    return Trial(
        scenario=scenario,
        settling=measure(within(outcome, *parts.settling)),
        choosing=tuple(measure(within(outcome, *each)) for each in parts.choosing),
        telling=tuple(measure(within(outcome, *each)) for each in parts.telling),
        held_out=measure(within(outcome, *parts.held_out)),
        whole=measure(outcome),
    )


def within(outcome: Outcome, first: int, end: int) -> Outcome:
    """Return the part of an outcome from the step `first`, inclusive, to the step `end`, exclusive.

    Its time without service is only that which the moves in these steps cause.
    """
    since_ms, until_ms = int(outcome.at_ms[first]), int(outcome.at_ms[end - 1]) + outcome.step_ms
    names = ("at_ms", "live", "usage", "cpu", "rate", "throughput", "unserved", "floor")
    rows: dict[str, Any] = {name: getattr(outcome, name)[first:end] for name in names}
    moves = tuple(move for move in outcome.moves if since_ms <= move.at_ms < until_ms)
    return replace(
        outcome,
        **rows,
        moves=moves,
        splits=tuple(split for split in outcome.splits if since_ms <= split.at_ms < until_ms),
        unserved_topic_s=sum(move.topics * move.gap_ms for move in moves) / 1000,
        event_ms=tuple(at for at in outcome.event_ms if since_ms <= at < until_ms),
    )
