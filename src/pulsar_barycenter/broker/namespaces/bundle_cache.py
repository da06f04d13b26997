"""Caches the bundles of each namespace.

The authoritative boundaries are in `/admin/local-policies/<namespace>`. If a namespace does not have this record, its
first use creates it from the policies. A namespace without policies (heartbeat and SLA namespaces) is one bundle over
the whole range.

A cached entry may be old: notifications may be late or lost. So a caller that acts on a boundary (acquire, split) calls
`fresh`. A cached entry is enough to show bundles or to find an owner, because a broker checks the boundaries when it
acquires a bundle. Source: Pulsar's `NamespaceBundleFactory`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotFoundError, NamespaceNotFoundError
from pulsar_barycenter.broker.namespaces.boundaries import (
    LOCAL_POLICIES_ROOT,
    POLICIES_ROOT,
    StoredBundles,
    needs_no_record,
    read_or_create,
)
from pulsar_barycenter.metadata.store import (
    MetadataStore,
    Notification,
    NotificationType,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

ENTRY_LIFE_S: Final = 60.0
"""The age in seconds at which cached bundles are read again, even without a notification of a change."""

Listener: TypeAlias = Callable[[NamespaceName, NamespaceBundles], None]


@dataclass(slots=True, eq=False)
class _Entry:
    """The cached bundles of a namespace. `value` is the record from which `bundles` were decoded, None if it is not
    known.
    """

    bundles: NamespaceBundles
    read_at: float
    value: bytes | None


class BundleCache:
    """The cached bundles of all namespaces, read when they are needed. Concurrent calls for one namespace share one
    read.
    """

    def __init__(self, store: MetadataStore, *, default_bundles: Callable[[], int] = lambda: 4) -> None:
        self._store = store
        self._default_bundles = default_bundles
        self._entries: dict[NamespaceName, _Entry] = {}
        self._loads: dict[NamespaceName, asyncio.Task[NamespaceBundles]] = {}
        self._tasks = BackgroundTasks("bundles_not_read", expected=(Exception,))
        self._generations: dict[NamespaceName, int] = {}
        self._last_notified: dict[NamespaceName, tuple[int, ...]] = {}
        self._non_persistent: set[Bundle] = set()
        self._listeners: list[Listener] = []
        self._stop_listening = store.add_invalidator(self._on_change)

    def cached(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """Return the cached bundles, None if there are none. Bundles that are too old are also returned, and read again
        in the background.
        """
        entry = self._entries.get(namespace)
        if entry is None:
            return None
        if asyncio.get_running_loop().time() - entry.read_at >= ENTRY_LIFE_S and namespace not in self._loads:
            self._start_load(namespace)
        return entry.bundles

    async def get(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles of `namespace`, from the cache unless they are missing or too old."""
        entry = self._entries.get(namespace)
        if entry is not None and asyncio.get_running_loop().time() - entry.read_at < ENTRY_LIFE_S:
            return entry.bundles
        return await self._shared_load(namespace)

    async def fresh(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles of `namespace`, as the store has them at or after the time of this call; the cache is not
        used.
        """
        return await self._load(namespace)

    def cached_bundle_of(self, topic: TopicName) -> Bundle | None:
        """Return the topic's bundle if the bundles of its namespace are cached, else None. Like all methods that find a
        topic's bundle, this records a non-persistent topic for `has_non_persistent_topic`.
        """
        bundles = self.cached(topic.namespace)
        return None if bundles is None else self._found(topic, bundles)

    async def bundle_of(self, topic: TopicName) -> Bundle:
        """Return the bundle whose hash range contains the topic, even if the namespace or the topic does not exist."""
        return self._found(topic, await self.get(topic.namespace))

    async def existing_bundle_of(self, topic: TopicName) -> Bundle:
        """Return the topic's bundle.

        Raises:
            NamespaceNotFoundError: its namespace does not exist.
        """
        return self._found(topic, await self._existing(topic.namespace))

    async def require(self, bundle: Bundle) -> None:
        """Check that `bundle` is one of its namespace. If it is not among the cached bundles, read them from the store.

        Raises:
            NamespaceNotFoundError: its namespace does not exist.
            BundleNotFoundError: the namespace has other bundles.
        """
        lower = bundle.range.lower
        if (await self._existing(bundle.namespace)).find_hash(lower) == bundle:
            return
        if (await self.fresh(bundle.namespace)).find_hash(lower) != bundle:
            raise BundleNotFoundError(bundle)

    def has_non_persistent_topic(self, bundle: Bundle) -> bool:
        """Return whether the bundle of a non-persistent topic was searched on this broker, and was this bundle.

        After a split, it is False for the new bundles until such a topic is searched again; clients look their topics
        up again sooner or later. Source: `NamespaceBundle.hasNonPersistentTopic`.
        """
        return bundle in self._non_persistent

    def invalidate(self, namespace: NamespaceName) -> None:
        """Drop the cached bundles of `namespace`. The result of a read that is running is not cached either."""
        self._generations[namespace] = self._generations.get(namespace, 0) + 1
        self._entries.pop(namespace, None)
        self._loads.pop(namespace, None)

    def accept(self, bundles: NamespaceBundles) -> None:
        """Cache boundaries that this broker has just written. The results of reads that are running are older, and are
        not cached.
        """
        self.invalidate(bundles.namespace)
        self._keep(bundles.namespace, bundles, self._generations[bundles.namespace])

    def on_change(self, listener: Listener) -> None:
        """Call `listener` with the bundles of a namespace each time they were read and have other boundaries than
        before.
        """
        self._listeners.append(listener)

    def close(self) -> None:
        self._stop_listening()
        self._tasks.cancel()
        self._loads.clear()

    async def _existing(self, namespace: NamespaceName) -> NamespaceBundles:
        bundles = await self.get(namespace)
        if bundles.version is None and not needs_no_record(namespace):
            raise NamespaceNotFoundError(namespace)
        return bundles

    async def _shared_load(self, namespace: NamespaceName) -> NamespaceBundles:
        return await asyncio.shield(self._loads.get(namespace) or self._start_load(namespace))

    def _start_load(self, namespace: NamespaceName) -> asyncio.Task[NamespaceBundles]:
        task = self._tasks.start(self._load(namespace), f"load bundles of {namespace}")
        self._loads[namespace] = task
        task.add_done_callback(lambda done: self._forget_load(namespace, done))
        return task

    def _forget_load(self, namespace: NamespaceName, done: asyncio.Task[NamespaceBundles]) -> None:
        if self._loads.get(namespace) is done:
            del self._loads[namespace]
        if not done.cancelled() and (error := done.exception()) is not None:  # callers that wait get the error, too
            log.warning("bundles_not_read", namespace=str(namespace), reason=str(error))

    async def _load(self, namespace: NamespaceName) -> NamespaceBundles:
        while True:
            generation = self._generations.get(namespace, 0)
            entry = self._entries.get(namespace)
            known = None if entry is None else StoredBundles(entry.bundles, entry.value)
            stored = await read_or_create(self._store, namespace, self._default_bundles, known)
            if stored is not None:
                return self._keep(namespace, stored.bundles, generation, stored.value)

    def _found(self, topic: TopicName, bundles: NamespaceBundles) -> Bundle:
        """Return the bundle among `bundles` that contains the topic. If the topic is non-persistent, record that this
        bundle has a non-persistent topic.
        """
        bundle = bundles.find_hash(topic.hash32)
        if not topic.is_persistent and bundles.version is not None:
            self._non_persistent.add(bundle)
        return bundle

    def _keep(
        self, namespace: NamespaceName, bundles: NamespaceBundles, generation: int, value: bytes | None = None
    ) -> NamespaceBundles:
        """Cache bundles that were read, and return them. They are not cached if the namespace was invalidated since the
        read began.

        The absence of a namespace is not cached: the same client may create it at once, and names of namespaces that
        never exist would fill the memory.
        """
        if self._generations.get(namespace, 0) != generation:
            return bundles
        former = self._last_notified.get(namespace)
        if bundles.version is not None or needs_no_record(namespace):
            self._entries[namespace] = _Entry(bundles, asyncio.get_running_loop().time(), value)
            self._last_notified[namespace] = bundles.boundaries
        else:
            self._entries.pop(namespace, None)
            if self._last_notified.pop(namespace, None) is None:
                return bundles
        if former != bundles.boundaries:
            self._notify_listeners(namespace, bundles)
        return bundles

    def _notify_listeners(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        current = set(bundles.bundles)
        self._non_persistent = {
            bundle for bundle in self._non_persistent if bundle.namespace != namespace or bundle in current
        }
        for listener in self._listeners:
            listener(namespace, bundles)

    def _on_change(self, change: Notification | None) -> None:
        """Drop the cached bundles of the namespace whose record changed. None means that notifications may be missing:
        drop all cached bundles.
        """
        if change is None:
            for namespace in list(self._entries):
                self._reload(namespace)
        elif change.type is not NotificationType.CHILDREN_CHANGED:
            for root in (LOCAL_POLICIES_ROOT, POLICIES_ROOT):
                if change.path.startswith(root):
                    self._on_record_change(root, change.path[len(root) :])

    def _on_record_change(self, root: str, name: str) -> None:
        with suppress(InvalidNameError):  # tenants have records below the same root
            namespace = NamespaceName.parse(name)
            entry = self._entries.get(namespace)
            if root == LOCAL_POLICIES_ROOT or (entry is not None and entry.bundles.version is None):
                self._reload(namespace)

    def _reload(self, namespace: NamespaceName) -> None:
        """Drop the cached bundles of a namespace. If there were any, read them again at once, so that listeners are
        notified of the change.
        """
        in_use = namespace in self._entries
        self.invalidate(namespace)
        if in_use:
            self._start_load(namespace)
