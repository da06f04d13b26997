"""Resource groups: rates that the topics of several namespaces share.

`broker.topics.group_throttles` applies the rates of what producers send; the rates of deliveries are only stored, as
in Pulsar. Source: Pulsar's `ResourceGroupsBase`, `NamespacesBase`. Differences: names and rates are checked, and a
cluster has at most MOST_GROUPS groups.
"""

from typing import Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.route import LARGEST_EXACT
from pulsar_barycenter.broker.namespaces.policies import ResourceGroup
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content, text_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.metadata.errors import AlreadyExistsError, NotFoundError
from pulsar_barycenter.naming.namespace import NamespaceName, validate_entity_name

MOST_GROUPS: Final = 1_000
"""The maximum number of resource groups in a cluster. If it is reached, another group is refused."""
_MOST_MESSAGES: Final = 2**31 - 1
_UNKNOWN: Final = "ResourceGroup does not exist"


class ResourceGroups:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._groups = services.resources.resource_groups

    async def names(self, request: web.Request) -> web.Response:
        return json_response(await self._groups.names())

    async def get(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        found = await self._groups.get_fresh(name)
        if found is None:
            raise RestError(404, f"{_UNKNOWN}: {name}")
        return json_response(found)

    async def put(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        await require_writable_policies(self._services)
        validate_entity_name("Resource group", name)
        asked = await _rates_in(request)
        if await self._groups.get_fresh(name) is not None or not await self._created(name, asked):
            await self._groups.update(name, lambda found: _changed(found, asked))
        return no_content()

    async def _created(self, name: str, asked: ResourceGroup) -> bool:
        """Create a resource group and return True. Return False if another request has created a group of that name in
        the meantime.

        Raises:
            RestError: 412, there are MOST_GROUPS groups already.
        """
        if len(await self._groups.names()) >= MOST_GROUPS:
            raise RestError(412, f"A cluster has at most {MOST_GROUPS} resource groups: delete one that is not in use")
        try:
            await self._groups.create(name, _changed(_UNLIMITED, asked))
        except AlreadyExistsError:
            return False
        return True

    async def delete(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        await require_writable_policies(self._services)
        user = await self._user_of(name)
        if user is not None:
            raise RestError(
                412,
                f"ResourceGroup is in use: namespace {user} is in group {name}. "
                "Remove the namespace from the group first",
            )
        try:
            await self._groups.delete(name)
        except NotFoundError:
            raise RestError(404, f"{_UNKNOWN}: {name}") from None
        return no_content()

    async def _user_of(self, name: str) -> NamespaceName | None:
        """Return one of the namespaces that are in a resource group, None if there are none."""
        for tenant in await self._resources.tenants.names():
            for namespace in await self._resources.namespaces_of(tenant):
                policies = await self._resources.namespaces.get(str(namespace))
                if policies is not None and policies.resource_group_name == name:
                    return namespace
        return None

    # ---- of a namespace ----

    async def of_namespace(self, request: web.Request) -> web.Response:
        name = (await policies_of(self._services, namespace_of(request))).resource_group_name
        return no_content() if name is None else text_response(name)

    async def set_of_namespace(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        await require_writable_policies(self._services)
        await require_resource_group(self._resources, name)
        return await self._change(request, name)

    async def remove_of_namespace(self, request: web.Request) -> web.Response:
        await require_writable_policies(self._services)
        return await self._change(request, None)

    async def _change(self, request: web.Request, name: str | None) -> web.Response:
        namespace = namespace_of(request)
        await policies_of(self._services, namespace)
        await self._resources.namespaces.update(str(namespace), lambda found: replace(found, resource_group_name=name))
        return no_content()


async def require_resource_group(resources: Resources, name: str | None) -> None:
    """Check that a resource group exists; None is no group, which is valid.

    Raises:
        RestError: 412, there is no such group.
    """
    if name is not None and await resources.resource_groups.get_fresh(name) is None:
        raise RestError(412, f"{_UNKNOWN}: {name[:100]}. Create the resource group first")


_UNLIMITED: Final = ResourceGroup(-1, -1, -1, -1)


def _changed(group: ResourceGroup, asked: ResourceGroup) -> ResourceGroup:
    """Return `group` with the rates in `asked`. A rate that is None in `asked` keeps its value in `group`."""
    rates = {field: rate for field, rate in msgspec.structs.asdict(asked).items() if rate is not None}
    return replace(group, **rates)


async def _rates_in(request: web.Request) -> ResourceGroup:
    asked = await body_of(request, ResourceGroup)
    if asked is None:
        raise RestError(
            400,
            'The body is empty or null: send an object such as {"publishRateInMsgs":100,"publishRateInBytes":1000000}',
        )
    for name, rate in msgspec.to_builtins(asked).items():
        most = _MOST_MESSAGES if name.endswith("Msgs") else LARGEST_EXACT
        if rate is not None and not -1 <= rate <= most:
            raise RestError(412, f"{name} must be from -1 (no limit) to {most}, not {rate}")
    return asked
