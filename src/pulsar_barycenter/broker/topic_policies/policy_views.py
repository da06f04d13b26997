"""The policies of topics that this broker knows: a view for each namespace that has such policies and topics here.

A namespace is *followed* from the first request for the policies of one of its topics, until no topic of it is loaded
here. Only for followed namespaces the broker checks whether `__change_events` exists: at the first request, and
whenever the store reports that it was created or deleted. There is a view only while it exists.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.namespaces.own_policies import NO_OWN_POLICIES, OwnPolicies
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.errors import SystemTopicError
from pulsar_barycenter.broker.topic_policies.events import events_topic, key_of
from pulsar_barycenter.broker.topic_policies.namespace_view import REMOVE_S, NamespaceView
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound, is_system_namespace
from pulsar_barycenter.naming.topic import CHANGE_EVENTS, TopicName, is_change_events

log = structlog.get_logger(__name__)

_ROOT: Final = "/managed-ledgers/"
_END: Final = f"/persistent/{CHANGE_EVENTS}"


def is_events_path(path: str) -> bool:
    """Return whether a path in the metadata store is the record of a topic `__change_events`, which stores policies of
    topics.
    """
    return path.endswith(_END) and path.startswith(_ROOT)


class PolicyViews:
    """The own policies of topics that this broker knows, in one `NamespaceView` for each namespace. Implements
    `OwnPolicySource`.

    `client` creates a client that connects to the owner of the given topic. `apply` is awaited after changes, with a
    function that returns whether the policies of a given topic have changed.
    """

    def __init__(
        self,
        store: MetadataStore,
        cluster: str,
        client: Callable[[TopicName], SystemTopicClient],
        apply: Callable[[Callable[[TopicName], bool]], Awaitable[object]],
        *,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._client = client
        self._apply = apply
        self._changed: set[NamespaceName | str] = set()
        """The namespaces, and the keys of topics, whose changes are not applied yet."""
        self._applying: asyncio.Task[None] | None = None
        self._is_enabled = is_enabled
        self._followed: dict[NamespaceName, NamespaceView | None] = {}
        """The namespaces that are followed; None: without policies of topics."""
        self._tasks = BackgroundTasks("topic_policies_view_failed")

    # ---- what topics have (OwnPolicySource) ----

    async def known(self, topic: TopicName) -> None:
        namespace = topic.namespace
        if not self._may_follow(namespace):
            return
        if namespace not in self._followed:
            await self.look(namespace)
        view = self._followed.get(namespace)
        if view is not None:
            await view.known()

    def _may_follow(self, namespace: NamespaceName) -> bool:
        return self._is_enabled() and not is_system_namespace(namespace) and not is_broker_bound(namespace)

    def of(self, topic: TopicName) -> OwnPolicies:
        view = self._followed.get(topic.namespace)
        return NO_OWN_POLICIES if view is None or not self._is_enabled() else view.of(topic)

    # ---- changes ----

    async def exist(self, namespace: NamespaceName) -> bool:
        """Return whether the topics of a namespace have, or once had, policies of their own: their topic
        `__change_events` exists.
        """
        return await self._store.exists(_path(namespace))

    async def change(self, topic: TopicName, modify: Callable[[OwnPolicies], OwnPolicies]) -> None:
        """Change the own policies of a topic; see `NamespaceView.change`, also for errors. Call this only on the broker
        that owns the namespace's topic `__change_events`, and only if that topic exists.
        """
        view = self._followed.get(topic.namespace) or self._start(topic.namespace)
        await view.change(topic, modify)

    async def remove(self, topic: TopicName) -> None:
        """Remove the own policies of a deleted topic, within REMOVE_S seconds. If this fails, it is logged and no error
        is raised. The policies then stay, and apply again if a topic of the same name is created later.
        """
        if is_change_events(topic):
            return
        try:
            async with asyncio.timeout(REMOVE_S):
                await self.known(topic)
                view = self._followed.get(topic.namespace)
                if view is not None:
                    await view.remove(topic)
        except (SystemTopicError, MetadataError, TimeoutError) as error:
            log.warning("topic_policies_not_removed", topic=str(topic), reason=str(error) or f"not within {REMOVE_S} s")

    def _on_change(self, namespace: NamespaceName, key: str | None) -> None:
        self._changed.add(namespace if key is None else key)
        if self._applying is None or self._applying.done():
            self._applying = self._tasks.start(self._apply_changes(), "apply policies of topics")

    async def _apply_changes(self) -> None:
        while self._changed:
            changed, self._changed = self._changed, set()
            await self._apply(partial(_concerns, changed))

    # ---- following ----

    async def refresh(self, used: Collection[NamespaceName]) -> None:
        """For each namespace in `used`, start or stop its view, as `look` does. Stop the views of all others."""
        for namespace in list(self._followed):
            if namespace not in used:
                self._stop(namespace)
        for namespace in sorted(used, key=str):
            if self._may_follow(namespace):
                await self.look(namespace)

    async def look(self, namespace: NamespaceName) -> None:
        """Start to read the policies of a namespace's topics if the topic `__change_events` exists; stop if it does not
        exist.
        """
        exists = await self.exist(namespace)
        present = self._followed.setdefault(namespace, None)
        if exists and present is None:
            self._start(namespace)
        elif not exists and present is not None:
            self._stop(namespace)
            self._followed[namespace] = None

    def _start(self, namespace: NamespaceName) -> NamespaceView:
        client = self._client(events_topic(namespace))
        view = self._followed[namespace] = NamespaceView(namespace, client, self._cluster, self._on_change)
        return view

    def _stop(self, namespace: NamespaceName) -> None:
        view = self._followed.pop(namespace, None)
        if view is not None:
            self._tasks.start(view.close(), f"stop to read policies of {namespace}")

    async def close(self) -> None:
        """Stop reading the policies of all namespaces. Idempotent."""
        if self._applying is not None:
            self._applying.cancel()
        for namespace in list(self._followed):
            self._stop(namespace)
        await self._tasks.ended()


def _concerns(changed: Collection[NamespaceName | str], topic: TopicName) -> bool:
    return topic.namespace in changed or key_of(topic) in changed


def _path(namespace: NamespaceName) -> str:
    return f"{_ROOT}{namespace}{_END}"
