"""AvgShedder as placement, as in Pulsar 4.x: the broker that the bundle is pinned to, else a random broker.

The memory are pins, bundle to broker. A pin is valid while its broker is a candidate, even if loads have changed and
that broker is overloaded. A bundle without a pin gets a random broker, and is pinned to it.

When to use it: with the AvgShedder, which in 4.x does not work without it. When not: with any other shedder, which is
refused, since a random choice takes a full broker as often as an empty one.

Source: Pulsar's `AvgShedder` (4.x). Where we differ: pins are by the bundle's name, not by its load data, which change
with each report; pins of planned bundles are dropped after their unload was tried, and pins to brokers that left are
dropped with the next plan.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pulsar_barycenter.load.growing_map import GrowingMap
from pulsar_barycenter.load.placement.avg_shedder import drawn
from pulsar_barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.shedding.avg_shedder import NAME
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


class Pins(GrowingMap[str, str]):
    """The pins: for each pinned bundle, the broker on which the next placement puts it. Immutable: `adding` returns
    another object.
    """

    __slots__ = ()

    def planned(self, destinations: Mapping[str, str], brokers: Collection[str]) -> "Pins":
        """Return these pins and in addition `destinations`, which replace older pins of the same bundles. Pins to
        brokers that are not in `brokers` are left out, also if they are in `destinations`.
        """
        live = set(brokers)
        return Pins({bundle: broker for bundle, broker in {**self, **destinations}.items() if broker in live})

    def without(self, bundles: Collection[str]) -> "Pins":
        gone = set(bundles)
        return Pins({bundle: broker for bundle, broker in self.items() if bundle not in gone}) if gone else self


@dataclass(frozen=True, slots=True)
class AvgShedderPins(Placer[Pins]):
    """Places a bundle on the broker that the bundle is pinned to. Has no settings."""

    name: ClassVar[str] = NAME

    @classmethod
    def of(cls, _config: "BrokerConfig") -> Self:
        return cls()

    def start(self) -> Pins:
        return Pins()

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: Pins
    ) -> tuple[PlacementChoice, Pins]:
        """Choose the broker that the bundle is pinned to, if it is a candidate. Otherwise choose a random candidate and
        pin the bundle to that broker.
        """
        rows = candidates.nonzero()[0]
        if not len(rows):
            return no_choice(NAME), memory
        pinned = snapshot.brokers.index.get(memory.get_or_none(bundle) or "")
        if pinned is not None and candidates[pinned]:
            return PlacementChoice(pinned, NAME, Code.PINNED, rejected_count=len(rows) - 1), memory
        choice = drawn(candidates, rng, Code.DRAWN)
        assert choice.broker is not None
        return choice, memory.adding(bundle, snapshot.brokers.names[choice.broker])

    def planned(self, plan: SheddingPlan, memory: Pins) -> Pins:
        """Return `memory` with the bundles of `plan` pinned to their destinations, and without pins to brokers that are
        not in the plan's snapshot; `memory` unchanged if another shedder than the AvgShedder made the plan.
        """
        if plan.strategy != NAME:
            return memory
        return memory.planned(plan.destinations(), plan.snapshot.brokers.names)

    def tried(self, plan: SheddingPlan, memory: Pins) -> Pins:
        """Return the memory after the unloads of `plan` were made or have failed: without the pins of the plan's
        bundles if the AvgShedder made the plan, else `memory` unchanged.
        """
        if plan.strategy != NAME:
            return memory
        return memory.without([plan.snapshot.bundles.names[row] for row in plan.rows.tolist()])
