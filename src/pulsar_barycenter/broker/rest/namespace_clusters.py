"""Answers requests about the clusters of a namespace. Only this cluster is allowed, because messages are not replicated
to others.

Source: Pulsar's `NamespacesBase.internalSetNamespaceReplicationClusters` and `internalSetNamespaceAllowedClusters`.
"""

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices


class NamespaceClusters:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def replication(self, request: web.Request) -> web.Response:
        return json_response((await policies_of(self._services, namespace_of(request))).replication_clusters)

    async def set_replication(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        policies = await policies_of(self._services, namespace)
        wanted = _listed(await body_of(request, list[str]))
        own = self._services.config.cluster_name
        if wanted != (own,):
            raise RestError(
                412,
                f"Messages are not replicated between clusters: send [{own!r}], the name of this cluster, alone; not "
                f"{list(wanted)}",
            )
        if policies.allowed_clusters and own not in policies.allowed_clusters:
            raise RestError(
                403,
                f"Cluster {own} is not in the list of allowed clusters of {namespace}: add the cluster to "
                "that list first",
            )
        await self._resources.namespaces.update(
            str(namespace), lambda found: replace(found, replication_clusters=wanted)
        )
        return no_content()

    async def allowed_clusters(self, request: web.Request) -> web.Response:
        return json_response((await policies_of(self._services, namespace_of(request))).allowed_clusters)

    async def set_allowed_clusters(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        policies = await policies_of(self._services, namespace)
        wanted = _listed(await body_of(request, list[str]))
        for cluster in wanted:
            if not await self._resources.clusters.exists(cluster):
                raise RestError(403, f"Cluster {cluster} does not exist: create it first")
        missing = [cluster for cluster in policies.replication_clusters if cluster not in wanted]
        if missing:
            raise RestError(
                400, f"The allowed clusters must contain the replication clusters of {namespace}: add {missing}"
            )
        await self._resources.namespaces.update(str(namespace), lambda found: replace(found, allowed_clusters=wanted))
        return no_content()


def _listed(clusters: list[str] | None) -> tuple[str, ...]:
    """Return the cluster names of a request in their order, without repetitions.

    Raises:
        RestError: 412, there is no name.
    """
    if not clusters:
        raise RestError(412, "ClusterIds should not be null or empty: send a list of names of clusters")
    return tuple(sorted(set(clusters)))
