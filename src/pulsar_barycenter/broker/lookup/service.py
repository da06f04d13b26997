"""Answers which broker serves a topic, for look-ups of the binary protocol and of HTTP.

The frequent case is `lookup_cached`: bundle and owner are known, so that nothing waits and no task is created. All
other look-ups of a bundle share one search (authoritative look-ups share another one).

A look-up is held for up to HOLD_S while it has no useful answer: while the bundle is in transit (its owner closes or
opens it, or the chosen broker has left), while this broker starts, while the store does not answer, and while the owner
refuses connections (`refusing_brokers`). A client doubles its back-off with each refusal, up to a minute, so that a
refusal would cost it more time than the wait.

Source: Pulsar's `NamespaceService.findBrokerServiceUrl`. There such look-ups fail at once.
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
from pulsar_barycenter.broker.lookup.load_manager_migration import LoadManagerMigration
from pulsar_barycenter.broker.lookup.owner_search import Candidate, Search, Wait
from pulsar_barycenter.broker.lookup.refusing_brokers import RefusingBrokers
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
"""How long a look-up without an answer is held, in seconds. A client gives up after 30 s; a look-up that is held,
redirected and held again takes less."""
_HOLD_READ_S: Final = 5.0
"""The same for a request that asks for the owner of a bundle without assigning it."""
_UNANSWERED: Final = (StoreUnavailableError, SessionLostError)
_LOOK_AGAIN_S: Final = 0.25
"""The time between two attempts of a held look-up without a notification, in seconds: a notification may be lost."""


class LookupService(Protocol):
    """The look-ups that connections and REST handlers use. Errors: see `lookup_answers`."""

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        """Return the owner of the topic's bundle if it is known now. This does not wait and needs no permit.

        Call this first. None does not mean that there is no owner: call `lookup` then.
        """
        ...

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        """Return the owner of the topic's bundle, or the broker to ask; assign the bundle if it has no owner.

        This waits while the bundle is in transit.

        Raises:
            LookupFailedError: see `lookup_answers`.
            MetadataError: the store could not be read.
        """
        ...

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        """Do the same for a bundle, for admin requests. `read_only`: do not assign; None if the bundle has no owner."""
        ...

    async def bundle_of(self, topic: TopicName) -> Bundle:
        """Return the bundle of a topic, with or without an owner."""
        ...

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        """Return the number of partitions, 0 for a topic that is not partitioned. `auto_create` may create the record.

        Without `auto_create`, a persistent topic that does not exist raises TopicNotFoundError. For a non-persistent
        topic the result is 0, as in Pulsar: only its owner knows whether it exists.
        """
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        """Return topic names, partitions one by one. `mode`: "PERSISTENT", "NON_PERSISTENT" or "ALL"."""
        ...


class TopicDirectory(Protocol):
    """What every broker can know about topics, also without owning them (`Resources`)."""

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int: ...

    async def topic_exists(self, topic: TopicName) -> bool: ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]: ...


class LookupCounts:
    """Counters of look-ups of topics since the broker started, by result; they only grow.

    `seconds` is the sum of their times; a look-up from the cache counts 0.
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
    """One search for a bundle that look-ups share. `wait` is the result of its last attempt; `is_logged` says whether
    its failure was logged."""

    deadline: float
    wait: Wait | None = None
    task: asyncio.Task[Owner | Candidate] | None = None
    is_logged: bool = False


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
        migration: LoadManagerMigration,
        refusing_brokers: RefusingBrokers,
        *,
        leaders_term: LeadersTerm,
    ) -> None:
        """`refusing_brokers` knows which brokers refuse connections, `leaders_term` which broker serves the internal
        topics if the leader serves them, and `migration` which broker reads them if another one does."""
        self._config = config
        self._bundles = bundles
        self._ownership = ownership
        self._registration = registration
        self._search = search
        self._directory = directory
        self._migration = migration
        self._refusing_brokers = refusing_brokers
        self._leaders_term = leaders_term
        self.counts = LookupCounts()
        self._in_flight = 0
        self._searches: dict[tuple[Bundle, bool], _SharedSearch] = {}
        self._closed = False

    @property
    def in_flight(self) -> int:
        """The number of look-ups that have a permit of `maxConcurrentLookupRequest`."""
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
        if self._migration.is_followed and is_internal_topic(topic):
            return None
        bundle = self._bundles.cached_bundle_of(topic)
        if bundle is None:
            return None
        owner = self._ownership.owner_cached(bundle)
        if owner is None or (not owner.is_local and self._refuses(owner)):
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
            if self._migration.is_followed and is_internal_topic(topic):
                reader = await self._migration.reader_of_records()
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
        """Return whether a persistent topic exists. A partition exists also before its first use."""
        directory = self._directory
        if await directory.topic_exists(topic):
            return True
        if not topic.is_partition:
            return False
        return topic.partition_index < await directory.partitions(topic.partitioned_name, auto_create=False)

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        return await self._directory.topics_of_namespace(namespace, mode)

    async def close(self) -> None:
        """Answer all held and all later look-ups with LookupNotReadyError. Idempotent."""
        self._closed = True
        tasks = [search.task for search in self._searches.values() if search.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._refusing_brokers.close()

    async def _lookup_topic(self, topic: TopicName, authoritative: bool, listener: str | None) -> LookupAnswer:
        """Search for the owner of the topic's bundle. If the bundle is split meanwhile, search for the new bundle."""
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
        """Join the search for a bundle, or start one; wait for it until `deadline`.

        Raises:
            LookupFailedError, MetadataError: the error of the last attempt, when the time is over.
        """
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
            self._log_failed(key, search, search.wait.error)
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
        if not task.cancelled() and (error := task.exception()) is not None:  # its callers get the error, too
            self._log_failed(key, search, error)

    def _log_failed(self, key: tuple[Bundle, bool], search: _SharedSearch, error: BaseException) -> None:
        if not search.is_logged:
            search.is_logged = True
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
        """Make one attempt. Return Wait if the store does not answer, or the found broker refuses connections."""
        try:
            await self._require_bundle(bundle)
            step = await self._search.attempt(bundle, authoritative=authoritative)
        except _UNANSWERED as error:
            return Wait("bundle", error)
        match step:
            case Owner(is_local=False) if self._refuses(step):
                detail = f"belongs to broker {step.broker_id}, which refuses connections"
                return Wait("bundle", BundleUnloadingError(bundle, detail))
            case Candidate() if self._refuses(step.urls):
                detail = f"broker {step.urls.broker_id}, which decides about it, refuses connections"
                return Wait("brokers", BundleNotAcquiredError(bundle, detail))
        return step

    def _refuses(self, broker: Owner | ServiceUrls) -> bool:
        return self._refusing_brokers.refuses(broker.broker_url or broker.broker_url_tls)

    async def _wait_brokers(self, bundle: Bundle, timeout_s: float) -> None:
        await self._registration.wait_change(timeout_s)

    async def _owner_of(self, bundle: Bundle) -> Owner | None:
        """Return the owner of the bundle without assigning it. This waits while the bundle is in transit."""
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
