"""What an entry of a topic holds, as far as compaction looks at it.

An entry is one message, a part of one that was cut into chunks, or a batch. What is encrypted, or compressed in a way
that cannot be read, is opaque: such a batch is kept whole, since nobody here knows its keys.
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
_NOTHING: Final = _U32.pack(len(_COMPACTED_OUT)) + _COMPACTED_OUT


@dataclass(frozen=True, slots=True)
class Single:
    """One message; `is_tombstone` deletes its key. The payload is compressed as `metadata` says."""

    metadata: MessageMetadata
    key: str | None
    is_tombstone: bool
    data: bytes

    async def payload(self) -> bytes:
        """Return the message's payload, uncompressed; one that cannot be read is as it was sent."""
        raw = self.data[metadata_span(self.data)[1] :]
        try:
            return await decompress(self.metadata.compression, raw, self.metadata.uncompressed_size)
        except UnreadablePayloadError:
            return raw


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a message; `is_last` completes it. All parts have one `uuid`."""

    key: str | None
    uuid: str
    is_last: bool


class InBatch(NamedTuple):
    """A message of a batch: `begin` to `end` (exclusive) are its bytes there, `payload_begin` to `end` its payload."""

    key: str | None
    is_tombstone: bool
    is_compacted_out: bool
    begin: int
    payload_begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that can be read: `payload` is uncompressed."""

    metadata: MessageMetadata
    payload: bytes
    data: bytes

    def messages(self) -> Iterator[InBatch]:
        """Yield its messages in order.

        Raises:
            UnreadablePayloadError: it ends before all are there, or one of them does not parse.
        """
        payload, at = self.payload, 0
        try:
            for _ in range(self.metadata.num_messages_in_batch):
                (size,) = _U32.unpack_from(payload, at)
                begin = at + _U32.size + size
                one = SingleMessageMetadata.FromString(payload[at + _U32.size : begin])
                end = begin + one.payload_size
                if one.payload_size < 0 or end > len(payload) or not one.IsInitialized():
                    raise UnreadablePayloadError("a batch ends before its messages do")
                key = one.partition_key if one.HasField("partition_key") else None
                yield InBatch(key, one.null_value or not one.payload_size, one.compacted_out, at, begin, end)
                at = end
        except (struct.error, DecodeError) as error:
            raise UnreadablePayloadError(f"a batch does not parse: {error}") from error

    async def keeping(self, kept: Iterable[InBatch | None]) -> bytes:
        """Return the entry with these messages alone, None standing for one that is compacted out."""
        parts = [_NOTHING if one is None else self.payload[one.begin : one.end] for one in kept]
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
    """A batch that cannot be taken apart."""

    reason: str


Content: TypeAlias = Single | Chunk | Batch | Opaque | None


async def content_of(data: bytes) -> Content:
    """Return what an entry holds; None if it is nothing that a client gets to see.

    Raises:
        MalformedFrameError: its metadata cannot be read.
    """
    metadata = read_metadata(data)
    if metadata.HasField("marker_type"):
        return None
    key = metadata.partition_key if metadata.HasField("partition_key") else None
    if metadata.HasField("num_messages_in_batch"):
        if not metadata.encryption_keys:
            return await _batch(metadata, data)
        if key is None:
            return Opaque("it is encrypted")
    elif metadata.num_chunks_from_msg > 1:
        return Chunk(key, metadata.uuid, metadata.chunk_id >= metadata.num_chunks_from_msg - 1)
    is_empty = len(data) == metadata_span(data)[1]
    if metadata.compression or metadata.encryption_keys:  # then even nothing has bytes
        is_empty = is_empty or (metadata.HasField("uncompressed_size") and not metadata.uncompressed_size)
    return Single(metadata, key, metadata.null_value or is_empty, data)


async def _batch(metadata: MessageMetadata, data: bytes) -> Batch | Opaque:
    raw = data[metadata_span(data)[1] :]
    try:
        payload = await decompress(metadata.compression, raw, metadata.uncompressed_size)
    except UnreadablePayloadError as error:
        return Opaque(str(error))
    return Batch(metadata, payload, data)
