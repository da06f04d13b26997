"""What whoever sends an HTTP request needs, route by route, and the middleware that asks for it.

`RIGHTS` has a row for every route; one without a row is for super users. HEAD needs what GET does. A broker that hands
a request on has asked before it does, and the one that it hands it to asks again.
Source: the checks of Pulsar's `PulsarWebResource`; it answers 401 to whom lacks the rights of a super user, here 403.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation
from pulsar_barycenter.broker.authorization import needs
from pulsar_barycenter.broker.authorization.needs import Need, OfNamespace, OfPolicy, OfTenant, OfTopic
from pulsar_barycenter.broker.authorization.rules import granted_by
from pulsar_barycenter.broker.rest.errors import Handler
from pulsar_barycenter.broker.rest.lookup import looked_up_topic
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.requests import asked_tenant, namespace_of, subscription_of, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.told_path import told_path

_ADMINISTRATORS: Final = "administrators of the tenant"


class Right(Protocol):
    """A row: `need` of a request, and `who` has it, for the documentation."""

    def need(self, request: web.Request, services: BrokerServices) -> Need: ...
    @property
    def who(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Plain:
    """The same whatever the request is about."""

    of: Need
    who: str

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return self.of


@dataclass(frozen=True, slots=True)
class _Metrics:
    who: str = "everybody; with `authenticateMetricsEndpoint=true` whoever is known"

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return needs.Authenticated() if services.config.authenticate_metrics_endpoint else needs.Public()


@dataclass(frozen=True, slots=True)
class _Tenant:
    operation: TenantOperation
    who: str = _ADMINISTRATORS

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfTenant(request.match_info["tenant"], self.operation)


@dataclass(frozen=True, slots=True)
class _TenantAsked:
    """Of the tenant in the query."""

    operation: TenantOperation
    who: str = _ADMINISTRATORS

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfTenant(asked_tenant(request), self.operation)


@dataclass(frozen=True, slots=True)
class _Namespace:
    operation: NamespaceOperation

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfNamespace(namespace_of(request), self.operation)

    @property
    def who(self) -> str:
        return granted_by(self.operation)


@dataclass(frozen=True, slots=True)
class _Policy:
    policy: str
    operation: PolicyOperation
    who: str = _ADMINISTRATORS

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfPolicy(namespace_of(request), self.policy, self.operation)


@dataclass(frozen=True, slots=True)
class _Topic:
    operation: TopicOperation
    has_subscription: bool = False

    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfTopic(topic_of(request), self.operation, subscription_of(request) if self.has_subscription else None)

    @property
    def who(self) -> str:
        return granted_by(self.operation)


@dataclass(frozen=True, slots=True)
class _LookedUp:
    def need(self, request: web.Request, services: BrokerServices) -> Need:
        return OfTopic(looked_up_topic(request), TopicOperation.LOOKUP)

    @property
    def who(self) -> str:
        return granted_by(TopicOperation.LOOKUP)


_PUBLIC: Final = _Plain(needs.Public(), "everybody")
_KNOWN: Final = _Plain(needs.Authenticated(), "whoever is known")
_SUPER: Final = _Plain(needs.SuperUser(), "super users")
_READ, _WRITE = PolicyOperation.READ, PolicyOperation.WRITE

_LOOKUP: Final = "/lookup/v2"
_CLUSTERS: Final = "/admin/v2/clusters"
_CLUSTER: Final = _CLUSTERS + "/{cluster}"
_TENANT: Final = "/admin/v2/tenants/{tenant}"
_NAMESPACES: Final = "/admin/v2/namespaces/{tenant}"
_NAMESPACE: Final = _NAMESPACES + "/{namespace}"
_BUNDLE: Final = _NAMESPACE + "/{range}"
_DOMAIN: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = _DOMAIN + "/{topic}"
_QUOTAS: Final = "/admin/v2/resource-quotas"
_BROKERS: Final = "/admin/v2/brokers"
_STATS: Final = "/admin/v2/broker-stats"
_OURS: Final = "/barycenter/v1"


def _policy(path: str, policy: str, changes: str = "POST") -> dict[tuple[str, str], Right]:
    """Return the rows of a policy that is read, set and removed."""
    return {
        ("GET", path): _Policy(policy, _READ),
        (changes, path): _Policy(policy, _WRITE),
        ("DELETE", path): _Policy(policy, _WRITE),
    }


RIGHTS: Final[Mapping[tuple[str, str], Right]] = {
    ("GET", "/status.html"): _PUBLIC,
    ("GET", "/"): _PUBLIC,
    ("GET", "/dashboard/{file}"): _PUBLIC,
    ("GET", "/metrics"): _Metrics(),
    ("GET", "/metrics/"): _Metrics(),
    # ---- look-up ----
    ("GET", _LOOKUP + "/topic/{domain}/{tenant}/{namespace}/{topic}"): _LookedUp(),
    ("GET", _LOOKUP + "/topic/{domain}/{tenant}/{namespace}/{topic}/bundle"): _LookedUp(),
    ("GET", _LOOKUP + "/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}"): _LookedUp(),
    ("GET", _LOOKUP + "/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}/bundle"): _LookedUp(),
    # ---- clusters ----
    ("GET", _CLUSTERS): _KNOWN,
    ("GET", _CLUSTER): _SUPER,
    ("PUT", _CLUSTER): _SUPER,
    ("POST", _CLUSTER): _SUPER,
    ("DELETE", _CLUSTER): _SUPER,
    ("GET", _CLUSTER + "/peers"): _SUPER,
    ("POST", _CLUSTER + "/peers"): _SUPER,
    ("GET", _CLUSTER + "/namespaceIsolationPolicies"): _SUPER,
    ("GET", _CLUSTER + "/namespaceIsolationPolicies/brokers"): _SUPER,
    ("GET", _CLUSTER + "/namespaceIsolationPolicies/brokers/{broker}"): _SUPER,
    ("GET", _CLUSTER + "/namespaceIsolationPolicies/{policy}"): _SUPER,
    ("POST", _CLUSTER + "/namespaceIsolationPolicies/{policy}"): _SUPER,
    ("DELETE", _CLUSTER + "/namespaceIsolationPolicies/{policy}"): _SUPER,
    ("GET", _CLUSTER + "/failureDomains"): _SUPER,
    ("GET", _CLUSTER + "/failureDomains/{domain}"): _SUPER,
    ("POST", _CLUSTER + "/failureDomains/{domain}"): _SUPER,
    ("DELETE", _CLUSTER + "/failureDomains/{domain}"): _SUPER,
    # ---- tenants ----
    ("GET", "/admin/v2/tenants"): _SUPER,
    ("GET", _TENANT): _Tenant(TenantOperation.GET_TENANT),
    ("PUT", _TENANT): _SUPER,
    ("POST", _TENANT): _SUPER,
    ("DELETE", _TENANT): _SUPER,
    # ---- namespaces ----
    ("GET", _NAMESPACES): _Tenant(TenantOperation.LIST_NAMESPACES),
    ("GET", _NAMESPACE): _Policy("ALL", _READ),
    ("PUT", _NAMESPACE): _Tenant(TenantOperation.CREATE_NAMESPACE),
    ("DELETE", _NAMESPACE): _Tenant(TenantOperation.DELETE_NAMESPACE),
    ("GET", _NAMESPACE + "/topics"): _Namespace(NamespaceOperation.GET_TOPICS),
    ("GET", _NAMESPACE + "/bundles"): _Namespace(NamespaceOperation.GET_BUNDLE),
    ("PUT", _NAMESPACE + "/unload"): _SUPER,
    ("PUT", _BUNDLE + "/unload"): _SUPER,
    ("PUT", _BUNDLE + "/split"): _SUPER,
    ("DELETE", _BUNDLE): _Namespace(NamespaceOperation.DELETE_BUNDLE),
    ("GET", _BUNDLE + "/topicHashPositions"): _Policy("PERSISTENCE", _READ),
    **_policy(_NAMESPACE + "/antiAffinity", "ANTI_AFFINITY"),
    **_policy(_NAMESPACE + "/deduplication", "DEDUPLICATION"),
    **_policy(_NAMESPACE + "/compactionThreshold", "COMPACTION", changes="PUT"),
    **_policy(_NAMESPACE + "/maxTopicsPerNamespace", "MAX_TOPICS"),
    **_policy(_NAMESPACE + "/maxProducersPerTopic", "MAX_PRODUCERS"),
    **_policy(_NAMESPACE + "/maxConsumersPerTopic", "MAX_CONSUMERS"),
    **_policy(_NAMESPACE + "/maxConsumersPerSubscription", "MAX_CONSUMERS"),
    **_policy(_NAMESPACE + "/maxSubscriptionsPerTopic", "MAX_SUBSCRIPTIONS"),
    ("GET", "/admin/v2/namespaces/{cluster}/antiAffinity/{group}"): _TenantAsked(TenantOperation.LIST_NAMESPACES),
    ("GET", "/admin/namespaces/{cluster}/antiAffinity/{group}"): _TenantAsked(TenantOperation.LIST_NAMESPACES),
    ("GET", _NAMESPACE + "/permissions"): _Namespace(NamespaceOperation.GET_PERMISSION),
    ("GET", _NAMESPACE + "/permissions/subscription"): _Namespace(NamespaceOperation.GET_PERMISSION),
    ("POST", _NAMESPACE + "/permissions/{role}"): _Namespace(NamespaceOperation.GRANT_PERMISSION),
    ("DELETE", _NAMESPACE + "/permissions/{role}"): _Namespace(NamespaceOperation.REVOKE_PERMISSION),
    ("POST", _NAMESPACE + "/permissions/subscription/{subscription}"): _Namespace(NamespaceOperation.GRANT_PERMISSION),
    ("DELETE", _NAMESPACE + "/permissions/{subscription}/{role}"): _Namespace(NamespaceOperation.REVOKE_PERMISSION),
    ("GET", _NAMESPACE + "/subscriptionAuthMode"): _Policy("SUBSCRIPTION_AUTH_MODE", _READ),
    ("POST", _NAMESPACE + "/subscriptionAuthMode"): _Policy("SUBSCRIPTION_AUTH_MODE", _WRITE),
    # ---- resource quotas ----
    ("GET", _QUOTAS): _SUPER,
    ("POST", _QUOTAS): _SUPER,
    ("GET", _QUOTAS + "/{tenant}/{namespace}/{range}"): _SUPER,
    ("POST", _QUOTAS + "/{tenant}/{namespace}/{range}"): _SUPER,
    ("DELETE", _QUOTAS + "/{tenant}/{namespace}/{range}"): _SUPER,
    # ---- topics ----
    ("GET", _DOMAIN): _Namespace(NamespaceOperation.GET_TOPICS),
    ("GET", _DOMAIN + "/partitioned"): _Namespace(NamespaceOperation.GET_TOPICS),
    ("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{range}"): _Namespace(NamespaceOperation.GET_BUNDLE),
    ("PUT", _TOPIC): _Namespace(NamespaceOperation.CREATE_TOPIC),
    ("DELETE", _TOPIC): _Namespace(NamespaceOperation.DELETE_TOPIC),
    ("PUT", _TOPIC + "/unload"): _Topic(TopicOperation.UNLOAD),
    ("GET", _TOPIC + "/partitions"): _Topic(TopicOperation.GET_METADATA),
    ("PUT", _TOPIC + "/partitions"): _Namespace(NamespaceOperation.CREATE_TOPIC),
    ("POST", _TOPIC + "/partitions"): _Policy("PARTITION", _WRITE),
    ("DELETE", _TOPIC + "/partitions"): _Namespace(NamespaceOperation.DELETE_TOPIC),
    ("POST", _TOPIC + "/createMissedPartitions"): _Policy("PARTITION", _WRITE),
    ("GET", _TOPIC + "/subscriptions"): _Topic(TopicOperation.GET_SUBSCRIPTIONS),
    ("PUT", _TOPIC + "/subscription/{subscription}"): _Topic(TopicOperation.SUBSCRIBE, has_subscription=True),
    ("DELETE", _TOPIC + "/subscription/{subscription}"): _Topic(TopicOperation.UNSUBSCRIBE, has_subscription=True),
    ("GET", _TOPIC + "/subscription/{subscription}/properties"): _Topic(TopicOperation.CONSUME, has_subscription=True),
    ("PUT", _TOPIC + "/subscription/{subscription}/properties"): _Topic(TopicOperation.CONSUME, has_subscription=True),
    ("GET", _TOPIC + "/stats"): _Topic(TopicOperation.GET_STATS),
    ("GET", _TOPIC + "/internalStats"): _Topic(TopicOperation.GET_STATS),
    ("GET", _TOPIC + "/internal-info"): _Topic(TopicOperation.GET_STATS),
    ("GET", _TOPIC + "/partitioned-stats"): _Topic(TopicOperation.GET_STATS),
    ("GET", _TOPIC + "/partitioned-internalStats"): _Topic(TopicOperation.GET_STATS),
    ("PUT", _TOPIC + "/compaction"): _Topic(TopicOperation.COMPACT),
    ("GET", _TOPIC + "/compaction"): _Topic(TopicOperation.COMPACT),
    ("GET", _TOPIC + "/permissions"): _Namespace(NamespaceOperation.GET_PERMISSION),
    ("POST", _TOPIC + "/permissions/{role}"): _Namespace(NamespaceOperation.GRANT_PERMISSION),
    ("DELETE", _TOPIC + "/permissions/{role}"): _Namespace(NamespaceOperation.REVOKE_PERMISSION),
    # ---- brokers ----
    ("GET", _BROKERS): _SUPER,
    ("GET", _BROKERS + "/leaderBroker"): _SUPER,
    ("GET", _BROKERS + "/configuration"): _SUPER,
    ("GET", _BROKERS + "/configuration/values"): _SUPER,
    ("GET", _BROKERS + "/configuration/runtime"): _SUPER,
    ("POST", _BROKERS + "/configuration/{name}/{value}"): _SUPER,
    ("DELETE", _BROKERS + "/configuration/{name}"): _SUPER,
    ("GET", _BROKERS + "/internal-configuration"): _SUPER,
    ("GET", _BROKERS + "/ready"): _KNOWN,
    ("GET", _BROKERS + "/health"): _SUPER,
    ("GET", _BROKERS + "/version"): _KNOWN,
    ("POST", _BROKERS + "/shutdown"): _SUPER,
    ("GET", _BROKERS + "/{cluster}"): _SUPER,
    ("GET", _BROKERS + "/{cluster}/{broker}/ownedNamespaces"): _SUPER,
    ("GET", _STATS + "/load-report"): _SUPER,
    ("GET", _STATS + "/topics"): _SUPER,
    ("GET", _STATS + "/metrics"): _SUPER,
    ("GET", _STATS + "/allocator-stats/{allocator}"): _SUPER,
    ("GET", _STATS + "/broker-resource-availability/{tenant}/{namespace}"): _SUPER,
    ("GET", _OURS + "/decisions"): _SUPER,
    ("GET", _OURS + "/decision-log"): _SUPER,
    ("GET", _OURS + "/audit"): _SUPER,
    ("GET", _OURS + "/snapshot"): _SUPER,
    ("POST", _OURS + "/leader-writes"): _SUPER,
    ("POST", _OURS + "/partition-changes"): _SUPER,
    ("GET", _OURS + "/overview"): _SUPER,
    ("GET", _OURS + "/load-history"): _SUPER,
    ("GET", _OURS + "/timeline"): _SUPER,
    ("GET", _OURS + "/explanation"): _SUPER,
    ("GET", _OURS + "/bundles"): _SUPER,
    ("GET", _OURS + "/balance"): _SUPER,
    ("GET", _OURS + "/split-preview"): _SUPER,
    ("GET", _OURS + "/drain-preview"): _SUPER,
    ("GET", _OURS + "/settings"): _SUPER,
    ("GET", _OURS + "/settings/{name}"): _SUPER,
    ("GET", _OURS + "/setting-changes"): _SUPER,
    ("GET", _OURS + "/damaged-ledgers"): _SUPER,
    ("GET", _OURS + "/openapi.json"): _KNOWN,
}


def right_of(request: web.Request) -> Right:
    """Return the row of a request whose route is known."""
    resource = request.match_info.route.resource
    path = "" if resource is None else resource.canonical
    method = "GET" if request.method == "HEAD" else request.method
    return RIGHTS.get((method, path), _SUPER)


def rights(services: BrokerServices) -> Middleware:
    """Return the middleware that refuses whoever lacks what a request needs; it stands behind `principals`."""

    @web.middleware
    async def with_rights_only(request: web.Request, handler: Handler) -> web.StreamResponse:
        authorizer = services.authorizer
        # What is no route is answered by 404 or 405, whoever asks.
        if authorizer.is_enabled and request.match_info.http_exception is None:
            need = right_of(request).need(request, services)
            if not authorizer.allows_at_once(request[PRINCIPAL], (need,)):
                about = f"{request.method} {told_path(request)}"
                await authorizer.require(request[PRINCIPAL], (need,), address=request.remote or "", request=about)
        return await handler(request)

    return with_rights_only
