"""Bytes to frames and back. No I/O, and no knowledge of commands.

    totalSize u32 | commandSize u32 | command | [entry]

`totalSize` counts all bytes after itself. Only SEND and MESSAGE have something after the command: the *entry*, which a
broker stores and sends unchanged.

    [0x0e02 u16 | size u32 | BrokerEntryMetadata] [0x0e01 u16 | CRC32C u32] metadataSize u32 | metadata | payload

The checksum covers everything from `metadataSize` on. Source: binary-protocol reference, section 1.
"""

import struct
from functools import lru_cache
from typing import Final, TypeAlias

from crc32c import crc32c
from google.protobuf.message import DecodeError

from pulsar_barycenter.protocol.errors import (
    ChecksumMismatchError,
    FrameTooLargeError,
    MalformedFrameError,
    RemoteProtocolError,
)
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

DEFAULT_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""The default of `maxMessageSize` in bytes. A client assumes it if the broker gives no value."""

FRAME_PADDING: Final = 10 * 1024
"""The number of bytes by which a frame may exceed `maxMessageSize`: for the command, the sizes and chunk metadata."""

SIZES: Final = struct.Struct(">II")
_CHECKSUM_HEAD: Final = struct.Struct(">HI")
_U32: Final = struct.Struct(">I")
ENTRY_HEAD: Final = struct.Struct(">HIIBB")
"""The layout of an entry's beginning: checksum magic, checksum, size of the metadata; the metadata's first tag and the
byte after it.
"""
_CHECKSUM_MAGIC: Final = b"\x0e\x01"
_BROKER_METADATA_MAGIC: Final = b"\x0e\x02"

COPY_BELOW_BYTES: Final = 4096
"""Entries below this size in bytes are copied, because a view of the received bytes would cost more."""

REMEMBERED_BYTES: Final = 64
_REMEMBERED: Final = 512
"""The number of cached results of parsing metadata. Each is of a part of up to REMEMBERED_BYTES."""

_NO_NAME_NOR_SEQUENCE: Final = b"\x0a\x00\x10\x00"

Frame: TypeAlias = tuple[bytes, bytes]
"""The bytes of the command, and those of the entry (b"" for a command without an entry)."""

Stamp: TypeAlias = tuple[int, int, int]
"""What a broker needs to know about an entry: publish time in ms, number of messages (1 if the metadata has none), and
the time in ms before which it must not be delivered (0 if the metadata has none).
"""


class FrameDecoder:
    """Cuts a byte stream into frames.

    Sizes are checked as soon as they are known, before anything after them is kept. So at most one frame of the maximum
    size, plus the data of one call, is kept in memory.
    """

    __slots__ = ("_buffered", "_chunks", "_max_frame_size", "_wanted")

    def __init__(self, max_frame_size: int = DEFAULT_MAX_MESSAGE_SIZE + FRAME_PADDING) -> None:
        """`max_frame_size` is the inclusive limit of `totalSize`, in bytes."""
        self._max_frame_size = max_frame_size
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._wanted = SIZES.size

    @property
    def buffered(self) -> int:
        """The number of bytes that are kept of an incomplete frame."""
        return self._buffered

    def receive(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with `data`, oldest first; keep the bytes of an incomplete frame for the
        next call.

        After an error the decoder cannot be used any more, and complete frames in the same `data` are lost.

        Raises:
            FrameTooLargeError: the peer announced more than `max_frame_size` bytes.
            MalformedFrameError: an announced command does not fit into its frame.
        """
        frames, data, offset = self.finish(data)
        return frames + self.cut(data, offset)

    def finish(self, data: bytes) -> tuple[list[Frame], bytes, int]:
        """Finish the frame that an earlier call began, with `data`, the next bytes of the stream.

        Return this frame if it is complete and large, the bytes to cut next, and the offset in them at which a frame
        begins: pass both to `cut`. A small frame is not returned, but put in front of `data`, because small frames may
        be a run, which is read in one step. If the frame is still incomplete, there are no frames and no bytes.
        """
        if not self._chunks:
            return [], data, 0
        missing = self._wanted - self._buffered
        if len(data) < missing:
            self._chunks.append(data)
            self._buffered += len(data)
            return [], b"", 0
        # Chunks of a large frame are joined once, so the cost is linear however small they are.
        chunks, self._chunks, self._buffered = self._chunks, [], 0
        if self._wanted < COPY_BELOW_BYTES:
            return [], b"".join((*chunks, data)), 0
        return [_frame_of(chunks, memoryview(data)[:missing])], data, missing

    def cut(self, data: bytes, offset: int = 0) -> list[Frame]:
        """Return the complete frames in `data` from `offset` on, where a frame must begin, and keep the bytes after
        them. Call `finish` first. Raises the errors of `receive`.
        """
        frames: list[Frame] = []
        append = frames.append
        unpack_sizes = SIZES.unpack_from
        limit = self._max_frame_size
        end = len(data)
        wanted = SIZES.size
        while end - offset >= 8:
            total, command_size = unpack_sizes(data, offset)
            if total > limit or command_size > total - 4:
                raise self._refusal(total, command_size)
            stop = offset + 4 + total
            if stop > end:
                wanted = 4 + total
                break
            command_end = offset + 8 + command_size
            append((data[offset + 8 : command_end], data[command_end:stop]))
            offset = stop
        if offset < end:
            self._keep(data, offset, wanted)
        return frames

    def _keep(self, data: bytes, offset: int, wanted: int) -> None:
        rest = data[offset:] if offset else data
        if 4 <= len(rest) < 8:
            (total,) = _U32.unpack_from(rest)
            if not 4 <= total <= self._max_frame_size:
                raise self._refusal(total, 0)
        self._chunks.append(rest)
        self._buffered = len(rest)
        self._wanted = wanted

    def _refusal(self, total: int, command_size: int) -> RemoteProtocolError:
        if total > self._max_frame_size:
            return FrameTooLargeError(total, self._max_frame_size)
        return MalformedFrameError(f"a frame of {total} bytes cannot contain a command of {command_size} bytes")


def _frame_of(chunks: list[bytes], last: memoryview) -> Frame:
    """Return the frame whose bytes are those of `chunks` and `last`. Its sizes have been checked, and are in the first
    chunk.
    """
    first = chunks[0]
    _, command_size = SIZES.unpack_from(first)
    end = 8 + command_size
    if len(first) < end:
        whole = b"".join((*chunks, last))
        return whole[8:end], whole[end:]
    return first[8:end], b"".join((memoryview(first)[end:], *chunks[1:], last))


def simple_frame(command: bytes) -> bytes:
    """Return the whole frame of a command without an entry."""
    size = len(command)
    return SIZES.pack(size + 4, size) + command


def payload_header(command: bytes, entry_size: int) -> bytes:
    """Return the bytes to send before an entry of `entry_size` bytes: the sizes and the command. The caller sends the
    entry itself after them, without copying it.
    """
    size = len(command)
    return SIZES.pack(size + 4 + entry_size, size) + command


def encode_entry(metadata: bytes, payload: bytes, *, checksum: bool = True) -> bytes:
    """Build the entry that a producer sends, from serialized MessageMetadata and the payload; with its CRC32C unless
    `checksum` is False.
    """
    body = _U32.pack(len(metadata)) + metadata + payload
    return _CHECKSUM_HEAD.pack(0x0E01, crc32c(body)) + body if checksum else body


def _skip_broker_metadata(entry: bytes) -> int:
    """Return the offset of the part of an entry that its producer wrote. Before it is the broker's metadata, if the
    entry has any; otherwise the offset is 0.

    Raises:
        MalformedFrameError: the entry ends inside the broker's metadata.
    """
    if entry[:2] != _BROKER_METADATA_MAGIC:
        return 0
    if len(entry) < 6:
        raise MalformedFrameError("the entry ends inside its broker metadata")
    (size,) = _U32.unpack_from(entry, 2)
    if 6 + size > len(entry):
        raise MalformedFrameError("the entry ends inside its broker metadata")
    return 6 + int(size)


def verify_checksum(entry: bytes) -> None:
    """Verify the entry's CRC32C. An entry without a checksum (from a client of a protocol version below 6) passes.

    Raises:
        ChecksumMismatchError: the bytes do not match the checksum.
        MalformedFrameError: the entry ends inside its checksum.
    """
    start = _skip_broker_metadata(entry)
    if entry[start : start + 2] != _CHECKSUM_MAGIC:
        return
    if len(entry) < start + 6:
        raise MalformedFrameError("the entry ends inside its checksum")
    (expected,) = _U32.unpack_from(entry, start + 2)
    actual = crc32c(memoryview(entry)[start + 6 :])
    if actual != expected:
        raise ChecksumMismatchError(expected, actual)


def metadata_span(entry: bytes) -> tuple[int, int]:
    """Return the start (inclusive) and the end (exclusive) of the MessageMetadata in an entry. The payload follows it.

    Raises:
        MalformedFrameError: the entry ends inside its metadata.
    """
    start = _skip_broker_metadata(entry)
    if entry[start : start + 2] == _CHECKSUM_MAGIC:
        start += 6
    if len(entry) < start + 4:
        raise MalformedFrameError("the entry ends before its metadata")
    (size,) = _U32.unpack_from(entry, start)
    stop = start + 4 + int(size)
    if stop > len(entry):
        raise MalformedFrameError(
            f"the entry announces {size} bytes of metadata, but only {len(entry) - start - 4} follow"
        )
    return start + 4, stop


def read_metadata(entry: bytes) -> MessageMetadata:
    """Return the entry's metadata.

    Raises:
        MalformedFrameError: the metadata is truncated, cannot be parsed or lacks a required field.
    """
    start, stop = metadata_span(entry)
    try:
        metadata = MessageMetadata.FromString(entry[start:stop])
    except DecodeError as error:
        raise MalformedFrameError(f"the entry's metadata cannot be parsed: {error}") from error
    if not metadata.IsInitialized():
        raise MalformedFrameError("the entry's metadata lacks producer name, sequence id or publish time")
    return metadata


def last_batch_index(entry: bytes) -> int:
    """Return the index of the last message in the entry's batch; -1 if it is not a batch or its metadata is damaged."""
    try:
        metadata = read_metadata(entry)
    except MalformedFrameError:
        return -1
    return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else -1


def split_entry(entry: bytes) -> tuple[MessageMetadata, bytes]:
    """Return the entry's metadata and payload. Raises the errors of `read_metadata`."""
    return read_metadata(entry), entry[metadata_span(entry)[1] :]


@lru_cache(maxsize=_REMEMBERED)
def stamp_in(fields: bytes) -> Stamp | None:
    """Return the `Stamp` of serialized metadata: publish time, number of messages and delivery time. `fields` is the
    part of the metadata after the producer name and the sequence id. Return None if another required field is missing.

    Raises:
        DecodeError: the fields cannot be parsed.
    """
    metadata = MessageMetadata.FromString(_NO_NAME_NOR_SEQUENCE + fields)
    return _stamp_of(metadata) if metadata.IsInitialized() else None


def check_entry(entry: bytes) -> Stamp:
    """Verify the entry's checksum, and return the `Stamp` of its metadata: publish time, number of messages and
    delivery time.

    The effect and the errors are those of `verify_checksum` followed by `read_metadata`, but it costs less: the
    metadata after the producer name and the sequence id is the same for all messages of a producer in one millisecond,
    so its parsed form is cached. Fields may be parsed separately, because protobuf merges them.
    """
    if len(entry) > ENTRY_HEAD.size:
        magic, expected, size, tag, name_size = ENTRY_HEAD.unpack_from(entry)
        stop = 10 + size
        at = 13 + name_size
        if magic == 0x0E01 and tag == 0x0A and name_size < 0x80 and at < stop <= len(entry) and entry[at - 1] == 0x10:
            actual = crc32c(entry[6:] if len(entry) < COPY_BELOW_BYTES else memoryview(entry)[6:])
            if actual != expected:
                raise ChecksumMismatchError(expected, actual)
            end = min(at + 9, stop)  # a sequence id below 2^63 has at most nine bytes
            while at < end and entry[at] > 0x7F:
                at += 1
            if at < end and stop <= at + REMEMBERED_BYTES:
                try:
                    found = stamp_in(entry[at + 1 : stop])
                except DecodeError as error:
                    raise MalformedFrameError(f"the entry's metadata cannot be parsed: {error}") from error
                if found is not None:
                    return found
            return _stamp_of(read_metadata(entry))
    verify_checksum(entry)
    return _stamp_of(read_metadata(entry))


def _stamp_of(metadata: MessageMetadata) -> Stamp:
    return metadata.publish_time, metadata.num_messages_in_batch, metadata.deliver_at_time


def is_readable(entry: bytes) -> bool:
    """Return whether `read_metadata` can read the entry. The checksum is not verified."""
    try:
        read_metadata(entry)
    except MalformedFrameError:
        return False
    return True
