"""RoundRobinBrokerSelector: one candidate after the other, in a remembered order.

Worked example: b1, b2 and b3 get one bundle each, the fourth goes to b1 again. If a filter leaves b1 and b3 for the
second bundle, the order is taken anew, and the second of those, b3, gets it.

When to use it: namespaces that are excluded from shedding (`loadBalancerSheddingExcludedNamespaces`), which it serves
whatever placement strategy is set, so that they are spread by number at least. When not: everything else; it knows
neither loads nor capacities.

Source: Pulsar's `RoundRobinBrokerSelector`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.reasons import Code
from barycenter.load.snapshot.load_snapshot import Flags, Indices, LoadSnapshot

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


def place_all(
    snapshot: LoadSnapshot, candidates: Flags, count: int, memory: RoundRobinMemory
) -> tuple[Indices, RoundRobinMemory]:
    """Place `count` bundles and return their brokers' rows, the same as so many single choices; -1: no candidate."""
    rows = np.flatnonzero(candidates)
    if not len(rows) or not count:
        return np.full(count, -1, np.int32), memory
    counters = (memory.counter + np.arange(count, dtype=np.int64)) % (_WRAP + 1)
    positions = counters % len(rows)
    names = tuple(snapshot.brokers.names[row] for row in rows.tolist())
    order = memory.order if len(memory.order) == len(names) else names
    index = snapshot.brokers.index
    remembered = np.array([index.get(name, -1) for name in order], np.int32)
    hits = remembered[positions]
    strangers = (hits < 0) | ~candidates[hits]
    since = int(np.argmax(strangers)) if strangers.any() else count
    placed = np.concatenate((hits[:since], rows[positions[since:]].astype(np.int32)))
    after = 0 if counters[-1] >= _WRAP else int(counters[-1]) + 1
    return placed, RoundRobinMemory(after, order if since == count else names)
