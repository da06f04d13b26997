"""The contract of a placement strategy: its arguments, and the choice that it returns."""

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
"""One of this many values is sampled to estimate a bound; about three times the wanted number of values is below it."""


class Figures(NamedTuple):
    """The numbers that explain a choice of a broker: `compared` for the chosen broker; `rejected` for the other
    candidates, best first, at most MAX_ALTERNATIVES.
    """

    compared: tuple[Compared, ...] = ()
    rejected: tuple[Alternative, ...] = ()


class PlacementChoice(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The choice of a strategy: `broker` is the row of the chosen broker, None if there was no candidate, and
    `rejected_count` the number of other candidates.

    `figures` returns the numbers behind the choice, as they were at the choice; it is called only to explain it.
    """

    broker: int | None
    strategy: str
    code: Code
    rejected_count: int = 0
    settings: tuple[str, ...] = ()
    figures: Callable[[], Figures] = Figures


class Placer(Strategy[Memory]):
    """A placement strategy: chooses the owner of a bundle among candidates."""

    __slots__ = ()

    @abstractmethod
    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: Memory
    ) -> tuple[PlacementChoice, Memory]:
        """Return the choice of the broker, among `candidates` (one flag per broker), that is to own `bundle`, and the
        strategy's memory for the next call.
        """

    def planned(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return the memory with which the bundles of a shedder's plan are then placed."""
        return memory

    def tried(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return the strategy's memory after a shedder's plan was carried out, or failed."""
        return memory


def no_choice(strategy: str) -> PlacementChoice:
    return PlacementChoice(None, strategy, Code.NO_CANDIDATE)


def least_rows(values: Floats, count: int) -> Integers:
    """Return the positions of the `count` least values, least first; of equal values, the first positions. NaN comes
    last.
    """
    if len(values) > 32 * count:
        sample = values[::_SAMPLED].copy()
        sample.partition(3 * count // _SAMPLED)
        few: Integers = (values <= sample[3 * count // _SAMPLED]).nonzero()[0]
        if len(few) >= count:
            return few[values[few].argsort(kind="stable")[:count]]
    return values.argsort(kind="stable")[:count]
