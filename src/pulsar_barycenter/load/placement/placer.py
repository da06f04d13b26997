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
    """The numbers that explain a choice of a broker: `compared` has the comparisons that led to the chosen broker;
    `rejected` has the other candidates, those that would have been chosen next first, at most MAX_ALTERNATIVES.
    """

    compared: tuple[Compared, ...] = ()
    rejected: tuple[Alternative, ...] = ()


class PlacementChoice(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The choice of a placement strategy: `broker` is the row of the chosen broker, None if there was no candidate.
    `rejected_count` is the number of the other candidates. `code` is the rule that decided, `settings` the keys that
    would change the choice.

    `figures` is a function that returns the numbers that the strategy compared, with the values at the time of the
    choice. It is called only when a reason is read.
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
        """Choose the broker that is to own `bundle`, among the brokers that `candidates` flags. Return the choice, and
        the strategy's memory for the next call.
        """

    def planned(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return the memory with which the next bundles are placed, after a shedder has made `plan` and before its
        bundles are unloaded.
        """
        return memory

    def tried(self, plan: SheddingPlan, memory: Memory) -> Memory:
        """Return the memory after all unloads of `plan` have been made or have failed."""
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
