"""Which broker serves a topic: the service behind both lookup front ends.

The hot path is `lookup_cached`: bundles and owner known, no wait, no allocation of a task. Everything else goes through
one search per bundle, which all lookups of it share; authoritative and other calls have one each.
While a bundle is in transit (its owner closes it or prepares to serve, its candidate is gone), while this broker
starts, while the store does not answer, and while the answer would lead to a dead broker (`dead_ends`), it is held for
up to HOLD_S. A client doubles its back-off with each refusal, up to a minute, so a refusal costs it more time than it
waits here.

Source: Pulsar's `NamespaceService.findBrokerServiceUrl`; Pulsar fails at once where answers are held here.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
    BundleUnloadingError,
    LookupAnswer,
    LookupFailedError,
    LookupNotReadyError,
    NamespaceNotFoundError,
    Owner,
    TooManyLookupsError,
)
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls, at_listener
from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.lookup.dead_ends import DeadEnds
from pulsar_barycenter.broker.lookup.newest_manager import NewestManager
from pulsar_barycenter.broker.lookup.owner_search import Candidate, Search, Wait
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.contract import InTransit, LeadersTerm, Ownership
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.metadata.errors import SessionLostError, StoreUnavailableError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

HOLD_S: Final = 12.0
"""How long a lookup is held that cannot be answered yet. A client gives up after 30 s, which a lookup that is held,
redirected and held again does not reach."""
_HOLD_READ_S: Final = 5.0
"""The same for a question about who owns a bundle, which assigns it to nobody."""
_UNANSWERED: Final = (StoreUnavailableError, SessionLostError)
_LOOK_AGAIN_S: Final = 0.25
"""How often a held lookup looks without having been told of a change: a notification may be lost."""


class LookupService(Protocol):
    """What connections and REST handlers ask. Errors: see `lookup_answers`."""

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        """Return the owner of the topic's bundle if it is known now; never waits, takes no lookup permit.

        Ask this first. None says nothing about ownership: call `lookup`.
        """
        ...

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        """Find the owner of the topic's bundle, or have one chosen. Held while the bundle is in transit.

        Raises:
            LookupFailedError: see `lookup_answers`.
            MetadataError: the store could not be read.
        """
        ...

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        """The same for a bundle, for admin requests. `read_only` never assigns: None if nobody owns the bundle."""
        ...

    async def bundle_of(self, topic: TopicName) -> Bundle:
        """Return the bundle that the topic belongs to; needs no owner."""
        ...

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        """Return the number of partitions, 0 for a topic that is not partitioned; may create the record.

        Without `auto_create` the question is also whether the topic exists: a persistent one that does not raises
        TopicNotFoundError. (Of a non-persistent one nobody but its owner knows; the answer is 0, as Pulsar's.)
        """
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        """Return topic names, partitions one by one. `mode`: "PERSISTENT", "NON_PERSISTENT" or "ALL"."""
        ...


class TopicDirectory(Protocol):
    """What is known of topics without owning them (`Resources`)."""

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int: ...

    async def topic_exists(self, topic: TopicName) -> bool: ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]: ...


class LookupCounts:
    """Look-ups of topics since the broker started, by what came of them; they only grow.

    `seconds` is the time that all of them took together; one whose answer is known takes none.
    """

    __slots__ = ("answers", "failures", "redirects", "seconds")

    def __init__(self) -> None:
        self.answers = 0
        self.redirects = 0
        self.failures = 0
        self.seconds = 0.0

    @property
    def total(self) -> int:
        return self.answers + self.redirects + self.failures


@dataclass(eq=False, slots=True)
class _SharedSearch:
    """One search for a bundle that lookups share; `wait` is what came of its last attempt, `is_told` whether it was
    logged that it failed."""

    deadline: float
    wait: Wait | None = None
    task: asyncio.Task[Owner | Candidate] | None = None
    is_told: bool = False


class ClusterLookup:
    """The LookupService of a broker."""

    def __init__(
        self,
        config: ConfigHolder,
        bundles: BundleCache,
        ownership: Ownership,
        registration: Registration,
        search: Search,
        directory: TopicDirectory,
        newest_manager: NewestManager,
        dead_ends: DeadEnds,
        *,
        leaders_term: LeadersTerm,
    ) -> None:
        """`dead_ends` knows which brokers refuse connections, `leaders_term` who serves the internal topics where the
        leader does, and `newest_manager` who reads them, where others do."""
        self._config = config
        self._bundles = bundles
        self._ownership = ownership
        self._registration = registration
        self._search = search
        self._directory = directory
        self._newest_manager = newest_manager
        self._dead_ends = dead_ends
        self._leaders_term = leaders_term
        self.counts = LookupCounts()
        self._in_flight = 0
        self._searches: dict[tuple[Bundle, bool], _SharedSearch] = {}
        self._closed = False

    @property
    def in_flight(self) -> int:
        """How many lookups hold a permit of `maxConcurrentLookupRequest`."""
        return self._in_flight

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        try:
            owner = self.known_owner(topic, listener)
        except LookupFailedError:
            self.counts.failures += 1
            raise
        if owner is not None:
            self.counts.answers += 1
        return owner

    def known_owner(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        """Return what `lookup_cached` does, without counting it as a look-up."""
        if self._leaders_term.has(topic):
            leader = self._leaders_term.owner()
            return None if leader is None else at_listener(leader, listener)
        if self._newest_manager.is_followed and is_internal_topic(topic):
            return None
        bundle = self._bundles.cached_bundle_of(topic)
        if bundle is None:
            return None
        owner = self._ownership.owner_cached(bundle)
        if owner is None or (not owner.is_local and self._is_dead_end(owner)):
            return None
        return at_listener(owner, listener) if listener else owner

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        counts, loop = self.counts, asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await self._lookup(topic, authoritative, listener)
        except Exception:
            counts.failures += 1
            raise
        finally:
            counts.seconds += loop.time() - began
        if isinstance(answer, Owner):
            counts.answers += 1
        else:
            counts.redirects += 1
        return answer

    async def _lookup(self, topic: TopicName, authoritative: bool, listener: str | None) -> LookupAnswer:
        owner = self.known_owner(topic, listener)
        if owner is not None:
            return owner
        limit = self._config.current.max_concurrent_lookup_request
        if self._in_flight >= limit:
            raise TooManyLookupsError(limit)
        self._in_flight += 1
        try:
            if self._leaders_term.has(topic):
                return await self._lookup_leader(topic, listener)
            if self._newest_manager.is_followed and is_internal_topic(topic):
                reader = await self._newest_manager.reader_of_records()
                if reader is not None:
                    return _answer(reader, listener)
            return await self._lookup_topic(topic, authoritative, listener)
        finally:
            self._in_flight -= 1

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        await self._require_bundle(bundle)
        if read_only:
            owner = await self._owner_of(bundle)
            return None if owner is None else at_listener(owner, listener)
        deadline = asyncio.get_running_loop().time() + HOLD_S
        return _answer(await self._shared_search(bundle, authoritative, deadline), listener)

    async def bundle_of(self, topic: TopicName) -> Bundle:
        await self._require_namespace(topic.namespace)
        return await self._bundles.bundle_of(topic)

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        count = await self._directory.partitions(topic, auto_create=auto_create)
        if count == 0 and topic.is_persistent and not auto_create and not await self._exists(topic):
            raise TopicNotFoundError(topic)
        return count

    async def _exists(self, topic: TopicName) -> bool:
        """Tell whether a persistent topic exists, if only as a partition that nobody used yet."""
        directory = self._directory
        if await directory.topic_exists(topic):
            return True
        if not topic.is_partition:
            return False
        return topic.partition_index < await directory.partitions(topic.partitioned_name, auto_create=False)

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        return await self._directory.topics_of_namespace(namespace, mode)

    async def close(self) -> None:
        """Answer every held lookup with LookupNotReadyError, and every later one. Idempotent."""
        self._closed = True
        tasks = [search.task for search in self._searches.values() if search.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dead_ends.close()

    async def _lookup_topic(self, topic: TopicName, authoritative: bool, listener: str | None) -> LookupAnswer:
        """Search for the topic's bundle; when that bundle was split meanwhile, for the topic's new one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S
        while True:
            try:
                bundle = await self.bundle_of(topic)
                return _answer(await self._shared_search(bundle, authoritative, deadline), listener)
            except BundleNotFoundError:
                if loop.time() >= deadline:
                    raise
                self._bundles.invalidate(topic.namespace)
            except _UNANSWERED:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _lookup_leader(self, topic: TopicName, listener: str | None) -> Owner:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S
        while (owner := self.known_owner(topic, listener)) is None:
            if self._closed or loop.time() >= deadline:
                raise LookupNotReadyError(f"No leader serves {topic} now")
            await self._leaders_term.wait_change(_LOOK_AGAIN_S)
        return owner

    async def _require_namespace(self, namespace: NamespaceName) -> None:
        if (await self._bundles.get(namespace)).version is None and not needs_no_record(namespace):
            raise NamespaceNotFoundError(namespace)

    async def _require_bundle(self, bundle: Bundle) -> None:
        await self._require_namespace(bundle.namespace)
        if not self._is_current(bundle):
            bundles = await self._bundles.fresh(bundle.namespace)
            if bundles.find_hash(bundle.range.lower) != bundle:
                raise BundleNotFoundError(bundle)

    def _is_current(self, bundle: Bundle) -> bool:
        bundles = self._bundles.cached(bundle.namespace)
        return bundles is not None and bundles.find_hash(bundle.range.lower) == bundle

    async def _shared_search(self, bundle: Bundle, authoritative: bool, deadline: float) -> Owner | Candidate:
        """Take part in the search for a bundle, or begin one; until `deadline`, whenever the search began."""
        if self._closed:
            raise LookupNotReadyError("This broker is shutting down")
        key = (bundle, authoritative)
        search = self._searches.get(key)
        if search is None:
            search = self._searches[key] = _SharedSearch(deadline)
            search.task = kept_task(self._search_until_found(bundle, authoritative, search), f"lookup {bundle}")
            search.task.add_done_callback(lambda done: self._search_done(key, search, done))
        search.deadline = max(search.deadline, deadline)
        assert search.task is not None
        done, _ = await asyncio.wait([search.task], timeout=deadline - asyncio.get_running_loop().time())
        if not done and search.wait is not None:
            self._tell_failed(key, search, search.wait.error)
            raise search.wait.error
        try:
            return await asyncio.shield(search.task)
        except asyncio.CancelledError:
            if search.task.cancelled() and self._closed:
                raise LookupNotReadyError("This broker is shutting down") from None
            raise

    def _search_done(
        self, key: tuple[Bundle, bool], search: _SharedSearch, task: asyncio.Task[Owner | Candidate]
    ) -> None:
        del self._searches[key]
        if not task.cancelled() and (error := task.exception()) is not None:  # its callers have it too
            self._tell_failed(key, search, error)

    def _tell_failed(self, key: tuple[Bundle, bool], search: _SharedSearch, error: BaseException) -> None:
        if not search.is_told:
            search.is_told = True
            log.info("lookup_failed", bundle=str(key[0]), authoritative=key[1], reason=str(error))

    async def _search_until_found(
        self, bundle: Bundle, authoritative: bool, search: _SharedSearch
    ) -> Owner | Candidate:
        loop = asyncio.get_running_loop()
        while True:
            step = await self._attempt(bundle, authoritative)
            if isinstance(step, (Owner, Candidate)):
                return step
            search.wait = step
            left_s = search.deadline - loop.time()
            if left_s <= 0:
                raise step.error
            wait = self._ownership.wait_change if step.on == "bundle" else self._wait_brokers
            await wait(bundle, min(left_s, _LOOK_AGAIN_S))

    async def _attempt(self, bundle: Bundle, authoritative: bool) -> Owner | Candidate | Wait:
        """Attempt once; a store that does not answer, or an answer that leads to a dead broker, is waited for."""
        try:
            await self._require_bundle(bundle)
            step = await self._search.attempt(bundle, authoritative=authoritative)
        except _UNANSWERED as error:
            return Wait("bundle", error)
        match step:
            case Owner(is_local=False) if self._is_dead_end(step):
                detail = f"belongs to broker {step.broker_id}, which refuses connections"
                return Wait("bundle", BundleUnloadingError(bundle, detail))
            case Candidate() if self._is_dead_end(step.urls):
                detail = f"broker {step.urls.broker_id}, which is to be asked for it, refuses connections"
                return Wait("brokers", BundleNotAcquiredError(bundle, detail))
        return step

    def _is_dead_end(self, broker: Owner | ServiceUrls) -> bool:
        return self._dead_ends.leads_to(broker.broker_url or broker.broker_url_tls)

    async def _wait_brokers(self, bundle: Bundle, timeout_s: float) -> None:
        await self._registration.wait_change(timeout_s)

    async def _owner_of(self, bundle: Bundle) -> Owner | None:
        """Who owns the bundle, without assigning it; for a bundle in transit this waits, too."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLD_READ_S
        while True:
            owner = await self._ownership.owner_of(bundle)
            if not isinstance(owner, InTransit):
                return owner
            left_s = deadline - loop.time()
            if left_s <= 0:
                return None
            await self._ownership.wait_change(bundle, min(left_s, _LOOK_AGAIN_S))


def _answer(found: Owner | Candidate, listener: str | None) -> LookupAnswer:
    if isinstance(found, Owner):
        return at_listener(found, listener)
    return found.urls.redirect(authoritative=found.authoritative, listener=listener)
