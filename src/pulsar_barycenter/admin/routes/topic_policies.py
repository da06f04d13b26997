"""The policies that a topic itself has: each replaces that of its namespace. Source: Pulsar's `PersistentTopics`."""

from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.admin.routes.namespace_storage import QUOTA_TYPES
from pulsar_barycenter.admin.routes.rights import reads, writes
from pulsar_barycenter.admin.routes.route import FLAG, Route, RouteGroup, Schema, number, one_of

LONGEST_TIME: Final = 2**31 - 1
"""The largest time of a policy, in its own unit: Pulsar stores it as an int."""

WITHOUT_EFFECT: Final = "it has no effect on this broker; pulsar-admin sends it"
BY_REST: Final = "pulsar-admin sends it"
"""Reasons why `barycenter admin` has no command for a request."""

TOPIC_POLICIES: Final = RouteGroup(
    "TopicPolicyRequests", "/admin/v2/{domain:persistent}/{tenant}/{namespace}/{topic:[^/]+}"
)

_QUERY: Final[dict[str, Schema]] = {"authoritative": FLAG, "isGlobal": FLAG}
_OF_TYPE: Final[dict[str, Schema]] = {**_QUERY, "backlogQuotaType": one_of(*QUOTA_TYPES)}


@dataclass(frozen=True, slots=True)
class PolicyRoutes:
    """The requests that show, set and remove one policy of a topic."""

    show: Route
    change: Route
    remove: Route


def _policy(
    path: str,
    policy: str,
    what: str,
    body: type | str | None,
    *,
    query: dict[str, Schema] | None = None,
    method: str = "POST",
    without_command: str = "",
) -> PolicyRoutes:
    """Add to the route table the three routes of the policy at `path` of a topic, and return them: to show, to set and
    to remove the policy. `what` is the text after "Show" and "Set" in their summaries. `without_command` says why no
    command sends them; empty if commands do.
    """
    show = TOPIC_POLICIES.route(
        "GET",
        path,
        "show",
        reads(policy),
        f"Show {what}; 204 if the topic has no value of its own. With `applied` the value that it follows.",
        query={**_QUERY, "applied": FLAG},
        without_command=without_command,
    )
    change = TOPIC_POLICIES.route(
        method,
        path,
        "change",
        writes(policy),
        f"Set {what} for one topic.",
        body=body,
        query={**_QUERY, **(query or {})},
        without_command=without_command,
    )
    remove = TOPIC_POLICIES.route(
        "DELETE",
        path,
        "remove",
        writes(policy),
        f"Let the namespace decide again for one topic {what}.",
        query=_QUERY,
        without_command=without_command,
    )
    return PolicyRoutes(show, change, remove)


RETENTION: Final = _policy("/retention", "RETENTION", "how long consumed messages are kept", "RetentionPolicies")
MESSAGE_TTL: Final = _policy(
    "/messageTTL",
    "TTL",
    "the age in seconds at which messages expire",
    None,
    query={"messageTTL": number(LONGEST_TIME)},
)
COMPACTION_THRESHOLD: Final = _policy(
    "/compactionThreshold", "COMPACTION", "how many bytes may wait to be compacted", "Bytes"
)
DEDUPLICATION: Final = _policy(
    "/deduplicationEnabled", "DEDUPLICATION", "whether messages sent twice are dropped", bool
)
MAX_PRODUCERS: Final = _policy("/maxProducers", "MAX_PRODUCERS", "the most producers", "Limit")
MAX_CONSUMERS: Final = _policy("/maxConsumers", "MAX_CONSUMERS", "the most consumers", "Limit")
MAX_CONSUMERS_PER_SUBSCRIPTION: Final = _policy(
    "/maxConsumersPerSubscription", "MAX_CONSUMERS", "the most consumers of a subscription", "Limit"
)
MAX_SUBSCRIPTIONS: Final = _policy("/maxSubscriptionsPerTopic", "MAX_SUBSCRIPTIONS", "the most subscriptions", "Limit")
AUTO_SUBSCRIPTION_CREATION: Final = _policy(
    "/autoSubscriptionCreation",
    "AUTO_SUBSCRIPTION_CREATION",
    "whether use creates subscriptions",
    "AutoSubscriptionCreationOverride",
)
SCHEMA_STRATEGY: Final = _policy(
    "/schemaCompatibilityStrategy", "SCHEMA_COMPATIBILITY_STRATEGY", "how new schemas are compared", str, method="PUT"
)
SCHEMA_VALIDATION: Final = _policy(
    "/schemaValidationEnforced",
    "SCHEMA_COMPATIBILITY_STRATEGY",
    "whether producers need a schema if the topic has one",
    bool,
    without_command="pulsar-admin has no such command of topicPolicies",
)

UNACKED_ON_CONSUMER: Final = _policy(
    "/maxUnackedMessagesOnConsumer", "MAX_UNACKED", "the most unacknowledged messages of a consumer", "Limit"
)
UNACKED_ON_SUBSCRIPTION: Final = _policy(
    "/maxUnackedMessagesOnSubscription", "MAX_UNACKED", "the most unacknowledged messages of a subscription", "Limit"
)
MAX_MESSAGE_SIZE: Final = _policy("/maxMessageSize", "MAX_MESSAGE_SIZE", "the largest message in bytes", "Limit")
DELAYED_DELIVERY: Final = _policy(
    "/delayedDelivery", "DELAYED_DELIVERY", "whether messages wait for their time", "DelayedDeliveryPolicies"
)
INACTIVE_TOPICS: Final = _policy(
    "/inactiveTopicPolicies", "INACTIVE_TOPIC", "when the unused topic is deleted", "InactiveTopicPolicies"
)
DEDUPLICATION_SNAPSHOTS: Final = _policy(
    "/deduplicationSnapshotInterval",
    "DEDUPLICATION_SNAPSHOT",
    "the seconds between two snapshots of deduplication",
    "Limit",
)
PERSISTENCE: Final = _policy("/persistence", "PERSISTENCE", "how often cursors are stored", "PersistencePolicies")
SUBSCRIPTION_EXPIRATION: Final = _policy(
    "/subscriptionExpirationTime",
    "SUBSCRIPTION_EXPIRATION_TIME",
    "the minutes without consumers after which subscriptions are deleted",
    None,
    query={"subscriptionExpirationTime": number(LONGEST_TIME)},
    without_command="pulsar-admin 4.0 has no such command",
)
SUBSCRIPTION_TYPES: Final = _policy(
    "/subscriptionTypesEnabled", "SUBSCRIPTION_AUTH_MODE", "the types of subscriptions that are allowed", "Names"
)
PUBLISH_RATE: Final = _policy("/publishRate", "RATE", "the rate at which messages are accepted", "PublishRate")
DISPATCH_RATE: Final = _policy("/dispatchRate", "RATE", "the rate at which messages are delivered", "DispatchRate")
SUBSCRIPTION_DISPATCH_RATE: Final = _policy(
    "/subscriptionDispatchRate", "RATE", "the rate at which a subscription delivers", "DispatchRate"
)
SUBSCRIPTION_RATE: Final = PolicyRoutes(
    TOPIC_POLICIES.route(
        "GET",
        "/{subscription}/dispatchRate",
        "subscription_rate",
        reads("RATE"),
        "Show the rate at which one subscription delivers; 204 if it has none itself. With `applied` what it follows.",
        query={**_QUERY, "applied": FLAG},
    ),
    TOPIC_POLICIES.route(
        "POST",
        "/{subscription}/dispatchRate",
        "set_subscription_rate",
        writes("RATE"),
        "Set the rate at which one subscription delivers, whether it exists or not.",
        body="DispatchRate",
        query=_QUERY,
    ),
    TOPIC_POLICIES.route(
        "DELETE",
        "/{subscription}/dispatchRate",
        "remove_subscription_rate",
        writes("RATE"),
        "Let the rate of all subscriptions of the topic apply to a subscription again.",
        query=_QUERY,
    ),
)
SUBSCRIBE_RATE: Final = _policy("/subscribeRate", "RATE", "how often a consumer may attach", "SubscribeRate")
DISPATCHER_PAUSE: Final = _policy(
    "/dispatcherPauseOnAckStatePersistent",
    "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    "whether deliveries wait until acknowledgements can be stored",
    None,
)
REPLICATOR_DISPATCH_RATE: Final = _policy(
    "/replicatorDispatchRate",
    "REPLICATION_RATE",
    "the rate at which messages are copied to other clusters, which has no effect",
    "DispatchRate",
    without_command=WITHOUT_EFFECT,
)
REPLICATION_CLUSTERS: Final = _policy(
    "/replication",
    "REPLICATION",
    "the clusters of a topic, which can only be this one",
    "Names",
    without_command=WITHOUT_EFFECT,
)
ENTRY_FILTERS: Final = _policy(
    "/entryFilters",
    "ENTRY_FILTERS",
    "the filters of entries, of which a broker has none",
    "EntryFilters",
    without_command=WITHOUT_EFFECT,
)

GET_BACKLOG_QUOTAS: Final = TOPIC_POLICIES.route(
    "GET",
    "/backlogQuotaMap",
    "backlog_quotas",
    reads("BACKLOG"),
    "Show the backlog quotas of a topic by their types; with `applied` those that it follows.",
    query={**_QUERY, "applied": FLAG},
)
SET_BACKLOG_QUOTA: Final = TOPIC_POLICIES.route(
    "POST",
    "/backlogQuota",
    "set_backlog_quota",
    writes("BACKLOG"),
    "Set the quota of the backlog's size (`destination_storage`) or of its age (`message_age`) for one topic.",
    body="BacklogQuota",
    query=_OF_TYPE,
)
DELETE_BACKLOG_QUOTA: Final = TOPIC_POLICIES.route(
    "DELETE",
    "/backlogQuota",
    "delete_backlog_quota",
    writes("BACKLOG"),
    "Let the namespace's quota of the backlog's size, or of its age, apply to a topic again.",
    query=_OF_TYPE,
)
DELETE_POLICIES: Final = TOPIC_POLICIES.route(
    "DELETE",
    "/policies",
    "delete_all",
    writes("ALL"),
    "Remove all policies that a topic itself has.",
    query={"authoritative": FLAG},
)
