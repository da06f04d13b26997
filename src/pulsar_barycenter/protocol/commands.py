"""Builds the frames that a broker sends, and those that brokers and clients send. `client_commands` has those that only
clients send.

All functions return whole frames. The commands that a busy broker sends most often, SEND_RECEIPT, the head of MESSAGE
and the owner in LOOKUP_RESPONSE, are encoded by hand (`benchmarks/protocol.py` measures them).

Source: binary-protocol reference, section 2.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from google.protobuf.message import Message

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import payload_header, simple_frame
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE
from pulsar_barycenter.protocol.varints import joined_varints, last_of_width, varint, varints

NO_REQUEST: Final = 2**64 - 1
"""The request id of a command that answers no request: a close by the broker, an error before the handshake is
complete.
"""

PROTOCOL_VERSION: Final = 21
"""The version of the binary protocol that this broker announces. It includes the migration of topics, which this broker
does not do.
"""

TYPE: Final = api.BaseCommand
AUTH_REFRESH: Final = b"PulsarAuthRefresh"
"""The content of an AUTH_CHALLENGE to a client whose credentials have expired. The client answers with new ones."""


# ---- hand-made hot commands ----


_MIN_BATCH: Final = 8
"""The minimum number of receipts that are built together: for fewer, building them one by one is as fast."""


def _heads(command_type: int) -> tuple[bytes, ...]:
    """Return the first bytes of a frame of this command type, for each size of its sub-message from 0 to 127: total
    size, command size, type, and tag and length of the sub-message.
    """
    tag = varint(command_type << 3 | 2)
    return tuple(
        simple_frame(b"\x08" + varint(command_type) + tag + varint(size) + bytes(size))[: 8 + 2 + len(tag) + 1]
        for size in range(128)
    )


_RECEIPT_HEADS: Final = _heads(7)


def send_receipt(
    producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, highest_sequence_id: int = 0
) -> bytes:
    """Return a SEND_RECEIPT frame. `sequence_id` and `highest_sequence_id` are those of the SEND that is
    acknowledged.
    """
    message_id = b"\x08%b\x10%b" % (varint(ledger_id), varint(entry_id))
    body = b"\x08%b\x10%b\x1a%c%b" % (varint(producer_id), varint(sequence_id), len(message_id), message_id)
    if highest_sequence_id:
        body += b"\x20" + varint(highest_sequence_id)
    return _RECEIPT_HEADS[len(body)] + body


def send_receipts(
    producer_id: int, sequence_ids: Sequence[int], highest_ids: Sequence[int], ledger_id: int, first_entry_id: int
) -> bytes:
    """Return the SEND_RECEIPT frames for one or more entries with consecutive entry ids, concatenated. `sequence_ids`
    and `highest_ids` have an item for each entry; see `send_receipt`.
    """
    count = len(sequence_ids)
    if count == 1:
        return send_receipt(producer_id, sequence_ids[0], ledger_id, first_entry_id, highest_ids[0])
    if count < _MIN_BATCH or any(highest_ids):
        ids = zip(sequence_ids, range(first_entry_id, first_entry_id + count), highest_ids, strict=True)
        return b"".join([send_receipt(producer_id, sent, ledger_id, entry, highest) for sent, entry, highest in ids])
    first = sequence_ids[0]
    if sequence_ids[-1] - first == count - 1 and list(sequence_ids) == list(range(first, first + count)):
        return _receipts_in_a_row(producer_id, first, ledger_id, first_entry_id, count)
    sequences = [varint(number) for number in sequence_ids]
    head = b"\x08" + varint(producer_id) + b"\x10"
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    fixed = len(head) + 2 + len(ledger)
    begin = middle = b""
    sizes = (0, 0)
    parts: list[bytes] = []
    for sequence, entry in zip(sequences, varints(first_entry_id, count), strict=True):
        if (len(sequence), len(entry)) != sizes:
            sizes = len(sequence), len(entry)
            begin = _RECEIPT_HEADS[fixed + len(sequence) + len(entry)] + head
            middle = b"\x1a%c%b" % (len(ledger) + len(entry), ledger)
        parts += (begin, sequence, middle, entry)
    return b"".join(parts)


def _receipts_in_a_row(producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, count: int) -> bytes:
    """Return the SEND_RECEIPT frames for `count` SENDs, concatenated. From one SEND to the next, the sequence id and
    the entry id increase by one; `sequence_id` and `entry_id` are those of the first.
    """
    receipts: list[bytes] = []
    while count:
        alike = min(count, last_of_width(sequence_id) + 1 - sequence_id, last_of_width(entry_id) + 1 - entry_id)
        receipts.append(_receipts_of_one_size(producer_id, sequence_id, ledger_id, entry_id, alike))
        sequence_id += alike
        entry_id += alike
        count -= alike
    return b"".join(receipts)


def _receipts_of_one_size(producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, count: int) -> bytes:
    """Return the result of `_receipts_in_a_row` for ids that all have the same number of bytes: the first receipt is
    repeated, and in the copies its ids are replaced by the other ids.
    """
    first = send_receipt(producer_id, sequence_id, ledger_id, entry_id)
    size = len(first)
    entries = joined_varints(entry_id, count)
    sequences = joined_varints(sequence_id, count)
    entry_width, sequence_width = len(entries) // count, len(sequences) // count
    sequence_end = size - entry_width - 4 - len(varint(ledger_id))
    receipts = bytearray(first * count)
    for end, width, ids in ((size, entry_width, entries), (sequence_end, sequence_width, sequences)):
        for byte in range(width):
            receipts[end - width + byte :: size] = ids[byte::width]
    return bytes(receipts)


def messages(
    consumer_id: int,
    ledger_id: int,
    first_entry_id: int,
    entries: Sequence[bytes],
    *,
    partition: int = -1,
    consumer_epoch: int | None = None,
) -> list[bytes]:
    """Return the MESSAGE frames of entries with consecutive entry ids, the first of which is `first_entry_id`. The
    result is a list of parts which, joined, are the frames; each of `entries` is itself one of the parts, so that it is
    not copied here.
    """
    if len(entries) == 1:
        size = len(entries[0])
        head = message_header(
            consumer_id, ledger_id, first_entry_id, size, partition=partition, consumer_epoch=consumer_epoch
        )
        return [head, entries[0]]
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    of_partition = b"\x18" + varint(partition) if partition >= 0 else b""
    of_epoch = b"\x28" + varint(consumer_epoch) if consumer_epoch is not None else b""
    end = of_partition + of_epoch
    begin = b""
    sizes = (-1, -1)
    parts: list[bytes] = []
    for entry_id, entry in zip(varints(first_entry_id, len(entries)), entries, strict=True):
        if (len(entry_id), len(entry)) != sizes:
            sizes = len(entry_id), len(entry)
            id_size = len(ledger) + len(entry_id) + len(of_partition)
            head = b"\x08%b\x12%c%b" % (varint(consumer_id), id_size, ledger)
            rest = len(entry_id) + len(end)
            command = b"\x08\x09\x4a%c%b" % (len(head) + rest, head)
            begin = payload_header(command + entry_id + end, len(entry))[:-rest]
        parts += (begin, entry_id, end, entry) if end else (begin, entry_id, entry)
    return parts


def message_header(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    entry_size: int,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: Sequence[int] = (),
    consumer_epoch: int | None = None,
) -> bytes:
    """Return the bytes to send before a stored entry of `entry_size` bytes: sizes and a MESSAGE command.

    `partition` is the index of the partition; -1: the topic is not a partition. A set bit in `ack_set` represents a
    message of the batch that is still to be delivered.
    """
    message_id = b"\x08%b\x10%b" % (varint(ledger_id), varint(entry_id))
    if partition >= 0:
        message_id += b"\x18" + varint(partition)
    body = b"\x08%b\x12%c%b" % (varint(consumer_id), len(message_id), message_id)
    if redelivery_count:
        body += b"\x18" + varint(redelivery_count)
    for word in ack_set:
        body += b"\x20" + varint(word & NO_REQUEST)
    if consumer_epoch is not None:
        body += b"\x28" + varint(consumer_epoch)
    return payload_header(b"\x08\x09\x4a%b%b" % (varint(len(body)), body), entry_size)


# ---- both directions ----


def encode(command: api.BaseCommand) -> bytes:
    """Return the frame of a command without an entry.

    Raises:
        google.protobuf.message.EncodeError: a required field is missing.
    """
    return simple_frame(command.SerializeToString())


def command_frame(command_type: api.BaseCommand.Type.ValueType, **fields: Any) -> bytes:
    """Return the frame of a command of the type `command_type`. `fields` are the fields of its sub-message; fields that
    are None are omitted.
    """
    command = api.BaseCommand(type=command_type)
    message = getattr(command, FIELD_OF_TYPE[command_type])
    message.SetInParent()
    for name, value in fields.items():
        if value is None:
            continue
        if isinstance(value, Message):
            getattr(message, name).CopyFrom(value)
        elif isinstance(value, (list, tuple)):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return simple_frame(command.SerializeToString())


PING: Final = command_frame(TYPE.PING)
PONG: Final = command_frame(TYPE.PONG)


def message_id(
    ledger_id: int,
    entry_id: int,
    *,
    partition: int | None = None,
    batch_index: int | None = None,
    ack_set: Iterable[int] = (),
) -> api.MessageIdData:
    """Return a message id for a command; `partition` and `batch_index` are left out if they are None or negative. A set
    bit in `ack_set` represents a message of the batch that is not acknowledged. Negative ledger or entry ids are
    encoded as 64-bit two's complement.
    """
    data = api.MessageIdData(ledgerId=ledger_id & NO_REQUEST, entryId=entry_id & NO_REQUEST)
    if partition is not None and partition >= 0:
        data.partition = partition
    if batch_index is not None and batch_index >= 0:
        data.batch_index = batch_index
    data.ack_set.extend(ack_set)
    return data


def signed(number: int) -> int:
    """Return an id from the wire as a signed number: 2^64-1 is -1."""
    return number - 2**64 if number >= 2**63 else number


# ---- what a broker sends ----


def connected(
    server_version: str,
    *,
    protocol_version: int,
    max_message_size: int,
    feature_flags: api.FeatureFlags | None = None,
) -> bytes:
    return command_frame(
        TYPE.CONNECTED,
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=feature_flags,
    )


def auth_challenge(server_version: str, method: str) -> bytes:
    """Return the AUTH_CHALLENGE frame, which requests new credentials from a client; `method` is the name of the
    authentication method.
    """
    challenge = api.AuthData(auth_method_name=method, auth_data=AUTH_REFRESH)
    return command_frame(
        TYPE.AUTH_CHALLENGE, server_version=server_version, challenge=challenge, protocol_version=PROTOCOL_VERSION
    )


def success(request_id: int) -> bytes:
    return command_frame(TYPE.SUCCESS, request_id=request_id)


def error(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    """Return an ERROR frame, the answer to a request that failed; `code` is Pulsar's error code. Use it only if the
    response type of the request has no error field of its own.
    """
    return command_frame(TYPE.ERROR, request_id=request_id, error=code, message=message)


def producer_success(
    request_id: int,
    producer_name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes | None = None,
    topic_epoch: int | None = None,
    producer_ready: bool | None = None,
) -> bytes:
    return command_frame(
        TYPE.PRODUCER_SUCCESS,
        request_id=request_id,
        producer_name=producer_name,
        last_sequence_id=signed(last_sequence_id),
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=producer_ready,
    )


def send_error(producer_id: int, sequence_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(TYPE.SEND_ERROR, producer_id=producer_id, sequence_id=sequence_id, error=code, message=message)


def close_producer(
    producer_id: int,
    request_id: int = NO_REQUEST,
    *,
    assigned_url: str | None = None,
    assigned_url_tls: str | None = None,
) -> bytes:
    """Return a CLOSE_PRODUCER frame. A client sends it with a request id. A broker sends it without a request id; if
    the new owner of the topic is known, the broker adds its URLs (`assigned_url` without TLS, `assigned_url_tls` with
    TLS).
    """
    return command_frame(
        TYPE.CLOSE_PRODUCER,
        producer_id=producer_id,
        request_id=request_id,
        assignedBrokerServiceUrl=assigned_url,
        assignedBrokerServiceUrlTls=assigned_url_tls,
    )


def close_consumer(
    consumer_id: int,
    request_id: int = NO_REQUEST,
    *,
    assigned_url: str | None = None,
    assigned_url_tls: str | None = None,
) -> bytes:
    """Return a CLOSE_CONSUMER frame. The arguments are those of `close_producer`."""
    return command_frame(
        TYPE.CLOSE_CONSUMER,
        consumer_id=consumer_id,
        request_id=request_id,
        assignedBrokerServiceUrl=assigned_url,
        assignedBrokerServiceUrlTls=assigned_url_tls,
    )


def partitions(request_id: int, count: int) -> bytes:
    """Return the answer to PARTITIONED_METADATA. `count` is the number of partitions; 0: the topic is not
    partitioned.
    """
    return command_frame(
        TYPE.PARTITIONED_METADATA_RESPONSE,
        request_id=request_id,
        partitions=count,
        response=api.CommandPartitionedTopicMetadataResponse.Success,
    )


def partitions_failed(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(
        TYPE.PARTITIONED_METADATA_RESPONSE,
        request_id=request_id,
        response=api.CommandPartitionedTopicMetadataResponse.Failed,
        error=code,
        message=message,
    )


def scalable_topic_layout(session_id: int, topic: str, segments: list[api.SegmentInfoProto]) -> bytes:
    """Return the answer to SCALABLE_TOPIC_LOOKUP for an ordinary topic; `topic` is its full name, and `segments` are
    its partitions. The layout in the answer has epoch 0.
    """
    return command_frame(
        TYPE.SCALABLE_TOPIC_UPDATE,
        session_id=session_id,
        dag=api.ScalableTopicDAG(epoch=0, segments=segments),
        resolved_topic_name=f"topic://{topic.partition('://')[2]}",
    )


def scalable_topic_failed(session_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(TYPE.SCALABLE_TOPIC_UPDATE, session_id=session_id, error=code, message=message)


def scalable_subscribe_failed(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(TYPE.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE, request_id=request_id, error=code, message=message)


def no_scalable_topics(watch_id: int) -> bytes:
    """Return the answer to WATCH_SCALABLE_TOPICS: the namespace has no scalable topic."""
    return command_frame(TYPE.WATCH_SCALABLE_TOPICS_UPDATE, watch_id=watch_id, snapshot=api.ScalableTopicsSnapshot())


def scalable_topics_failed(watch_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(TYPE.WATCH_SCALABLE_TOPICS_UPDATE, watch_id=watch_id, error=code, message=message)


def lookup_connect(
    request_id: int, url: str, url_tls: str | None = None, *, authoritative: bool = True, through_proxy: bool = False
) -> bytes:
    """Return the answer to LOOKUP which says that the broker at `url` (with TLS: `url_tls`) serves the topic.
    `authoritative` and `through_proxy` are fields of the answer; with the latter the client connects through its proxy,
    which forwards to `url`.
    """
    encoded = varint(request_id)
    before, after = _around_request_id(url, url_tls, authoritative, through_proxy, len(encoded))
    return before + encoded + after


_HIGHEST_IDS: Final = tuple(
    (number, varint(number)) for number in (*((1 << 7 * size) - 1 for size in range(1, 10)), NO_REQUEST)
)
"""The highest request id of 1 to 10 bytes, and its encoding."""


@lru_cache(maxsize=4096)
def _around_request_id(
    url: str, url_tls: str | None, authoritative: bool, through_proxy: bool, size: int
) -> tuple[bytes, bytes]:
    """Return the bytes that come before and after the request id, which has `size` bytes, in the frame of
    `lookup_connect`. Cached, because there are few brokers and many look-ups.
    """
    longest, encoded = _HIGHEST_IDS[size - 1]
    frame = command_frame(
        TYPE.LOOKUP_RESPONSE,
        request_id=longest,
        brokerServiceUrl=url,
        brokerServiceUrlTls=url_tls,
        response=api.CommandLookupTopicResponse.Connect,
        authoritative=authoritative,
        proxy_through_service_url=through_proxy,
    )
    before, _, after = frame.rpartition(b"\x20" + encoded)
    return before + b"\x20", after


def lookup_redirect(request_id: int, url: str, url_tls: str | None = None, *, authoritative: bool) -> bytes:
    """Return the answer to LOOKUP which redirects the client: it should send the look-up to the broker at `url` (with
    TLS: `url_tls`), and set the field `authoritative` of that look-up to this value.
    """
    return command_frame(
        TYPE.LOOKUP_RESPONSE,
        request_id=request_id,
        brokerServiceUrl=url,
        brokerServiceUrlTls=url_tls,
        response=api.CommandLookupTopicResponse.Redirect,
        authoritative=authoritative,
    )


def lookup_failed(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(
        TYPE.LOOKUP_RESPONSE,
        request_id=request_id,
        response=api.CommandLookupTopicResponse.Failed,
        error=code,
        message=message,
    )


def ack_response(
    consumer_id: int,
    request_id: int,
    *,
    code: api.ServerError.ValueType | None = None,
    message: str | None = None,
) -> bytes:
    return command_frame(TYPE.ACK_RESPONSE, consumer_id=consumer_id, request_id=request_id, error=code, message=message)


def active_consumer_change(consumer_id: int, *, is_active: bool) -> bytes:
    return command_frame(TYPE.ACTIVE_CONSUMER_CHANGE, consumer_id=consumer_id, is_active=is_active)


def reached_end_of_topic(consumer_id: int) -> bytes:
    return command_frame(TYPE.REACHED_END_OF_TOPIC, consumer_id=consumer_id)


def last_message_id(request_id: int, last: api.MessageIdData, *, mark_delete: api.MessageIdData | None = None) -> bytes:
    return command_frame(
        TYPE.GET_LAST_MESSAGE_ID_RESPONSE,
        request_id=request_id,
        last_message_id=last,
        consumer_mark_delete_position=mark_delete,
    )


def topics_of_namespace_response(
    request_id: int,
    topics: Sequence[str],
    *,
    filtered: bool = False,
    topics_hash: str | None = None,
    changed: bool = True,
) -> bytes:
    return command_frame(
        TYPE.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        request_id=request_id,
        topics=list(topics),
        filtered=filtered,
        topics_hash=topics_hash,
        changed=changed,
    )


def schema_failed(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    """Return the error answer to GET_SCHEMA. The code TopicNotFound means that the topic has no schema."""
    return command_frame(TYPE.GET_SCHEMA_RESPONSE, request_id=request_id, error_code=code, error_message=message)


def schema_response(request_id: int, schema: api.Schema, schema_version: bytes) -> bytes:
    return command_frame(TYPE.GET_SCHEMA_RESPONSE, request_id=request_id, schema=schema, schema_version=schema_version)


def create_schema_response(
    request_id: int,
    *,
    schema_version: bytes | None = None,
    code: api.ServerError.ValueType | None = None,
    message: str | None = None,
) -> bytes:
    return command_frame(
        TYPE.GET_OR_CREATE_SCHEMA_RESPONSE,
        request_id=request_id,
        schema_version=schema_version,
        error_code=code,
        error_message=message,
    )


def consumer_stats_response(request_id: int, **stats: float | str | bool) -> bytes:
    """Return a CONSUMER_STATS_RESPONSE. `stats` are fields of CommandConsumerStatsResponse by their names on the wire
    (`msgRateOut`, …).
    """
    return command_frame(TYPE.CONSUMER_STATS_RESPONSE, request_id=request_id, **stats)


def consumer_stats_failed(request_id: int, code: api.ServerError.ValueType, message: str) -> bytes:
    return command_frame(TYPE.CONSUMER_STATS_RESPONSE, request_id=request_id, error_code=code, error_message=message)


def refuse_transaction(command_type: int, request_id: int, message: str) -> bytes:
    """Return the answer that refuses a transaction command, with the error NotAllowedError. `command_type` is one of
    the even types 50 to 62; the type of the answer is the next number.
    """
    response: Any = command_type + 1
    return command_frame(response, request_id=request_id, error=api.NotAllowedError, message=message)
