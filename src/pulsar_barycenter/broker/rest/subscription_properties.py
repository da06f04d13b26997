"""Answers requests about the properties of a subscription: shows and replaces them. They are stored with the
subscription's cursor.

Source: `updateSubscriptionProperties` and `getSubscriptionProperties` of Pulsar's `PersistentTopics`.
"""

from collections.abc import Mapping
from urllib.parse import quote

from aiohttp import web

from pulsar_barycenter.broker.errors import NotAllowedError, SubscriptionNotFoundError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace, require_topic_here, topic_path
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners, gather, repeatable
from pulsar_barycenter.broker.rest.requests import body_of, json_response, no_content, subscription_of, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.limits import require_free_subscription
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.wire.bounds import SUBSCRIPTION_PROPERTIES_LENGTH
from pulsar_barycenter.naming.topic import TopicName


def require_short_properties(properties: Mapping[str, str]) -> None:
    """Check that the properties of a subscription do not exceed the limit, which also applies to SUBSCRIBE.

    Raises:
        RestError: 400, names and values together have more than SUBSCRIPTION_PROPERTIES_LENGTH characters.
    """
    length = sum(len(name) + len(value) for name, value in properties.items())
    if length > SUBSCRIPTION_PROPERTIES_LENGTH:
        raise RestError(
            400,
            f"The properties have {length} characters; at most {SUBSCRIPTION_PROPERTIES_LENGTH} are allowed together",
        )


class SubscriptionProperties:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._owners = PartitionOwners(services)

    async def show(self, request: web.Request) -> web.Response:
        topic, name = await self._named(request)
        if await self._owners.partition_count(topic):
            found = await self._owners.of_partitions(
                topic, lambda part: self._owners.call("GET", _properties_path(part, name)), missing=[404]
            )
            known = [properties for properties in found if properties is not None]
            if not known:
                raise SubscriptionNotFoundError(topic, name)
            return json_response({key: value for properties in known for key, value in properties.items()})
        return json_response((await self._subscription(request, topic, name)).cursor.properties)

    async def replace(self, request: web.Request) -> web.Response:
        """Replace the properties of a subscription. Of a partitioned topic, first check that every partition has the
        subscription, then change all partitions. If a change fails, some partitions may be changed; the client can send
        the request again to complete it.
        """
        topic, name = await self._named(request)
        require_free_subscription(name)
        properties = await body_of(request, dict[str, str]) or {}
        require_short_properties(properties)
        if parts := await self._owners.partitions(topic):
            await gather(lambda part: self._owners.call("GET", _properties_path(part, name)), parts)
            await repeatable(
                lambda part: self._owners.call("PUT", _properties_path(part, name), properties), parts, what="changed"
            )
            return no_content()
        await (await self._subscription(request, topic, name)).cursor.set_properties(properties)
        return no_content()

    async def _named(self, request: web.Request) -> tuple[TopicName, str]:
        topic, name = topic_of(request), subscription_of(request)
        await require_namespace(self._services, topic.namespace)
        if not topic.is_persistent:
            raise NotAllowedError(
                f"{topic} is not persistent, so the properties of its subscriptions cannot be read or set "
                "here: consumers set them when they subscribe"
            )
        return topic, name

    async def _subscription(self, request: web.Request, topic: TopicName, name: str) -> PersistentSubscription:
        await require_topic_here(request, self._services, topic)
        loaded = await self._services.registry.get_or_create(topic, create=False)
        assert isinstance(loaded, PersistentTopic)
        found = loaded.subscriptions.get(name)
        if found is None:
            raise SubscriptionNotFoundError(topic, name)
        return found


def _properties_path(topic: TopicName, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/properties"
