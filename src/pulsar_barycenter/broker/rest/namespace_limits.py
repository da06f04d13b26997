"""Answers requests about the limits of a namespace: number of topics, and of clients and subscriptions of each topic.

Source: Pulsar's `NamespacesBase`. `topics/limits.py` and `namespaces/resources.py` describe what is counted.
"""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content, route_of
from pulsar_barycenter.broker.rest.services import BrokerServices

LIMITS: Final = {
    "maxTopicsPerNamespace": "max_topics_per_namespace",
    "maxProducersPerTopic": "max_producers_per_topic",
    "maxConsumersPerTopic": "max_consumers_per_topic",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
}
"""The limits by their names in paths and configuration keys, with their fields in the namespace's policies."""

_SHOWN_IF_UNSET: Final = {"maxTopicsPerNamespace": 0}
"""The answer, as in Pulsar, for a limit that is not set, if Pulsar's client does not accept an empty answer."""

_MAX_INT32: Final = 2**31 - 1
Limit = Annotated[int, msgspec.Meta(ge=-_MAX_INT32, le=_MAX_INT32)]


class NamespaceLimits:
    """Answers the REST requests that read, set and remove a limit of a namespace, such as `maxTopicsPerNamespace`. The
    last segment of the path is the name of the limit.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    async def show(self, request: web.Request) -> web.Response:
        name = _name_in(request)
        limit = getattr(await policies_of(self._services, namespace_of(request)), LIMITS[name])
        limit = _SHOWN_IF_UNSET.get(name) if limit is None else limit
        return no_content() if limit is None else json_response(limit)

    async def change(self, request: web.Request) -> web.Response:
        name = _name_in(request)
        limit = await body_of(request, Limit)
        if limit is None:
            raise RestError(400, f"Send a number as the body. To use the configured {name} again, send a DELETE")
        if limit < 0:
            raise RestError(412, f"{name} must be 0 or more")
        return await self._set(request, LIMITS[name], limit)

    async def remove(self, request: web.Request) -> web.Response:
        return await self._set(request, LIMITS[_name_in(request)], None)

    async def _set(self, request: web.Request, field: str, limit: int | None) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        await self._namespaces.update(str(namespace_of(request)), lambda found: replace(found, **{field: limit}))
        return no_content()


def _name_in(request: web.Request) -> str:
    row = route_of(request)
    assert row is not None, "these handlers are only for the routes of limits"
    return row.path.rpartition("/")[2]
