"""What differs between the policies of a topic: body, field, what is valid, and the value that a topic follows."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.topic_policies import LONGEST_TIME
from pulsar_barycenter.broker.namespaces.own_policies import OwnPolicies
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    Policies,
    RetentionPolicies,
)
from pulsar_barycenter.broker.namespaces.resources import limits_of
from pulsar_barycenter.broker.namespaces.storage_policies import applied_retention, message_ttl_of, retention_fault
from pulsar_barycenter.broker.rest.compaction import Bytes
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_limits import Limit
from pulsar_barycenter.broker.rest.requests import body_of, text_of, whole_number
from pulsar_barycenter.broker.schemas.compatibility import Strategy, effective
from pulsar_barycenter.config.broker_config import BrokerConfig

Applied = Callable[[Policies, OwnPolicies, BrokerConfig], Any]
"""Takes the policies that a topic follows, its own ones and the configuration; returns the value of one policy."""


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A policy of a topic.

    `value` is None if the topic has no value of its own. `read` raises RestError 400 if the request has no value;
    `fault` says why a value is not valid, None if it is.
    """

    field: str
    read: Callable[[web.Request], Awaitable[Any]]
    fault: Callable[[Any, BrokerConfig], str | None]
    applied: Applied

    def value(self, own: OwnPolicies) -> Any:
        return getattr(own, self.field)

    def put(self, own: OwnPolicies, value: Any) -> OwnPolicies:
        """Return the policies with this value; None: without a value of their own."""
        return replace(own, **{self.field: value})


def body(kind: Any, *, what: str) -> Callable[[web.Request], Awaitable[Any]]:
    """Return a reader of a JSON body, which is required; `what` it is, for the error."""

    async def read(request: web.Request) -> Any:
        value: Any = await body_of(request, kind)
        if value is None:
            raise RestError(400, f"Send {what} as the body. To use the namespace's value again, send a DELETE")
        return value

    return read


async def _ttl_in_query(request: web.Request) -> int:
    if not request.rel_url.query.get("messageTTL"):
        raise RestError(400, "Send ?messageTTL=<seconds>. To use the namespace's value again, send a DELETE")
    return whole_number(request, "messageTTL", 0, at_most=LONGEST_TIME)


async def _strategy(request: web.Request) -> Strategy | None:
    """Return a strategy, None if the namespace's is to count."""
    text = await text_of(request)
    strategy = Strategy.__members__.get(text)
    if strategy is None:
        raise RestError(412, f"{text[:100]!r} is no strategy: send one of {', '.join(Strategy)}")
    return None if strategy is Strategy.UNDEFINED else strategy


def valid(_value: Any, _config: BrokerConfig) -> None:
    """Return no fault: every value of the type is valid."""


def at_least_zero(name: str) -> Callable[[int, BrokerConfig], str | None]:
    """Return a check of a number; `name` is for the error."""
    return lambda value, _config: None if value >= 0 else f"{name} must be 0 or more, not {value}"


def _limit(name: str, field: str, applied: Applied) -> PolicyKind:
    return PolicyKind(field, body(Limit, what="a number"), at_least_zero(name), applied)


def _own_else(configured: Callable[[BrokerConfig], Any], field: str) -> Applied:
    def applied(policies: Policies, _own: OwnPolicies, config: BrokerConfig) -> Any:
        value = getattr(policies, field)
        return configured(config) if value is None else value

    return applied


POLICY_KINDS: Final[Mapping[str, PolicyKind]] = {
    "retention": PolicyKind(
        "retention_policies",
        body(RetentionPolicies, what="retentionTimeInMinutes and retentionSizeInMB"),
        lambda value, _config: (
            None if (fault := retention_fault(value)) is None else f"Invalid retention policy: {fault}"
        ),
        lambda policies, _own, config: applied_retention(policies, config),
    ),
    "messageTTL": PolicyKind(
        "message_ttl_in_seconds",
        _ttl_in_query,
        valid,
        lambda policies, _own, config: message_ttl_of(policies, config),
    ),
    "compactionThreshold": PolicyKind(
        "compaction_threshold",
        body(Bytes, what="a number of bytes"),
        at_least_zero("compactionThreshold"),
        _own_else(lambda config: config.broker_service_compaction_threshold_in_bytes, "compaction_threshold"),
    ),
    "deduplicationEnabled": PolicyKind(
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
    "autoSubscriptionCreation": PolicyKind(
        "auto_subscription_creation_override",
        body(AutoSubscriptionCreationOverride, what="allowAutoSubscriptionCreation"),
        valid,
        _own_else(
            lambda config: AutoSubscriptionCreationOverride(config.allow_auto_subscription_creation),
            "auto_subscription_creation_override",
        ),
    ),
    "schemaCompatibilityStrategy": PolicyKind(
        "schema_compatibility_strategy",
        _strategy,
        valid,
        lambda policies, _own, config: effective(
            policies.schema_compatibility_strategy or Strategy.UNDEFINED, Strategy(config.schema_compatibility_strategy)
        ),
    ),
    "schemaValidationEnforced": PolicyKind(
        "schema_validation_enforced",
        body(bool, what="true or false"),
        valid,
        lambda policies, _own, config: policies.schema_validation_enforced or config.is_schema_validation_enforced,
    ),
}
"""The policies, by the last segment of their path."""
