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
    """Implements `OwnershipWay` for a broker that owns bundles by locks in the metadata store: has the objects that do
    so.
    """

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
        """Own the namespaces that belong to this broker alone (heartbeat and bootstrap namespaces), then register the
        broker. Only after that is it assigned other bundles.
        """
        await own_namespaces()
        await register()

    async def leave(self, departure: Departure) -> int:
        """Unregister this broker, resign as leader, then release all bundles; return their number. Unregistering comes
        first because other brokers do not need the registration of a broker that releases its locks.
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
