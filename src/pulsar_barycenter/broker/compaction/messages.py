"""Parses an entry of a topic, as far as compaction needs it.

An entry is a message, a chunk of a message, or a batch. A batch that is encrypted, or compressed in an unknown way, is
opaque: its keys are not known, so it is kept as a whole.
Source: Pulsar's `RawBatchConverter`.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from pulsar_barycenter.broker.compaction.compression import UnreadablePayloadError, compress, decompress
from pulsar_barycenter.protocol.frames import encode_entry, metadata_span, read_metadata
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

_U32: Final = struct.Struct(">I")
_COMPACTED_OUT: Final = SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()
_COMPACTED_OUT_MESSAGE: Final = _U32.pack(len(_COMPACTED_OUT)) + _COMPACTED_OUT


@dataclass(frozen=True, slots=True)
class Single:
    """A message that is not in a batch. `metadata` is its metadata, which names the compression of the payload; `data`
    is the whole entry. `is_tombstone`: the message has no payload, and deletes its key.
    """

    metadata: MessageMetadata
    key: str | None
    is_tombstone: bool
    data: bytes

    async def payload(self) -> bytes:
        """Return the decompressed payload. If it cannot be decompressed, return the payload as it is stored."""
        raw = self.data[metadata_span(self.data)[1] :]
        try:
            return await decompress(self.metadata.compression, raw, self.metadata.uncompressed_size)
        except UnreadablePayloadError:
            return raw


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a message. All chunks of a message have the same `uuid`; `is_last` marks the one that completes the
    message.
    """

    key: str | None
    uuid: str
    is_last: bool


class InBatch(NamedTuple):
    """A message of a batch: its bytes are `begin` to `end` (exclusive), its payload `payload_begin` to `end`."""

    key: str | None
    is_tombstone: bool
    is_compacted_out: bool
    begin: int
    payload_begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that can be read; `payload` is decompressed."""

    metadata: MessageMetadata
    payload: bytes
    data: bytes

    def messages(self) -> Iterator[InBatch]:
        """Yield the messages in order.

        Raises:
            UnreadablePayloadError: the batch ends before its last message, or a message cannot be parsed.
        """
        payload, offset = self.payload, 0
        try:
            for _ in range(self.metadata.num_messages_in_batch):
                (size,) = _U32.unpack_from(payload, offset)
                begin = offset + _U32.size + size
                single = SingleMessageMetadata.FromString(payload[offset + _U32.size : begin])
                end = begin + single.payload_size
                if single.payload_size < 0 or end > len(payload) or not single.IsInitialized():
                    raise UnreadablePayloadError("a batch ends before its last message")
                key = single.partition_key if single.HasField("partition_key") else None
                is_tombstone = single.null_value or not single.payload_size
                yield InBatch(key, is_tombstone, single.compacted_out, offset, begin, end)
                offset = end
        except (struct.error, DecodeError) as error:
            raise UnreadablePayloadError(f"a message of a batch cannot be parsed: {error}") from error

    async def keeping(self, kept: Iterable[InBatch | None]) -> bytes:
        """Return the entry of this batch without the content of the messages that are not kept. `kept` has one item for
        each message, in order; an item None leaves an empty message that is marked as compacted out, so that the others
        keep their index.
        """
        parts = [
            _COMPACTED_OUT_MESSAGE if message is None else self.payload[message.begin : message.end] for message in kept
        ]
        payload = b"".join(parts)
        metadata = MessageMetadata()
        metadata.CopyFrom(self.metadata)
        metadata.uncompressed_size = len(payload)
        compressed = await compress(metadata.compression, payload)
        return _broker_metadata(self.data) + encode_entry(metadata.SerializeToString(), compressed)


def _broker_metadata(data: bytes) -> bytes:
    if data[:2] != b"\x0e\x02":
        return b""
    (size,) = _U32.unpack_from(data, 2)
    return data[: 6 + size]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A batch whose messages cannot be read."""

    reason: str


Content: TypeAlias = Single | Chunk | Batch | Opaque | None


async def content_of(data: bytes) -> Content:
    """Parse an entry; return None for a marker, which is never sent to clients.

    Raises:
        MalformedFrameError: the entry's metadata cannot be read.
    """
    metadata = read_metadata(data)
    if metadata.HasField("marker_type"):
        return None
    key = metadata.partition_key if metadata.HasField("partition_key") else None
    if metadata.HasField("num_messages_in_batch"):
        if not metadata.encryption_keys:
            return await _batch(metadata, data)
        if key is None:
            return Opaque("the batch is encrypted")
    elif metadata.num_chunks_from_msg > 1:
        return Chunk(key, metadata.uuid, metadata.chunk_id >= metadata.num_chunks_from_msg - 1)
    is_empty = len(data) == metadata_span(data)[1]
    if metadata.compression or metadata.encryption_keys:  # then an empty payload has bytes, too
        is_empty = is_empty or (metadata.HasField("uncompressed_size") and not metadata.uncompressed_size)
    return Single(metadata, key, metadata.null_value or is_empty, data)


async def _batch(metadata: MessageMetadata, data: bytes) -> Batch | Opaque:
    raw = data[metadata_span(data)[1] :]
    try:
        payload = await decompress(metadata.compression, raw, metadata.uncompressed_size)
    except UnreadablePayloadError as error:
        return Opaque(str(error))
    return Batch(metadata, payload, data)
