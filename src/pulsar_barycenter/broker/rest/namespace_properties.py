"""Answers requests about the properties of a namespace: texts by name, which the broker stores and does not interpret.

Source: `setProperties`, `getProperty` and the like of Pulsar's `Namespaces`.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content, text_response
from pulsar_barycenter.broker.rest.services import BrokerServices

Change: TypeAlias = Callable[[Mapping[str, str]], dict[str, str]]

MAX_PROPERTIES_CHARACTERS: Final = 65_536
"""The maximum number of characters of all names and values of the properties of a namespace or topic."""


def require_few_properties(properties: Mapping[str, str]) -> None:
    """Check that the properties of a namespace or topic do not exceed the limit.

    Raises:
        RestError: 400, names and values have more than MAX_PROPERTIES_CHARACTERS characters in total.
    """
    length = sum(len(name) + len(value) for name, value in properties.items())
    if length > MAX_PROPERTIES_CHARACTERS:
        raise RestError(
            400,
            f"The properties would have {length} characters; at most {MAX_PROPERTIES_CHARACTERS} are allowed together. "
            "Remove some properties first",
        )


class NamespaceProperties:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def show(self, request: web.Request) -> web.Response:
        return json_response(await self._present(request))

    async def show_one(self, request: web.Request) -> web.Response:
        return text_response(_one(await self._present(request), request))

    async def add(self, request: web.Request) -> web.Response:
        added = await body_of(request, dict[str, str]) or {}
        return await self._change(request, lambda present: {**present, **added})

    async def set_one(self, request: web.Request) -> web.Response:
        added = {request.match_info["key"]: request.match_info["value"]}
        return await self._change(request, lambda present: {**present, **added})

    async def clear(self, request: web.Request) -> web.Response:
        return await self._change(request, lambda present: {})

    async def remove_one(self, request: web.Request) -> web.Response:
        removed, key = _one(await self._present(request), request), request.match_info["key"]
        await self._change(request, lambda present: {name: value for name, value in present.items() if name != key})
        return text_response(removed)

    async def _present(self, request: web.Request) -> dict[str, str]:
        return (await policies_of(self._services, namespace_of(request))).properties

    async def _change(self, request: web.Request, change: Change) -> web.Response:
        """Store new properties of the namespace: the result of `change`, which is called with the stored ones. Return
        the answer 204.
        """
        await require_writable_policies(self._services)
        await self._present(request)

        def changed(found: Policies) -> Policies:
            properties = change(found.properties)
            require_few_properties(properties)
            return replace(found, properties=properties)

        await self._resources.namespaces.update(str(namespace_of(request)), changed)
        return no_content()


def _one(properties: Mapping[str, str], request: web.Request) -> str:
    name = request.match_info["key"]
    if name not in properties:
        raise RestError(404, f"The namespace has no property {name}")
    return properties[name]
