"""AvgShedder as placement: the destination that the shedding plan names for the bundle, else a random broker.

A plan is valid for one attempt to carry it out, and for lookups during that time. If its destination is overloaded and
another candidate is not, another one is chosen, but never the broker that the bundle leaves. Bundles outside a plan are
not remembered.

Worked example (overload limit 85 %): the plan moves a bundle from b1 (95 %) to b2 (20 %). If b2 is at 90 % by now, b3
at 60 % gets the bundle; if b3 is at 88 %, b2 gets it all the same. If b2 is no longer a candidate, a random other
broker except b1 gets it; if there is none, the bundle has no destination and stays.

When to use it: with the AvgShedder, which chose the destinations. When not: with any other shedder; then
LeastLongTermMessageRate places instead, here as in Pulsar, since a random choice takes a full broker as often as an
empty one.

Source: Pulsar's `AvgShedder` (5.0.1).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np

from pulsar_barycenter.load.decisions import OVERLOAD_KEY
from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.reasons import Code, Compared
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.shedding.avg_shedder import NAME
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

_KEYS: Final = (OVERLOAD_KEY,)


class PlannedTransfer(NamedTuple):
    """A transfer of a bundle that the AvgShedder planned: source and destination, as broker ids."""

    source: str
    destination: str


Planned: TypeAlias = Mapping[str, PlannedTransfer]
"""The memory: bundle to its move, while a plan is carried out; empty at other times."""

NOTHING_PLANNED: Final[Planned] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AvgShedderPlacement(Placer[Planned]):
    """Places a bundle on the destination that the AvgShedder planned for it. `overload_limit` is in percent."""

    name: ClassVar[str] = NAME

    overload_limit: float = 85.0
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(config.load_balancer_broker_overloaded_threshold_percentage, resource_weights(config))

    def start(self) -> Planned:
        return NOTHING_PLANNED

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: Planned
    ) -> tuple[PlacementChoice, Planned]:
        """Choose the planned destination of the bundle, if it is a candidate and its usage is at most the limit. If its
        usage is above the limit, choose at random among the candidates that are not above it and are not the source; if
        there are none, choose the planned destination after all. If the planned destination is not a candidate any
        more, choose a random candidate other than the source.

        Without a plan for the bundle, choose a random candidate. The memory stays the same.
        """
        return self._choice(snapshot, candidates, memory.get(bundle), rng), memory

    def _choice(
        self, snapshot: LoadSnapshot, candidates: Flags, move: PlannedTransfer | None, rng: random.Random
    ) -> PlacementChoice:
        if move is None:
            return drawn(candidates, rng, Code.DRAWN)
        index = snapshot.brokers.index
        source, planned = index.get(move.source), index.get(move.destination)
        others = candidates.copy()
        if source is not None:
            others[source] = False
        if planned is None or not candidates[planned]:
            return drawn(others, rng, Code.PLANNED_IS_GONE)
        score = snapshot.brokers.weighted_usage(self.weights) * 100
        if score[planned] > self.overload_limit:
            others[planned] = False
            instead = others & np.less_equal(score, self.overload_limit)
            if instead.any():
                usage = float(score[planned]) / 100
                what = f"usage of {move.destination}"
                compared = Compared(what, usage, ">", "overload limit", self.overload_limit / 100, "%")
                return drawn(instead, rng, Code.PLANNED_IS_OVERLOADED, compared)
        return PlacementChoice(planned, NAME, Code.PLANNED, rejected_count=int(candidates.sum()) - 1)

    def planned(self, plan: SheddingPlan, memory: Planned) -> Planned:
        """Return the memory for the placements that follow `plan`: the moves of `plan` if the AvgShedder made it, else
        `memory` unchanged.
        """
        if plan.strategy != NAME:
            return memory
        bundles, brokers = plan.snapshot.bundles, plan.snapshot.brokers.names
        sources = {bundles.names[row]: brokers[bundles.owner[row]] for row in plan.rows.tolist()}
        return {bundle: PlannedTransfer(sources[bundle], broker) for bundle, broker in plan.destinations().items()}

    def tried(self, plan: SheddingPlan, memory: Planned) -> Planned:
        """Return an empty memory. The caller calls this when the unloads of a plan have been made or have failed: after
        that, no bundle has a planned destination.
        """
        return NOTHING_PLANNED


def drawn(candidates: Flags, rng: random.Random, code: Code, *compared: Compared) -> PlacementChoice:
    """Return a random one of `candidates` as the choice; a choice without broker if there is no candidate. `code` and
    `compared` are the rule and the comparisons that explain the choice.
    """
    rows = candidates.nonzero()[0]
    if not len(rows):
        return no_choice(NAME)
    chosen = int(rows[rng.randrange(len(rows))])
    return PlacementChoice(
        chosen,
        NAME,
        code,
        rejected_count=len(rows) - 1,
        settings=_KEYS if compared else (),
        figures=partial(Figures, compared),
    )
