"""The cursors of subscriptions: commands of `topics` and `namespaces`.

Source: Pulsar's `CmdTopics`, `CmdNamespaces` and `RelativeTimeUtil`.
"""

import time
from typing import Any, Final

from pulsar_barycenter.admin.commands.table import (
    NAMESPACE,
    TOPIC,
    Command,
    Flag,
    Kind,
    Session,
    Values,
    WrongUsageError,
    command,
    request,
    send,
)
from pulsar_barycenter.admin.routes import messages as routes

_SUBSCRIPTION: Final = Flag("-s --subscription", "subscription", "The subscription.", required=True)
_BUNDLE: Final = Flag("-b --bundle", "range", "Only in this hash range, such as 0x00000000_0x80000000.")
_EXCLUDE: Final = Flag("-e --exclude-reset-position", "excluded", "Start after this message.", Kind.SWITCH)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_PARTITION: Final = "-partition-"


def position_of(flag: str, text: str) -> dict[str, int]:
    """Return `LEDGER:ENTRY`, the value of `flag`, as the fields of a message id.

    Raises:
        WrongUsageError: the text is not of this form.
    """
    try:
        ledger, entry = text.split(":")
        return {"ledgerId": int(ledger), "entryId": int(entry)}
    except ValueError as error:
        raise WrongUsageError(f"{flag} is {text!r}: give LEDGER:ENTRY, such as 3:7") from error


def partition_index(topic: str) -> int:
    """Return the partition index in the name of a topic; -1 if the topic is not a partition."""
    index = topic.rpartition(_PARTITION)[2] if _PARTITION in topic else ""
    return int(index) if index.isascii() and index.isdecimal() else -1


def seconds_of(flag: str, text: str) -> int:
    """Return a time such as `30s`, `100m`, `3h`, `2d`, `5w` or `1y`, the value of `flag`, in seconds. A number without
    a unit is in seconds.

    Raises:
        WrongUsageError: the text is not of this form.
    """
    unit = _SECONDS.get(text[-1:].lower())
    number = text if unit is None else text[:-1]
    if not number.isascii() or not number.isdecimal():
        raise WrongUsageError(f"{flag} is {text!r}: give a number and a unit of s, m, h, d, w or y, such as 100m or 2d")
    return int(number) * (unit or 1)


async def _expire(session: Session, values: Values) -> Any:
    seconds, position = values["seconds"], values["position"]
    if (seconds is None) == (position is None):
        raise WrongUsageError("give either --expireTime or --position")
    if seconds is not None:
        return await send(session, routes.EXPIRE, values)
    index = partition_index(values["name"])
    body = {**position_of("--position", position), "partitionIndex": index, "excluded": values["excluded"]}
    return await send(session, routes.EXPIRE_BY_POSITION, values, body=body)


async def _reset(session: Session, values: Values) -> Any:
    back, message_id = values["back"], values["message_id"]
    if (back is None) == (message_id is None):
        raise WrongUsageError("give either --time or --messageId")
    if message_id is not None:
        body = {**position_of("--messageId", message_id), "excluded": values["excluded"]}
        return await send(session, routes.RESET_TO_POSITION, values, body=body)
    timestamp = round(time.time() * 1000) - 1000 * seconds_of("--time", back)
    return await send(session, routes.RESET_TO_TIME, {**values, "timestamp": max(timestamp, 0)})


async def _clear_namespace(session: Session, values: Values) -> Any:
    if not values["force"]:
        raise WrongUsageError("clear-backlog skips all messages that are not acknowledged yet: give --force to do that")
    if values["range"]:
        route = routes.CLEAR_BUNDLE_SUBSCRIPTION if values["subscription"] else routes.CLEAR_BUNDLE
    else:
        route = routes.CLEAR_NAMESPACE_SUBSCRIPTION if values["subscription"] else routes.CLEAR_NAMESPACE
    return await send(session, route, values)


def _analysis_start(values: Values) -> dict[str, Any] | None:
    return None if values["position"] is None else position_of("--position", values["position"])


async def _unsubscribe_namespace(session: Session, values: Values) -> Any:
    route = routes.UNSUBSCRIBE_BUNDLE if values["range"] else routes.UNSUBSCRIBE_NAMESPACE
    return await send(session, route, values)


NAMESPACE_CURSORS: Final[tuple[Command, ...]] = (
    command(
        "clear-backlog",
        "Skip all messages of a namespace, or of a bundle.",
        _clear_namespace,
        NAMESPACE,
        Flag("-s --sub", "subscription", "Only of this subscription."),
        _BUNDLE,
        Flag("-force --force", "force", "Do it: this command does not ask.", Kind.SWITCH),
    ),
    command(
        "unsubscribe",
        "Delete a subscription on all topics of a namespace, or of a bundle.",
        _unsubscribe_namespace,
        NAMESPACE,
        Flag("-s --sub", "subscription", "The subscription.", required=True),
        _BUNDLE,
    ),
)

TOPIC_CURSORS: Final[tuple[Command, ...]] = (
    command(
        "skip",
        "Skip messages of a subscription; a batch counts as one.",
        request(routes.SKIP),
        TOPIC,
        _SUBSCRIPTION,
        Flag("-n --count", "count", "The number of messages.", Kind.NUMBER, required=True),
    ),
    command(
        "clear-backlog",
        "Skip all messages of a subscription.",
        request(routes.SKIP_ALL),
        TOPIC,
        _SUBSCRIPTION,
    ),
    command("truncate", "Skip all messages of all subscriptions, and delete them.", request(routes.TRUNCATE), TOPIC),
    command("trim-topic", "Start to delete ledgers that nobody needs.", request(routes.TRIM), TOPIC),
    command(
        "analyze-backlog",
        "Count the messages in a subscription's backlog.",
        request(routes.ANALYZE, body=_analysis_start),
        TOPIC,
        _SUBSCRIPTION,
        Flag("-p --position", "position", "The message to start at, LEDGER:ENTRY."),
    ),
    command(
        "expire-messages",
        "Skip messages of a subscription that are old, or up to a message.",
        _expire,
        TOPIC,
        _SUBSCRIPTION,
        Flag("-t --expireTime", "seconds", "Skip messages older than this, in seconds.", Kind.NUMBER),
        Flag("-p --position", "position", "Skip messages up to this one, LEDGER:ENTRY."),
        _EXCLUDE,
    ),
    command(
        "expire-messages-all-subscriptions",
        "Skip old messages of all subscriptions.",
        request(routes.EXPIRE_ALL),
        TOPIC,
        Flag("-t --expireTime", "seconds", "Skip messages older than this, in seconds.", Kind.NUMBER, required=True),
    ),
    command(
        "reset-cursor",
        "Deliver messages of a subscription again.",
        _reset,
        TOPIC,
        _SUBSCRIPTION,
        Flag("-t --time", "back", "How far to go back, such as 30s, 100m, 3h, 2d or 5w."),
        Flag("-m --messageId", "message_id", "The first message to deliver, LEDGER:ENTRY."),
        _EXCLUDE,
    ),
)
