"""Answers requests about the failure domains of a cluster: groups of brokers that can fail together.

With `failureDomainsEnabled` the leader distributes the bundles of anti-affinity groups over different domains. A broker
is in at most one domain.
Source: Pulsar's `ClustersBase`.
"""

from aiohttp import web

from pulsar_barycenter.broker.namespaces.cluster_policies import failure_domains_of
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.requests import body_of, json_response, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.load.policies import FailureDomain
from pulsar_barycenter.metadata.errors import NotFoundError
from pulsar_barycenter.naming.namespace import validate_entity_name


class FailureDomains:
    def __init__(self, services: BrokerServices) -> None:
        self._clusters = services.resources.clusters
        self._domains = services.resources.failure_domains

    async def all(self, request: web.Request) -> web.Response:
        return json_response(await self._of_cluster(request.match_info["cluster"]))

    async def get(self, request: web.Request) -> web.Response:
        cluster, name = await self._named(request)
        found = await self._domains.get_fresh(f"{failure_domains_of(cluster)}/{name}")
        if found is None:
            raise RestError(404, f"Domain {name} for cluster {cluster} does not exist")
        return json_response(found)

    async def set(self, request: web.Request) -> web.Response:
        cluster, name = await self._named(request)
        domain = await body_of(request, FailureDomain)
        if domain is None:
            raise RestError(400, 'Failure domain is required: send a JSON object such as {"brokers":["b1:8080"]}')
        for other, found in (await self._of_cluster(cluster)).items():
            both = sorted(set(domain.brokers) & set(found.brokers))
            if both and other != name:
                raise RestError(
                    409, f"[{', '.join(both)}] already exists in {other}: remove these brokers from that domain first"
                )
        brokers = tuple(dict.fromkeys(domain.brokers))
        await self._domains.put(f"{failure_domains_of(cluster)}/{name}", FailureDomain(brokers))
        return no_content()

    async def delete(self, request: web.Request) -> web.Response:
        cluster, name = await self._named(request)
        try:
            await self._domains.delete(f"{failure_domains_of(cluster)}/{name}")
        except NotFoundError:
            raise RestError(404, f"Domain-name {name} or cluster {cluster} does not exist") from None
        return web.Response(status=200)

    async def _named(self, request: web.Request) -> tuple[str, str]:
        """Return the names of cluster and domain in the path. The domain need not exist. Raises RestError 412 if the
        cluster does not exist.
        """
        cluster, name = request.match_info["cluster"], request.match_info["domain"]
        if not await self._clusters.exists(cluster):
            raise RestError(412, f"Cluster {cluster} does not exist.")
        validate_entity_name("Failure domain", name)
        return cluster, name

    async def _of_cluster(self, cluster: str) -> dict[str, FailureDomain]:
        folder = failure_domains_of(cluster)
        found = {}
        for name in await self._domains.names(folder):
            domain = await self._domains.get_fresh(f"{folder}/{name}")
            if domain is not None:
                found[name] = domain
        return found
