"""The policies of single topics: the commands of `topicPolicies`. Source: Pulsar's `CmdTopicPolicies`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pulsar_barycenter.admin.commands import rules
from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.schemas import STRATEGIES
from pulsar_barycenter.admin.commands.storage import OF_TYPE, QUOTA_FLAGS, QUOTA_TYPE, quota_body, retention_body
from pulsar_barycenter.admin.commands.table import (
    TOPIC,
    Flag,
    Kind,
    Resource,
    Session,
    Values,
    Work,
    command,
    request,
    send,
)
from pulsar_barycenter.admin.commands.units import bytes_of
from pulsar_barycenter.admin.routes import topic_policies as routes
from pulsar_barycenter.admin.routes.route import Route

Body: TypeAlias = Callable[[Values], Any]
RequestOf: TypeAlias = Callable[[routes.PolicyRoutes], Route]

_QUERY: Final = {"applied": "applied"}
_of: Final = partial(rules.policy_commands, TOPIC)
_number: Final = partial(rules.number_commands, TOPIC)


def _switched(values: Values) -> bool:
    return bool(values["enable"])


_SUBSCRIPTION: Final = Flag("-s --subscription", "subscription", "Only this subscription.")


def _of_one_or_all(request_of: RequestOf, *, query: Mapping[str, str] | None = None, body: Body | None = None) -> Work:
    """Return the function that carries out a command about dispatch rates: it shows, sets or removes the rate of one
    subscription if the user named one, otherwise the rate that every subscription of the topic has.

    `request_of` gets the routes of the policy, and returns the one to send: to show, to set or to remove.
    """

    async def work(session: Session, values: Values) -> Any:
        policy = routes.SUBSCRIPTION_RATE if values["subscription"] else routes.SUBSCRIPTION_DISPATCH_RATE
        return await send(session, request_of(policy), values, query=query, body=None if body is None else body(values))

    return work


TOPIC_POLICIES: Final = Resource(
    "topicPolicies",
    "Policies of single topics, which replace those of their namespaces.",
    (
        *_of(
            "retention",
            routes.RETENTION,
            "the retention of consumed messages",
            retention_body,
            Flag("-t --time", "time", "Seconds, or 100m, 3h, 2d, 5w; 0 keeps none, -1 is no limit.", required=True),
            Flag("-s --size", "size", "Bytes, or 10M, 16G, 3T; 0 keeps none, -1 is no limit.", required=True),
        ),
        command(
            "get-message-ttl",
            "Show the age in seconds at which messages of a topic expire.",
            request(routes.MESSAGE_TTL.show, query=_QUERY),
            TOPIC,
            rules.APPLIED,
            form=Form.VALUE,
        ),
        command(
            "set-message-ttl",
            "Set the age at which messages of a topic expire.",
            request(routes.MESSAGE_TTL.change, query={"messageTTL": "ttl"}),
            TOPIC,
            Flag("-t --ttl", "ttl", "Seconds; 0 means never.", Kind.NUMBER, required=True),
        ),
        command(
            "remove-message-ttl",
            "Use the namespace's policy again: the age at which messages expire.",
            request(routes.MESSAGE_TTL.remove),
            TOPIC,
        ),
        command(
            "get-backlog-quota",
            "Show the backlog quotas of a topic.",
            request(routes.GET_BACKLOG_QUOTAS, query=_QUERY),
            TOPIC,
            rules.APPLIED,
            form=Form.PAIRS,
        ),
        command(
            "set-backlog-quota",
            "Set a backlog quota of a topic.",
            request(routes.SET_BACKLOG_QUOTA, query=OF_TYPE, body=quota_body),
            TOPIC,
            *QUOTA_FLAGS,
        ),
        command(
            "remove-backlog-quota",
            "Use the namespace's policy again: a backlog quota.",
            request(routes.DELETE_BACKLOG_QUOTA, query=OF_TYPE),
            TOPIC,
            QUOTA_TYPE,
        ),
        *_of(
            "compaction-threshold",
            routes.COMPACTION_THRESHOLD,
            "how many bytes may wait to be compacted",
            lambda values: bytes_of("--threshold", values["threshold"]),
            Flag("-t --threshold", "threshold", "Bytes, or 10M, 16G; 0: only on request.", required=True),
        ),
        *_of(
            "deduplication",
            routes.DEDUPLICATION,
            "whether messages sent twice are dropped",
            _switched,
            Flag("-e --enable", "enable", "Drop them.", Kind.SWITCH),
            Flag("-d --disable", "disable", "Do not drop them.", Kind.SWITCH),
        ),
        *_number("max-producers", routes.MAX_PRODUCERS, "the most producers", "-p --max-producers"),
        *_number("max-consumers", routes.MAX_CONSUMERS, "the most consumers", "-c --max-consumers"),
        *_number(
            "max-consumers-per-subscription",
            routes.MAX_CONSUMERS_PER_SUBSCRIPTION,
            "the most consumers of a subscription",
            "-c --max-consumers-per-subscription",
        ),
        *_number(
            "max-subscriptions-per-topic",
            routes.MAX_SUBSCRIPTIONS,
            "the most subscriptions",
            "-s --max-subscriptions-per-topic",
        ),
        *_of(
            "auto-subscription-creation",
            routes.AUTO_SUBSCRIPTION_CREATION,
            "whether use creates subscriptions",
            lambda values: {"allowAutoSubscriptionCreation": values["enable"]},
            Flag("-e --enable", "enable", "Use creates subscriptions.", Kind.SWITCH),
        ),
        *_of(
            "schema-compatibility-strategy",
            routes.SCHEMA_STRATEGY,
            "how new schemas are compared",
            lambda values: values["strategy"],
            Flag("-s --strategy", "strategy", "The strategy.", choices=STRATEGIES, required=True),
            form=Form.BY_KIND,
        ),
        *_number(
            "max-unacked-messages-per-consumer",
            routes.UNACKED_ON_CONSUMER,
            "the most unacknowledged messages of a consumer",
            "-m --maxNum",
        ),
        *_number(
            "max-unacked-messages-per-subscription",
            routes.UNACKED_ON_SUBSCRIPTION,
            "the most unacknowledged messages of a subscription",
            "-m --maxNum",
        ),
        *_number("max-message-size", routes.MAX_MESSAGE_SIZE, "the largest message", "-m --max-message-size"),
        *_of(
            "delayed-delivery",
            routes.DELAYED_DELIVERY,
            "whether messages wait for their time",
            rules.delayed_body,
            *rules.DELAYED_FLAGS,
        ),
        *_of(
            "inactive-topic-policies",
            routes.INACTIVE_TOPICS,
            "when the unused topic is deleted",
            rules.inactive_body,
            *rules.INACTIVE_FLAGS,
        ),
        *_number(
            "deduplication-snapshot-interval",
            routes.DEDUPLICATION_SNAPSHOTS,
            "the seconds between snapshots of deduplication",
            "-i --interval",
        ),
        *_of(
            "persistence",
            routes.PERSISTENCE,
            "how often cursors are stored",
            rules.persistence_body,
            *rules.PERSISTENCE_FLAGS,
        ),
        *_of(
            "subscription-types-enabled",
            routes.SUBSCRIPTION_TYPES,
            "the allowed types of subscriptions",
            lambda values: values["types"],
            rules.TYPES_FLAG,
        ),
        *_of(
            "publish-rate",
            routes.PUBLISH_RATE,
            "the rate at which messages are accepted",
            rules.publish_body,
            *rules.PUBLISH_FLAGS,
        ),
        *_of(
            "dispatch-rate",
            routes.DISPATCH_RATE,
            "the rate of all deliveries",
            rules.dispatch_body,
            *rules.DISPATCH_FLAGS,
        ),
        command(
            "get-subscription-dispatch-rate",
            "Show the rate of the deliveries of each subscription, or of one.",
            _of_one_or_all(lambda policy: policy.show, query=_QUERY),
            TOPIC,
            rules.APPLIED,
            _SUBSCRIPTION,
            form=Form.VALUE,
        ),
        command(
            "set-subscription-dispatch-rate",
            "Set the rate of the deliveries of each subscription, or of one.",
            _of_one_or_all(lambda policy: policy.change, body=rules.dispatch_body),
            TOPIC,
            *rules.DISPATCH_FLAGS,
            _SUBSCRIPTION,
        ),
        command(
            "remove-subscription-dispatch-rate",
            "Use the next level's value again: the rate of the deliveries of each subscription, or of one.",
            _of_one_or_all(lambda policy: policy.remove),
            TOPIC,
            _SUBSCRIPTION,
        ),
        *_of(
            "subscribe-rate",
            routes.SUBSCRIBE_RATE,
            "how often a consumer may attach",
            rules.subscribe_body,
            *rules.SUBSCRIBE_FLAGS,
        ),
        *_of(
            "dispatcher-pause-on-ack-state-persistent",
            routes.DISPATCHER_PAUSE,
            "whether deliveries wait until acknowledgements can be stored",
            None,
        ),
        command(
            "delete",
            "Remove all policies that a topic itself has.",
            request(routes.DELETE_POLICIES),
            TOPIC,
        ),
    ),
)
