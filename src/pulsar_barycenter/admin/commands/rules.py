"""Limits, rates and the deletion of unused objects: commands of `namespaces` and `topicPolicies`.

Source: Pulsar's `CmdNamespaces` and `CmdTopicPolicies`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import (
    NAMESPACE,
    Argument,
    Command,
    Flag,
    Kind,
    Values,
    WrongUsageError,
    command,
    request,
)
from pulsar_barycenter.admin.commands.units import bytes_of, seconds_of
from pulsar_barycenter.admin.routes import namespace_rules as of_namespace
from pulsar_barycenter.admin.routes.topic_policies import PolicyRoutes

DELETE_MODES: Final = ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up")
APPLIED: Final = Flag("-ap -a --applied", "applied", "Show the value that the topic follows.", Kind.SWITCH)


def policy_commands(
    on: Argument,
    name: str,
    policy: PolicyRoutes,
    what: str,
    body: Callable[[Values], Any] | None,
    *flags: Flag,
    form: Form = Form.VALUE,
) -> tuple[Command, ...]:
    """Return three commands for a policy of a topic or namespace: `get-NAME` shows it, `set-NAME` sets it, and
    `remove-NAME` removes it.

    `on` is the argument `topic` or `namespace`. `what` describes the policy in the help texts. `body` makes the body of
    the request that sets the policy, from the values of `flags`, which are the options of `set-NAME`. `get-NAME` prints
    its answer in `form`.
    """
    applied = (APPLIED,) if on.name == "topic" else ()
    return (
        command(
            f"get-{name}",
            f"Show {what} of a {on.name}.",
            request(policy.show, query={"applied": "applied"}),
            on,
            *applied,
            form=form,
        ),
        command(f"set-{name}", f"Set {what} of a {on.name}.", request(policy.change, body=body), on, *flags),
        command(f"remove-{name}", f"Use the next level's value again: {what}.", request(policy.remove), on),
    )


def number_commands(on: Argument, name: str, policy: PolicyRoutes, what: str, spellings: str) -> tuple[Command, ...]:
    """Return the three commands of `policy_commands` for a policy that is one number. `spellings` are the spellings of
    the option with this number, separated by blanks, such as "-m --max".
    """
    most = Flag(spellings, "limit", "The number; 0 means no limit.", Kind.NUMBER, required=True)
    return policy_commands(on, name, policy, what, lambda values: values["limit"], most)


def _removed_by_change(policy: PolicyRoutes) -> PolicyRoutes:
    """Return `policy` with a changed route `remove`: the policy is removed by the route that sets it, with a request
    without a body. Brokers of Apache Pulsar have no DELETE for such a policy.
    """
    return replace(policy, remove=policy.change)


def delayed_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets delayed delivery."""
    if values["enable"] == values["disable"]:
        raise WrongUsageError("Give either --enable or --disable")
    return {
        "active": values["enable"],
        "tickTime": _millis("--time", values["time"]),
        "maxDeliveryDelayInMillis": _millis("--maxDelay", values["most"]),
    }


def _millis(option: str, text: str) -> int:
    return int(text[:-2]) if text.endswith("ms") and text[:-2].isdecimal() else seconds_of(option, text) * 1000


def inactive_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets when unused topics are deleted."""
    if values["enable"] == values["disable"]:
        raise WrongUsageError("Give either --enable-delete-while-inactive or --disable-delete-while-inactive")
    return {
        "inactiveTopicDeleteMode": values["mode"],
        "maxInactiveDurationSeconds": seconds_of("--max-inactive-duration", values["time"]),
        "deleteWhileInactive": values["enable"],
    }


def persistence_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets how cursors are stored."""
    try:
        rate = float(values["rate"])
    except ValueError:
        raise WrongUsageError(f"--ml-mark-delete-max-rate must be a number, not {values['rate']!r}") from None
    return {
        "bookkeeperEnsemble": values["ensemble"],
        "bookkeeperWriteQuorum": values["write"],
        "bookkeeperAckQuorum": values["ack"],
        "managedLedgerMaxMarkDeleteRate": rate,
    }


def dispatch_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets a rate of deliveries."""
    return {
        "dispatchThrottlingRateInMsg": values["messages"],
        "dispatchThrottlingRateInByte": bytes_of("--byte-dispatch-rate", values["bytes"]),
        "relativeToPublishRate": values["relative"],
        "ratePeriodInSecond": values["period"],
    }


def publish_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets a rate at which messages are accepted."""
    return {
        "publishThrottlingRateInMsg": values["messages"],
        "publishThrottlingRateInByte": bytes_of("--byte-publish-rate", values["bytes"]),
    }


def subscribe_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets how often a consumer may attach."""
    return {"subscribeThrottlingRatePerConsumer": values["rate"], "ratePeriodInSecond": values["period"]}


DELAYED_FLAGS: Final = (
    Flag("-e --enable", "enable", "Messages wait for their time.", Kind.SWITCH),
    Flag("-d --disable", "disable", "Messages do not wait.", Kind.SWITCH),
    Flag("-t --time", "time", "Pulsar's tick: seconds, or 1s, 100ms.", default="1s"),
    Flag("-md --maxDelay", "most", "The longest delay: seconds, or 1h, 2d; 0 means no limit.", default="0"),
)
INACTIVE_FLAGS: Final = (
    Flag("-e --enable-delete-while-inactive", "enable", "Delete unused topics.", Kind.SWITCH),
    Flag("-d --disable-delete-while-inactive", "disable", "Do not delete unused topics.", Kind.SWITCH),
    Flag("-t --max-inactive-duration", "time", "How long it must be unused: seconds, or 1h, 2d.", required=True),
    Flag("-m --delete-mode", "mode", "Which topics are unused.", choices=DELETE_MODES, required=True),
)
PERSISTENCE_FLAGS: Final = (
    Flag("-e --bookkeeper-ensemble", "ensemble", "Without effect.", Kind.NUMBER, default=2),
    Flag("-w --bookkeeper-write-quorum", "write", "Without effect.", Kind.NUMBER, default=2),
    Flag("-a --bookkeeper-ack-quorum", "ack", "Without effect.", Kind.NUMBER, default=2),
    Flag("-r --ml-mark-delete-max-rate", "rate", "How often a cursor is stored in a second; 0: always.", default="0"),
)
DISPATCH_FLAGS: Final = (
    Flag("-md --msg-dispatch-rate", "messages", "Messages; -1 means no limit.", Kind.NUMBER, default=-1),
    Flag("-bd --byte-dispatch-rate", "bytes", "Bytes, or 10M, 1G; -1 means no limit.", default="-1"),
    Flag("-dt --dispatch-rate-period", "period", "The period in seconds.", Kind.NUMBER, default=1),
    Flag("-rp --relative-to-publish-rate", "relative", "Add the rate at which messages arrive.", Kind.SWITCH),
)
PUBLISH_FLAGS: Final = (
    Flag("-m --msg-publish-rate", "messages", "Messages a second; -1 means no limit.", Kind.NUMBER, default=-1),
    Flag("-b --byte-publish-rate", "bytes", "Bytes a second, or 10M, 1G; -1 means no limit.", default="-1"),
)
SUBSCRIBE_FLAGS: Final = (
    Flag("-sr --subscribe-rate", "rate", "How often; -1 means no limit.", Kind.NUMBER, default=-1),
    Flag("-st --subscribe-rate-period", "period", "The period in seconds.", Kind.NUMBER, default=30),
)
TYPES_FLAG: Final = Flag(
    "-t --types", "types", "Exclusive, Shared, Failover, Key_Shared, separated by commas.", Kind.NAMES, required=True
)

NAMESPACE_RULES: Final = (
    *number_commands(
        NAMESPACE,
        "max-unacked-messages-per-consumer",
        of_namespace.UNACKED_PER_CONSUMER,
        "the most unacknowledged messages of a consumer",
        "-c --max-unacked-messages-per-topic",
    ),
    *number_commands(
        NAMESPACE,
        "max-unacked-messages-per-subscription",
        of_namespace.UNACKED_PER_SUBSCRIPTION,
        "the most unacknowledged messages of a subscription",
        "-c --max-unacked-messages-per-subscription",
    ),
    *policy_commands(
        NAMESPACE,
        "delayed-delivery",
        of_namespace.DELAYED_DELIVERY,
        "whether messages wait for their time",
        delayed_body,
        *DELAYED_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "inactive-topic-policies",
        of_namespace.INACTIVE_TOPICS,
        "when unused topics are deleted",
        inactive_body,
        *INACTIVE_FLAGS,
    ),
    *number_commands(
        NAMESPACE,
        "deduplication-snapshot-interval",
        _removed_by_change(of_namespace.DEDUPLICATION_SNAPSHOTS),
        "the seconds between snapshots of deduplication",
        "-i --interval",
    ),
    *policy_commands(
        NAMESPACE,
        "persistence",
        of_namespace.PERSISTENCE,
        "how often cursors are stored",
        persistence_body,
        *PERSISTENCE_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "subscription-expiration-time",
        of_namespace.SUBSCRIPTION_EXPIRATION,
        "the minutes after which unused subscriptions are deleted",
        lambda values: values["limit"],
        Flag("-t --time", "limit", "Minutes; 0 means never.", Kind.NUMBER, required=True),
    ),
    *policy_commands(
        NAMESPACE,
        "subscription-types-enabled",
        of_namespace.SUBSCRIPTION_TYPES,
        "the allowed types of subscriptions",
        lambda values: values["types"],
        TYPES_FLAG,
    ),
    *policy_commands(
        NAMESPACE,
        "publish-rate",
        of_namespace.PUBLISH_RATE,
        "the rate at which topics accept messages",
        publish_body,
        *PUBLISH_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "dispatch-rate",
        of_namespace.DISPATCH_RATE,
        "the rate at which topics deliver",
        dispatch_body,
        *DISPATCH_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "subscription-dispatch-rate",
        of_namespace.SUBSCRIPTION_DISPATCH_RATE,
        "the rate at which subscriptions deliver",
        dispatch_body,
        *DISPATCH_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "subscribe-rate",
        of_namespace.SUBSCRIBE_RATE,
        "how often a consumer may attach",
        subscribe_body,
        *SUBSCRIBE_FLAGS,
    ),
    *policy_commands(
        NAMESPACE,
        "dispatcher-pause-on-ack-state-persistent",
        of_namespace.DISPATCHER_PAUSE,
        "whether deliveries wait until acknowledgements can be stored",
        None,
    ),
)
