"""The bundles of each namespace as this broker knows them.

Source: Pulsar's `NamespaceBundleFactory`. The authoritative boundaries are those of
`/admin/local-policies/<namespace>`; a namespace without that record gets one made from its policies at first
use, and a namespace without policies (heartbeat and SLA namespaces) is one bundle over the whole range.

A cached entry may be old: notifications come late and can be lost, so whoever is about to act on a boundary
(acquire, split) calls `fresh`. What is only shown or used to find an owner may come from the cache, because an
owner is held to the boundaries at acquisition.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.broker.background import BackgroundTasks
from pulsar_barycenter.broker.namespaces.boundaries import (
    LOCAL_POLICIES_ROOT,
    POLICIES_ROOT,
    boundaries_value,
    bundles_data,
    bundles_of_record,
    local_policies_path,
    needs_no_record,
)
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    MetadataStore,
    Notification,
    NotificationType,
    Record,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

ENTRY_LIFE_S: Final = 60.0
"""After this an entry is read again although nobody told of a change."""

Listener: TypeAlias = Callable[[NamespaceName, NamespaceBundles], None]


@dataclass(slots=True, eq=False)
class _Entry:
    """`value` is the record that `bundles` were made of, None if it is not known."""

    bundles: NamespaceBundles
    read_at: float
    value: bytes | None


class BundleCache:
    """Namespace -> bundles, loaded on demand; concurrent loads of one namespace share one read."""

    def __init__(self, store: MetadataStore, *, default_bundles: Callable[[], int] = lambda: 4) -> None:
        self._store = store
        self._default_bundles = default_bundles
        self._entries: dict[NamespaceName, _Entry] = {}
        self._loads: dict[NamespaceName, asyncio.Task[NamespaceBundles]] = {}
        self._tasks = BackgroundTasks("bundles_not_read", expected=(Exception,))
        self._generations: dict[NamespaceName, int] = {}
        self._last_told: dict[NamespaceName, tuple[int, ...]] = {}
        self._non_persistent: set[Bundle] = set()
        self._listeners: list[Listener] = []
        self._stop_listening = store.add_invalidator(self._on_change)

    def cached(self, namespace: NamespaceName) -> NamespaceBundles | None:
        """Return what is known without waiting; an old entry is returned once more and read again meanwhile."""
        entry = self._entries.get(namespace)
        if entry is None:
            return None
        if asyncio.get_running_loop().time() - entry.read_at >= ENTRY_LIFE_S and namespace not in self._loads:
            self._start_load(namespace)
        return entry.bundles

    async def get(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles of `namespace`, from the cache if they are there and not too old."""
        entry = self._entries.get(namespace)
        if entry is not None and asyncio.get_running_loop().time() - entry.read_at < ENTRY_LIFE_S:
            return entry.bundles
        return await self._shared_load(namespace)

    async def fresh(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles as the store has them after this call began."""
        return await self._load(namespace)

    async def bundle_of(self, topic: TopicName) -> Bundle:
        return self._found(topic, await self.get(topic.namespace))

    def cached_bundle_of(self, topic: TopicName) -> Bundle | None:
        """Return the topic's bundle if it is known without waiting."""
        bundles = self.cached(topic.namespace)
        return None if bundles is None else self._found(topic, bundles)

    def has_non_persistent_topic(self, bundle: Bundle) -> bool:
        """Whether the bundle of a non-persistent topic was asked for here, and this was the answer.

        Forgotten when the bundle is split; clients look the topics of its children up again sooner or later.
        Source: `NamespaceBundle.hasNonPersistentTopic`.
        """
        return bundle in self._non_persistent

    def invalidate(self, namespace: NamespaceName) -> None:
        """Forget `namespace`; a load under way is not kept either."""
        self._generations[namespace] = self._generations.get(namespace, 0) + 1
        self._entries.pop(namespace, None)
        self._loads.pop(namespace, None)

    def accept(self, bundles: NamespaceBundles) -> None:
        """Take over boundaries that this broker itself just wrote; what is being read is older."""
        self.invalidate(bundles.namespace)
        self._keep(bundles.namespace, bundles, self._generations[bundles.namespace])

    def on_change(self, listener: Listener) -> None:
        """Call `listener` with the bundles of a namespace whenever other boundaries than before were read."""
        self._listeners.append(listener)

    def close(self) -> None:
        self._stop_listening()
        self._tasks.cancel()
        self._loads.clear()

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
        if not done.cancelled() and (error := done.exception()) is not None:  # its waiters, if any, got it too
            log.warning("bundles_not_read", namespace=str(namespace), reason=str(error))

    async def _load(self, namespace: NamespaceName) -> NamespaceBundles:
        """Read the record, making it from the policies if need be; a lost race of making it reads again."""
        path = local_policies_path(namespace)
        while True:
            generation = self._generations.get(namespace, 0)
            record = await self._store.get(path)
            if record is not None:
                return self._keep(namespace, self._bundles_of(namespace, record), generation, record.value)
            policies = await self._store.get(f"{POLICIES_ROOT}{namespace}")
            if policies is None:
                return self._keep(namespace, NamespaceBundles.equal(namespace, 1), generation)
            made = self._bundles_of_policies(namespace, policies)
            with suppress(BadVersionError):
                await self._store.put(path, boundaries_value(None, made), expected_version=MUST_NOT_EXIST)

    def _bundles_of(self, namespace: NamespaceName, record: Record) -> NamespaceBundles:
        """Return the bundles that a record says, those at hand if it is the one they were made of.

        Each acquisition reads the record, which may name thousands. Values are compared since a version alone does
        not tell a namespace from one that was made anew.
        """
        entry = self._entries.get(namespace)
        if entry is not None and entry.value == record.value and entry.bundles.version == record.stat.version:
            return entry.bundles
        return bundles_of_record(namespace, record)

    def _bundles_of_policies(self, namespace: NamespaceName, record: Record) -> NamespaceBundles:
        bundles = bundles_data(record)
        if bundles is None or not (bundles.boundaries or bundles.num_bundles):
            return NamespaceBundles.equal(namespace, self._default_bundles())
        return bundles_of_record(namespace, record)

    def _found(self, topic: TopicName, bundles: NamespaceBundles) -> Bundle:
        bundle = bundles.find(topic)
        if not topic.is_persistent and bundles.version is not None:
            self._non_persistent.add(bundle)
        return bundle

    def _keep(
        self, namespace: NamespaceName, bundles: NamespaceBundles, generation: int, value: bytes | None = None
    ) -> NamespaceBundles:
        """Cache what was read, unless the namespace was invalidated while it was on its way.

        That a namespace does not exist is not kept: it may be made in the next moment, by the very client that
        asks, and names that never exist would fill the memory.
        """
        if self._generations.get(namespace, 0) != generation:
            return bundles
        told = self._last_told.get(namespace)
        if bundles.version is not None or needs_no_record(namespace):
            self._entries[namespace] = _Entry(bundles, asyncio.get_running_loop().time(), value)
            self._last_told[namespace] = bundles.boundaries
        else:
            self._entries.pop(namespace, None)
            if self._last_told.pop(namespace, None) is None:
                return bundles
        if told != bundles.boundaries:
            self._notify_listeners(namespace, bundles)
        return bundles

    def _notify_listeners(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        current = set(bundles.bundles)
        self._non_persistent = {each for each in self._non_persistent if each.namespace != namespace or each in current}
        for listener in self._listeners:
            listener(namespace, bundles)

    def _on_change(self, change: Notification | None) -> None:
        """Forget what changed; None stands for a time in which changes may not have been told."""
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
        """Forget an entry, and read it again at once if it was in use, so that listeners hear of the change."""
        in_use = namespace in self._entries
        self.invalidate(namespace)
        if in_use:
            self._start_load(namespace)
