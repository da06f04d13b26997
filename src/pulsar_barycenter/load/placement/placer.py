"""What a placement strategy is asked and answers."""

import random
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from pulsar_barycenter.load.reasons import Alternative, Code, Compared
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import Memory, Strategy

_SAMPLED: Final = 8
"""Of many values, one in so many tells about where the least end; looked at are about three times too many."""


class Figures(NamedTuple):
    """By what a broker was chosen. `rejected` are the other candidates, best first, at most 16 of them."""

    compared: tuple[Compared, ...] = ()
    rejected: tuple[Alternative, ...] = ()


class PlacementChoice(msgspec.Struct, frozen=True, gc=False, eq=False):
    """`broker` is a row, None if there was no candidate; `rejected_count` how many others there were.

    `figures` are made if somebody shall be told, of what was known at the choice.
    """

    broker: int | None
    strategy: str
    code: Code
    rejected_count: int = 0
    settings: tuple[str, ...] = ()
    figures: Callable[[], Figures] = Figures


class Placer(Strategy[Memory]):
    """Chooses the owner of a bundle among candidates."""

    __slots__ = ()

    @abstractmethod
    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: Memory
    ) -> tuple[PlacementChoice, Memory]:
        """Return which of `candidates` (flags over the brokers) shall own `bundle`, and what is remembered."""

    def planned(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return what is remembered before the bundles of a plan are placed."""
        return memory

    def tried(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return what is remembered once carrying out the plan was tried."""
        return memory


def no_choice(strategy: str) -> PlacementChoice:
    return PlacementChoice(None, strategy, Code.NO_CANDIDATE)


def least_rows(values: Floats, count: int) -> Integers:
    """Return the places of the `count` least values, least first, of equal ones the first; NaN comes last."""
    if len(values) > 32 * count:
        sample = values[::_SAMPLED].copy()
        sample.partition(3 * count // _SAMPLED)
        few: Integers = (values <= sample[3 * count // _SAMPLED]).nonzero()[0]
        if len(few) >= count:
            return few[values[few].argsort(kind="stable")[:count]]
    return values.argsort(kind="stable")[:count]
