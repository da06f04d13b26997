"""Shows, sets and removes policies of a namespace about clients, rates and unused objects of its topics.

`policy_kinds` has what is valid, `namespaces.topic_rules` what a policy does. Source: Pulsar's `NamespacesBase`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import (
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    SubscribeRate,
)
from pulsar_barycenter.broker.rest import policy_kinds as kinds
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_limits import Limit
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content, route_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig

Fault = Callable[[Any, BrokerConfig], str | None]


@dataclass(frozen=True, slots=True)
class NamespaceRule:
    """The functions that read, check and store one policy of a namespace for REST requests. They are as those of
    `PolicyKind`, but `value` and `put` work on the policies of a namespace and get the name of the cluster as last
    argument, because a namespace has its rates once for each cluster.

    `status` is the HTTP status of the error if a value is not valid.
    """

    read: Callable[[web.Request], Awaitable[Any]]
    fault: Fault
    value: Callable[[Policies, str], Any]
    put: Callable[[Policies, Any, str], Policies]
    status: int = 412


class NamespaceRules:
    """Answers the REST requests that read, set and remove a policy in NAMESPACE_RULES. The last segment of the path is
    the name of the policy.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    async def show(self, request: web.Request) -> web.Response:
        policies = await policies_of(self._services, namespace_of(request))
        value = _rule_in(request).value(policies, self._services.config.cluster_name)
        return no_content() if value is None else json_response(value)

    async def change(self, request: web.Request) -> web.Response:
        rule = _rule_in(request)
        value = await rule.read(request)
        if value is not None and (fault := rule.fault(value, self._services.config)) is not None:
            raise RestError(rule.status, fault)
        return await self._put(request, rule, value)

    async def remove(self, request: web.Request) -> web.Response:
        return await self._put(request, _rule_in(request), None)

    async def _put(self, request: web.Request, rule: NamespaceRule, value: Any) -> web.Response:
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace_of(request))
        cluster = self._services.config.cluster_name
        await self._namespaces.update(str(namespace_of(request)), lambda found: rule.put(found, value, cluster))
        return no_content()


def _rule_in(request: web.Request) -> NamespaceRule:
    row = route_of(request)
    assert row is not None, "these handlers are only for the routes of policies"
    return NAMESPACE_RULES[row.path.rpartition("/")[2]]


def _field(field: str, kind: Any, what: str, fault: Fault) -> NamespaceRule:
    """Return the rule for a policy whose value is the attribute `field` of the namespace's policies. `kind` is the type
    of the value in a body. `what` describes that value in errors. `fault` checks it.
    """
    return NamespaceRule(
        kinds.body(kind, what=what),
        fault,
        lambda policies, _cluster: getattr(policies, field),
        lambda policies, value, _cluster: replace(policies, **{field: value}),
    )


def _rate(field: str, kind: Any) -> NamespaceRule:
    """Return the rule for a policy that is a rate. The attribute `field` of the namespace's policies has one rate for
    each cluster; `kind` is the type of the rate.
    """

    def put(policies: Policies, value: Any, cluster: str) -> Policies:
        others = {name: rate for name, rate in getattr(policies, field).items() if name != cluster}
        return replace(policies, **{field: others if value is None else {**others, cluster: value}})

    return NamespaceRule(
        kinds.body(kind, what="a rate"),
        kinds.rate_fault,
        lambda policies, cluster: getattr(policies, field).get(cluster),
        put,
    )


async def _interval(request: web.Request) -> Any:
    """Return the deduplication snapshot interval in the body of a request. Return None for an empty body, which removes
    the policy.
    """
    return await body_of(request, Limit)


NAMESPACE_RULES: Final[Mapping[str, NamespaceRule]] = {
    "maxUnackedMessagesPerConsumer": _field(
        "max_unacked_messages_per_consumer", Limit, "a number", kinds.at_least_zero("maxUnackedMessagesPerConsumer")
    ),
    "maxUnackedMessagesPerSubscription": _field(
        "max_unacked_messages_per_subscription",
        Limit,
        "a number",
        kinds.at_least_zero("maxUnackedMessagesPerSubscription"),
    ),
    "delayedDelivery": _field(
        "delayed_delivery_policies", DelayedDeliveryPolicies, "active and tickTime", kinds.delayed_fault
    ),
    "inactiveTopicPolicies": _field(
        "inactive_topic_policies",
        InactiveTopicPolicies,
        "inactiveTopicDeleteMode and maxInactiveDurationSeconds",
        kinds.inactive_fault,
    ),
    "deduplicationSnapshotInterval": NamespaceRule(
        _interval,
        kinds.at_least_zero("interval"),
        lambda policies, _cluster: policies.deduplication_snapshot_interval_seconds,
        lambda policies, value, _cluster: replace(policies, deduplication_snapshot_interval_seconds=value),
    ),
    "persistence": _field(
        "persistence", PersistencePolicies, "managedLedgerMaxMarkDeleteRate", kinds.persistence_fault
    ),
    "subscriptionExpirationTime": _field(
        "subscription_expiration_time_minutes",
        Limit,
        "minutes",
        lambda value, _config: (
            None if value >= 0 else f"Invalid value for subscription expiration time: it must be 0 or more, not {value}"
        ),
    ),
    "subscriptionTypesEnabled": NamespaceRule(
        kinds.body(list[str], what="the names of types"),
        kinds.types_fault,
        lambda policies, _cluster: list(policies.subscription_types_enabled),
        lambda policies, value, _cluster: replace(policies, subscription_types_enabled=tuple(value or ())),
    ),
    "publishRate": _rate("publish_max_message_rate", PublishRate),
    "dispatchRate": _rate("topic_dispatch_rate", DispatchRate),
    "subscriptionDispatchRate": _rate("subscription_dispatch_rate", DispatchRate),
    "subscribeRate": _rate("cluster_subscribe_rate", SubscribeRate),
    "dispatcherPauseOnAckStatePersistent": NamespaceRule(
        kinds.without_body,
        kinds.valid,
        lambda policies, _cluster: bool(policies.dispatcher_pause_on_ack_state_persistent_enabled),
        lambda policies, value, _cluster: replace(policies, dispatcher_pause_on_ack_state_persistent_enabled=value),
    ),
    "replicatorDispatchRate": _rate("replicator_dispatch_rate", DispatchRate),
    "entryFilters": NamespaceRule(
        kinds.body(EntryFilters, what="entryFilterNames"),
        kinds.filters_fault,
        lambda policies, _cluster: policies.entry_filters,
        lambda policies, value, _cluster: replace(policies, entry_filters=value),
        status=400,
    ),
    "encryptionRequired": _field("encryption_required", bool, "true or false", kinds.valid),
}
"""For each policy, by the last segment of its path: how requests about it are answered."""
