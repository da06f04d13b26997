"""Encodes messages as entries, and decodes entries; no I/O.

This client writes one uncompressed message in each entry. It reads entries of any client: batches too, compressed or
not. It does not read chunked and encrypted messages. Source: binary-protocol reference, section 2.7.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from pulsar_barycenter.broker.system_topics.compression import decompress
from pulsar_barycenter.broker.system_topics.errors import UnreadableEntryError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import ChecksumMismatchError, MalformedFrameError
from pulsar_barycenter.protocol.frames import DEFAULT_MAX_MESSAGE_SIZE, encode_entry, split_entry, verify_checksum

MOST_MESSAGES: Final = 100_000
"""The maximum number of messages in a batch that is read."""

_SIZE: Final = struct.Struct(">I")


class MessageId(NamedTuple):
    """The position of a message. `batch_index` is -1 if the message is not in a batch."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1


Content: TypeAlias = "tuple[int, str | None, bytes | None]"
"""A message in an entry: its index in the batch (-1 if it is not in a batch), its key, and its value (None is a null
value).
"""


class ReadEntry(NamedTuple):
    producer: str
    sequence_id: int
    publish_time_ms: int
    permits: int
    """The number of a consumer's permits that the entry costs: its number of messages."""
    messages: Sequence[Content]


def encode_message(producer: str, sequence_id: int, publish_time_ms: int, key: str, value: bytes | None) -> bytes:
    """Return the entry of one message of the producer named `producer`. `key` is the message's key. With the value
    None, the message is a null value: compaction removes the key.
    """
    metadata = api.MessageMetadata(
        producer_name=producer, sequence_id=sequence_id, publish_time=publish_time_ms, partition_key=key
    )
    if value is None:
        metadata.null_value = True
    return encode_entry(metadata.SerializeToString(), value or b"")


def read_entry(entry: bytes) -> ReadEntry:
    """Parse an entry, and return its messages in order. A marker has no messages, because markers are not for
    applications.

    Raises:
        UnreadableEntryError: the entry is damaged or inconsistent, or its messages are chunked or encrypted.
    """
    try:
        verify_checksum(entry)
        metadata, payload = split_entry(entry)
    except (ChecksumMismatchError, MalformedFrameError) as error:
        raise UnreadableEntryError(str(error)) from error
    if not (_is_text(metadata.producer_name) and _is_text(metadata.partition_key)):
        raise UnreadableEntryError("the producer name or the key of the entry is not UTF-8")
    is_batch = metadata.HasField("num_messages_in_batch")
    count = metadata.num_messages_in_batch if is_batch else 1
    if not 0 < count <= MOST_MESSAGES:
        raise UnreadableEntryError(f"the batch has {count_of(count, 'message')}: from 1 to {MOST_MESSAGES} are allowed")
    messages: Sequence[Content] = ()
    if not metadata.HasField("marker_type"):
        messages = _messages(metadata, payload, count if is_batch else 0)
    return ReadEntry(metadata.producer_name, metadata.sequence_id, metadata.publish_time, count, messages)


def _messages(metadata: api.MessageMetadata, payload: bytes, batched: int) -> Sequence[Content]:
    if metadata.num_chunks_from_msg > 1:
        raise UnreadableEntryError("the message is chunked: this client does not read chunks")
    if metadata.encryption_keys:
        raise UnreadableEntryError("the message is encrypted: this client has no keys")
    plain = decompress(metadata.compression, payload, metadata.uncompressed_size, limit=DEFAULT_MAX_MESSAGE_SIZE)
    if batched:
        return _unpacked(plain, batched)
    key = metadata.partition_key if metadata.HasField("partition_key") and not metadata.null_partition_key else None
    return ((-1, key, None if metadata.null_value else plain),)


def _unpacked(payload: bytes, count: int) -> list[Content]:
    """Return the messages of a batch of `count` messages. Messages that compaction removed are left out; the others
    keep their index in the batch.
    """
    found: list[Content] = []
    offset = 0
    end = len(payload)
    for index in range(count):
        if end - offset < _SIZE.size:
            raise UnreadableEntryError(
                f"a batch of {count_of(count, 'message')} is incomplete: its data ends within message {index}"
            )
        (size,) = _SIZE.unpack_from(payload, offset)
        start = offset + _SIZE.size
        if size > end - start:
            raise UnreadableEntryError(
                f"a batch of {count_of(count, 'message')} is incomplete: its data ends within message {index}"
            )
        try:
            single = api.SingleMessageMetadata.FromString(payload[start : start + size])
        except DecodeError as error:
            raise UnreadableEntryError(
                f"the metadata of message {index} of a batch cannot be parsed: {error}"
            ) from error
        offset = start + size + single.payload_size
        if not single.IsInitialized() or single.payload_size < 0 or offset > end:
            raise UnreadableEntryError(f"message {index} of a batch has an invalid size of {single.payload_size} bytes")
        if single.compacted_out:
            continue
        if not _is_text(single.partition_key):
            raise UnreadableEntryError(f"the key of message {index} of a batch is not UTF-8")
        key = single.partition_key if single.HasField("partition_key") and not single.null_partition_key else None
        found.append((index, key, None if single.null_value else payload[start + size : offset]))
    return found


def _is_text(field: object) -> bool:
    """Return whether a field of a parsed message is UTF-8. If it is not, protobuf returns it as bytes."""
    return isinstance(field, str)
