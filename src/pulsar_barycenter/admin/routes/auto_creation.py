"""Whether use creates topics and subscriptions of a namespace. Source: Pulsar's `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup

TOPIC_TYPES: Final = ("partitioned", "non-partitioned")
"""The types of topics that use creates."""

AUTO_CREATION: Final = RouteGroup("AutoCreation", "/admin/v2/namespaces/{tenant}/{namespace}")

GET_AUTO_TOPIC_CREATION: Final = AUTO_CREATION.route(
    "GET",
    "/autoTopicCreation",
    "of_topics",
    reads("AUTO_TOPIC_CREATION"),
    "Show whether use creates topics of a namespace, and which type; 204 if the configuration applies.",
)

SET_AUTO_TOPIC_CREATION: Final = AUTO_CREATION.route(
    "POST",
    "/autoTopicCreation",
    "set_of_topics",
    writes("AUTO_TOPIC_CREATION"),
    "Set whether use creates topics of a namespace, which type, and with how many partitions.",
    body="AutoTopicCreationOverride",
    by_leader=True,
)

DELETE_AUTO_TOPIC_CREATION: Final = AUTO_CREATION.route(
    "DELETE",
    "/autoTopicCreation",
    "delete_of_topics",
    writes("AUTO_TOPIC_CREATION"),
    "Let the configuration decide again whether use creates topics of a namespace.",
    by_leader=True,
)

GET_AUTO_SUBSCRIPTION_CREATION: Final = AUTO_CREATION.route(
    "GET",
    "/autoSubscriptionCreation",
    "of_subscriptions",
    reads("AUTO_SUBSCRIPTION_CREATION"),
    "Show whether use creates subscriptions in a namespace; 204 if the configuration applies.",
)

SET_AUTO_SUBSCRIPTION_CREATION: Final = AUTO_CREATION.route(
    "POST",
    "/autoSubscriptionCreation",
    "set_of_subscriptions",
    writes("AUTO_SUBSCRIPTION_CREATION"),
    "Set whether use creates subscriptions in a namespace.",
    body="AutoSubscriptionCreationOverride",
    by_leader=True,
)

DELETE_AUTO_SUBSCRIPTION_CREATION: Final = AUTO_CREATION.route(
    "DELETE",
    "/autoSubscriptionCreation",
    "delete_of_subscriptions",
    writes("AUTO_SUBSCRIPTION_CREATION"),
    "Let the configuration decide again whether use creates subscriptions in a namespace.",
    by_leader=True,
)
