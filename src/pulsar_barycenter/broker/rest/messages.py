"""Answers with stored messages and their ids: by the position in a backlog, by id, by number, or by time.

A message is a whole entry: the body of a batch has all its messages. These requests do not move a cursor.
Source: Pulsar's `PersistentTopicsBase`.
"""

from typing import Any, Final

from aiohttp import web

from pulsar_barycenter.broker.compaction.compression import UnreadablePayloadError, decompress
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.message_headers import message_headers
from pulsar_barycenter.broker.rest.persistent_topics import (
    MAX_INT32,
    MAX_INT64,
    PersistentTopics,
    number_in_path,
    subscription_in,
)
from pulsar_barycenter.broker.rest.requests import body_of, choice, json_response, subscription_of, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.subscriptions import ResetCursorData
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.managed.unacked import nth_entry, unacked_stretches
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import metadata_span, read_metadata

MOST_HEADERS: Final = 64 << 10
"""The maximum number of characters of the HTTP headers of an answer with a message. Its properties may be larger than
clients accept.
"""
_FARTHEST: Final = 10**18 - 1


class Messages:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._topics = PersistentTopics(services)

    # ---- messages ----

    async def peek(self, request: web.Request) -> web.Response:
        """Answer with entry number n of a subscription's backlog; n is in the path. The first entry that is not
        acknowledged has number 1. Acknowledged entries are not counted, and a batch counts as one entry.
        """
        number = number_in_path(request, "position", at_least=1, at_most=MAX_INT32)
        topic = await self._topics.without_partitions(request, "Peek messages")
        subscription = subscription_in(topic, subscription_of(request))
        found = nth_entry(subscription.cursor.unacked(), number)
        if found == EARLIEST:
            backlog = subscription.cursor.backlog_entries
            raise RestError(
                404, f"Message not found: the backlog has {count_of(backlog, 'entry')}, so it has no message {number}"
            )
        return await self._message(topic, found)

    async def by_id(self, request: web.Request) -> web.Response:
        ledger_id = number_in_path(request, "ledger", at_most=MAX_INT64)
        entry_id = number_in_path(request, "entry", at_most=MAX_INT64)
        topic = await self._topics.without_partitions(request, "Get message by id")
        return await self._message(topic, Position(ledger_id, entry_id))

    async def examine(self, request: web.Request) -> web.Response:
        """Answer with entry number n of the topic; n is the parameter `messagePosition`. If the parameter
        `initialPosition` is `earliest`, entry 1 is the first of the topic; otherwise entry 1 is the last one, and entry
        2 the one before it.

        If the topic has fewer than n entries, answer with the entry at the other end of the topic, as in Pulsar.
        """
        side = choice(request, "initialPosition", ("latest", "earliest"))
        place = max(whole_number(request, "messagePosition", 1, at_most=_FARTHEST), 1)
        topic = await self._topics.without_partitions(request, "Examine messages")
        segments, last = topic.ledger.segments, topic.ledger.last_position
        total = segments.entries_between(EARLIEST, last)
        if not total:
            raise RestError(412, f"Could not examine messages: topic {topic.name} has none")
        number = min(place, total) if side == "earliest" else max(total - place + 1, 1)
        return await self._message(topic, nth_entry(unacked_stretches(segments, EARLIEST, (), last), number))

    async def _message(self, topic: PersistentTopic, position: Position) -> web.Response:
        """Answer with the entry at `position`.

        Raises:
            RestError: 404, there is no such entry; 412, its payload cannot be decompressed, or its metadata is larger
                than headers may be; 500, its metadata cannot be parsed.
        """
        entries = await topic.ledger.read(position, 1, 1) if topic.ledger.segments.has(position) else []
        if not entries or entries[0].position != position:
            raise RestError(404, f"Message not found: {position}")
        data = entries[0].data
        try:
            metadata = read_metadata(data)
        except MalformedFrameError as error:
            raise RestError(500, f"Message {position} cannot be shown: {error}") from error
        begin = metadata_span(data)[1]
        size = len(data) - metadata.ByteSize()
        headers = list(message_headers(position, metadata, size))
        if (length := sum(len(name) + len(value) for name, value in headers)) > MOST_HEADERS:
            raise RestError(
                412,
                f"Message {position} has metadata of {length} characters; at most {MOST_HEADERS} fit into headers: "
                "read it with a consumer",
            )
        body = await _payload(position, metadata, data[begin:])
        response = web.Response(body=body, content_type="application/octet-stream")
        for name, value in headers:
            response.headers.add(name, value)  # a name may come more than once
        return response

    # ---- ids ----

    async def id_by_index(self, request: web.Request) -> web.Response:
        index = request.rel_url.query.get("index", "")[:100]
        raise RestError(
            412,
            f"Index {index!r}: GetMessageIDByIndex is not allowed when broker entry metadata is disabled, and on "
            "this broker messages have no index. Request the id by time: /messageid/{timestamp}",
        )

    async def last_id(self, request: web.Request) -> web.Response:
        topic = await self._topics.without_partitions(request, "GetLastMessageId")
        position, batch_index = await topic.last_message_id()
        found = message_id(topic, position)
        return json_response(found if batch_index < 0 else {**found, "batchIndex": batch_index})

    async def id_by_time(self, request: web.Request) -> web.Response:
        """Answer with the id of the first entry that was published at the given time or later. If all entries are
        older, answer with the id that the next entry will get, as in Pulsar.
        """
        time_ms = number_in_path(request, "timestamp", at_most=MAX_INT64)
        topic = await self._topics.without_partitions(request, "Get message ID by timestamp")
        ledger = topic.ledger
        if not len(ledger.segments):
            raise RestError(404, "Message ID not found")
        found = await ledger.find_by_publish_time(time_ms)
        return json_response(message_id(topic, found or ledger.next_valid(ledger.last_position)))

    async def backlog_size(self, request: web.Request) -> web.Response:
        """Answer with the number of bytes in the topic from the entry after the given message id to the last entry. If
        the message id has no ledger (-1), or the body is empty, all stored bytes are counted.
        """
        wanted = await body_of(request, ResetCursorData) or ResetCursorData(ledger_id=-1)
        topic = await self._topics.without_partitions(request, "Calculate backlog size")
        after = Position(wanted.ledger_id, wanted.entry_id) if wanted.ledger_id >= 0 else EARLIEST
        return json_response(topic.ledger.segments.bytes_between(after, topic.ledger.last_position))


def message_id(topic: PersistentTopic, position: Position) -> dict[str, Any]:
    """Return the id of the entry at `position`, in the format of Pulsar's `MessageIdImpl`."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": topic.name.partition_index,
    }


async def _payload(position: Position, metadata: api.MessageMetadata, stored: bytes) -> bytes:
    """Return the decompressed payload. The payload of an encrypted message is returned as it is stored."""
    if metadata.encryption_keys:
        return stored
    try:
        return await decompress(metadata.compression, stored, metadata.uncompressed_size)
    except ModuleNotFoundError as error:
        why = "pyarrow is not installed on the broker. Install pulsar-barycenter[history] there."
        raise RestError(412, _not_shown(position, metadata, why)) from error
    except UnreadablePayloadError as error:
        raise RestError(412, _not_shown(position, metadata, str(error))) from error


def _not_shown(position: Position, metadata: api.MessageMetadata, why: str) -> str:
    kind = api.CompressionType.Name(metadata.compression)
    return f"Message {position} is compressed with {kind}, and cannot be shown: {why}"
