"""How many topics a namespace has, and how many clients and subscriptions each of them: a namespace's own limits.

Source: Pulsar's `NamespacesBase`; what counts is said in `topics/limits.py` and `namespaces/resources.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.leader_requests import by_leader
from pulsar_barycenter.broker.rest.openapi import takes
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices

LIMITS: Final = {
    "maxTopicsPerNamespace": "max_topics_per_namespace",
    "maxProducersPerTopic": "max_producers_per_topic",
    "maxConsumersPerTopic": "max_consumers_per_topic",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
}
"""Policies with a limit, as paths and keys of the configuration name them, and their fields."""

_OF_NONE: Final = {"maxTopicsPerNamespace": 0}
"""What Pulsar shows of a limit that a namespace does not have, where its client takes nothing else."""

_MOST: Final = 2**31 - 1
Limit = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]

_Answer = Callable[[web.Request], Awaitable[web.Response]]


class NamespaceLimits:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    def routes(self) -> list[web.RouteDef]:
        found: list[web.RouteDef] = []
        for name, field in LIMITS.items():
            path = f"/admin/v2/namespaces/{{tenant}}/{{namespace}}/{name}"
            show, change, remove = self._of(name, field)
            found += [web.get(path, show), web.post(path, change), web.delete(path, remove)]
        return found

    def _of(self, name: str, field: str) -> tuple[_Answer, _Answer, _Answer]:
        async def show(request: web.Request) -> web.Response:
            limit = getattr(await policies_of(self._services, namespace_of(request)), field)
            limit = _OF_NONE.get(name) if limit is None else limit
            return no_content() if limit is None else json_response(limit)

        @by_leader
        @takes(Limit)
        async def change(request: web.Request) -> web.Response:
            limit = await body_of(request, Limit)
            if limit is None:
                raise RestError(400, f"Send a number as the body; DELETE has the namespace go by {name}")
            if limit < 0:
                raise RestError(412, f"{name} must be 0 or more")
            return await self._set(request, field, limit)

        @by_leader
        async def remove(request: web.Request) -> web.Response:
            return await self._set(request, field, None)

        unset = _OF_NONE.get(name, 204)
        show.__doc__ = f"Show the {name} of a namespace; {unset} if it goes by the configuration."
        change.__doc__ = f"Set the {name} of a namespace; 0 is no limit."
        remove.__doc__ = f"Have a namespace go by the configuration's {name} again."
        return show, change, remove

    async def _set(self, request: web.Request, field: str, limit: int | None) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        await self._namespaces.update(str(namespace_of(request)), lambda found: replace(found, **{field: limit}))
        return no_content()
