"""Answers requests about clusters: the records of this cluster and of others.

Source: Pulsar's `ClustersBase`.
"""

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.cluster_policies import (
    CLUSTERS_ROOT,
    failure_domains_of,
    isolation_policies_of,
    policies_of_cluster,
)
from pulsar_barycenter.broker.namespaces.indispensable import why_cluster_stays
from pulsar_barycenter.broker.namespaces.policies import ClusterData, ClusterPolicies, ClusterUrl
from pulsar_barycenter.broker.namespaces.records import delete_tree
from pulsar_barycenter.broker.rest.body_fields import PULSAR_DEFAULTS
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_dispensable, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, flag, json_response, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.metadata.errors import AlreadyExistsError
from pulsar_barycenter.naming.namespace import validate_entity_name

GLOBAL = "global"
_SCHEMES = {
    "service_url": "http",
    "service_url_tls": "https",
    "broker_service_url": "pulsar",
    "broker_service_url_tls": "pulsar+ssl",
}


class Clusters:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._clusters = services.resources.clusters

    async def names(self, request: web.Request) -> web.Response:
        return json_response([name for name in await self._clusters.names() if name != GLOBAL])

    async def get(self, request: web.Request) -> web.Response:
        shown = msgspec.to_builtins(await self._existing(request.match_info["cluster"]))
        return json_response(shown | {name: values[0] for name, values in PULSAR_DEFAULTS[ClusterData].items()})

    async def create(self, request: web.Request) -> web.Response:
        name = request.match_info["cluster"]
        await require_writable_policies(self._services)
        data = await self._data(request)
        validate_entity_name("Cluster", name)
        try:
            await self._clusters.create(name, data)
        except AlreadyExistsError:
            raise RestError(409, f"Cluster {name} already exists") from None
        return web.Response(status=200)

    async def update(self, request: web.Request) -> web.Response:
        name = request.match_info["cluster"]
        await require_writable_policies(self._services)
        data = await self._data(request)
        await self._existing(name)
        await self._clusters.put(name, data)
        return web.Response(status=200)

    async def delete(self, request: web.Request) -> web.Response:
        name = request.match_info["cluster"]
        require_dispensable(why_cluster_stays(name, self._services.config.cluster_name))
        await require_writable_policies(self._services)
        await self._existing(name)
        users = await self._tenants_using(name)
        if users:
            raise RestError(
                412,
                f"Cluster not empty: {name} is allowed to the tenants {', '.join(users)}. Remove the cluster "
                "from their allowedClusters first.",
            )
        await self._delete_policies(name)
        await self._clusters.delete(name)
        return no_content()

    async def _delete_policies(self, cluster: str) -> None:
        """Delete the records of a cluster: its failure domains, its migration, and its isolation policies, of which
        none may be left.

        Raises:
            RestError: 412, the cluster still has isolation policies; nothing was deleted.
        """
        resources = self._services.resources
        policies = await resources.isolation_policies.get_fresh(isolation_policies_of(cluster))
        if policies:
            raise RestError(
                412,
                f"Cluster not empty: {cluster} has the isolation policies {', '.join(policies)}. Delete these policies "
                "first.",
            )
        for name in (isolation_policies_of(cluster), failure_domains_of(cluster), policies_of_cluster(cluster)):
            await delete_tree(resources.store, f"{CLUSTERS_ROOT}/{name}")

    async def peers(self, request: web.Request) -> web.Response:
        data = await self._existing(request.match_info["cluster"])
        return json_response(data.peer_cluster_names or ())

    async def set_peers(self, request: web.Request) -> web.Response:
        name = request.match_info["cluster"]
        await require_writable_policies(self._services)
        peers = tuple(sorted(set(await body_of(request, list[str]) or ())))
        if name in peers:
            raise RestError(412, f"{name} itself can't be part of peer-list")
        for peer in peers:
            if not await self._clusters.exists(peer):
                raise RestError(412, f"Peer cluster {peer} does not exist")
        await self._existing(name)
        await self._clusters.update(name, lambda found: replace(found, peer_cluster_names=peers))
        return no_content()

    async def migration(self, request: web.Request) -> web.Response:
        name = request.match_info["cluster"]
        found = await self._services.resources.cluster_policies.get_fresh(policies_of_cluster(name))
        if found is None:
            raise RestError(404, f"Cluster does not exist: {name}, or its migration was never set")
        return json_response(found)

    async def set_migration(self, request: web.Request) -> web.Response:
        name, migrated = request.match_info["cluster"], flag(request, "migrated")
        await require_writable_policies(self._services)
        url = await body_of(request, ClusterUrl) or ClusterUrl()
        _require_schemes(url)
        if migrated and url.is_empty:
            raise RestError(
                400,
                "Cluster url must not be empty: send the address to which its clients move, such as brokerServiceUrl",
            )
        await self._existing(name)
        if migrated and name == self._services.config.cluster_name:
            raise RestError(
                405,
                f"{name} is the cluster of these brokers, which cannot redirect their own clients to another cluster: "
                "change the service URL in the configuration of the clients",
            )
        await self._services.resources.cluster_policies.put(
            policies_of_cluster(name), ClusterPolicies(migrated, None if url.is_empty else url)
        )
        return web.Response(status=200)

    async def _existing(self, name: str) -> ClusterData:
        data = await self._clusters.get(name)
        if data is None:
            raise RestError(404, f"Cluster does not exist: {name}")
        return data

    async def _tenants_using(self, cluster: str) -> list[str]:
        tenants = self._services.resources.tenants
        found = []
        for tenant in await tenants.names():
            info = await tenants.get(tenant)
            if info is not None and cluster in info.allowed_clusters:
                found.append(tenant)
        return found

    async def _data(self, request: web.Request) -> ClusterData:
        data = await body_of(request, ClusterData)
        if data is None:
            raise RestError(400, 'Cluster data is required: send a JSON object such as {"serviceUrl":"http://b1:8080"}')
        _require_schemes(data)
        return data


def _require_schemes(data: ClusterData | ClusterUrl) -> None:
    """Check that each address in `data` begins with the URL scheme of its field, for example `http://` for the service
    URL. Addresses that are not set are not checked.

    Raises:
        RestError: 400, an address begins with another scheme, or with none.
    """
    for field, scheme in _SCHEMES.items():
        url = getattr(data, field)
        if url and not url.startswith(f"{scheme}://"):
            raise RestError(400, f"Illegal {field.replace('_', ' ')} {url!r}: it must begin with {scheme}://")
