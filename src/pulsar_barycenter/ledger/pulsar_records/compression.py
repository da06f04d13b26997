"""Compresses and decompresses values that Pulsar stores in the metadata store.

    u16 0x4778 | u32 size of the head | head: the compression, the uncompressed size | the compressed value

No value without compression begins with these two bytes, because no field of a record has such a tag. Pulsar
compresses values above a size if it is configured to.

zlib is part of Python. LZ4, ZSTD and SNAPPY need pyarrow, which is imported for the first such value.

Source: `MetaStoreImpl.compressManagedInfo` and Pulsar's `CompressionCodec`s.
"""

import importlib
import struct
import zlib
from typing import Any, Final

from google.protobuf.message import DecodeError

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.ledger.pulsar_records.errors import PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LZ4,
    NONE,
    SNAPPY,
    ZLIB,
    ZSTD,
    CompressedHead,
    CompressionType,
)

MAX_STORED_BYTES: Final = 1 << 20
"""The maximum size in bytes (inclusive) of a stored value: ZooKeeper stores no larger one by default."""

MAX_PLAIN_BYTES: Final = 16 << 20
"""The maximum size in bytes (inclusive) of a value after decompression."""

_START: Final = struct.Struct(">Hi")
_MAGIC: Final = 0x4778
_ARROW_NAMES: Final = {LZ4: "lz4_raw", ZSTD: "zstd", SNAPPY: "snappy"}


def unpack(value: bytes) -> tuple[bytes, CompressionType.ValueType]:
    """Decompress a stored value. Return the bytes of the record, and the compression that was found (NONE: the value is
    not compressed).

    Raises:
        PulsarRecordError: the value is larger than MAX_STORED_BYTES, or than MAX_PLAIN_BYTES after decompression; or it
            is damaged; or its compression needs pyarrow, which is not installed.
    """
    if len(value) > MAX_STORED_BYTES:
        raise PulsarRecordError(
            f"the stored value has {len(value):,} bytes, more than the maximum of {MAX_STORED_BYTES:,}"
        )
    if not value.startswith(_MAGIC.to_bytes(2, "big")):
        return value, NONE
    if len(value) < _START.size:
        raise PulsarRecordError("the compressed value is damaged: it ends before the size of its head")
    _, head_bytes = _START.unpack_from(value)
    end = _START.size + head_bytes
    if not 0 <= head_bytes <= len(value) - _START.size:
        raise PulsarRecordError(
            f"the compressed value is damaged: its head should have {head_bytes} bytes, which the value does not have"
        )
    try:
        head = CompressedHead.FromString(value[_START.size : end])
    except DecodeError as error:
        raise PulsarRecordError(f"the head of the compressed value cannot be read: {error}") from error
    if not head.IsInitialized():
        raise PulsarRecordError("the head of the compressed value has no size, or names no known compression")
    size = head.uncompressedSize
    if not 0 <= size <= MAX_PLAIN_BYTES:
        raise PulsarRecordError(
            f"the value has {size:,} bytes uncompressed, more than the maximum of {MAX_PLAIN_BYTES:,}"
        )
    return _decompressed(head.compressionType, value[end:], size), head.compressionType


def pack(plain: bytes, compression: CompressionType.ValueType) -> bytes:
    """Compress the bytes of a record, and return the value to store.

    Raises:
        PulsarRecordError: the record is larger than MAX_PLAIN_BYTES, or the value is larger than MAX_STORED_BYTES; or
            the compression needs pyarrow, which is not installed.
    """
    if len(plain) > MAX_PLAIN_BYTES:
        raise PulsarRecordError(f"the record has {len(plain):,} bytes, more than the maximum of {MAX_PLAIN_BYTES:,}")
    value = plain if compression == NONE else _framed(plain, compression)
    if len(value) > MAX_STORED_BYTES:
        raise PulsarRecordError(
            f"the value to store has {len(value):,} bytes, more than the maximum of {MAX_STORED_BYTES:,}"
        )
    return value


def _framed(plain: bytes, compression: CompressionType.ValueType) -> bytes:
    head = CompressedHead(compressionType=compression, uncompressedSize=len(plain)).SerializeToString()
    packed = zlib.compress(plain) if compression == ZLIB else _codec(compression).compress(plain, asbytes=True)
    return _START.pack(_MAGIC, len(head)) + head + packed


def _decompressed(compression: CompressionType.ValueType, packed: bytes, size: int) -> bytes:
    if compression == NONE:
        found = packed
    elif compression == ZLIB:
        found = _inflated(packed, size)
    else:
        found = _by_arrow(compression, packed, size)
    if len(found) != size:
        raise PulsarRecordError(
            f"the compressed value does not have the {size:,} bytes that its head states: it is damaged"
        )
    return found


def _inflated(packed: bytes, size: int) -> bytes:
    # no look at the end of the stream: Java writes none
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise PulsarRecordError(f"ZLIB cannot decompress the value: {error}") from error


def _by_arrow(compression: CompressionType.ValueType, packed: bytes, size: int) -> bytes:
    codec = _codec(compression)
    if not size:
        return b""
    try:
        found: bytes = codec.decompress(packed, size, asbytes=True)
    except (OSError, ValueError) as error:  # what pyarrow raises
        raise PulsarRecordError(f"{CompressionType.Name(compression)} cannot decompress the value: {error}") from error
    # pyarrow fills the rest of a shorter result with arbitrary memory: decompressing into one byte less has to fail
    try:
        codec.decompress(packed, size - 1, asbytes=True)
    except (OSError, ValueError):
        return found
    return b""


def _codec(compression: CompressionType.ValueType) -> Any:
    try:
        return importlib.import_module("pyarrow").Codec(_ARROW_NAMES[compression])
    except ModuleNotFoundError:
        raise PulsarRecordError(
            f"the compression {CompressionType.Name(compression)} needs pyarrow: pip install '{DISTRIBUTION}[history]'"
        ) from None
