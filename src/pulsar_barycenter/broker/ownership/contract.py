"""What the rest of a broker asks of ownership, and what that asks of each way of owning bundles.

There are two ways: locks in the metadata store (`by_locks`; the simple, modular and no-op load managers), and records
of the ownership channel (`channel`; the extensible one). The name of the load manager at the start decides which it is.
Each is an `OwnershipMachine`. `bundle_owner` holds one, and is the `Ownership` that others see.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.ownership.bundle_topics import Topics
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.broker.ownership.serving import OwnedBundle, ServingAuthority
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.topic import TopicName

WriteBoundaries: TypeAlias = Callable[[Callable[[], None]], Awaitable[NamespaceBundles]]
"""Makes children bundles of their namespace, and returns its new list. What it is given raises BundleNotAcquiredError
once the parent is no longer this broker's to split, and is to be called as each write begins."""


@dataclass(frozen=True, slots=True)
class InTransit:
    """The bundle belongs to a broker that does not serve it, or not yet."""

    broker_id: str


class Ownership(ServingAuthority, Protocol):
    """Which bundles this broker owns, and who owns the others."""

    # ---- life ----

    @property
    def handovers(self) -> HandoverTimes:
        """How long handing bundles over takes here."""
        ...

    def attach_topics(self, topics: Topics) -> None: ...

    def set_identity(self, urls: ServiceUrls) -> None:
        """Say under which URLs this broker serves; from now on it may acquire."""
        ...

    def joined(self) -> None:
        """Say that this broker has started; until then clients of topics that it does not serve are held."""
        ...

    def refuse_acquisitions(self, why: str) -> None:
        """Acquire nothing more; what is owned stays until it is released."""
        ...

    async def close(self) -> None:
        """End every task and let go of everything that is still held. Idempotent."""
        ...

    # ---- what is known; never waits ----

    def is_owned(self, bundle: Bundle) -> bool: ...

    def owned(self, bundle: Bundle) -> OwnedBundle | None: ...

    def owned_bundles(self) -> list[Bundle]:
        """Return the bundles served now, in the order of their names."""
        ...

    def held_bundles(self) -> list[Bundle]:
        """Return the bundles held in any state: served, leaving or in doubt."""
        ...

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is known now."""
        ...

    # ---- who owns what ----

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner, InTransit while it does not serve (yet), or None if the bundle is nobody's."""
        ...

    async def wait_change(self, bundle: Bundle, timeout_s: float) -> None:
        """Return when the ownership of `bundle` changed, here or elsewhere, or after `timeout_s`."""
        ...

    def on_lost(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with each bundle whose term ended without notice and that was not acquired anew."""
        ...

    # ---- changes ----

    async def acquire(self, bundle: Bundle, *, reason: str) -> Owner:
        """Own and serve `bundle`; a bundle that is served here already is no work.

        Raises:
            BundleNotFoundError: it is not among the bundles of its namespace (any more).
            BundleNotAcquiredError: this broker takes nothing now, or lost its session on the way.
            LockBusyError: another broker has it.
            MetadataError: the store did not answer.
        """
        ...

    async def release(self, bundle: Bundle, *, reason: str, destination: str | None = None) -> int | None:
        """Close the bundle's topics, then give it up; return how many topics were closed, None if not owned.

        `destination` is the broker that shall have it, where ownership is handed over from one to the other.
        """
        ...

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Replace the served `parent` by `children` without closing a topic.

        `write_boundaries` makes them the namespace's bundles by compare-and-set and returns the new list. If anything
        fails before the boundaries stand, the children are given up and the parent goes on.

        Raises:
            BundleNotAcquiredError: the parent is not served here.
            BadVersionError: from `write_boundaries`; another broker changed the namespace.
        """
        ...


class OwnershipMachine(Protocol):
    """One way of owning bundles: how a bundle is won, given up and split, and who owns those of the other brokers.

    It works on the `LocalTerms` of its broker, which end before `close` is called.
    """

    def start(self) -> None:
        """Begin to work: the terms have the identity of this broker."""
        ...

    def refuse(self, why: str) -> None:
        """Acquire nothing more; what is owned stays until it is released."""
        ...

    def stop(self) -> None:
        """React to nothing more, and begin nothing."""
        ...

    async def close(self) -> None:
        """Give back what proves ownership; every term and every task has ended."""
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End a term without notice: its ledger was fenced, or its proof is gone."""
        ...

    async def until_served(self, bundle: Bundle) -> None:
        """Return when the bundle is served here, or is not on its way here, or after a limit of some seconds."""
        ...

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """See `Ownership.owner_cached`."""
        ...

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """See `Ownership.owner_of`."""
        ...

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """See `Ownership.acquire`; it runs in a task that outlives the caller, as all changes do."""
        ...

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """See `Ownership.release`."""
        ...

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """See `Ownership.split`."""
        ...


class LeadersTerm(Protocol):
    """The term of the topics that the leader serves, whatever bundle they are in."""

    def has(self, topic: TopicName) -> bool:
        """Tell whether the leader serves a topic."""
        ...

    def served(self) -> OwnedBundle | None:
        """Return the term if this broker leads."""
        ...

    def owner(self) -> Owner | None:
        """Return the broker that serves these topics now, as far as that is known."""
        ...

    async def wait_change(self, timeout_s: float) -> None:
        """Return when another broker may serve them, or after `timeout_s`."""
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End the term if it is `owned`."""
        ...

    async def close(self) -> None: ...


class NoLeadersTerm:
    """Where the leader serves no topics of its own. Implements `LeadersTerm`."""

    def has(self, topic: TopicName) -> bool:
        return False

    def served(self) -> OwnedBundle | None:
        return None

    def owner(self) -> Owner | None:
        return None

    async def wait_change(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        return

    async def close(self) -> None:
        return
