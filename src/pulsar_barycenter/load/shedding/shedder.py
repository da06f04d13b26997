"""The contract of a shedding strategy: its arguments, and the plan that it returns."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import Memory, Strategy


class UsageSpread(NamedTuple):
    """Mean and standard deviation of the usages of brokers, both as fractions."""

    mean: float
    deviation: float


class SheddingPlan(Protocol):
    """The result of a shedder: the bundles to unload, and the verdict on each broker. Iterating over it yields the
    unloads in the order in which they are made.
    """

    @property
    def decided(self) -> "SheddingPlan":
        """The plan in the form in which the shedder made it. If drained brokers were hidden from the shedder, this plan
        has other rows, because its snapshot does not have these brokers and their bundles.
        """
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
        """The rows of the bundles to unload, in the order in which they are unloaded."""
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
        """Return the destination of each bundle for which the strategy chose one. Other bundles are not in the
        mapping.
        """
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
        """Decide on the load in `snapshot`. Return the plan, a `SheddingPlan`, and the strategy's memory for the next
        round; `memory` is that after the previous round.
        """

    def why_it_stays(self, plan: SheddingPlan, position: int, unload: Unload, load: LoadSnapshot) -> Reason | None:
        """Return why the bundle at index `position` of this strategy's `plan` is not unloaded after all; None: it is
        unloaded.

        The leader calls this right before it makes `unload`, if reports arrived after the plan was made. `load` is the
        load by these reports, which also counts the unloads of the plan made so far. A strategy that does not override
        this method carries out its plan without a further check, as Pulsar does.
        """
        return None

    def unloaded(self, unload: Unload, at_ms: int, memory: Memory) -> Memory:
        """Return the strategy's memory after the bundle of `unload` has left its broker, at `at_ms` (epoch ms). By
        default, that is `memory` unchanged.
        """
        return memory
