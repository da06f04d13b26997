"""RoundRobinBrokerSelector: one candidate after the other, in a remembered order.

Serves namespaces that are excluded from shedding, whatever placement strategy is set.
Source: Pulsar's `RoundRobinBrokerSelector`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.reasons import Code
from barycenter.load.snapshot import Flags, LoadSnapshot

NAME: Final = "RoundRobinBrokerSelector"
_WRAP: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RoundRobinMemory:
    """How often was chosen (0 again after 2^31 - 1), and the order of the last copy of the candidates."""

    counter: int = 0
    order: tuple[str, ...] = ()


def round_robin_broker_selector(
    snapshot: LoadSnapshot, candidates: Flags, memory: RoundRobinMemory
) -> tuple[PlacementChoice, RoundRobinMemory]:
    """Choose the next of the remembered order; it is taken anew, by name, when the candidates differ in number or a
    hit is not one of them."""
    names = tuple(snapshot.brokers.names[row] for row in np.flatnonzero(candidates).tolist())
    if not names:
        return no_choice(NAME), memory
    position = memory.counter % len(names)
    order = memory.order if len(memory.order) == len(names) else names
    if order[position] not in names:
        order = names
    counter = 0 if memory.counter >= _WRAP else memory.counter + 1
    choice = PlacementChoice(
        snapshot.brokers.index[order[position]],
        NAME,
        Code.NEXT_IN_TURN,
        rejected_count=len(names) - 1,
        settings=("loadBalancerSheddingExcludedNamespaces",),
    )
    return choice, RoundRobinMemory(counter, order)
