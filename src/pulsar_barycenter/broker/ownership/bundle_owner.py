"""The bundles that this broker owns, and the owners of the others: a `BundleOwner`, with the state machine for locks or
for records.

Whether a bundle is served here depends on this broker's terms only, so topics and connections do not depend on the
state machine. The state machine carries out every change, in a task that continues if the caller is cancelled. It also
finds the owners of bundles: `owner_cached` and `owner_of` of a `BundleOwner` are the methods of its state machine.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from pulsar_barycenter.bounds.background import TasksClosedError
from pulsar_barycenter.broker.cluster.lookup_answers import LookupNotReadyError, Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.ownership.bundle_topics import Topics
from pulsar_barycenter.broker.ownership.contract import LeadersTerm, OwnershipMachine, WriteBoundaries
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName

JOINS_S: Final = 12.0
"""The number of seconds that a request of a client waits while this broker starts. Clients themselves wait 30 s."""

T = TypeVar("T")


class BundleOwner:
    """The bundles that this broker owns, and the owners of all other bundles. Implements `Ownership`.

    It is created before the ports are known. `set_identity` must be called before `acquire`.
    """

    def __init__(self, terms: LocalTerms[Any], machine: OwnershipMachine, leaders_term: LeadersTerm) -> None:
        """`machine` is the object that acquires and releases bundles, by locks or by records, and so changes `terms`,
        the terms of this broker. `leaders_term` is the term of the internal topics, which the leader serves even if
        other brokers own their bundles.
        """
        self._terms = terms
        self._holdings = terms.holdings
        self._bundles = terms.bundles
        self._machine = machine
        self.owner_cached: Final = machine.owner_cached
        self.owner_of: Final = machine.owner_of
        self._leaders_term = leaders_term
        self._joined = asyncio.Event()
        self._is_closed = False

    # ---- life ----

    @property
    def handovers(self) -> HandoverTimes:
        return self._terms.handovers

    def attach_topics(self, topics: Topics) -> None:
        self._terms.topics.attach(topics)

    def set_identity(self, urls: ServiceUrls) -> None:
        """Set the URLs of this broker; from now on it may acquire bundles."""
        self._terms.set_identity(urls)
        self._machine.start()

    def joined(self) -> None:
        """Record that this broker has started. From now on, a request for a topic that this broker does not serve is
        refused at once; until then such requests wait.
        """
        self._joined.set()

    def refuse_acquisitions(self, why: str) -> None:
        """Acquire no more bundles. Bundles that this broker owns stay its own until they are released. `why` is the
        reason that a refused request gets.
        """
        self._machine.refuse(why)

    async def close(self) -> None:
        """End every term and every task, and release all locks and records, without handing over bundles.
        Idempotent.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._machine.stop()
        self._joined.set()
        self._terms.leave_nothing()
        await self._leaders_term.close()
        await self._terms.tasks.close()
        await self._machine.close()

    # ---- what is served here (ServingAuthority) ----

    def served(self, topic: TopicName) -> OwnedBundle | None:
        if self._leaders_term.has(topic):
            return self._leaders_term.served()
        bundles = self._bundles.cached(topic.namespace)
        return None if bundles is None else self.owned(bundles.find(topic))

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        """Return this broker's term for the topic's bundle. If this broker does not serve the bundle, wait: first until
        this broker has started, for at most JOINS_S seconds, and then until it serves the bundle or it is clear that it
        will not serve it soon. Other brokers may send clients here that early.

        Raises:
            NotServedError: this broker still does not serve the bundle.
        """
        if self._leaders_term.has(topic):
            return self._require_leaders_term(topic)
        await self._bundles.get(topic.namespace)
        if self.served(topic) is None:
            await self._until_joined()
            await self._machine.until_served(await self._bundles.bundle_of(topic))
        term = self.served(topic)
        if term is None:
            bundle = await self._bundles.bundle_of(topic)
            holding = self._holdings.get(bundle)
            raise NotServedError(
                topic,
                f"the state of bundle {bundle} on this broker is {(holding.state.value if holding else 'not owned')}, "
                "expected serving",
            )
        return term

    def _require_leaders_term(self, topic: TopicName) -> OwnedBundle:
        term = self._leaders_term.served()
        if term is None:
            raise NotServedError(topic, "the leader serves this topic, and this broker is not the leader")
        return term

    async def _until_joined(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(JOINS_S):
                await self._joined.wait()

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End the term `owned`, because a ledger of its bundle was fenced by a later owner of the bundle."""
        self._leaders_term.lost(owned, reason)
        self._machine.lost(owned, reason)

    def is_owned(self, bundle: Bundle) -> bool:
        return self._holdings.serving(bundle) is not None

    def owned(self, bundle: Bundle) -> OwnedBundle | None:
        holding = self._holdings.serving(bundle)
        return None if holding is None else holding.term

    def owned_bundles(self) -> list[Bundle]:
        """Return the bundles that this broker serves now, sorted by name."""
        return sorted(holding.term.bundle for holding in self._holdings.all() if self._holdings.is_serving(holding))

    def held_bundles(self) -> list[Bundle]:
        """Return all bundles that this broker has not released yet, sorted by name: those that it serves, is about to
        serve or is unloading, and those whose term has ended.
        """
        return sorted(self._holdings.bundles())

    # ---- changes of ownership ----

    async def wait_change(self, bundle: Bundle, timeout_s: float) -> None:
        """Return when the ownership of `bundle` next changes, on this broker or elsewhere, or after `timeout_s`
        seconds; in both cases without an error.
        """
        await self._terms.changes.wait(bundle, timeout_s)

    def on_lost(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with a bundle after its term ended without an unload or split by this broker, and this broker
        did not acquire the bundle again.
        """
        self._terms.on_lost(listener)

    async def acquire(self, bundle: Bundle, *, reason: str) -> Owner:
        return await self._complete(self._machine.acquire(bundle, reason), f"acquire {bundle}")

    async def release(self, bundle: Bundle, *, reason: str, destination: str | None = None) -> int | None:
        return await self._complete(self._machine.release(bundle, reason, destination), f"release {bundle}")

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        await self._complete(self._machine.split(parent, children, write_boundaries), f"split {parent}")

    async def _complete(self, change: Coroutine[Any, Any, T], name: str) -> T:
        """Run `change`, a change of ownership, as the task `name`, and return its result. If the caller is cancelled,
        the change still runs to its end. If this broker is stopped, raise LookupNotReadyError.
        """
        try:
            return await self._terms.tasks.complete(kept_task(change, name))
        except TasksClosedError:
            raise LookupNotReadyError("this broker is stopped") from None
