"""Answers requests about resource quotas: the load that the simple load manager expects of a bundle.

The load manager adapts a quota to the measured load, unless its `dynamic` is false. Source: Pulsar's
`ResourceQuotasBase`. Difference: values must be from 0 to MOST; Pulsar accepts any. Only the leader writes quotas.
"""

from contextlib import suppress
from typing import Final

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import current_bundle, require_namespace, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.load.reports.load_report import INITIAL_QUOTA, QUOTA_FIGURES, ResourceQuota
from pulsar_barycenter.metadata.errors import NotFoundError

MOST: Final = 1e15
_DEFAULT: Final = "default"


class ResourceQuotas:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._quotas = services.resources.resource_quotas

    async def default(self, request: web.Request) -> web.Response:
        return json_response(await self._default())

    async def set_default(self, request: web.Request) -> web.Response:
        await require_writable_policies(self._services)
        await self._quotas.put(_DEFAULT, await _quota_in(request))
        return no_content()

    async def get(self, request: web.Request) -> web.Response:
        return json_response(await self._quotas.get_fresh(await self._name(request)) or await self._default())

    async def set(self, request: web.Request) -> web.Response:
        await require_writable_policies(self._services)
        name = await self._name(request)
        await self._quotas.put(name, await _quota_in(request))
        return no_content()

    async def delete(self, request: web.Request) -> web.Response:
        await require_writable_policies(self._services)
        name = await self._name(request)
        with suppress(NotFoundError):  # there is no quota, so the result is as requested
            await self._quotas.delete(name)
        return no_content()

    async def _default(self) -> ResourceQuota:
        return await self._quotas.get_fresh(_DEFAULT) or INITIAL_QUOTA

    async def _name(self, request: web.Request) -> str:
        """Return the name of the quota record for the bundle in the path.

        Raises:
            RestError: 404, the namespace does not exist.
            InvalidNameError, UnknownBundleError: the path has no valid range, or the namespace has no such bundle; both
                are 412.
        """
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        return f"namespace/{await current_bundle(self._services, namespace, request.match_info['range'])}"


async def _quota_in(request: web.Request) -> ResourceQuota:
    quota = await body_of(request, ResourceQuota)
    if quota is None:
        raise RestError(
            400,
            'The body is empty or null: send an object such as {"msgRateIn":40,"msgRateOut":120,"bandwidthIn":1e5,…}',
        )
    for name in QUOTA_FIGURES:
        value = getattr(quota, name)
        if not 0 <= value <= MOST:
            raise RestError(400, f"{name} must be from 0 to {MOST:g}, not {value:g}")
    return quota
