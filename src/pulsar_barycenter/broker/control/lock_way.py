"""Ownership by locks: for the simple, modular and no-op load managers."""

from collections.abc import Awaitable, Callable, Iterator

from pulsar_barycenter.broker.cluster.leadership import Duty
from pulsar_barycenter.broker.control.leader_rounds import LeaderRounds
from pulsar_barycenter.broker.control.ownership_way import Departure, WaySample
from pulsar_barycenter.broker.load_manager.context import NoOwnershipChanges
from pulsar_barycenter.broker.lookup.owner_search import Search
from pulsar_barycenter.broker.ownership.contract import LeadersTerm, Ownership
from pulsar_barycenter.broker.ownership.mixed_ownership import BY_LOCKS


class LockWay:
    """Implements `OwnershipWay`."""

    mode = BY_LOCKS
    hands_over = False

    def __init__(self, ownership: Ownership, search: Search, leaders_term: LeadersTerm) -> None:
        self.ownership = ownership
        self.search = search
        self.leaders_term = leaders_term
        self.changes = NoOwnershipChanges()

    async def join(
        self, register: Callable[[], Awaitable[None]], own_namespaces: Callable[[], Awaitable[None]]
    ) -> None:
        """Own the broker's namespaces, then register: a registered broker gets bundles."""
        await own_namespaces()
        await register()

    async def leave(self, departure: Departure) -> int:
        """Unregister, resign, then release all bundles; return their number. Other brokers do not need this broker's
        registration while its locks become free.
        """
        await departure.unregister()
        await departure.resign()
        return await departure.hand_over()

    def leader_duties(self, rounds: LeaderRounds) -> tuple[Duty, ...]:
        return rounds.shedding(), rounds.split_check(), rounds.quotas()

    def samples(self) -> Iterator[WaySample]:
        return iter(())

    async def close(self) -> None:
        await self.ownership.close()
