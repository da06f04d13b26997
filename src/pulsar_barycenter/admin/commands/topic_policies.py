"""The policies of single topics: the commands of `topicPolicies`. Source: Pulsar's `CmdTopicPolicies`."""

from collections.abc import Callable
from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.schemas import STRATEGIES
from pulsar_barycenter.admin.commands.storage import OF_TYPE, QUOTA_FLAGS, QUOTA_TYPE, quota_body, retention_body
from pulsar_barycenter.admin.commands.table import TOPIC, Command, Flag, Kind, Resource, Values, command, request
from pulsar_barycenter.admin.commands.units import bytes_of
from pulsar_barycenter.admin.routes import topic_policies as routes

_APPLIED: Final = Flag("-ap -a --applied", "applied", "Show the value that the topic follows.", Kind.SWITCH)
_QUERY: Final = {"applied": "applied"}


def _of(
    name: str,
    policy: routes.PolicyRoutes,
    what: str,
    body: Callable[[Values], Any] | None,
    *flags: Flag,
    query: dict[str, str] | None = None,
) -> tuple[Command, ...]:
    return (
        command(
            f"get-{name}",
            f"Show {what} of a topic.",
            request(policy.show, query=_QUERY),
            TOPIC,
            _APPLIED,
            form=Form.VALUE,
        ),
        command(
            f"set-{name}", f"Set {what} of a topic.", request(policy.change, query=query, body=body), TOPIC, *flags
        ),
        command(f"remove-{name}", f"Use the namespace's policy again: {what}.", request(policy.remove), TOPIC),
    )


def _number(name: str, policy: routes.PolicyRoutes, what: str, spellings: str) -> tuple[Command, ...]:
    most = Flag(spellings, "limit", "The limit; 0 means no limit.", Kind.NUMBER, required=True)
    return _of(name, policy, what, lambda values: values["limit"], most)


def _switched(values: Values) -> bool:
    return bool(values["enable"])


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
            _APPLIED,
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
            _APPLIED,
            aliases=("get-backlog-quotas",),
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
        ),
        command(
            "delete-policies",
            "Remove all policies that a topic itself has.",
            request(routes.DELETE_POLICIES),
            TOPIC,
        ),
    ),
)
