"""Answers requests about tenants: lists, shows, creates, changes and deletes them.

Source: Pulsar's `TenantsBase`.
"""

from contextlib import suppress

from aiohttp import web

from pulsar_barycenter.broker.namespaces.indispensable import why_tenant_stays
from pulsar_barycenter.broker.namespaces.policies import TenantInfo
from pulsar_barycenter.broker.namespaces.records import delete_tree
from pulsar_barycenter.broker.rest.clusters import GLOBAL
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_deletion import delete_namespace, require_deletable
from pulsar_barycenter.broker.rest.ownership import require_dispensable, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, flag, json_response, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.metadata.errors import AlreadyExistsError, NotFoundError
from pulsar_barycenter.naming.namespace import validate_entity_name


class Tenants:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._tenants = services.resources.tenants

    async def names(self, request: web.Request) -> web.Response:
        return json_response(await self._tenants.names())

    async def get(self, request: web.Request) -> web.Response:
        return json_response(await self._existing(request.match_info["tenant"]))

    async def create(self, request: web.Request) -> web.Response:
        name = request.match_info["tenant"]
        await require_writable_policies(self._services)
        validate_entity_name("Tenant", name)
        info = await self._info(request)
        if await self._tenants.exists(name):
            raise RestError(409, f"Tenant already exist: {name}")
        limit = self._services.config.max_tenants
        if limit and len(await self._tenants.names()) >= limit:
            raise RestError(412, f"Exceed the maximum number of tenants: maxTenants is {limit}")
        try:
            await self._tenants.create(name, info)
        except AlreadyExistsError:
            raise RestError(409, f"Tenant already exist: {name}") from None
        return no_content()

    async def update(self, request: web.Request) -> web.Response:
        name = request.match_info["tenant"]
        await require_writable_policies(self._services)
        await self._existing(name)
        info = await self._info(request)
        await self._tenants.update(name, lambda found: info)
        return no_content()

    async def delete(self, request: web.Request) -> web.Response:
        name = request.match_info["tenant"]
        require_dispensable(why_tenant_stays(name))
        force = flag(request, "force")
        if force and not self._services.config.force_delete_tenant_allowed:
            raise RestError(405, "Broker doesn't allow forced deletion of tenants: set forceDeleteTenantAllowed=true")
        await require_writable_policies(self._services)
        await self._existing(name)
        namespaces = await self._resources.namespaces_of(name)
        if namespaces and not force:
            raise RestError(409, f"The tenant {name} still has active namespaces: delete them first, or use force=true")
        for namespace in namespaces:
            await require_deletable(self._services, namespace, force=True)
        for namespace in namespaces:
            await delete_namespace(self._services, namespace, force=True)
        await self._delete_record(name)
        return no_content()

    async def _delete_record(self, name: str) -> None:
        """Delete a tenant's record, and the keys below it that deleted namespaces left.

        Raises:
            HasChildrenError: a namespace of the tenant was created during this call; the tenant is not deleted.
        """
        store = self._resources.store
        for folder in ("/admin/partitioned-topics", "/admin/local-policies", "/managed-ledgers", "/admin/policies"):
            for child in await store.children(f"{folder}/{name}"):
                if not await store.exists(f"/admin/policies/{name}/{child}"):
                    await delete_tree(store, f"{folder}/{name}/{child}")
            with suppress(NotFoundError):
                await store.delete(f"{folder}/{name}")

    async def _existing(self, name: str) -> TenantInfo:
        info = await self._tenants.get(name)
        if info is None:
            raise RestError(404, f"Tenant does not exist: {name}")
        return info

    async def _info(self, request: web.Request) -> TenantInfo:
        """Return the tenant in the request's body. Raises RestError 412 if the tenant has no cluster, or if the name
        of a cluster is blank or no cluster has it.
        """
        info = await body_of(request, TenantInfo)
        if info is None or not info.allowed_clusters:
            raise RestError(412, "Clusters can not be empty: name at least one in allowedClusters")
        if not all(cluster.strip() for cluster in info.allowed_clusters):
            raise RestError(412, "Clusters can not be blank: remove the blank entry from allowedClusters")
        known = {GLOBAL, *await self._resources.clusters.names()}
        unknown = sorted(set(info.allowed_clusters) - known)
        if unknown:
            raise RestError(412, f"Clusters do not exist: {', '.join(unknown)}. Create them first.")
        return TenantInfo(tuple(sorted(set(info.admin_roles))), tuple(sorted(set(info.allowed_clusters))))
