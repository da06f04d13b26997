"""Answers which broker serves a topic, for look-ups of the binary protocol and of HTTP.

A look-up is one path: get a permit, resolve the bundle, find its owner, answer with the URLs of the listener.

The frequent case is `lookup_cached`: bundle and owner are known, so that nothing waits, and no permit and no task is
needed. All other look-ups of a bundle share one search (`shared_searches`).

A look-up is held for up to HOLD_S seconds while it has no useful answer: while the bundle is in transit (its owner
closes or opens it, or the chosen broker has left), while this broker starts, while the store does not answer, and while
the owner refuses connections (`refusing_brokers`). After HOLD_S seconds it fails with the error of the last attempt. A
client doubles its back-off with each refusal, up to a minute, so that a refusal would cost it more time than the wait.

Source: Pulsar's `NamespaceService.findBrokerServiceUrl`. There such look-ups fail at once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotFoundError,
    LookupAnswer,
    LookupFailedError,
    LookupNotReadyError,
    Owner,
    TooManyLookupsError,
)
from pulsar_barycenter.broker.cluster.service_urls import at_listener
from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.lookup.load_manager_migration import LoadManagerMigration
from pulsar_barycenter.broker.lookup.owner_search import Candidate
from pulsar_barycenter.broker.lookup.shared_searches import LOOK_AGAIN_S, UNANSWERED, SharedSearches
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.contract import InTransit, LeadersTerm, Ownership
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

HOLD_S: Final = 12.0
"""The number of seconds for which a look-up without an answer is held. A client waits for 30 s; a look-up that is held,
redirected and held again takes less.
"""
_HOLD_READ_S: Final = 5.0
"""The number of seconds for which a request is held that asks for the owner of a bundle without assigning one."""


class LookupService(Protocol):
    """The interface for look-ups that connections and REST handlers use. `lookup_answers` lists the errors."""

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        """Return the owner of the topic's bundle if this broker knows it without reading and waiting. Such a call needs
        no permit, so it does not count for `maxConcurrentLookupRequest`.

        Call this first. None does not mean that there is no owner: call `lookup` then. `listener` is the listener whose
        URLs the client wants; None: the default URLs.
        """
        ...

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        """Return the owner of the topic's bundle, or the broker to which the client has to send the look-up instead. If
        the bundle has no owner, one is assigned.

        `authoritative`: the look-up was redirected here, and is not redirected again. This waits while there is no
        answer, for example while the bundle is in transit, for HOLD_S seconds at most.

        Raises:
            LookupFailedError: no owner could be found or assigned in this time; `lookup_answers` has the subclasses.
            MetadataError: the store could not be read.
        """
        ...

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        """Return the owner of a bundle, or the broker to which the look-up has to be sent instead, as `lookup` does for
        a topic. Admin requests use this.

        With `read_only`, a bundle without an owner is not assigned, and the result is None. It is also None if the
        bundle is in transit and still has no owner after _HOLD_READ_S seconds.
        """
        ...

    async def bundle_of(self, topic: TopicName) -> Bundle:
        """Return the bundle of a topic, with or without an owner."""
        ...

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        """Return the number of partitions of a topic, 0 if it is not partitioned.

        If the topic does not exist and `auto_create` is True, it may be created as a partitioned topic, if its policies
        say so. If it does not exist and `auto_create` is False, TopicNotFoundError is raised for a persistent topic. A
        non-persistent topic gives 0, as in Pulsar: only its owner knows whether it exists.
        """
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        """Return the names of a namespace's topics, with each partition as a topic. `mode`: "PERSISTENT",
        "NON_PERSISTENT" or "ALL".
        """
        ...


class TopicDirectory(Protocol):
    """What every broker can find out about a topic, even if it does not own the topic's bundle. Implemented by
    `Resources`.
    """

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int: ...

    async def topic_exists(self, topic: TopicName) -> bool: ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]: ...


class LookupCounts:
    """Counts the look-ups of topics since the broker started, by result.

    `seconds` is the sum of the durations of these look-ups; the duration of a look-up from the cache counts as 0.
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


class ClusterLookup:
    """Answers the look-ups of a broker. Implements `LookupService`."""

    def __init__(
        self,
        config: ConfigHolder,
        bundles: BundleCache,
        ownership: Ownership,
        searches: SharedSearches,
        directory: TopicDirectory,
        migration: LoadManagerMigration,
        *,
        leaders_term: LeadersTerm,
    ) -> None:
        """`leaders_term` knows which broker is the leader and serves the internal topics. `migration` finds a broker
        that owns bundles by records; look-ups of internal topics are redirected to it if this broker owns bundles by
        locks.
        """
        self._config = config
        self._bundles = bundles
        self._ownership = ownership
        self._owner_cached = ownership.owner_cached
        self._searches = searches
        self._directory = directory
        self._migration = migration
        self._leaders_term = leaders_term
        self.counts = LookupCounts()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """The number of look-ups that are running now and count for `maxConcurrentLookupRequest`."""
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
        """Return the same result as `lookup_cached`, without counting a look-up."""
        if is_internal_topic(topic) and (self._leaders_term.has(topic) or self._migration.is_followed):
            owner = self._leaders_term.owner()
        else:
            bundle = self._bundles.cached_bundle_of(topic)
            owner = None if bundle is None else self._owner_cached(bundle)
            if owner is not None and not owner.is_local and self._searches.refuses(owner):
                return None
        return at_listener(owner, listener) if owner is not None and listener else owner

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        counts, loop = self.counts, asyncio.get_running_loop()
        began = loop.time()
        try:
            with self._permit():
                answer = _answer(await self._find(topic, authoritative), listener)
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

    @contextmanager
    def _permit(self) -> Iterator[None]:
        """Context manager: the `with` statement counts as one look-up for the limit `maxConcurrentLookupRequest`.

        Raises:
            TooManyLookupsError: the number of running look-ups has reached the limit.
        """
        limit = self._config.current.max_concurrent_lookup_request
        if self._in_flight >= limit:
            raise TooManyLookupsError(limit)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def _find(self, topic: TopicName, authoritative: bool) -> Owner | Candidate:
        """Return the owner of a topic, or the broker to which the look-up is redirected. If the topic's bundle is split
        during the search, search again with the topic's new bundle.
        """
        if is_internal_topic(topic) and (found := await self._find_internal(topic)) is not None:
            return found
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S
        while True:
            try:
                bundle = await self._bundles.existing_bundle_of(topic)
                return await self._searches.find(bundle, authoritative=authoritative, deadline=deadline)
            except BundleNotFoundError:
                if loop.time() >= deadline:
                    raise
                self._bundles.invalidate(topic.namespace)
            except UNANSWERED:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(LOOK_AGAIN_S)

    async def _find_internal(self, topic: TopicName) -> Owner | Candidate | None:
        """Return the leader, which serves an internal topic, or a broker to which the look-up is redirected. None if
        the topic has to be looked up like any other, by the owner of its bundle.
        """
        if self._leaders_term.has(topic):
            return await self._leader(topic)
        return await self._migration.reader_of_records() if self._migration.is_followed else None

    async def _leader(self, topic: TopicName) -> Owner:
        """Wait until a leader serves the internal topics, and return it. If there is none after HOLD_S seconds, raise
        LookupNotReadyError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S
        while (leader := self._leaders_term.owner()) is None:
            if self._searches.is_closed or loop.time() >= deadline:
                raise LookupNotReadyError(f"No leader serves {topic} now")
            await self._leaders_term.wait_change(LOOK_AGAIN_S)
        return leader

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        await self._bundles.require(bundle)
        if read_only:
            owner = await self._owner_of(bundle)
            return None if owner is None else at_listener(owner, listener)
        deadline = asyncio.get_running_loop().time() + HOLD_S
        return _answer(await self._searches.find(bundle, authoritative=authoritative, deadline=deadline), listener)

    async def bundle_of(self, topic: TopicName) -> Bundle:
        return await self._bundles.existing_bundle_of(topic)

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        count = await self._directory.partitions(topic, auto_create=auto_create)
        if count == 0 and topic.is_persistent and not auto_create and not await self._exists(topic):
            raise TopicNotFoundError(topic)
        return count

    async def _exists(self, topic: TopicName) -> bool:
        """Return whether a persistent topic exists. A partition of an existing partitioned topic counts as existing
        even before its first use.
        """
        directory = self._directory
        if await directory.topic_exists(topic):
            return True
        if not topic.is_partition:
            return False
        return topic.partition_index < await directory.partitions(topic.partitioned_name, auto_create=False)

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        return await self._directory.topics_of_namespace(namespace, mode)

    async def close(self) -> None:
        """Answer all look-ups that wait, and all later ones, with LookupNotReadyError. Idempotent."""
        await self._searches.close()

    async def _owner_of(self, bundle: Bundle) -> Owner | None:
        """Return the owner of the bundle without assigning the bundle; None if it has no owner. This waits while the
        bundle is in transit, for _HOLD_READ_S seconds at most; after that, the result is None.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLD_READ_S
        while True:
            owner = await self._ownership.owner_of(bundle)
            if not isinstance(owner, InTransit):
                return owner
            left_s = deadline - loop.time()
            if left_s <= 0:
                return None
            await self._ownership.wait_change(bundle, min(left_s, LOOK_AGAIN_S))


def _answer(found: Owner | Candidate, listener: str | None) -> LookupAnswer:
    if isinstance(found, Owner):
        return at_listener(found, listener)
    return found.urls.redirect(authoritative=found.authoritative, listener=listener)
