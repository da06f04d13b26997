"""How requests about each policy of a topic are answered: what the body has, what is valid, which field stores it, and
which value applies to the topic.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from msgspec import to_builtins
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.route import LARGEST_EXACT
from pulsar_barycenter.admin.routes.topic_policies import LONGEST_TIME
from pulsar_barycenter.broker.namespaces.own_policies import OwnPolicies
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveDeleteMode,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
)
from pulsar_barycenter.broker.namespaces.resources import limits_of
from pulsar_barycenter.broker.namespaces.storage_policies import applied_retention, message_ttl_of, retention_fault
from pulsar_barycenter.broker.namespaces.topic_rules import (
    SUBSCRIPTION_TYPES,
    deduplication_interval_of,
    delayed_of,
    dispatch_rate_of,
    expiration_minutes_of,
    inactive_of,
    pauses_of,
    persistence_of,
    publish_rate_of,
    subscribe_rate_of,
    subscription_dispatch_rate_of,
    subscription_types_of,
    unacked_of,
)
from pulsar_barycenter.broker.rest.compaction import Bytes
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_limits import Limit
from pulsar_barycenter.broker.rest.requests import body_of, text_of, whole_number
from pulsar_barycenter.broker.schemas.compatibility import Strategy, effective
from pulsar_barycenter.config.broker_config import BrokerConfig

Applied = Callable[[Policies, OwnPolicies, BrokerConfig], Any]
"""A function that returns the value of one policy that applies to a topic. It gets the policies that apply to the
topic, the topic's own ones, and the configuration.
"""


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """The functions that read, check and store one policy of a topic for REST requests.

    `read` returns the value in a request, and raises RestError 400 if there is none. `fault` returns why a value is not
    valid, None if it is valid; `status` is the HTTP status of the error then. `value` returns the value in the topic's
    own policies, None if it is not set there. `put` returns a copy of the topic's own policies with this value; the
    value None removes it. `applied` returns the value in force: the topic's own, the namespace's, or that of the
    configuration.
    """

    read: Callable[[web.Request], Awaitable[Any]]
    fault: Callable[[Any, BrokerConfig], str | None]
    value: Callable[[OwnPolicies], Any]
    put: Callable[[OwnPolicies, Any], OwnPolicies]
    applied: Applied
    status: int = 412


def _kind(
    field: str,
    read: Callable[[web.Request], Awaitable[Any]],
    fault: Callable[[Any, BrokerConfig], str | None],
    applied: Applied,
    *,
    status: int = 412,
) -> PolicyKind:
    """Return the `PolicyKind` of a policy whose value is the attribute `field` of the topic's own policies. The other
    arguments are attributes of `PolicyKind`.
    """
    return PolicyKind(
        read, fault, lambda own: getattr(own, field), lambda own, value: replace(own, **{field: value}), applied, status
    )


def body(kind: Any, *, what: str) -> Callable[[web.Request], Awaitable[Any]]:
    """Return a function that reads the JSON body of a request as a value of the type `kind`. The function raises
    RestError 400 if the body is empty; `what` describes the body in that error.
    """

    async def read(request: web.Request) -> Any:
        value: Any = await body_of(request, kind)
        if value is None:
            raise RestError(400, f"The body is empty or null: send {what}. To remove the policy, send a DELETE request")
        return value

    return read


def in_query(name: str, unit: str) -> Callable[[web.Request], Awaitable[int]]:
    """Return a function that reads the number in the query parameter `name`. The function raises RestError 400 if the
    parameter is missing or is not a number from 0 to LONGEST_TIME; `unit` describes the number in that error.
    """

    async def read(request: web.Request) -> int:
        if not request.rel_url.query.get(name):
            raise RestError(
                400, f"A parameter is missing: send ?{name}=<{unit}>. To remove the policy, send a DELETE request"
            )
        return whole_number(request, name, 0, at_most=LONGEST_TIME)

    return read


async def _strategy(request: web.Request) -> Strategy | None:
    """Return the compatibility strategy in the body of a request. Return None for UNDEFINED: the topic then has no
    strategy of its own, and the namespace's strategy applies.

    Raises:
        RestError: 412, the body is not the name of a strategy.
    """
    text = await text_of(request)
    strategy = Strategy.__members__.get(text)
    if strategy is None:
        raise RestError(
            412, f"{text[:100]!r} is not a schema compatibility strategy: send one of {', '.join(Strategy)}"
        )
    return None if strategy is Strategy.UNDEFINED else strategy


def valid(_value: Any, _config: BrokerConfig) -> None:
    """Return None, which means that the value has no fault: every value of the policy's type is valid."""


def at_least_zero(name: str) -> Callable[[int, BrokerConfig], str | None]:
    """Return a function for `PolicyKind.fault` that returns an error text if a number is below 0, else None. `name` is
    the number's name in that text.
    """
    return lambda value, _config: None if value >= 0 else f"{name} must be 0 or more, not {value}"


async def without_body(_request: web.Request) -> bool:
    """Return the value that a request without a body sets, which is True."""
    return True


def delayed_fault(value: DelayedDeliveryPolicies, _config: BrokerConfig) -> str | None:
    """Return why a policy of delayed delivery is not valid, None if it is valid."""
    if min(value.tick_time, value.max_delivery_delay_in_millis) < 0:
        return "tickTime and maxDeliveryDelayInMillis must be 0 or more"
    return None


def inactive_fault(value: InactiveTopicPolicies, _config: BrokerConfig) -> str | None:
    """Return why a policy of inactive topics is not valid, None if it is valid."""
    if value.inactive_topic_delete_mode is None:
        return f"inactiveTopicDeleteMode must be one of {', '.join(InactiveDeleteMode)}"
    if not 0 < value.max_inactive_duration_seconds <= LONGEST_TIME:
        return f"maxInactiveDurationSeconds must be from 1 to {LONGEST_TIME}, not {value.max_inactive_duration_seconds}"
    return None


def persistence_fault(value: PersistencePolicies, _config: BrokerConfig) -> str | None:
    """Return why a policy of persistence is not valid, None if it is valid."""
    sizes = value.bookkeeper_ensemble, value.bookkeeper_write_quorum, value.bookkeeper_ack_quorum
    if not LONGEST_TIME >= sizes[0] >= sizes[1] >= sizes[2] > 0:
        return "Bookkeeper Ensemble ({}) >= WriteQuorum ({}) >= AckQuoru ({}) must hold, all above 0".format(*sizes)
    if not 0 <= value.managed_ledger_max_mark_delete_rate <= LONGEST_TIME:
        return f"managedLedgerMaxMarkDeleteRate must be 0 or more, not {value.managed_ledger_max_mark_delete_rate}"
    return None


def types_fault(value: list[str], _config: BrokerConfig) -> str | None:
    """Return why a list of subscription types is not valid, None if it is valid."""
    unknown = [name for name in value if name not in SUBSCRIPTION_TYPES]
    if unknown or len(set(value)) < len(value):
        return f"{', '.join(value)[:100]} is not a list of different types out of {', '.join(SUBSCRIPTION_TYPES)}"
    return None


def rate_fault(value: PublishRate | DispatchRate | SubscribeRate, _config: BrokerConfig) -> str | None:
    """Return why a rate is not valid, None if it is valid. Numbers of messages and periods must fit into 32 bits,
    numbers of bytes may be up to LARGEST_EXACT; -1 means no limit.
    """
    for name, number in to_builtins(value).items():
        most = LARGEST_EXACT if name.endswith("InByte") else LONGEST_TIME
        if not isinstance(number, bool) and not -1 <= number <= most:
            return f"{name} must be from -1 (no limit) to {most}, not {number}"
    if isinstance(value, DispatchRate | SubscribeRate) and value.rate_period_in_second < 1:
        return f"ratePeriodInSecond must be 1 or more, not {value.rate_period_in_second}"
    return None


def filters_fault(value: EntryFilters, _config: BrokerConfig) -> str | None:
    """Return why a policy of entry filters is not valid, None if it is. A broker has no filters, so every name is
    unknown.
    """
    names = [name.strip() for name in (value.entry_filter_names or "").split(",") if name.strip()]
    return f"Entry filter '{names[0][:100]}' not found: this broker has no entry filters" if names else None


def clusters_fault(value: list[str], config: BrokerConfig) -> str | None:
    """Return why the clusters of a topic are not valid, None if they are. Only this cluster is valid, because messages
    are not replicated.
    """
    if value == [config.cluster_name]:
        return None
    return (
        f"{', '.join(value)[:100] or 'an empty list'} are not the clusters of a topic here: messages are not "
        f"replicated to other clusters. Send [{config.cluster_name!r}] or remove the policy"
    )


def own_delayed(own: OwnPolicies) -> DelayedDeliveryPolicies | None:
    """Return the policy of delayed delivery that the topic itself has; None if it has none."""
    if own.delayed_delivery_enabled is None:
        return None
    return DelayedDeliveryPolicies(
        own.delayed_delivery_tick_time_millis or 0,
        own.delayed_delivery_enabled,
        own.delayed_delivery_max_delay_in_millis or 0,
    )


def with_delayed(own: OwnPolicies, value: DelayedDeliveryPolicies | None) -> OwnPolicies:
    """Return a topic's own policies with another policy of delayed delivery, or without one (None)."""
    return replace(
        own,
        delayed_delivery_enabled=None if value is None else value.active,
        delayed_delivery_tick_time_millis=None if value is None else value.tick_time,
        delayed_delivery_max_delay_in_millis=None if value is None else value.max_delivery_delay_in_millis,
    )


def _limit(name: str, field: str, applied: Applied) -> PolicyKind:
    return _kind(field, body(Limit, what="a number"), at_least_zero(name), applied)


def _own_else(configured: Callable[[BrokerConfig], Any], field: str) -> Applied:
    def applied(policies: Policies, _own: OwnPolicies, config: BrokerConfig) -> Any:
        value = getattr(policies, field)
        return configured(config) if value is None else value

    return applied


POLICY_KINDS: Final[Mapping[str, PolicyKind]] = {
    "retention": _kind(
        "retention_policies",
        body(RetentionPolicies, what="retentionTimeInMinutes and retentionSizeInMB"),
        lambda value, _config: (
            None if (fault := retention_fault(value)) is None else f"Invalid retention policy: {fault}"
        ),
        lambda policies, _own, config: applied_retention(policies, config),
    ),
    "messageTTL": _kind(
        "message_ttl_in_seconds",
        in_query("messageTTL", "seconds"),
        valid,
        lambda policies, _own, config: message_ttl_of(policies, config),
    ),
    "compactionThreshold": _kind(
        "compaction_threshold",
        body(Bytes, what="a number of bytes"),
        at_least_zero("compactionThreshold"),
        _own_else(lambda config: config.broker_service_compaction_threshold_in_bytes, "compaction_threshold"),
    ),
    "deduplicationEnabled": _kind(
        "deduplication_enabled",
        body(bool, what="true or false"),
        valid,
        _own_else(lambda config: config.broker_deduplication_enabled, "deduplication_enabled"),
    ),
    "maxProducers": _limit(
        "maxProducers", "max_producer_per_topic", lambda policies, _own, config: limits_of(policies, config).producers
    ),
    "maxConsumers": _limit(
        "maxConsumers", "max_consumer_per_topic", lambda policies, _own, config: limits_of(policies, config).consumers
    ),
    "maxConsumersPerSubscription": _limit(
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        lambda policies, _own, config: limits_of(policies, config).consumers_per_subscription,
    ),
    "maxSubscriptionsPerTopic": _limit(
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        lambda policies, _own, config: limits_of(policies, config).subscriptions,
    ),
    "autoSubscriptionCreation": _kind(
        "auto_subscription_creation_override",
        body(AutoSubscriptionCreationOverride, what="allowAutoSubscriptionCreation"),
        valid,
        _own_else(
            lambda config: AutoSubscriptionCreationOverride(config.allow_auto_subscription_creation),
            "auto_subscription_creation_override",
        ),
    ),
    "schemaCompatibilityStrategy": _kind(
        "schema_compatibility_strategy",
        _strategy,
        valid,
        lambda policies, _own, config: effective(
            policies.schema_compatibility_strategy or Strategy.UNDEFINED, Strategy(config.schema_compatibility_strategy)
        ),
    ),
    "schemaValidationEnforced": _kind(
        "schema_validation_enforced",
        body(bool, what="true or false"),
        valid,
        lambda policies, _own, config: policies.schema_validation_enforced or config.is_schema_validation_enforced,
    ),
    "maxUnackedMessagesOnConsumer": _kind(
        "max_unacked_messages_on_consumer",
        body(Limit, what="a number"),
        at_least_zero("maxUnackedNum"),
        lambda policies, _own, config: unacked_of(policies, config)[0],
    ),
    "maxUnackedMessagesOnSubscription": _kind(
        "max_unacked_messages_on_subscription",
        body(Limit, what="a number"),
        at_least_zero("maxUnackedNum"),
        lambda policies, _own, config: unacked_of(policies, config)[1],
    ),
    "maxMessageSize": _kind(
        "max_message_size",
        body(Limit, what="a number of bytes"),
        lambda value, config: (
            None
            if 0 <= value <= config.max_message_size
            else "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the "
            f"broker-level, which is {config.max_message_size}: it is {value}"
        ),
        lambda _policies, own, config: own.max_message_size or config.max_message_size,
    ),
    "delayedDelivery": PolicyKind(
        body(DelayedDeliveryPolicies, what="active and tickTime"),
        delayed_fault,
        own_delayed,
        with_delayed,
        lambda policies, _own, config: delayed_of(policies, config),
    ),
    "inactiveTopicPolicies": _kind(
        "inactive_topic_policies",
        body(InactiveTopicPolicies, what="inactiveTopicDeleteMode and maxInactiveDurationSeconds"),
        inactive_fault,
        lambda policies, _own, config: inactive_of(policies, config),
    ),
    "deduplicationSnapshotInterval": _kind(
        "deduplication_snapshot_interval_seconds",
        body(Limit, what="seconds"),
        at_least_zero("interval"),
        lambda policies, _own, config: round(deduplication_interval_of(policies, config)),
    ),
    "persistence": _kind(
        "persistence",
        body(PersistencePolicies, what="managedLedgerMaxMarkDeleteRate"),
        persistence_fault,
        lambda policies, _own, config: persistence_of(policies, config),
    ),
    "subscriptionExpirationTime": _kind(
        "subscription_expiration_time_in_minutes",
        in_query("subscriptionExpirationTime", "minutes"),
        valid,
        lambda policies, _own, config: expiration_minutes_of(policies, config),
    ),
    "subscriptionTypesEnabled": PolicyKind(
        body(list[str], what="the names of types"),
        types_fault,
        lambda own: list(own.subscription_types_enabled or ()),
        lambda own, value: replace(own, subscription_types_enabled=tuple(value) if value else None),
        lambda policies, _own, config: list(subscription_types_of(policies, config)),
    ),
    "publishRate": _kind("publish_rate", body(PublishRate, what="a rate"), rate_fault, publish_rate_of),
    "dispatchRate": _kind("dispatch_rate", body(DispatchRate, what="a rate"), rate_fault, dispatch_rate_of),
    "subscriptionDispatchRate": _kind(
        "subscription_dispatch_rate", body(DispatchRate, what="a rate"), rate_fault, subscription_dispatch_rate_of
    ),
    "subscribeRate": _kind("subscribe_rate", body(SubscribeRate, what="a rate"), rate_fault, subscribe_rate_of),
    "dispatcherPauseOnAckStatePersistent": _kind(
        "dispatcher_pause_on_ack_state_persistent_enabled",
        without_body,
        valid,
        lambda policies, _own, config: pauses_of(policies, config),
    ),
    "replicatorDispatchRate": _kind(
        "replicator_dispatch_rate",
        body(DispatchRate, what="a rate"),
        rate_fault,
        lambda policies, own, config: (
            own.replicator_dispatch_rate or policies.replicator_dispatch_rate.get(config.cluster_name) or DispatchRate()
        ),
    ),
    "replication": PolicyKind(
        body(list[str], what="the names of clusters"),
        clusters_fault,
        lambda own: own.replication_clusters,
        lambda own, value: replace(own, replication_clusters=tuple(value) if value else None),
        lambda policies, own, _config: own.replication_clusters or policies.replication_clusters,
    ),
    "entryFilters": _kind(
        "entry_filters",
        body(EntryFilters, what="entryFilterNames"),
        filters_fault,
        lambda policies, own, _config: own.entry_filters or policies.entry_filters or EntryFilters(""),
        status=400,
    ),
}
"""For each policy of a topic, by the last segment of its path: how requests about it are answered."""
