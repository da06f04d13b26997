"""The interface of ownership for the other parts of a broker, and the interface of each way to own bundles.

There are two ways: locks in the metadata store (`by_locks`; the simple, modular and no-op load managers), and records
of the ownership channel (`channel`; the extensible one). The load manager at the start of the broker decides between
them. Each is an `OwnershipMachine`. `bundle_owner` implements `Ownership` with one of them.
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
"""A function that writes the new bundles of a split as bundles of their namespace, and returns all bundles of the
namespace. Its argument is a function to call before each write: it raises BundleNotAcquiredError if this broker may not
split the parent any more.
"""


@dataclass(frozen=True, slots=True)
class InTransit:
    """The answer of a look-up that a bundle has an owner, but this owner does not serve it yet, or does not serve it
    any more.
    """

    broker_id: str


class Ownership(ServingAuthority, Protocol):
    """The ownership of bundles, as this broker knows it: its own bundles, and the owners of all other bundles."""

    # ---- life ----

    @property
    def handovers(self) -> HandoverTimes:
        """The times that handovers of bundles took in which this broker had a part, as the former or the next owner."""
        ...

    def attach_topics(self, topics: Topics) -> None: ...

    def set_identity(self, urls: ServiceUrls) -> None:
        """Set the URLs of this broker; from now on it may acquire bundles."""
        ...

    def joined(self) -> None:
        """Record that this broker has started. Until then, clients that use a topic which this broker does not serve
        wait; after that, they are refused at once.
        """
        ...

    def refuse_acquisitions(self, why: str) -> None:
        """Acquire no more bundles. Bundles that this broker owns stay its own until they are released. `why` is the
        reason that a refused request gets.
        """
        ...

    async def close(self) -> None:
        """End every task and the ownership of all bundles, without handing over bundles. Idempotent."""
        ...

    # ---- what is known, without waiting ----

    def is_owned(self, bundle: Bundle) -> bool: ...

    def owned(self, bundle: Bundle) -> OwnedBundle | None: ...

    def owned_bundles(self) -> list[Bundle]:
        """Return the bundles that this broker serves now, sorted by name."""
        ...

    def held_bundles(self) -> list[Bundle]:
        """Return all bundles that this broker has not released yet, sorted by name: those that it serves, is about to
        serve or is unloading, and those whose term has ended.
        """
        ...

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is known without waiting. None: there is no owner, or it is not known."""
        ...

    # ---- owners ----

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner, InTransit while the owner does not serve the bundle, or None if the bundle has no owner."""
        ...

    async def wait_change(self, bundle: Bundle, timeout_s: float) -> None:
        """Return when the ownership of `bundle` next changes, on this broker or elsewhere, or after `timeout_s`
        seconds; in both cases without an error.
        """
        ...

    def on_lost(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with a bundle after its term ended without an unload or split by this broker, and this broker
        did not acquire the bundle again.
        """
        ...

    # ---- changes ----

    async def acquire(self, bundle: Bundle, *, reason: str) -> Owner:
        """Acquire `bundle` and wait until this broker serves it; return this broker as the owner. If this broker serves
        it already, return at once.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            BundleNotAcquiredError: this broker acquires nothing now, lost its session in between, or did not get the
                bundle in time.
            LockBusyError: another broker owns the bundle.
            MetadataError: the store did not answer.
        """
        ...

    async def release(self, bundle: Bundle, *, reason: str, destination: str | None = None) -> int | None:
        """Close the bundle's topics and release the bundle; return the number of closed topics, None if this broker
        does not own the bundle.

        `destination` is the id of the next owner. With ownership locks it has no effect, because the next look-up
        chooses the owner.
        """
        ...

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Split `parent`, which this broker serves, into `children` without closing a topic.

        `write_boundaries` stores the children as bundles of the namespace by compare-and-set, and returns the new
        bundles of the namespace. If anything fails before the boundaries are written, the children are released and
        this broker continues to serve the parent. If it is not known whether the boundaries were written, the term of
        the parent ends.

        Raises:
            BundleNotAcquiredError: this broker does not serve the parent.
            BadVersionError: `write_boundaries` found that another broker has changed the namespace.
        """
        ...


class OwnershipMachine(Protocol):
    """One of the two ways to own bundles, by locks or by records. It acquires, releases and splits bundles, and finds
    the owners of bundles of other brokers.

    It changes the `LocalTerms` of its broker: a term is the time in which the broker owns a bundle under one epoch. The
    caller ends all terms before it calls `close`.
    """

    def start(self) -> None:
        """Begin to acquire and release bundles. Before this call, `LocalTerms` must have got the id and URLs of this
        broker.
        """
        ...

    def refuse(self, why: str) -> None:
        """Acquire no more bundles. Bundles that this broker owns stay its own until they are released. `why` is the
        reason that a refused request gets.
        """
        ...

    def stop(self) -> None:
        """Do not react to any more notifications, and begin no more changes of ownership. Terms do not end."""
        ...

    async def close(self) -> None:
        """Release the locks or records that prove ownership. Called after every term and every task has ended."""
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End the term `owned`, because a ledger of its bundle was fenced, or the lock or record that proved the
        ownership is lost. If the bundle's term is another one, do nothing.
        """
        ...

    async def until_served(self, bundle: Bundle) -> None:
        """Wait until this broker serves the bundle, or until it is clear that it will not serve it soon, for a few
        seconds at most. If this time is over, return without an error.
        """
        ...

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """Return the owner of the bundle if it is known without waiting, as `Ownership.owner_cached` does."""
        ...

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner of the bundle, InTransit or None, as `Ownership.owner_of` does."""
        ...

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """Own and serve a bundle, as `Ownership.acquire` describes. Like all changes, this runs in a task that
        continues if the caller is cancelled.
        """
        ...

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """Close the bundle's topics and release it, as `Ownership.release` describes."""
        ...

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Split a bundle, as `Ownership.split` describes."""
        ...


class LeadersTerm(Protocol):
    """The ownership term of the internal topics, which are always served by the leader, not by the owners of their
    bundles.
    """

    def has(self, topic: TopicName) -> bool:
        """Return whether the leader serves a topic. It serves internal topics only (`naming/internal_topics`)."""
        ...

    def served(self) -> OwnedBundle | None:
        """Return the term in which this broker serves the leader's topics; None if it does not serve them now."""
        ...

    def owner(self) -> Owner | None:
        """Return the broker that serves the leader's topics now; None if it is not known."""
        ...

    async def wait_change(self, timeout_s: float) -> None:
        """Return when another broker may have begun to serve the leader's topics, or after `timeout_s` seconds; in both
        cases without an error.
        """
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End the present term for the leader's topics, if it is the term `owned`."""
        ...

    async def close(self) -> None: ...


class NoLeadersTerm:
    """Implements `LeadersTerm` for clusters in which bundles are owned by locks: every topic is served by the owner of
    its bundle.
    """

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
