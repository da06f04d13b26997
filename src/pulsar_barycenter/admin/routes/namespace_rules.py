"""What a namespace says about clients, rates and unused objects of its topics. Source: Pulsar's `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup
from pulsar_barycenter.admin.routes.topic_policies import BY_REST, WITHOUT_EFFECT, PolicyRoutes

NAMESPACE_RULES: Final = RouteGroup("NamespaceRules", "/admin/v2/namespaces/{tenant}/{namespace}")


def _rule(
    path: str,
    policy: str,
    what: str,
    body: type | str | None,
    *,
    note: str = "",
    without_command: str = "",
    removed_otherwise: str = "",
) -> PolicyRoutes:
    """Add to the route table the three routes of the policy at `path` of a namespace, and return them: GET shows the
    policy, POST sets it, and DELETE removes it.

    `what` is the text after "Show" and "Set" in their summaries; `note` follows the summary of POST. `without_command`
    says why no command sends any of the three; empty if commands do. `removed_otherwise` says why no command sends the
    DELETE, for a policy whose GET and POST have commands.
    """
    return PolicyRoutes(
        NAMESPACE_RULES.route(
            "GET",
            path,
            "show",
            reads(policy),
            f"Show {what} in a namespace; 204 if the configuration decides.",
            without_command=without_command,
        ),
        NAMESPACE_RULES.route(
            "POST",
            path,
            "change",
            writes(policy),
            f"Set {what} in a namespace.{note}",
            body=body,
            by_leader=True,
            without_command=without_command,
        ),
        NAMESPACE_RULES.route(
            "DELETE",
            path,
            "remove",
            writes(policy),
            f"Let the configuration decide again in a namespace {what}.",
            by_leader=True,
            without_command=without_command or removed_otherwise,
        ),
    )


UNACKED_PER_CONSUMER: Final = _rule(
    "/maxUnackedMessagesPerConsumer", "MAX_UNACKED", "the most unacknowledged messages of a consumer", "Limit"
)
UNACKED_PER_SUBSCRIPTION: Final = _rule(
    "/maxUnackedMessagesPerSubscription", "MAX_UNACKED", "the most unacknowledged messages of a subscription", "Limit"
)
DELAYED_DELIVERY: Final = _rule(
    "/delayedDelivery", "DELAYED_DELIVERY", "whether messages wait for their time", "DelayedDeliveryPolicies"
)
INACTIVE_TOPICS: Final = _rule(
    "/inactiveTopicPolicies", "INACTIVE_TOPIC", "when unused topics are deleted", "InactiveTopicPolicies"
)
DEDUPLICATION_SNAPSHOTS: Final = _rule(
    "/deduplicationSnapshotInterval",
    "DEDUPLICATION_SNAPSHOT",
    "the seconds between two snapshots of deduplication",
    "Limit",
    removed_otherwise="the command sends POST without a body, as Apache Pulsar's brokers have no DELETE here",
)
PERSISTENCE: Final = _rule("/persistence", "PERSISTENCE", "how often cursors are stored", "PersistencePolicies")
SUBSCRIPTION_EXPIRATION: Final = _rule(
    "/subscriptionExpirationTime",
    "SUBSCRIPTION_EXPIRATION_TIME",
    "the minutes without consumers after which subscriptions are deleted",
    "Limit",
)
SUBSCRIPTION_TYPES: Final = _rule(
    "/subscriptionTypesEnabled", "SUBSCRIPTION_AUTH_MODE", "the types of subscriptions that are allowed", "Names"
)
PUBLISH_RATE: Final = _rule("/publishRate", "RATE", "the rate at which a topic accepts messages", "PublishRate")
DISPATCH_RATE: Final = _rule("/dispatchRate", "RATE", "the rate at which a topic delivers", "DispatchRate")
SUBSCRIPTION_DISPATCH_RATE: Final = _rule(
    "/subscriptionDispatchRate", "RATE", "the rate at which a subscription delivers", "DispatchRate"
)
SUBSCRIBE_RATE: Final = _rule("/subscribeRate", "RATE", "how often a consumer may attach", "SubscribeRate")
DISPATCHER_PAUSE: Final = _rule(
    "/dispatcherPauseOnAckStatePersistent",
    "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    "whether deliveries wait until acknowledgements can be stored",
    None,
)
REPLICATOR_DISPATCH_RATE: Final = _rule(
    "/replicatorDispatchRate",
    "REPLICATION_RATE",
    "the rate at which messages are copied to other clusters",
    "DispatchRate",
    note=" It is stored without effect: nothing is copied.",
    without_command=WITHOUT_EFFECT,
)
ENTRY_FILTERS: Final = _rule(
    "/entryFilters",
    "ENTRY_FILTERS",
    "the filters of entries",
    "EntryFilters",
    note=" A broker has no filters, so each name is refused with 400.",
    without_command=WITHOUT_EFFECT,
)
SHOW_ENCRYPTION: Final = NAMESPACE_RULES.route(
    "GET",
    "/encryptionRequired",
    "show",
    reads("ENCRYPTION"),
    "Show whether all messages in a namespace must be encrypted.",
    without_command=BY_REST,
)
SET_ENCRYPTION: Final = NAMESPACE_RULES.route(
    "POST",
    "/encryptionRequired",
    "change",
    writes("ENCRYPTION"),
    "Set whether all messages in a namespace must be encrypted.",
    body=bool,
    by_leader=True,
    without_command=BY_REST,
)
