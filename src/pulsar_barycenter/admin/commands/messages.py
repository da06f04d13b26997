"""Stored messages, their ids, and the end of topics: commands of `topics`.

Source: Pulsar's `CmdTopics` and `TopicsImpl`.
"""

from datetime import datetime
from typing import Any, Final

from pulsar_barycenter.admin.client import Answer
from pulsar_barycenter.admin.commands.cursors import partition_index, position_of
from pulsar_barycenter.admin.commands.shown_messages import ShownMessage, messages_in, shown
from pulsar_barycenter.admin.commands.table import (
    TOPIC,
    Command,
    Flag,
    Kind,
    NotDoneError,
    Session,
    Values,
    WrongUsageError,
    command,
    parameters,
    path_of,
    request,
    send,
)
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.admin.routes import messages as routes
from pulsar_barycenter.admin.routes.route import Route

_NOT_FOUND: Final = 404
_NO_MESSAGE: Final = "Message not found"
"""How the reason begins if it is the message that does not exist, not the topic or subscription."""


async def _read(session: Session, route: Route, values: Values, query: Values | None = None) -> list[ShownMessage]:
    """Send the request of `route`, and return the message in the answer, or the messages of the batch in it."""
    answer: Answer = await session.read(path_of(route, values), params=parameters(values, query or {}))
    try:
        return messages_in(answer)
    except ValueError as error:
        raise NotDoneError(f"The answer of the broker cannot be shown: {error}") from error


async def _peek(session: Session, values: Values) -> str | None:
    """Return as text the first messages of a subscription's backlog: `count` of them, or all if there are fewer; None
    if there are none.
    """
    found: list[ShownMessage] = []
    place = 0
    while len(found) < values["count"]:
        place += 1
        try:
            found += await _read(session, routes.PEEK, {**values, "position": place})
        except AdminRequestError as error:
            if error.status != _NOT_FOUND or not error.reason.startswith(_NO_MESSAGE):
                raise
            break
    return shown(found[: values["count"]]) if found else None


async def _by_id(session: Session, values: Values) -> str:
    return shown((await _read(session, routes.GET_BY_ID, values))[:1])


async def _examine(session: Session, values: Values) -> str:
    query = {"initialPosition": "side", "messagePosition": "place"}
    return shown((await _read(session, routes.EXAMINE, values, query))[:1])


async def _id_by_time(session: Session, values: Values) -> Any:
    text = values["datetime"]
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUsageError(f"--datetime is {text!r}: give a time such as 2021-06-28T16:53:08Z") from error
    if time.tzinfo is None:
        raise WrongUsageError(f"--datetime is {text!r}: give its offset to UTC, such as in 2021-06-28T16:53:08Z")
    return await send(session, routes.GET_ID_BY_TIME, {**values, "timestamp": round(time.timestamp() * 1000)})


async def _last_id(session: Session, values: Values) -> dict[str, int]:
    """Return the id of a topic's last message as pulsar-admin prints it. It always has the fields `batchIndex` and
    `batchSize`: -1 and 0 if the message is not part of a batch.
    """
    found = await send(session, routes.GET_LAST_ID, values)
    return {**found, "batchIndex": found.get("batchIndex", -1), "batchSize": found.get("batchSize", 0)}


def _message_id(values: Values) -> dict[str, int]:
    return {**position_of("--messageId", values["position"]), "partitionIndex": partition_index(values["name"])}


TOPIC_MESSAGES: Final[tuple[Command, ...]] = (
    command(
        "peek-messages",
        "Show the first messages of a subscription's backlog.",
        _peek,
        TOPIC,
        Flag("-s --subscription", "subscription", "The subscription.", required=True),
        Flag("-n --count", "count", "The number of messages.", Kind.NUMBER, default=1),
    ),
    command(
        "examine-messages",
        "Show a message by its place from the first or the last one.",
        _examine,
        TOPIC,
        Flag("-i --initialPosition", "side", "Where to count from.", choices=("latest", "earliest"), default="latest"),
        Flag("-m --messagePosition", "place", "The place of the message, from 1.", Kind.NUMBER, default=1),
    ),
    command(
        "get-message-by-id",
        "Show a message by its id.",
        _by_id,
        TOPIC,
        Flag("-l --ledgerId", "ledger", "The ledger.", Kind.NUMBER, required=True),
        Flag("-e --entryId", "entry", "The entry in the ledger.", Kind.NUMBER, required=True),
    ),
    command(
        "get-message-id",
        "Show the id of the first message at a time or later.",
        _id_by_time,
        TOPIC,
        Flag("-d --datetime", "datetime", "The time, such as 2021-06-28T16:53:08Z.", required=True),
    ),
    command("last-message-id", "Show the id of the last message.", _last_id, TOPIC),
    command(
        "get-backlog-size",
        "Show how many bytes are stored after a message.",
        request(routes.GET_BACKLOG_SIZE, body=_message_id),
        TOPIC,
        Flag("-m --messageId", "position", "The message, LEDGER:ENTRY; -1:-1 for all messages.", required=True),
    ),
)


async def _terminate(session: Session, values: Values) -> str:
    found = await send(session, routes.TERMINATE, values)
    return f"Topic successfully terminated at {_text_of(found)}"


async def _terminate_partitions(session: Session, values: Values) -> str:
    found = await send(session, routes.TERMINATE_PARTITIONS, values)
    return "\n".join(
        f"Topic {values['name']}-partition-{index} successfully terminated at {_text_of(found[index])}"
        for index in sorted(found, key=int)
    )


def _text_of(message_id: dict[str, int]) -> str:
    """Return a message id as Pulsar's `MessageIdImpl` prints it."""
    return f"{message_id['ledgerId']}:{message_id['entryId']}:{message_id['partitionIndex']}"


TERMINATION: Final[tuple[Command, ...]] = (
    command("terminate", "Accept no messages any more.", _terminate, TOPIC),
    command("partitioned-terminate", "Accept no messages on any partition any more.", _terminate_partitions, TOPIC),
)
