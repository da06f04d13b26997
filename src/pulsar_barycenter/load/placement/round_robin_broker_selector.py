"""RoundRobinBrokerSelector: one candidate after the other, in a remembered order.

Worked example: b1, b2 and b3 get one bundle each, and the fourth goes to b1 again. If a filter leaves only b1 and b3
for the second bundle, a new order is taken, and the second of the two, b3, gets the bundle.

When to use it: namespaces that are excluded from shedding (`loadBalancerSheddingExcludedNamespaces`), which it serves
whichever placement strategy is configured, so that they are at least spread by number. When not: everything else; it
compares neither loads nor capacities.

Source: Pulsar's `RoundRobinBrokerSelector`.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "RoundRobinBrokerSelector"
_WRAP: Final = 2**31 - 1


class RoundRobinMemory(msgspec.Struct, frozen=True, eq=False):
    """The number of choices so far (it restarts at 0 after 2^31 - 1), and the order in which the brokers are chosen in
    turn: `rows` are positions in `names`, the names of the brokers.
    """

    counter: int = 0
    names: tuple[str, ...] = ()
    rows: Integers = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the brokers in the remembered order."""
        return tuple(self.names[row] for row in self.rows.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoundRobinMemory):
            return NotImplemented
        return (self.counter, self.order) == (other.counter, other.order)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class RoundRobinBrokerSelector(Placer[RoundRobinMemory]):
    """Places bundles on the brokers in turn, in a remembered order. Has no settings."""

    name: ClassVar[str] = NAME

    @classmethod
    def of(cls, _config: "BrokerConfig") -> Self:
        return cls()

    def start(self) -> RoundRobinMemory:
        return RoundRobinMemory()

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: RoundRobinMemory
    ) -> tuple[PlacementChoice, RoundRobinMemory]:
        """Choose the next broker in the remembered order.

        The order is made again, by the names of the candidates, if the number of candidates has changed or if the next
        broker is not a candidate any more.
        """
        rows = candidates.nonzero()[0]
        if not len(rows):
            return no_choice(NAME), memory
        brokers, position = snapshot.brokers, memory.counter % len(rows)
        names, order, hit = memory.names, memory.rows, None
        if len(order) == len(rows):
            hit = brokers.index.get(names[order.item(position)])
        if hit is None or not candidates[hit]:
            names, order, hit = brokers.names, rows, rows.item(position)
        choice = PlacementChoice(
            hit,
            NAME,
            Code.NEXT_IN_TURN,
            rejected_count=len(rows) - 1,
            settings=("loadBalancerSheddingExcludedNamespaces",),
        )
        return choice, RoundRobinMemory(0 if memory.counter >= _WRAP else memory.counter + 1, names, order)
