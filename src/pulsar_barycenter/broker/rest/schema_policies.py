"""Answers requests about the rules of a namespace for schemas: compatibility strategy, updates by clients, producers
without a schema.

Source: Pulsar's `NamespacesBase`.
"""

from typing import Any

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    flag,
    json_response,
    namespace_of,
    no_content,
    text_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.schemas.compatibility import BY_OLD_NAME, Strategy


class SchemaPolicies:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    async def strategy(self, request: web.Request) -> web.Response:
        own = (await policies_of(self._services, namespace_of(request))).schema_compatibility_strategy
        return json_response(own or Strategy.UNDEFINED)

    async def set_strategy(self, request: web.Request) -> web.Response:
        text = await text_of(request)
        strategy = Strategy.__members__.get(text)
        if strategy is None:
            raise RestError(
                412, f"{text[:100]!r} is not a schema compatibility strategy: send one of {', '.join(Strategy)}"
            )
        return await self._set(request, schema_compatibility_strategy=strategy)

    async def old_strategy(self, request: web.Request) -> web.Response:
        policies = await policies_of(self._services, namespace_of(request))
        own = policies.schema_auto_update_compatibility_strategy
        return no_content() if own is None else json_response(own)

    async def set_old_strategy(self, request: web.Request) -> web.Response:
        text = await text_of(request)
        if text not in BY_OLD_NAME:
            raise RestError(
                412,
                f"{text[:100]!r} is not a schema auto-update compatibility strategy: "
                f"send one of {', '.join(BY_OLD_NAME)}",
            )
        return await self._set(request, schema_auto_update_compatibility_strategy=text)

    async def auto_update(self, request: web.Request) -> web.Response:
        own = (await policies_of(self._services, namespace_of(request))).is_allow_auto_update_schema
        return json_response(self._services.config.is_allow_auto_update_schema_enabled if own is None else own)

    async def set_auto_update(self, request: web.Request) -> web.Response:
        return await self._set(request, is_allow_auto_update_schema=await _required(request))

    async def enforced(self, request: web.Request) -> web.Response:
        own = (await policies_of(self._services, namespace_of(request))).schema_validation_enforced
        configured = flag(request, "applied") and self._services.config.is_schema_validation_enforced
        return json_response(own or configured)

    async def set_enforced(self, request: web.Request) -> web.Response:
        return await self._set(request, schema_validation_enforced=await _required(request))

    async def _set(self, request: web.Request, **changed: Any) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        await self._namespaces.update(str(namespace_of(request)), lambda found: replace(found, **changed))
        return no_content()


async def _required(request: web.Request) -> bool:
    value = await body_of(request, bool)
    if value is None:
        raise RestError(400, "Send true or false as the body")
    return value
