"""Policies that decide whether topics and subscriptions of a namespace are created when a client first uses them.

`namespaces/resources.py` has the rules that these policies are part of. Source: Pulsar's `NamespacesBase` and
`AutoTopicCreationOverrideImpl`.
"""

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.auto_creation import TOPIC_TYPES
from pulsar_barycenter.broker.namespaces.policies import AutoSubscriptionCreationOverride, AutoTopicCreationOverride
from pulsar_barycenter.broker.namespaces.resources import most_partitions
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig

_UNSET = "To use the configuration again, send a DELETE"


class AutoCreation:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    async def of_topics(self, request: web.Request) -> web.Response:
        override = (await policies_of(self._services, namespace_of(request))).auto_topic_creation_override
        return no_content() if override is None else json_response(override)

    async def set_of_topics(self, request: web.Request) -> web.Response:
        override = await body_of(request, AutoTopicCreationOverride)
        if override is None:
            raise RestError(400, f"Send an object with allowAutoTopicCreation and topicType as the body. {_UNSET}")
        _require_valid(override, self._services.config)
        return await self._set_of_topics(request, override)

    async def delete_of_topics(self, request: web.Request) -> web.Response:
        return await self._set_of_topics(request, None)

    async def _set_of_topics(self, request: web.Request, override: AutoTopicCreationOverride | None) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        await self._namespaces.update(
            str(namespace_of(request)), lambda found: replace(found, auto_topic_creation_override=override)
        )
        return no_content()

    async def of_subscriptions(self, request: web.Request) -> web.Response:
        override = (await policies_of(self._services, namespace_of(request))).auto_subscription_creation_override
        return no_content() if override is None else json_response(override)

    async def set_of_subscriptions(self, request: web.Request) -> web.Response:
        override = await body_of(request, AutoSubscriptionCreationOverride)
        if override is None:
            raise RestError(400, f"Send an object with allowAutoSubscriptionCreation as the body. {_UNSET}")
        return await self._set_of_subscriptions(request, override)

    async def delete_of_subscriptions(self, request: web.Request) -> web.Response:
        return await self._set_of_subscriptions(request, None)

    async def _set_of_subscriptions(
        self, request: web.Request, override: AutoSubscriptionCreationOverride | None
    ) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        await self._namespaces.update(
            str(namespace_of(request)), lambda found: replace(found, auto_subscription_creation_override=override)
        )
        return no_content()


def _require_valid(override: AutoTopicCreationOverride, config: BrokerConfig) -> None:
    """Check an override of the namespace's settings for topics that are created when a client first uses them: the type
    of the topics, and the default number of partitions. If the override switches this creation off, only the maximum
    number of partitions is checked.

    Raises:
        RestError: 412, the type or number is not valid; 406, the number of partitions exceeds the limit of the
            configuration.
    """
    count, limit = override.default_num_partitions, most_partitions(config)
    if override.allow_auto_topic_creation and (fault := _fault(override)) is not None:
        raise RestError(412, f"Invalid configuration for autoTopicCreationOverride. the detail is {fault}")
    if count is not None and count > limit:
        raise RestError(406, f"Number of partitions should be less than or equal to {limit}, not {count}")


def _fault(override: AutoTopicCreationOverride) -> str | None:
    kind, count = override.topic_type, override.default_num_partitions
    if kind not in TOPIC_TYPES:
        return f"Unknown topic type [{str(kind)[:100]}]: topicType must be one of {', '.join(TOPIC_TYPES)}"
    if kind == "partitioned":
        if count is None:
            return "[defaultNumPartitions] cannot be null when the type is partitioned."
        if count < 1:
            return f"[defaultNumPartitions] cannot be less than 1 for partition type, but is {count}."
    elif count is not None:
        return "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
    return None
