"""Searches for the owners of bundles: all look-ups of one bundle that wait share one search.

A search makes attempts until one finds the owner, or the broker to ask instead. Between two attempts it waits for a
change: of the bundle, or of the list of brokers. It ends with the error of its last attempt when no look-up waits any
longer. A found broker that refuses connections is no answer (`refusing_brokers`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleUnloadingError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.lookup.owner_search import Candidate, Search, Wait
from pulsar_barycenter.broker.lookup.refusing_brokers import RefusingBrokers
from pulsar_barycenter.broker.ownership.contract import Ownership
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.metadata.errors import SessionLostError, StoreUnavailableError
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

LOOK_AGAIN_S: Final = 0.25
"""The number of seconds between two attempts without a notification, which may be lost."""
UNANSWERED: Final = (StoreUnavailableError, SessionLostError)
"""The errors of a store that does not answer now."""

_Key: TypeAlias = tuple[Bundle, bool]
"""A bundle, and whether the look-ups are authoritative."""


@dataclass(eq=False, slots=True)
class _Search:
    """One running search for the owner of a bundle. Several look-ups may wait for it; `deadline` is the latest of their
    deadlines. `wait` is the result of the last attempt, None before its end. `is_logged`: the failure of this search
    was logged.
    """

    deadline: float
    wait: Wait | None = None
    task: asyncio.Task[Owner | Candidate] | None = None
    is_logged: bool = False


class SharedSearches:
    """The searches for owners that are running. All look-ups of a bundle wait for the same search; authoritative
    look-ups of the bundle wait for another one.
    """

    def __init__(
        self,
        require_bundle: Callable[[Bundle], Awaitable[None]],
        search: Search,
        ownership: Ownership,
        registration: Registration,
        refusing_brokers: RefusingBrokers,
    ) -> None:
        """`require_bundle` raises an error if a range is no longer a bundle of its namespace (`BundleCache.require`).
        `search` makes the attempts.
        """
        self._require_bundle = require_bundle
        self._search = search
        self._ownership = ownership
        self._registration = registration
        self._refusing_brokers = refusing_brokers
        self._searches: dict[_Key, _Search] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def refuses(self, broker: Owner | ServiceUrls) -> bool:
        """Return whether a broker is known to refuse connections now."""
        return self._refusing_brokers.refuses(broker.broker_url or broker.broker_url_tls)

    async def find(self, bundle: Bundle, *, authoritative: bool, deadline: float) -> Owner | Candidate:
        """Wait for the result of the search for the owner of `bundle`; start the search if none is running. Wait until
        `deadline` (time of the event loop) at most, but always until the end of the first attempt. Before this call,
        the caller must have read that `bundle` exists; this is checked again only before the second attempt.

        Raises:
            LookupFailedError, MetadataError: the error of the last attempt, when the time is over.
        """
        if self._closed:
            raise LookupNotReadyError("This broker is shutting down")
        key = (bundle, authoritative)
        search = self._searches.get(key)
        if search is None:
            search = self._searches[key] = _Search(deadline)
            search.task = kept_task(self._until_found(key, search), f"lookup {bundle}")
            search.task.add_done_callback(lambda done: self._done(key, search, done))
        search.deadline = max(search.deadline, deadline)
        assert search.task is not None
        done, _ = await asyncio.wait([search.task], timeout=deadline - asyncio.get_running_loop().time())
        if not done and search.wait is not None:
            self._log_failed(key, search, search.wait.error)
            raise search.wait.error
        try:
            return await asyncio.shield(search.task)
        except asyncio.CancelledError:
            if search.task.cancelled() and self._closed:
                raise LookupNotReadyError("This broker is shutting down") from None
            raise

    async def close(self) -> None:
        """Answer all look-ups that wait, and all later ones, with LookupNotReadyError. Idempotent."""
        self._closed = True
        tasks = [search.task for search in self._searches.values() if search.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._refusing_brokers.close()

    async def _until_found(self, key: _Key, search: _Search) -> Owner | Candidate:
        loop = asyncio.get_running_loop()
        step = await self._attempt(key)
        while isinstance(step, Wait):
            search.wait = step
            left_s = search.deadline - loop.time()
            if left_s <= 0:
                raise step.error
            await self._wait_change(key[0], step, min(left_s, LOOK_AGAIN_S))
            step = await self._attempt_again(key)
        return step

    async def _attempt(self, key: _Key) -> Owner | Candidate | Wait:
        """Make one attempt, and return its result. Return Wait if the store does not answer, or if the broker that was
        found refuses connections.
        """
        bundle, authoritative = key
        try:
            step = await self._search.attempt(bundle, authoritative=authoritative)
        except UNANSWERED as error:
            return Wait("bundle", error)
        match step:
            case Owner(is_local=False) if self.refuses(step):
                detail = f"belongs to broker {step.broker_id}, which refuses connections"
                return Wait("bundle", BundleUnloadingError(bundle, detail))
            case Candidate() if self.refuses(step.urls):
                detail = f"broker {step.urls.broker_id}, which decides about it, refuses connections"
                return Wait("brokers", BundleNotAcquiredError(bundle, detail))
        return step

    async def _attempt_again(self, key: _Key) -> Owner | Candidate | Wait:
        """Make another attempt after a wait. Check first whether the bundle still exists, because it may have been
        split.
        """
        try:
            await self._require_bundle(key[0])
        except UNANSWERED as error:
            return Wait("bundle", error)
        return await self._attempt(key)

    async def _wait_change(self, bundle: Bundle, step: Wait, timeout_s: float) -> None:
        if step.on == "bundle":
            await self._ownership.wait_change(bundle, timeout_s)
        else:
            await self._registration.wait_change(timeout_s)

    def _done(self, key: _Key, search: _Search, task: asyncio.Task[Owner | Candidate]) -> None:
        del self._searches[key]
        if not task.cancelled() and (error := task.exception()) is not None:  # its callers get the error, too
            self._log_failed(key, search, error)

    def _log_failed(self, key: _Key, search: _Search, error: BaseException) -> None:
        if not search.is_logged:
            search.is_logged = True
            log.info("lookup_failed", bundle=str(key[0]), authoritative=key[1], reason=str(error))
