"""The subscriptions of a topic, or of all partitions of a partitioned one: listed, created, deleted.

Source: Pulsar's `PersistentTopics` and `PersistentTopicsBase`.
"""

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.namespaces.indispensable import why_subscription_stays
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.openapi import FLAG, takes
from pulsar_barycenter.broker.rest.ownership import (
    require_dispensable,
    require_namespace,
    require_topic_here,
    topic_path,
)
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners
from pulsar_barycenter.broker.rest.requests import (
    decoded,
    flag,
    json_response,
    no_content,
    subscription_of,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.topics import TOPIC
from pulsar_barycenter.broker.topics.persistent_topic import LATEST, PersistentTopic
from pulsar_barycenter.ledger.position import EARLIEST, Position

_LAST = 2**63 - 1


class _MessageId(msgspec.Struct, rename="camel"):
    ledger_id: int
    entry_id: int


class Subscriptions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._registry = services.registry
        self._owners = PartitionOwners(services)

    def routes(self) -> list[web.RouteDef]:
        subscription = TOPIC + "/subscription/{subscription:[^/]+}"
        return [
            web.get(TOPIC + "/subscriptions", self.subscriptions),
            web.put(subscription, self.create_subscription),
            web.delete(subscription, self.delete_subscription),
        ]

    @takes(authoritative=FLAG)
    async def subscriptions(self, request: web.Request) -> web.Response:
        """List the subscriptions; of a partitioned topic those of all partitions."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if await self._owners.partition_count(topic):
            found = await self._owners.of_partitions(
                topic, lambda part: self._owners.call("GET", f"{topic_path(part)}/subscriptions"), missing=[404]
            )
            return json_response(sorted({name for names in found for name in names or ()}))
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=False)
        return json_response(sorted(self._registry.topic_stats(loaded)["subscriptions"]))

    @takes(_MessageId | str, authoritative=FLAG)
    async def create_subscription(self, request: web.Request) -> web.Response:
        """Create a subscription at a message id, at "earliest" or "latest"; of a partitioned topic at all, or none."""
        topic = topic_of(request)
        name = subscription_of(request)
        await require_namespace(self._services, topic.namespace)
        if not topic.is_persistent:
            raise NotAllowedError("Create subscription on non-persistent topic can only be done through client")
        position = _position(await request.read())
        if await self._owners.partition_count(topic):
            await self._services.changes.create_subscription(topic, name, (position.ledger_id, position.entry_id))
            return no_content()
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=True)
        assert isinstance(loaded, PersistentTopic)
        async with loaded.lock:
            if name in loaded.subscriptions:
                raise RestError(409, f"Subscription {name!r} already exists for topic {topic}")
            await loaded.create_subscription(name, position)
        return no_content()

    @takes(force=FLAG, authoritative=FLAG)
    async def delete_subscription(self, request: web.Request) -> web.Response:
        """Delete a subscription; with `force` in spite of consumers. Of a partitioned topic at all, or none."""
        topic = topic_of(request)
        name = subscription_of(request)
        force = flag(request, "force")
        require_dispensable(why_subscription_stays(topic, name))
        await require_namespace(self._services, topic.namespace)
        if await self._owners.partition_count(topic):
            await self._services.changes.delete_subscription(topic, name, force=force)
            return no_content()
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=False)
        await loaded.delete_subscription(name, force=force)
        return no_content()


def _position(body: bytes) -> Position:
    """Return where a subscription starts: a message id as JSON, "earliest" or "latest"; nothing is the end."""
    if not body.strip() or body.strip() == b"null":
        return LATEST
    wanted: _MessageId | str = decoded(body, _MessageId | str)
    if isinstance(wanted, str):
        if wanted not in ("earliest", "latest"):
            raise RestError(400, f'A position is "earliest", "latest" or a message id, not {wanted!r}')
        return EARLIEST if wanted == "earliest" else LATEST
    if wanted.ledger_id >= _LAST:
        return LATEST
    return EARLIEST if wanted.ledger_id < 0 else Position(wanted.ledger_id, wanted.entry_id)
