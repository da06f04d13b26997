"""Answers requests about the subscriptions of a topic, or of all partitions of a partitioned topic: lists, creates and
deletes them.

Source: Pulsar's `PersistentTopics` and `PersistentTopicsBase`.
"""

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.namespaces.indispensable import why_subscription_stays
from pulsar_barycenter.broker.rest.errors import RestError
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
from pulsar_barycenter.broker.rest.subscription_properties import require_short_properties
from pulsar_barycenter.broker.topics.persistent_topic import LATEST, PersistentTopic
from pulsar_barycenter.ledger.position import EARLIEST, Position

_MAX_INT64 = 2**63 - 1


class ResetCursorData(msgspec.Struct, rename="camel", frozen=True):
    """The message id in the body of a request, with the properties of a subscription to create. Missing fields have the
    defaults of Pulsar's class.

    If the body has neither `ledgerId` nor `entryId`, both are 0, so that a new subscription starts at the first entry
    of the topic. `partition_index` is ignored, as in Pulsar; `partitioned_index` is the name of this field in Pulsar's
    Go client.
    """

    ledger_id: int = 0
    entry_id: int = 0
    partition_index: int = -1
    partitioned_index: int = -1
    properties: dict[str, str] | None = None
    batch_index: int = -1
    excluded: bool = False
    is_excluded: bool = False


class Subscriptions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._registry = services.registry
        self._owners = PartitionOwners(services)

    async def subscriptions(self, request: web.Request) -> web.Response:
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

    async def create_subscription(self, request: web.Request) -> web.Response:
        """Create a subscription. Of a partitioned topic, it is created on all partitions or, if one of them fails, on
        none.
        """
        topic = topic_of(request)
        name = subscription_of(request)
        await require_namespace(self._services, topic.namespace)
        if not topic.is_persistent:
            raise NotAllowedError("Create subscription on non-persistent topic can only be done through client")
        if flag(request, "replicated"):
            raise RestError(
                400,
                "replicated is true, but this broker does not replicate subscriptions: leave out this parameter",
            )
        position, properties = _start(await request.read())
        if await self._owners.partition_count(topic):
            start = (position.ledger_id, position.entry_id)
            await self._services.changes.create_subscription(topic, name, start, properties)
            return no_content()
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=True)
        assert isinstance(loaded, PersistentTopic)
        async with loaded.lock:
            if name in loaded.subscriptions:
                raise RestError(409, f"Subscription {name!r} already exists for topic {topic}")
            await loaded.create_subscription(name, position, properties)
        return no_content()

    async def delete_subscription(self, request: web.Request) -> web.Response:
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


def _start(body: bytes) -> tuple[Position, dict[str, str] | None]:
    """Return the start position of a new subscription and its properties, None if there are none. The body is empty
    (the end of the topic), the string "earliest" or "latest", or a message id.

    Raises:
        msgspec.MsgspecError: the body is neither a message id nor a JSON string.
        RestError: 400, the position is not valid, or the properties are too long.
    """
    if not body.strip() or body.strip() == b"null":
        return LATEST, None
    wanted: ResetCursorData | str = decoded(body, ResetCursorData | str)
    if isinstance(wanted, str):
        if wanted not in ("earliest", "latest"):
            raise RestError(400, f'A position must be "earliest", "latest" or a message id, not {wanted!r}')
        return (EARLIEST if wanted == "earliest" else LATEST), None
    if wanted.batch_index >= 0:
        raise RestError(
            400,
            f"batchIndex is {wanted.batch_index}, but a subscription can only start at a whole entry: "
            "leave out batchIndex",
        )
    if wanted.excluded or wanted.is_excluded:
        raise RestError(
            400,
            "excluded is true, but a subscription starts with the entry of the message id that you send: "
            "leave out excluded, and send the message id of the next entry",
        )
    require_short_properties(wanted.properties or {})
    return _position(wanted), wanted.properties


def _position(wanted: ResetCursorData) -> Position:
    if wanted.ledger_id >= _MAX_INT64:
        return LATEST
    return EARLIEST if wanted.ledger_id < 0 else Position(wanted.ledger_id, wanted.entry_id)
