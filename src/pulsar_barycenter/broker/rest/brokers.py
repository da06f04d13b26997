"""Answers requests about brokers: the active ones, the leader, what they own, their configuration and health; and the
request to stop one.

Source: Pulsar's `BrokersBase`.
"""

import asyncio
from typing import Final, NoReturn
from urllib.parse import unquote

from aiohttp import web

from pulsar_barycenter import version
from pulsar_barycenter.admin.routes.brokers import MOST_UNLOADS_PER_S
from pulsar_barycenter.broker.cluster.dynamic_configuration import ChangedBy
from pulsar_barycenter.broker.rest.audit import why_of
from pulsar_barycenter.broker.rest.errors import RedirectError, RestError
from pulsar_barycenter.broker.rest.health import check_health, require_data
from pulsar_barycenter.broker.rest.manual_decisions import ManualDecisions, principal_of
from pulsar_barycenter.broker.rest.ownership import location, web_url_for
from pulsar_barycenter.broker.rest.request_ids import REQUEST_ID
from pulsar_barycenter.broker.rest.requests import flag, json_response, no_content, text_response, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_conf import ConfigError, dynamic_keys, shown_values
from pulsar_barycenter.naming.bundle import Bundle

_AWAIT_LEADER_S: Final = 10.0
_CHECK_LEADER_AGAIN_S: Final = 0.25


class Brokers:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._control = services.control

    # ---- brokers and leader ----

    async def active(self, request: web.Request) -> web.Response:
        return json_response(sorted(self._control.registration.brokers))

    async def active_of_cluster(self, request: web.Request) -> web.Response:
        cluster = request.match_info["cluster"]
        if cluster == self._services.config.cluster_name:
            return await self.active(request)
        data = await self._services.resources.clusters.get(cluster)
        url = None if data is None else web_url_for(request, data.service_url, data.service_url_tls)
        if not url:
            raise RestError(404, f"Cluster does not exist: {cluster}")
        raise RedirectError(location(request, url, authoritative=False))

    async def leader(self, request: web.Request) -> web.Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _AWAIT_LEADER_S
        leadership = self._control.leadership
        while (leader := await leadership.current_leader()) is None:
            if not leadership.is_started or loop.time() >= deadline:
                raise RestError(404, "Couldn't find leader broker")
            await leadership.wait_change(_CHECK_LEADER_AGAIN_S)
        return json_response({"brokerId": leader.broker_id, "serviceUrl": leader.service_url})

    async def owned(self, request: web.Request) -> web.Response:
        broker, cluster = request.match_info["broker"], request.match_info["cluster"]
        if cluster != self._services.config.cluster_name:
            raise RestError(404, f"Cluster does not exist here: {cluster}. Name the cluster of this broker.")
        if broker != self._services.urls.broker_id:
            await self._redirect_to(request, broker)
        ownership = self._control.ownership
        shown = {
            str(bundle): {**self._assignment(bundle), "is_active": ownership.is_owned(bundle)}
            for bundle in sorted(ownership.held_bundles())
        }
        return json_response(shown)

    async def _redirect_to(self, request: web.Request, broker: str) -> NoReturn:
        """Redirect the client's request to the broker with the id `broker`, at the address that it registered for the
        scheme of this request.

        Raises:
            RedirectError: always, unless RestError is raised.
            RestError: 404, the broker is not registered; 412, it has no port for this scheme.
        """
        registration = self._control.registration
        urls = await registration.urls_of(broker) if broker in registration.brokers else None
        if urls is None:
            raise RestError(404, f"Broker is not active: {broker}")
        url = web_url_for(request, urls.web_url, urls.web_url_tls)
        if url is None:
            raise RestError(
                412,
                f"Broker {broker} has to answer this request, but it has no {request.scheme.upper()} port: send "
                "the request with the other scheme, http or https",
            )
        raise RedirectError(location(request, url, authoritative=False))

    def _assignment(self, bundle: Bundle) -> dict[str, object]:
        """Return two fields about a bundle that this broker owns: `broker_assignment` is the role of this broker in the
        isolation policy of the namespace (primary, secondary or shared), `is_controlled` is whether the namespace has
        such a policy. Without a policy the role is shared.
        """
        broker = self._services.urls.broker_id
        policy = self._control.policies.current.isolation.of_namespace(str(bundle.namespace))
        if policy is None:
            return {"broker_assignment": "shared", "is_controlled": False}
        kind = "primary" if policy.is_primary(broker) else "secondary" if policy.is_secondary(broker) else "shared"
        return {"broker_assignment": kind, "is_controlled": True}

    # ---- configuration ----

    async def dynamic_names(self, request: web.Request) -> web.Response:
        return json_response(dynamic_keys())

    async def overrides(self, request: web.Request) -> web.Response:
        return json_response(self._control.dynamic_configuration.shown)

    async def runtime(self, request: web.Request) -> web.Response:
        return json_response(shown_values(self._services.config))

    async def set_override(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        value = unquote(request.rel_url.raw_path.split("/", 6)[6])
        _require_dynamic(name, "update")
        decision, drained = ManualDecisions(self._services, request), self._services.config.barycenter_drained_brokers
        try:
            await self._control.dynamic_configuration.set(
                name, value, changed_by=self._changed_by(request), expected=request.rel_url.query.get("expected")
            )
        except ConfigError as error:
            raise RestError(412, f" Invalid dynamic-config value: {error}") from error
        decision.drained(drained, self._services.config.barycenter_drained_brokers)
        return web.Response(status=200)

    def _changed_by(self, request: web.Request) -> ChangedBy:
        at_ms = self._control.env.clock.now_ms()
        return ChangedBy(principal_of(request), at_ms, why_of(request), request[REQUEST_ID])

    async def delete_override(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        _require_dynamic(name, "delete")
        decision, drained = ManualDecisions(self._services, request), self._services.config.barycenter_drained_brokers
        await self._control.dynamic_configuration.remove(
            name, changed_by=self._changed_by(request), expected=request.rel_url.query.get("expected")
        )
        decision.drained(drained, self._services.config.barycenter_drained_brokers)
        return web.Response(status=200)

    async def internal_configuration(self, request: web.Request) -> web.Response:
        url = self._services.config.effective_metadata_store_url
        return json_response(
            {
                # Old names of the same URLs, which Pulsar's brokers fill whatever the kind of the store is.
                "zookeeperServers": url,
                "configurationStoreServers": url,
                "metadataStoreUrl": url,
                "configurationMetadataStoreUrl": url,
                "ledgersRootPath": f"{self._services.config.barycenter_data_dir}/ledgers",
                "bookkeeperMetadataServiceUri": None,
                "stateStorageServiceUrl": None,
            }
        )

    # ---- state ----

    async def ready(self, request: web.Request) -> web.Response:
        require_data(self._services)
        if not self._services.is_ready():
            raise RestError(500, "Broker is not ready: it is starting or stopping")
        return text_response("ok")

    async def health(self, request: web.Request) -> web.Response:
        broker = request.rel_url.query.get("brokerId") or self._services.urls.broker_id
        if broker != self._services.urls.broker_id:
            await self._redirect_to(request, broker)
        await check_health(self._services, legacy=request.rel_url.query.get("topicVersion", "V2").upper() == "V1")
        return text_response("ok")

    async def check_backlog_quotas(self, request: web.Request) -> web.Response:
        await self._services.upkeep.check_backlogs(self._services.registry.clock.now_ms())
        return no_content()

    async def version(self, request: web.Request) -> web.Response:
        return text_response(version())

    async def shutdown(self, request: web.Request) -> web.Response:
        flag(request, "forcedTerminateTopic", default=True)
        rate = whole_number(request, "maxConcurrentUnloadPerSec", 0, at_most=MOST_UNLOADS_PER_S)
        self._services.shutdown(float(rate))
        return no_content()


def _require_dynamic(name: str, what: str) -> None:
    if name not in dynamic_keys():
        raise RestError(
            412, f"Can't {what} non-dynamic configuration: {name}. Dynamic keys are at /admin/v2/brokers/configuration."
        )
