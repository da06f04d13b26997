"""What a control plane asks of the way in which bundles are owned: by locks, or by records."""

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
"""A metric's name, its labels besides those of the broker, and its value."""


@dataclass(frozen=True, slots=True)
class Departure:
    """What a broker does when it leaves; the way says in which order."""

    hand_over: Callable[[], Awaitable[int]]
    """Give every bundle up, one after the other; return how many."""
    unregister: Callable[[], Awaitable[None]]
    """Be given no bundle any more."""
    resign: Callable[[], Awaitable[None]]
    """Let another broker lead."""


class OwnershipWay(Protocol):
    @property
    def ownership(self) -> Ownership: ...

    @property
    def search(self) -> Search:
        """Finds, or makes, the owner of a bundle."""
        ...

    @property
    def leaders_term(self) -> LeadersTerm:
        """The term of the topics that the leader serves, whatever bundle they are in."""
        ...

    @property
    def changes(self) -> OwnershipChanges:
        """What load managers may ask of ownership."""
        ...

    @property
    def mode(self) -> OwnershipMode:
        """How this broker keeps ownership; known once it has an identity."""
        ...

    @property
    def hands_over(self) -> bool:
        """Whether a bundle goes from its owner to a certain other broker; else its next look-up decides."""
        ...

    async def join(
        self, register: Callable[[], Awaitable[None]], own_namespaces: Callable[[], Awaitable[None]]
    ) -> None:
        """Have this broker registered, and its own namespaces owned, in the order that this way needs."""
        ...

    async def leave(self, departure: Departure) -> int:
        """Hand every bundle over and leave the cluster; return how many bundles."""
        ...

    def leader_duties(self, rounds: LeaderRounds) -> tuple[Duty, ...]:
        """Return what this broker does while it leads."""
        ...

    def samples(self) -> Iterator[WaySample]:
        """Return the metrics of this way."""
        ...

    async def close(self) -> None:
        """End every term without handing over. Idempotent."""
        ...
