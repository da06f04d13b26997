"""What every way of owning bundles has in common: the holdings, their terms and topics, who waits, what runs.

How a bundle is won differs: by a lock (`cache`), or by a record of the ownership channel (`channel`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.cluster.lookup_answers import (
    LookupFailedError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.service_urls import NextOwner, ServiceUrls
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.broker.ownership.holdings import Holdings, OwnershipProof
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

JOINS_S: Final = 12.0
"""How long a client is held that comes while this broker starts; it gives up after 30 s."""

T = TypeVar("T")
W = TypeVar("W", bound=OwnershipProof)


class Topics(Protocol):
    """The loaded topics, as ownership commands them (the `TopicRegistry`)."""

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int: ...

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        """Close the bundle's topics, but keep their clients; return how many topics."""
        ...

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        """Send the bundle's clients to `owner`, or away to look it up; return how many topics."""
        ...

    def written_topics(self, bundle: Bundle) -> list[str]:
        """Return the bundle's topics that producers are attached to, the busiest first."""
        ...

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        """Open topics in the background, ahead of this broker's term of that number; while the former owner has not
        closed them, only get ready for that."""
        ...

    def refresh_bundles(self) -> object: ...


class BundleOwner(ABC, Generic[W]):
    """Implements `ServingAuthority` upon what is held. Made before the ports are known."""

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        *,
        clock: Clock,
        serving_log: ServingLog,
        session_timeout_s: float,
        unload_timeout_s: Callable[[], float],
    ) -> None:
        self._bundles = bundles
        self._clock = clock
        self._session_timeout_s = session_timeout_s
        self._unload_timeout_s = unload_timeout_s
        self._topics: Topics | None = None
        self._urls: ServiceUrls | None = None
        self._pauses = PauseDetector(
            session_timeout_s / 2,
            asyncio.get_running_loop().time,
            clock.now_ms,
            lambda: store.session_is_overdue,
        )
        self._holdings: Holdings[W] = Holdings(
            pauses=self._pauses, clock=clock, serving_log=serving_log, changed=self._notify
        )
        self.handovers = HandoverTimes()
        self._changes: dict[Bundle, NextChange] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lost_listeners: list[Callable[[Bundle], None]] = []
        self._joined = asyncio.Event()
        self._closed = False

    def joined(self) -> None:
        """Say that this broker has started: what it does not serve now it refuses at once."""
        self._joined.set()

    def attach_topics(self, topics: Topics) -> None:
        self._topics = topics

    # ---- what is served here (ServingAuthority) ----

    def served(self, topic: TopicName) -> OwnedBundle | None:
        bundles = self._bundles.cached(topic.namespace)
        return None if bundles is None else self.owned(bundles.find(topic))

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        await self._bundles.get(topic.namespace)
        if self.served(topic) is None:
            await self._until_joined()
        term = self.served(topic)
        if term is None:
            bundle = await self._bundles.bundle_of(topic)
            holding = self._holdings.get(bundle)
            raise NotServedError(topic, f"bundle {bundle} is {holding.state.value if holding else 'not owned'} here")
        return term

    async def _until_joined(self) -> None:
        """Hold a client that comes while this broker starts: others send it here by what a former life of it left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(JOINS_S):
                await self._joined.wait()

    @abstractmethod
    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """Report that a ledger of this term was fenced: the term is over."""

    def is_owned(self, bundle: Bundle) -> bool:
        return self._holdings.serving(bundle) is not None

    def owned(self, bundle: Bundle) -> OwnedBundle | None:
        holding = self._holdings.serving(bundle)
        return None if holding is None else holding.term

    def owned_bundles(self) -> list[Bundle]:
        """Return the bundles served now, in the order of their names."""
        return sorted(each.term.bundle for each in self._holdings.all() if self._holdings.is_serving(each))

    def held_bundles(self) -> list[Bundle]:
        """Return the bundles held in any state: served, leaving or in doubt."""
        return sorted(each.term.bundle for each in self._holdings.all())

    def _local_owner(self, bundle: Bundle) -> Owner | None:
        """Return this broker, as lookups answer it, if it serves the bundle at this moment."""
        holding = self._holdings.serving(bundle)
        return None if holding is None else holding.owner

    # ---- changes ----

    async def wait_change(self, bundle: Bundle, timeout_s: float) -> None:
        """Return when the ownership of `bundle` changed, here or elsewhere, or after `timeout_s`."""
        change = self._changes.setdefault(bundle, NextChange())
        try:
            await change.wait(timeout_s)
        finally:
            if not change.is_awaited and self._changes.get(bundle) is change:
                del self._changes[bundle]

    def on_lost(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with each bundle whose term ended without notice and that was not acquired anew."""
        self._lost_listeners.append(listener)

    def _notify(self, bundle: Bundle) -> None:
        if (change := self._changes.get(bundle)) is not None:
            change.notify()

    def _tell_lost(self, bundle: Bundle) -> None:
        for listener in self._lost_listeners:
            listener(bundle)

    # ---- the end of terms ----

    def _suspend_all(self, reason: str) -> None:
        """End every term at this step."""
        for holding in self._holdings.all():
            if not holding.is_ended:
                log.warning("ownership_suspended", bundle=str(holding.term.bundle), reason=reason)
                self._holdings.end(holding, reason)

    async def _close_topics(self, bundle: Bundle, reason: str) -> int:
        """Close the bundle's topics; one that takes too long is left to the fence of its ledger."""
        if self._topics is None:
            return 0
        return await self._in_time(bundle, self._topics.close_bundle(bundle, reason=reason))

    async def _in_time(self, bundle: Bundle, closing: Coroutine[Any, Any, int]) -> int:
        try:
            async with asyncio.timeout(self._unload_timeout_s()):
                return await closing
        except TimeoutError:
            log.warning("bundle_close_timed_out", bundle=str(bundle))
        except Exception:
            log.exception("bundle_close_failed", bundle=str(bundle))
        return 0

    async def _watch_pauses(self, suspend: Callable[[], None], recover: Callable[[], None]) -> None:
        """Beat, unless the process paused: then every term ends before the next beat."""
        while True:
            if self._pauses.is_back():
                suspend()
                self._suspend_all("the process stood still")
                self._pauses.begin_anew()
                recover()
            else:
                self._pauses.beat()
            await asyncio.sleep(self._session_timeout_s / 20)

    def _leave_nothing(self) -> None:
        """End and forget every holding, for a broker that is closed."""
        self._joined.set()
        for holding in self._holdings.all():
            self._holdings.end(holding, "broker closed")
            self._holdings.forget(holding)

    # ---- tasks ----

    @property
    def _broker_id(self) -> str:
        return "" if self._urls is None else self._urls.broker_id

    async def _run(self, change: Coroutine[Any, Any, T], name: str) -> T:
        """Carry a change out to its end even if the caller goes away."""
        task = kept_task(change, name)  # it bears the id of the request to its end, too
        self._keep(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                raise LookupNotReadyError("this broker is stopped") from None
            raise

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (MetadataError, LookupFailedError)):
            log.error("ownership_task_failed", task=task.get_name(), error=repr(error))
