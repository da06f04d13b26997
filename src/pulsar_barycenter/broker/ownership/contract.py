"""What the rest of a broker asks of ownership, whichever way bundles are owned.

Two ways there are: locks in the metadata store (`cache`; the simple, modular and no-op load managers), and records of
the ownership channel (`channel`; the extensible one). The name of the load manager at the start decides which it is.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.ownership.bundle_owner import Topics
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.broker.ownership.serving import OwnedBundle, ServingAuthority
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles

WriteBoundaries: TypeAlias = Callable[[Callable[[], None]], Awaitable[NamespaceBundles]]
"""Makes children bundles of their namespace, and returns its new list. What it is given raises BundleNotAcquiredError
once the parent is no longer this broker's to split, and is to be called as each write begins."""


@dataclass(frozen=True, slots=True)
class InTransit:
    """The bundle is somebody's who does not serve it, or not yet."""

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
            BadVersionError: from `write_boundaries`; somebody else changed the namespace.
        """
        ...
