"""Finds the persistent topic, or the subscription, that a request about messages or a cursor names.

Source: the checks at the beginning of the methods of Pulsar's `PersistentTopicsBase`.
"""

import re
from typing import Final

from aiohttp import web

from pulsar_barycenter.broker.errors import NotAllowedError, SubscriptionNotFoundError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace, require_topic_here
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners
from pulsar_barycenter.broker.rest.requests import subscription_of, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.limits import require_free_subscription
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
_WHOLE: Final = re.compile("-?[0-9]{1,19}", re.ASCII)


class PersistentTopics:
    """Finds the persistent topics that requests name. In all methods, `what` is the name of the operation for errors,
    for example "Skip messages".
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self.owners = PartitionOwners(services)

    async def named(self, request: web.Request, what: str) -> TopicName:
        """Return the name of the topic in the path. `what` is the name of the operation for errors.

        Raises:
            NotAllowedError: the topic is not persistent; the status is 405.
            RestError: 404, the topic's namespace does not exist.
        """
        topic = topic_of(request)
        if not topic.is_persistent:
            raise NotAllowedError(f"{what} on a non-persistent topic is not allowed")
        await require_namespace(self._services, topic.namespace)
        return topic

    async def without_partitions(self, request: web.Request, what: str) -> PersistentTopic:
        """Return the topic in the path, which must not be partitioned; load it if necessary. `what` is the name of the
        operation for errors.

        Raises:
            NotAllowedError: the topic is partitioned, or not persistent; the status is 405.
            RedirectError, RestError, ServiceError: for the same reasons as in `named` and `here`.
        """
        topic = await self.named(request, what)
        if await self.owners.partition_count(topic):
            raise NotAllowedError(
                f"{what} on a partitioned topic is not allowed: name a partition, such as {topic.partition(0)}"
            )
        return await self.here(request, topic)

    async def here(self, request: web.Request, topic: TopicName) -> PersistentTopic:
        """Return a topic that this broker owns; load it if necessary.

        Raises:
            RedirectError: another broker has to answer.
            TopicNotFoundError: the topic does not exist.
            TopicFencedError: the topic is closing, or its partitioned topic is being changed.
        """
        await require_topic_here(request, self._services, topic)
        loaded = await self._services.registry.get_or_create(topic, create=False)
        assert isinstance(loaded, PersistentTopic), "the name is that of a persistent topic"
        loaded.check_open()
        return loaded


def subscription_in(topic: PersistentTopic, name: str) -> PersistentSubscription:
    """Return the subscription of a topic with this name.

    Raises:
        SubscriptionNotFoundError: the topic has no subscription of that name.
    """
    found = topic.subscriptions.get(name)
    if found is None:
        raise SubscriptionNotFoundError(topic.name, name)
    return found


def movable_subscription_of(request: web.Request) -> str:
    """Return the subscription in the path, whose cursor the request moves.

    Raises:
        NotAllowedError: the subscription is one of the broker itself: moving its cursor would make the broker miss
            messages.
    """
    name = subscription_of(request)
    require_free_subscription(name)
    return name


def number_in_path(request: web.Request, name: str, *, at_most: int, at_least: int = 0) -> int:
    """Return the number in the path parameter `name`. It must be from `at_least` to `at_most`, both inclusive.

    Raises:
        RestError: 400, the parameter is not such a number.
    """
    text = request.match_info[name]
    if _WHOLE.fullmatch(text) is None or not at_least <= int(text) <= at_most:
        raise RestError(400, f"{name} must be a whole number from {at_least} to {at_most}, not {text[:100]!r}")
    return int(text)
