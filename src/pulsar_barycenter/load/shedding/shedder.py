"""The contract of a shedding strategy: its arguments, and the plan that it returns."""

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
    """The result of a shedder: the bundles to unload, and the verdict on each broker. Iterating yields the decisions in
    the order in which they are carried out.
    """

    @property
    def decided(self) -> "SheddingPlan":
        """The plan as the shedder made it; it has no rows for drained brokers if the shedder did not see them."""
        ...

    @property
    def strategy(self) -> str:
        """The name of the shedder."""
        ...

    @property
    def snapshot(self) -> LoadSnapshot:
        """The load on which the shedder decided."""
        ...

    @property
    def rows(self) -> Integers:
        """The rows of the bundles, in the order in which they leave."""
        ...

    @property
    def reason(self) -> Reason:
        """The reason why the round sheds bundles, or sheds none."""
        ...

    @property
    def usage_spread(self) -> UsageSpread | None:
        """Mean and standard deviation of the brokers' usages, if the strategy compared usages; else None."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Unload]: ...

    def broker_reason(self, broker: int) -> Reason:
        """Return why the broker in this row sheds, or does not."""
        ...

    def destinations(self) -> Mapping[str, str]:
        """Return a mapping from bundle to destination, for the bundles whose destination the strategy chose."""
        ...

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each broker that sheds nothing does not shed."""
        ...


def refusals_to_shed(plan: SheddingPlan) -> Iterator[Refusal]:
    """Yield for each broker that sheds nothing why it does not shed."""
    shedding = set(plan.snapshot.bundles.owner[plan.rows].tolist())
    for row, name in enumerate(plan.snapshot.brokers.names):
        if row not in shedding:
            yield Refusal("unload", name, plan.broker_reason(row))


class Shedder(Strategy[Memory]):
    """A strategy that chooses the bundles to unload from their brokers."""

    __slots__ = ()

    @abstractmethod
    def decide(self, snapshot: LoadSnapshot, memory: Memory) -> tuple[Any, Memory]:
        """Return the plan, a `SheddingPlan`, for the load in `snapshot`, and the strategy's memory for the next
        round.
        """

    def why_it_stays(self, plan: SheddingPlan, position: int, unload: Unload, load: LoadSnapshot) -> Reason | None:
        """Return why the bundle at `position` of this strategy's `plan` stays after all; None: it is unloaded.

        This is called right before `unload` is made, if reports arrived since the decision; `load` has them, and the
        unloads made so far. A strategy that does not override it carries out its plan as it is, as Pulsar does.
        """
        return None

    def unloaded(self, unload: Unload, at_ms: int, memory: Memory) -> Memory:
        """Return the strategy's memory after the bundle of `unload` has left its broker at `at_ms` (epoch ms)."""
        return memory
