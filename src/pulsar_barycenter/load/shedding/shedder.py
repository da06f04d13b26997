"""What a shedding strategy is asked and answers."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import Memory, Strategy


class UsageSpread(NamedTuple):
    """Mean and standard deviation of the usages of brokers, fractions."""

    mean: float
    deviation: float


class SheddingPlan(Protocol):
    """The bundles that shall leave, and the verdict on each broker. Iterating makes the decisions, in their order."""

    @property
    def decided(self) -> "SheddingPlan":
        """The plan as its shedder made it, which may not know of all brokers."""
        ...

    @property
    def strategy(self) -> str:
        """The name of the shedder."""
        ...

    @property
    def snapshot(self) -> LoadSnapshot:
        """What was decided upon."""
        ...

    @property
    def rows(self) -> Integers:
        """The bundles' rows, in the order in which they leave."""
        ...

    @property
    def reason(self) -> Reason:
        """Why anything, or nothing, is shed."""
        ...

    @property
    def usage_spread(self) -> UsageSpread | None:
        """How the usages of brokers spread, if the strategy went by that."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Unload]: ...

    def broker_reason(self, broker: int) -> Reason:
        """Why the broker in that row sheds, or does not."""
        ...

    def destinations(self) -> Mapping[str, str]:
        """Return the broker that each bundle shall go to, of those of which the strategy says so."""
        ...

    def refusals(self) -> Iterator[Refusal]:
        """Tell of each broker that sheds nothing why."""
        ...


class Shedder(Strategy[Memory]):
    """Chooses bundles that shall leave their brokers."""

    __slots__ = ()

    @abstractmethod
    def decide(self, snapshot: LoadSnapshot, memory: Memory) -> tuple[Any, Memory]:
        """Return the plan, a `SheddingPlan`, and what is remembered."""

    def unloaded(self, unload: Unload, at_ms: int, memory: Memory) -> Memory:
        """Return what is remembered once a bundle left its broker."""
        return memory
