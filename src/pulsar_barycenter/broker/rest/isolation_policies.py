"""Answers requests about the isolation policies of a cluster: which brokers serve which namespaces.

Setting a policy unloads the namespaces whose placement it changes; deleting a policy unloads nothing. Source: Pulsar's
`ClustersBase`. Differences: an unknown `unload_scope` and an invalid regular expression in `namespaces` are refused,
and a missing `secondary` is an empty list.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from aiohttp import web

from pulsar_barycenter.broker.namespaces.cluster_policies import isolation_policies_of
from pulsar_barycenter.broker.rest.body_fields import require_known_fields
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.manual_decisions import on_behalf_of
from pulsar_barycenter.broker.rest.ownership import require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.load.policies import (
    IsolationPolicies,
    IsolationPolicy,
    NamespaceIsolationData,
    PolicyError,
    isolation_data,
    namespaces_to_unload,
    stored_form,
)
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

_CONCURRENT_UNLOADS = 8


class NamespaceIsolation:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def all(self, request: web.Request) -> web.Response:
        return json_response(await self._stored(await self._cluster(request, missing=404)))

    async def get(self, request: web.Request) -> web.Response:
        cluster, name = await self._cluster(request), request.match_info["policy"]
        policies = await self._stored(cluster)
        if name not in policies:
            raise RestError(404, f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}")
        return json_response(policies[name])

    async def brokers(self, request: web.Request) -> web.Response:
        policies = await self._stored(await self._cluster(request))
        registered = sorted(self._services.control.registration.brokers)
        return json_response(_seen_by_policies(registered, policies))

    async def broker(self, request: web.Request) -> web.Response:
        policies = await self._stored(await self._cluster(request))
        return json_response(_seen_by_policies([request.match_info["broker"]], policies)[0])

    async def set(self, request: web.Request) -> web.Response:
        name = request.match_info["policy"]
        await require_writable_policies(self._services)
        cluster = await self._cluster(request)
        data = await self._data(name, request)
        before: list[Any] = []

        def with_policy(stored: dict[str, Any] | None) -> dict[str, Any]:
            before[:] = [(stored or {}).get(name)]
            after = {**(stored or {}), name: stored_form(data)}
            invalid_before = {error.policy for error in IsolationPolicies.decode(stored or {})[1]} - {name}
            for error in IsolationPolicies.decode(after)[1]:
                if error.policy not in invalid_before:  # this policy, or a later one that exceeds the bounds by it
                    raise RestError(400, f"Invalid format of input policy data: {error}")
            return after

        await self._resources.isolation_policies.modify(isolation_policies_of(cluster), with_policy)
        namespaces = namespaces_to_unload(await self._namespaces_here(), data, _checked(name, before[0]))
        await self._unload(namespaces, on_behalf_of(request, f"isolation policy {name} was set"))
        return no_content()

    async def delete(self, request: web.Request) -> web.Response:
        name, cluster = request.match_info["policy"], await self._cluster(request)
        await require_writable_policies(self._services)
        await self._resources.isolation_policies.modify(
            isolation_policies_of(cluster),
            lambda stored: {key: value for key, value in (stored or {}).items() if key != name},
        )
        return no_content()

    async def _cluster(self, request: web.Request, *, missing: int = 412) -> str:
        cluster = request.match_info["cluster"]
        if not await self._resources.clusters.exists(cluster):
            raise RestError(missing, f"Cluster {cluster} does not exist.")
        return cluster

    async def _stored(self, cluster: str) -> dict[str, Any]:
        found = await self._resources.isolation_policies.get_fresh(isolation_policies_of(cluster))
        if found is None:
            raise RestError(404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
        return found

    async def _data(self, name: str, request: web.Request) -> NamespaceIsolationData:
        body = await body_of(request, dict[str, Any])
        if body is None:
            raise RestError(400, f"Invalid format of input policy data. policy: {name}: send a JSON object as the body")
        try:
            data = isolation_data(name, body)
            IsolationPolicy.of(name, data)
        except PolicyError as error:
            raise RestError(400, f"Invalid format of input policy data: {error}") from error
        require_known_fields(body, NamespaceIsolationData)
        return data

    async def _namespaces_here(self) -> list[str]:
        """Return the names of the namespaces whose policies have this cluster among their clusters."""
        found = []
        for tenant in await self._resources.tenants.names():
            for namespace in await self._resources.namespaces_of(tenant):
                policies = await self._resources.namespaces.get(str(namespace))
                allowed = () if policies is None else (*policies.replication_clusters, *policies.allowed_clusters)
                if self._services.config.cluster_name in allowed:
                    found.append(str(namespace))
        return found

    async def _unload(self, namespaces: Iterable[str], why: Mapping[str, str]) -> None:
        """Unload all given namespaces, even if unloading some of them fails. Then write this broker's load report.
        `why` has the HTTP headers with the reason of the change, which go with each request.

        Raises:
            RestError: 500, some namespaces were not unloaded; the text of the error names them. The other namespaces
                were unloaded, and the isolation policy that caused the unload stays stored.
        """
        limit = asyncio.Semaphore(_CONCURRENT_UNLOADS)

        async def unload_one(namespace: str) -> None:
            async with limit:
                path = f"/admin/v2/namespaces/{namespace}/unload"
                await self._services.admin.call("PUT", self._services.web_url, path, headers=why)

        names = list(namespaces)
        results = await asyncio.gather(*map(unload_one, names), return_exceptions=True)
        failed = {name: result for name, result in zip(names, results, strict=True) if isinstance(result, Exception)}
        if names:
            try:
                await self._services.control.load_manager.write_report(force=True)
            except MetadataError as error:
                log.warning("load_report_not_written", reason=str(error))
        if failed:
            shown = "; ".join(f"{name}: {error}" for name, error in sorted(failed.items()))
            raise RestError(
                500, f"The policy is set, but some namespaces were not unloaded. Unload these namespaces: {shown}"
            )


def _checked(name: str, stored: Any) -> NamespaceIsolationData | None:
    """Decode a stored isolation policy with the name `name`. Return None if `stored` is None or not a valid policy."""
    try:
        data = isolation_data(name, stored)
        IsolationPolicy.of(name, data)
    except PolicyError:
        return None
    return data


def _seen_by_policies(brokers: Sequence[str], stored: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the given brokers in the format of Pulsar's `BrokerNamespaceIsolationData`. Each has the namespaces of all
    stored policies that match the broker, but the name of only one of them: the last one.
    """
    isolation, _ = IsolationPolicies.decode(stored)
    hosts = isolation.hosts(brokers)
    seen: list[dict[str, Any]] = [
        {"brokerName": broker, "primary": False, "namespaceRegex": list[str]()} for broker in brokers
    ]
    for policy in isolation.policies:
        primary = hosts.matching(policy.primary)
        for index in primary | hosts.matching(policy.secondary):
            seen[index]["namespaceRegex"] += policy.namespaces
            seen[index] |= {"policyName": policy.name, "primary": index in primary}
    return seen
