"""The interface of a way to own bundles for the control plane: by locks, or by records."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.leadership import Duty
from pulsar_barycenter.broker.control.leader_rounds import LeaderRounds
from pulsar_barycenter.broker.load_manager.context import OwnershipChanges
from pulsar_barycenter.broker.lookup.owner_search import Search
from pulsar_barycenter.broker.ownership.contract import LeadersTerm, Ownership
from pulsar_barycenter.broker.ownership.mixed_ownership import OwnershipMode

WaySample: TypeAlias = tuple[str, Mapping[str, str], float]
"""A metric's name, its labels in addition to those of the broker, and its value."""


@dataclass(frozen=True, slots=True)
class Departure:
    """The steps of a broker that leaves. Each `OwnershipWay` runs them in its own order."""

    hand_over: Callable[[], Awaitable[int]]
    """Release every bundle, one after the other; return their number."""
    unregister: Callable[[], Awaitable[None]]
    """Remove the registration, so that the broker gets no bundles."""
    resign: Callable[[], Awaitable[None]]
    """Resign as leader."""


class OwnershipWay(Protocol):
    @property
    def ownership(self) -> Ownership: ...

    @property
    def search(self) -> Search:
        """Finds the owner of a bundle, or assigns one."""
        ...

    @property
    def leaders_term(self) -> LeadersTerm:
        """The term of the topics that the leader serves, independent of bundles."""
        ...

    @property
    def changes(self) -> OwnershipChanges:
        """The changes of ownership that load managers may see and make."""
        ...

    @property
    def mode(self) -> OwnershipMode:
        """How this broker owns bundles; known once it has an identity."""
        ...

    @property
    def hands_over(self) -> bool:
        """Whether an owner transfers a bundle directly to a known next owner. If not, the next look-up selects the
        owner.
        """
        ...

    async def join(
        self, register: Callable[[], Awaitable[None]], own_namespaces: Callable[[], Awaitable[None]]
    ) -> None:
        """Register this broker, and own its own namespaces (heartbeat and bootstrap namespaces), in the order that this
        way of owning bundles needs.
        """
        ...

    async def leave(self, departure: Departure) -> int:
        """Hand every bundle over and leave the cluster; return the number of bundles."""
        ...

    def leader_duties(self, rounds: LeaderRounds) -> tuple[Duty, ...]:
        """Return the periodic duties of this broker while it is the leader."""
        ...

    def samples(self) -> Iterator[WaySample]:
        """Return the metrics of this way."""
        ...

    async def close(self) -> None:
        """End every term without handing bundles over. Idempotent."""
        ...
