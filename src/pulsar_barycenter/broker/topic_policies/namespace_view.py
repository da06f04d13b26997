"""The policies of the topics of one namespace, read from its `__change_events` and written to it."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.namespaces.own_policies import NO_OWN_POLICIES, OwnPolicies
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.errors import NotCaughtUpError
from pulsar_barycenter.broker.system_topics.table_view import TableView
from pulsar_barycenter.broker.topic_policies.avro_binary import NotOfSchemaError
from pulsar_barycenter.broker.topic_policies.events import decode_event, encode_event, events_topic, is_key, key_of
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

CATCH_UP_S: Final = 20.0
"""The number of seconds of one attempt to read the topic to its end. The next attempt follows at once."""
CHANGE_S: Final = 20.0
"""The maximum number of seconds that a change of policies may take. Then the change fails with TimeoutError."""
REMOVE_S: Final = 5.0
"""The maximum number of seconds that the deletion of a topic waits for the removal of its policies. Then the topic is
deleted nevertheless, and its policies possibly stay.
"""


class NamespaceView:
    """Reads the policies of the topics of `namespace` from the topic `__change_events`, until it is closed.

    When everything in that topic was read for the first time, `on_change` is called with None. After that it is called
    for each change, with the key of the topic whose policies changed (see `key_of`).
    """

    def __init__(
        self,
        namespace: NamespaceName,
        client: SystemTopicClient,
        cluster: str,
        on_change: Callable[[NamespaceName, str | None], None],
    ) -> None:
        self.namespace = namespace
        self._client = client
        self._cluster = cluster
        self._on_change = on_change
        self._own: dict[str, OwnPolicies] = {}
        self._table: TableView = client.table_view(str(events_topic(namespace)), read_compacted=True)
        self._table.listen(self._take)
        self._change_lock = asyncio.Lock()
        self._known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._read(), name=f"read policies of {namespace}")

    async def known(self) -> None:
        """Wait until everything in `__change_events` was read for the first time. The caller limits the time."""
        await asyncio.shield(self._known)

    def of(self, topic: TopicName) -> OwnPolicies:
        """Return the own policies of a topic; for a partition, those of its partitioned topic. Before the first reading
        has ended, they may be missing.
        """
        return self._own.get(key_of(topic), NO_OWN_POLICIES)

    async def change(self, topic: TopicName, modify: Callable[[OwnPolicies], OwnPolicies]) -> None:
        """Replace the own policies of a topic by the result of `modify`, which is called with the present ones. When
        this returns, `of` returns the new policies.

        Only the owner of the namespace's topic `__change_events` calls this, so no other broker changes policies at the
        same time.

        Raises:
            TimeoutError, SystemTopicError: the policies were not written within CHANGE_S seconds; it is not known
                whether they are changed.
            NotOfSchemaError: a value cannot be stored.
        """
        async with self._change_lock, asyncio.timeout(CHANGE_S):
            await self.known()
            await self._table.reach_end()
            before = self.of(topic)
            after = modify(before)
            if after == before:
                return
            key = key_of(topic)
            if after == NO_OWN_POLICIES:
                await self._table.remove(key)
            else:
                await self._table.put(key, encode_event(topic, after, self._cluster))
            await self._table.reach_end()

    async def remove(self, topic: TopicName) -> None:
        """Remove the policies of a deleted topic, if it has any. Raises SystemTopicError if they could not be removed;
        whether they are removed is then not known. The caller limits the time.
        """
        if self.of(topic) != NO_OWN_POLICIES:
            await self._table.remove(key_of(topic))

    async def close(self) -> None:
        """Stop reading. Calls of `known` that still wait get a CancelledError. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._table.close()
        await self._client.close()
        self._known.cancel()

    async def _read(self) -> None:
        while not self._known.done():
            try:
                await self._table.start(CATCH_UP_S)
            except NotCaughtUpError as error:
                log.warning("topic_policies_not_read", namespace=str(self.namespace), reason=str(error))
            else:
                self._known.set_result(None)
        self._on_change(self.namespace, None)

    def _take(self, key: str, _before: bytes | None, after: bytes | None) -> None:
        if not is_key(key):
            return
        try:
            policies = NO_OWN_POLICIES if after is None else decode_event(after)
        except NotOfSchemaError as error:
            log.error(
                "topic_policies_not_readable", topic=key, reason=str(error), mend="set the topic's policies again"
            )
            return
        if policies == NO_OWN_POLICIES:
            self._own.pop(key, None)
        else:
            self._own[key] = policies
        if self._known.done():
            self._on_change(self.namespace, key)
