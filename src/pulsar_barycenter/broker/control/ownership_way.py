"""The interface between the control plane and the way in which this broker owns bundles: by locks, or by records."""

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
"""A metric: its name, its labels in addition to those of the broker, and its value."""


@dataclass(frozen=True, slots=True)
class Departure:
    """The three steps of a broker that leaves the cluster. Each `OwnershipWay` runs them in its own order."""

    hand_over: Callable[[], Awaitable[int]]
    """Releases every bundle; returns the number of released bundles."""
    unregister: Callable[[], Awaitable[None]]
    """Removes the registration of this broker, so that it gets no bundles."""
    resign: Callable[[], Awaitable[None]]
    """Ends the leadership of this broker, if it leads."""


class OwnershipWay(Protocol):
    @property
    def ownership(self) -> Ownership: ...

    @property
    def search(self) -> Search:
        """The object that finds the owner of a bundle, and assigns an owner if the bundle has none."""
        ...

    @property
    def leaders_term(self) -> LeadersTerm:
        """The ownership term of the internal topics, which are always served by the leader, not by the owners of their
        bundles. If bundles are owned by locks, the leader serves no such topics.
        """
        ...

    @property
    def changes(self) -> OwnershipChanges:
        """The object by which load managers are notified of changes of ownership, and request changes."""
        ...

    @property
    def mode(self) -> OwnershipMode:
        """How this broker owns bundles: by locks or by records. It can be read only after the broker's id is known."""
        ...

    @property
    def hands_over(self) -> bool:
        """Whether an owner transfers a bundle directly to the next owner, which is chosen before. If False, the bundle
        has no owner after the unload, and the next look-up of it assigns an owner.
        """
        ...

    async def join(
        self, register: Callable[[], Awaitable[None]], own_namespaces: Callable[[], Awaitable[None]]
    ) -> None:
        """Register this broker, and own the namespaces that belong to it alone (heartbeat and bootstrap namespaces), in
        the order that this way of owning bundles needs. `register` and `own_namespaces` are called once each.
        """
        ...

    async def leave(self, departure: Departure) -> int:
        """Hand over every bundle of this broker and leave the cluster; return the number of released bundles."""
        ...

    def leader_duties(self, rounds: LeaderRounds) -> tuple[Duty, ...]:
        """Return the periodic duties of this broker while it is the leader."""
        ...

    def samples(self) -> Iterator[WaySample]:
        """Return the present values of the metrics that exist only with this way of owning bundles."""
        ...

    async def close(self) -> None:
        """End the ownership of every bundle without handing it over. Idempotent."""
        ...
