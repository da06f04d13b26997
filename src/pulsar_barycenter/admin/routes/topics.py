"""Topics, partitions, subscriptions and compaction. Source: Pulsar's `PersistentTopics`, `NonPersistentTopics`."""

from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation, TopicOperation
from pulsar_barycenter.admin.routes.rights import OnNamespace, OnTopic, reads, writes
from pulsar_barycenter.admin.routes.route import FLAG, TEXT, RouteGroup

DOMAIN: Final = "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}"
TOPIC: Final = DOMAIN + "/{topic:[^/]+}"
_SUBSCRIPTION: Final = "/subscription/{subscription:[^/]+}"
_COMPACTION: Final = "/admin/v2/{domain:persistent}/{tenant}/{namespace}/{topic:[^/]+}/compaction"
_THRESHOLD: Final = "/admin/v2/namespaces/{tenant}/{namespace}/compactionThreshold"

TOPICS: Final = RouteGroup("Topics")

LIST_TOPICS: Final = TOPICS.route(
    "GET",
    DOMAIN,
    "names",
    OnNamespace(NamespaceOperation.GET_TOPICS),
    "List topics, and each partition; `bundle` selects the topics of one hash range.",
    query={"bundle": TEXT, "includeSystemTopic": FLAG},
)

LIST_PARTITIONED_TOPICS: Final = TOPICS.route(
    "GET",
    DOMAIN + "/partitioned",
    "partitioned_names",
    OnNamespace(NamespaceOperation.GET_TOPICS),
    "List the partitioned topics by their base names.",
    query={"includeSystemTopic": FLAG},
)

TOPICS.route(
    "GET",
    "/admin/v2/non-persistent/{tenant}/{namespace}/{range:0[xX].*}",
    "names_in_bundle",
    OnNamespace(NamespaceOperation.GET_BUNDLE),
    "List the non-persistent topics that the owner of a bundle has in memory.",
    without_command="`topics list -td non-persistent -b` shows the same",
)

CREATE_TOPIC: Final = TOPICS.route(
    "PUT",
    TOPIC,
    "create",
    OnNamespace(NamespaceOperation.CREATE_TOPIC),
    "Create a topic on its owner; the body may give properties.",
    body=dict[str, str],
    query={"authoritative": FLAG},
)

DELETE_TOPIC: Final = TOPICS.route(
    "DELETE",
    TOPIC,
    "delete",
    OnNamespace(NamespaceOperation.DELETE_TOPIC),
    "Delete a topic; with `force` even if it has clients or subscriptions.",
    query={"force": FLAG, "authoritative": FLAG},
)

UNLOAD_TOPIC: Final = TOPICS.route(
    "PUT",
    TOPIC + "/unload",
    "unload",
    OnTopic(TopicOperation.UNLOAD),
    "Close the topic, or each partition; the owner stays the same, and the next use loads the topic again.",
    query={"authoritative": FLAG},
)


PARTITIONED_TOPICS: Final = RouteGroup("PartitionedTopics", TOPIC)

GET_PARTITIONS: Final = PARTITIONED_TOPICS.route(
    "GET",
    "/partitions",
    "partitions",
    OnTopic(TopicOperation.GET_METADATA),
    "Show the number of partitions; with `checkAllowAutoCreation` the topic may be created.",
    query={"checkAllowAutoCreation": FLAG},
)

CREATE_PARTITIONED_TOPIC: Final = PARTITIONED_TOPICS.route(
    "PUT",
    "/partitions",
    "create_partitioned",
    OnNamespace(NamespaceOperation.CREATE_TOPIC),
    "Create a partitioned topic; the body is the number of partitions.",
    body="PartitionedTopic",
    by_leader=True,
)

UPDATE_PARTITIONED_TOPIC: Final = PARTITIONED_TOPICS.route(
    "POST",
    "/partitions",
    "update_partitioned",
    writes("PARTITION"),
    "Add partitions; each gets the subscriptions of partition 0 with their properties before clients see it.",
    body="PartitionedTopic",
    by_leader=True,
)

DELETE_PARTITIONED_TOPIC: Final = PARTITIONED_TOPICS.route(
    "DELETE",
    "/partitions",
    "delete_partitioned",
    OnNamespace(NamespaceOperation.DELETE_TOPIC),
    "Delete a partitioned topic with its partitions; if one partition refuses, none is deleted.",
    query={"force": FLAG},
    by_leader=True,
)

CREATE_MISSED_PARTITIONS: Final = PARTITIONED_TOPICS.route(
    "POST",
    "/createMissedPartitions",
    "create_missed_partitions",
    writes("PARTITION"),
    "Create the partitions that are missing.",
)


SUBSCRIPTIONS: Final = RouteGroup("Subscriptions", TOPIC)

LIST_SUBSCRIPTIONS: Final = SUBSCRIPTIONS.route(
    "GET",
    "/subscriptions",
    "subscriptions",
    OnTopic(TopicOperation.GET_SUBSCRIPTIONS),
    "List the subscriptions; for a partitioned topic, those of all partitions.",
    query={"authoritative": FLAG},
)

CREATE_SUBSCRIPTION: Final = SUBSCRIPTIONS.route(
    "PUT",
    _SUBSCRIPTION,
    "create_subscription",
    OnTopic(TopicOperation.SUBSCRIBE, has_subscription=True),
    'Create a subscription at a message id, at "earliest" or "latest", with properties.',
    body="SubscriptionStart",
    query={"authoritative": FLAG, "replicated": FLAG},
)

DELETE_SUBSCRIPTION: Final = SUBSCRIPTIONS.route(
    "DELETE",
    _SUBSCRIPTION,
    "delete_subscription",
    OnTopic(TopicOperation.UNSUBSCRIBE, has_subscription=True),
    "Delete a subscription; with `force` even if it has consumers. For a partitioned topic: on all partitions or none.",
    query={"force": FLAG, "authoritative": FLAG},
)


SUBSCRIPTION_PROPERTIES: Final = RouteGroup("SubscriptionProperties", TOPIC)

GET_SUBSCRIPTION_PROPERTIES: Final = SUBSCRIPTION_PROPERTIES.route(
    "GET",
    _SUBSCRIPTION + "/properties",
    "show",
    OnTopic(TopicOperation.CONSUME, has_subscription=True),
    "Show the properties of a subscription; for a partitioned topic, those of all partitions together.",
    query={"authoritative": FLAG},
)

REPLACE_SUBSCRIPTION_PROPERTIES: Final = SUBSCRIPTION_PROPERTIES.route(
    "PUT",
    _SUBSCRIPTION + "/properties",
    "replace",
    OnTopic(TopicOperation.CONSUME, has_subscription=True),
    "Replace the properties of a subscription; for a partitioned topic, on all partitions or none.",
    body=dict[str, str],
    query={"authoritative": FLAG},
)


TOPIC_PROPERTIES: Final = RouteGroup("TopicProperties", TOPIC)

GET_TOPIC_PROPERTIES: Final = TOPIC_PROPERTIES.route(
    "GET",
    "/properties",
    "show",
    OnTopic(TopicOperation.GET_METADATA),
    "Show the properties of a topic.",
    query={"authoritative": FLAG},
)

ADD_TOPIC_PROPERTIES: Final = TOPIC_PROPERTIES.route(
    "PUT",
    "/properties",
    "add",
    OnTopic(TopicOperation.PRODUCE),
    "Add or replace properties of a topic.",
    body=dict[str, str],
    query={"authoritative": FLAG},
)

REMOVE_TOPIC_PROPERTY: Final = TOPIC_PROPERTIES.route(
    "DELETE",
    "/properties",
    "remove",
    OnTopic(TopicOperation.PRODUCE),
    "Remove the property `key` of a topic.",
    query={"key": TEXT, "authoritative": FLAG},
)


TOPIC_FIGURES: Final = RouteGroup("TopicFigures", TOPIC)

GET_STATS: Final = TOPIC_FIGURES.route(
    "GET",
    "/stats",
    "stats",
    OnTopic(TopicOperation.GET_STATS),
    "Show the stats of a topic.",
    query={
        "excludePublishers": FLAG,
        "excludeConsumers": FLAG,
        "getEarliestTimeInBacklog": FLAG,
        "authoritative": FLAG,
    },
)

GET_INTERNAL_STATS: Final = TOPIC_FIGURES.route(
    "GET",
    "/internalStats",
    "internal_stats",
    OnTopic(TopicOperation.GET_STATS),
    "Show ledgers and cursors of a topic.",
    query={"authoritative": FLAG},
)

GET_INTERNAL_INFO: Final = TOPIC_FIGURES.route(
    "GET",
    "/internal-info",
    "internal_info",
    OnTopic(TopicOperation.GET_STATS),
    "Show ledgers and cursors of a topic as they are stored.",
    query={"authoritative": FLAG},
)

GET_PARTITIONED_STATS: Final = TOPIC_FIGURES.route(
    "GET",
    "/partitioned-stats",
    "partitioned_stats",
    OnTopic(TopicOperation.GET_STATS),
    "Show the sums over all partitions; `perPartition` (default true) shows each as well.",
    query={"perPartition": FLAG, "getEarliestTimeInBacklog": FLAG},
)

GET_PARTITIONED_INTERNAL_STATS: Final = TOPIC_FIGURES.route(
    "GET",
    "/partitioned-internalStats",
    "partitioned_internal_stats",
    OnTopic(TopicOperation.GET_STATS),
    "Show ledgers and cursors of every partition.",
)


COMPACTION: Final = RouteGroup("Compaction")

COMPACT: Final = COMPACTION.route(
    "PUT",
    _COMPACTION,
    "trigger",
    OnTopic(TopicOperation.COMPACT),
    "Start compacting a topic, or each partition; 409 while it is being compacted.",
    query={"authoritative": FLAG},
)

GET_COMPACTION: Final = COMPACTION.route(
    "GET",
    _COMPACTION,
    "status",
    OnTopic(TopicOperation.COMPACT),
    "Show how the last compaction since the topic was loaded went: NOT_RUN, RUNNING, SUCCESS or ERROR.",
    query={"authoritative": FLAG},
)

GET_COMPACTION_THRESHOLD: Final = COMPACTION.route(
    "GET",
    _THRESHOLD,
    "threshold",
    reads("COMPACTION"),
    "Show the threshold of a namespace in bytes; 204 if brokerServiceCompactionThresholdInBytes applies.",
)

SET_COMPACTION_THRESHOLD: Final = COMPACTION.route(
    "PUT",
    _THRESHOLD,
    "set_threshold",
    writes("COMPACTION"),
    "Set how many bytes of a topic may wait to be compacted; with 0, topics are compacted only on request.",
    body="Bytes",
    by_leader=True,
)

DELETE_COMPACTION_THRESHOLD: Final = COMPACTION.route(
    "DELETE",
    _THRESHOLD,
    "delete_threshold",
    writes("COMPACTION"),
    "Let brokerServiceCompactionThresholdInBytes apply to a namespace again.",
    by_leader=True,
)
