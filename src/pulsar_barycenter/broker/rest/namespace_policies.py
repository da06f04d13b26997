"""Answers requests about two policies of namespaces: deduplication and the anti-affinity group.

Limits are in `namespace_limits`, rights in `permissions`. Source: Pulsar's `Namespaces` and `NamespacesBase`.
"""

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_namespace, require_writable_policies
from pulsar_barycenter.broker.rest.requests import (
    asked_tenant,
    body_of,
    json_response,
    namespace_of,
    no_content,
    text_of,
    text_response,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.load.policies import group_key
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME, NamespaceName


class NamespacePolicies:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._control = services.control

    # ---- deduplication ----

    async def deduplication(self, request: web.Request) -> web.Response:
        enabled = (await policies_of(self._services, namespace_of(request))).deduplication_enabled
        return no_content() if enabled is None else json_response(enabled)

    async def set_deduplication(self, request: web.Request) -> web.Response:
        enabled = await body_of(request, bool)
        if enabled is None:
            raise RestError(400, "Send true or false as the body. To use the configured value again, send a DELETE")
        return await self._switch_deduplication(request, enabled)

    async def delete_deduplication(self, request: web.Request) -> web.Response:
        return await self._switch_deduplication(request, None)

    async def _switch_deduplication(self, request: web.Request, enabled: bool | None) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace)
        await self._resources.namespaces.update(
            str(namespace), lambda found: replace(found, deduplication_enabled=enabled)
        )
        return no_content()

    # ---- anti-affinity group ----

    async def anti_affinity_group(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        local = await self._resources.local_policies.get_fresh(str(namespace))
        group = None if local is None else local.namespace_anti_affinity_group
        return no_content() if group is None else text_response(group)

    async def set_anti_affinity_group(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        group = await text_of(request)
        if not group.strip():
            raise RestError(412, "antiAffinityGroup can't be empty: send the name of the group as the body")
        if len(group) > MAX_ENTITY_NAME:
            raise RestError(
                412, f"antiAffinityGroup has {len(group)} characters; at most {MAX_ENTITY_NAME} are allowed"
            )
        await self._change_group(namespace, group)
        return no_content()

    async def delete_anti_affinity_group(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        await self._change_group(namespace, None)
        return no_content()

    async def _change_group(self, namespace: NamespaceName, group: str | None) -> None:
        await require_namespace(self._services, namespace)
        await self._control.namespaces.bundles_of_now(namespace)  # creates the local policies if there are none
        await self._resources.local_policies.update(
            str(namespace), lambda found: replace(found, namespace_anti_affinity_group=group)
        )

    async def of_anti_affinity_group(self, request: web.Request) -> web.Response:
        cluster, group = request.match_info["cluster"], group_key(request.match_info["group"])
        if group is None:
            raise RestError(412, "anti-affinity group can't be empty.")
        if not await self._resources.clusters.exists(cluster):
            raise RestError(412, f"Cluster {cluster} does not exist.")
        tenant = asked_tenant(request)
        if not tenant:
            raise RestError(400, "The parameter tenant is required: ?tenant=<name>")
        found = []
        for namespace in await self._resources.namespaces_of(tenant):
            local = await self._resources.local_policies.get(str(namespace))
            if local is not None and group_key(local.namespace_anti_affinity_group) == group:
                found.append(str(namespace))
        return json_response(found)
