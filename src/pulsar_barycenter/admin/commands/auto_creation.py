"""Whether use creates topics and subscriptions: commands of `namespaces`. Source: Pulsar's `CmdNamespaces`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import NAMESPACE, Flag, Kind, Values, WrongUsageError, command, request
from pulsar_barycenter.admin.routes import auto_creation as routes


def _topics_body(values: Values) -> dict[str, Any]:
    if values["enable"] == values["disable"]:
        raise WrongUsageError("give either --enable or --disable")
    count = values["partitions"]
    if values["enable"] and values["type"] == "partitioned" and (count is None or count < 1):
        raise WrongUsageError("--type partitioned: give the number of partitions with --num-partitions, at least 1")
    body = {"allowAutoTopicCreation": values["enable"], "topicType": values["type"]}
    return body if count is None else {**body, "defaultNumPartitions": count}


AUTO_CREATION: Final = (
    command(
        "get-auto-topic-creation",
        "Show whether use creates topics, and which type.",
        request(routes.GET_AUTO_TOPIC_CREATION),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-auto-topic-creation",
        "Set whether use creates topics, and which type.",
        request(routes.SET_AUTO_TOPIC_CREATION, body=_topics_body),
        NAMESPACE,
        Flag("-e --enable", "enable", "Use creates topics.", Kind.SWITCH),
        Flag("-d --disable", "disable", "Use does not create topics.", Kind.SWITCH),
        Flag("-t --type", "type", "The type of these topics.", choices=routes.TOPIC_TYPES, default="non-partitioned"),
        Flag("-n --num-partitions", "partitions", "The number of partitions of partitioned topics.", Kind.NUMBER),
    ),
    command(
        "remove-auto-topic-creation",
        "Use the broker's configuration again for the creation of topics.",
        request(routes.DELETE_AUTO_TOPIC_CREATION),
        NAMESPACE,
    ),
    command(
        "get-auto-subscription-creation",
        "Show whether use creates subscriptions.",
        request(routes.GET_AUTO_SUBSCRIPTION_CREATION),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-auto-subscription-creation",
        "Set whether use creates subscriptions; without --enable it does not.",
        request(
            routes.SET_AUTO_SUBSCRIPTION_CREATION,
            body=lambda values: {"allowAutoSubscriptionCreation": values["enable"]},
        ),
        NAMESPACE,
        Flag("-e --enable", "enable", "Use creates subscriptions.", Kind.SWITCH),
    ),
    command(
        "remove-auto-subscription-creation",
        "Use the broker's configuration again for the creation of subscriptions.",
        request(routes.DELETE_AUTO_SUBSCRIPTION_CREATION),
        NAMESPACE,
    ),
)
