"""The terms of this broker (times in which it owns a bundle under one epoch), and what both ways to own bundles do with
them.

`LocalTerms` has the holdings, their topics, the clients that wait for a change, and the background tasks. It does not
know how a bundle is acquired: an `OwnershipMachine` (see `contract`) does this, and changes the terms.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.changes import KeyedChanges
from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, LookupFailedError, Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.bundle_topics import BundleTopics
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.broker.ownership.holdings import Holding, Holdings, OwnershipProof
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName

log = structlog.get_logger(__name__)

W = TypeVar("W", bound=OwnershipProof)


class LocalTerms(Generic[W]):
    """The terms of one broker, and what belongs to them: the `Holding` of each bundle, the topics of bundles, and the
    detection of pauses of the process. `unload_timeout_s` returns how many seconds closing the topics of a bundle may
    take.
    """

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
        self.bundles = bundles
        self.clock = clock
        self.unload_timeout_s = unload_timeout_s
        self.tasks = BackgroundTasks("ownership_task_failed", expected=(MetadataError, LookupFailedError))
        self.changes = KeyedChanges[Bundle]()
        self.topics = BundleTopics(unload_timeout_s)
        self.handovers = HandoverTimes()
        self.pauses = PauseDetector(
            session_timeout_s / 2,
            asyncio.get_running_loop().time,
            clock.now_ms,
            lambda: store.session_is_overdue,
        )
        self.holdings: Holdings[W] = Holdings(
            pauses=self.pauses, clock=clock, serving_log=serving_log, changed=self.changes.notify
        )
        self._beat_s = session_timeout_s / 20
        self._urls: ServiceUrls | None = None
        self._lost_listeners: list[Callable[[Bundle], None]] = []

    # ---- this broker ----

    def set_identity(self, urls: ServiceUrls) -> None:
        self._urls = urls

    @property
    def has_identity(self) -> bool:
        return self._urls is not None

    @property
    def urls(self) -> ServiceUrls:
        assert self._urls is not None, "the ports of this broker are not known yet"
        return self._urls

    @property
    def broker_id(self) -> str:
        """The id of this broker; "" until its ports are known."""
        return "" if self._urls is None else self._urls.broker_id

    def local_owner(self, bundle: Bundle) -> Owner | None:
        """Return the answer to look-ups that names this broker, if it serves the bundle now, else None."""
        holding = self.holdings.serving(bundle)
        return None if holding is None else holding.owner

    # ---- changes ----

    async def wait_while(
        self, bundle: Bundle, is_pending: Callable[[], bool], *, within_s: float, look_every_s: float, failure: str
    ) -> None:
        """Wait until `is_pending` returns False. It is called at each change of `bundle`, and every `look_every_s`
        seconds.

        Raises:
            BundleNotAcquiredError: `is_pending` still returned True after `within_s` seconds; the message is `failure`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while is_pending():
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(bundle, failure)
            await self.changes.wait(bundle, look_every_s)

    def on_lost(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with a bundle after its term ended without an unload or split by this broker, and this broker
        did not acquire the bundle again.
        """
        self._lost_listeners.append(listener)

    def report_lost(self, bundle: Bundle) -> None:
        for listener in self._lost_listeners:
            listener(bundle)

    # ---- the end of terms ----

    def suspend_all(self, reason: str) -> None:
        """End every term of this broker now."""
        for holding in self.holdings.all():
            if not holding.is_ended:
                log.warning("ownership_suspended", bundle=str(holding.term.bundle), reason=reason)
                self.holdings.end(holding, reason)

    def served_outside(self, namespace: NamespaceName, bundles: NamespaceBundles) -> list[Holding[W]]:
        """Return the holdings of the bundles that this broker serves and that are no longer bundles of the namespace,
        because they were deleted or split. `bundles` are the present bundles of the namespace.

        A bundle that this broker is splitting itself is not in the result: its term ends with the split.
        """
        current = set(bundles.bundles)
        return [
            holding
            for holding in self.holdings.all()
            if holding.term.bundle.namespace == namespace
            and holding.term.bundle not in current
            and not holding.splitting
            and self.holdings.is_serving(holding)
        ]

    async def watch_pauses(self, suspend: Callable[[], None], recover: Callable[[], None]) -> None:
        """Detect pauses of the process: call the pause detector's `beat` at short intervals. If a pause is found, end
        every term.

        `suspend` is called before the terms end, `recover` after they have ended, when new terms may begin. Never
        returns.
        """
        while True:
            if self.pauses.is_back():
                suspend()
                self.suspend_all("the process was paused")
                self.pauses.begin_anew()
                recover()
            else:
                self.pauses.beat()
            await asyncio.sleep(self._beat_s)

    def leave_nothing(self) -> None:
        """End every term and remove every holding, because the broker is closed."""
        for holding in self.holdings.all():
            self.holdings.end(holding, "the broker was closed")
            self.holdings.forget(holding)
