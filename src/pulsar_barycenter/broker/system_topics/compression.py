"""Decompresses the payloads of messages in system topics. Source: Pulsar's `CompressionCodec`s.

Brokers publish uncompressed messages; other clients may compress theirs. pyarrow has the codecs other than zlib. It is
imported for the first message that needs it, because few brokers ever get one.
"""

import zlib
from typing import Final

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.broker.system_topics.errors import UnreadableEntryError
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_ARROW_NAMES: Final[dict[int, str]] = {api.LZ4: "lz4_raw", api.ZSTD: "zstd", api.SNAPPY: "snappy"}


def decompress(kind: int, data: bytes, size: int, *, limit: int) -> bytes:
    """Return the decompressed form of `data`. `size` is the number of bytes that it must have, and `limit` the maximum
    of `size`. `kind` is the protocol's CompressionType; for NONE, return `data` itself.

    Raises:
        UnreadableEntryError: `size` exceeds `limit`, `data` is damaged, or the result does not have `size` bytes. For
            NONE: `size` is neither 0 nor the length of `data`, so that the payload is damaged or compressed in an
            unknown way.
    """
    if kind == api.NONE:
        if size not in (0, len(data)):
            raise UnreadableEntryError(
                f"the payload is marked as not compressed, but has {len(data)} bytes where its metadata says "
                f"{size}: it is damaged, or compressed in a way that this broker does not know"
            )
        return data
    if size > limit:
        raise UnreadableEntryError(f"the payload has {size} bytes uncompressed, but the limit is {limit}")
    if size == 0:
        return b""
    if kind == api.ZLIB:
        return _inflate(data, size)
    return _by_arrow(_ARROW_NAMES[kind], data, size)


def _inflate(data: bytes, size: int) -> bytes:
    try:  # no look at the end of the stream: Java's clients write none
        plain = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise UnreadableEntryError(f"zlib cannot decompress the payload: {error}") from error
    if len(plain) != size:
        raise UnreadableEntryError("the decompressed payload does not have the size in its metadata")
    return plain


def _by_arrow(name: str, data: bytes, size: int) -> bytes:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise UnreadableEntryError(
            f"the payload is compressed by {name}, which needs pyarrow: pip install '{DISTRIBUTION}[history]'"
        ) from None

    codec = pyarrow.Codec(name)
    try:
        plain: bytes = codec.decompress(data, size, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UnreadableEntryError(f"{name} cannot decompress the payload: {error}") from error
    # pyarrow does not return how much it wrote: after a shorter result there is arbitrary memory. So decompressing
    # into one byte less has to fail.
    try:
        codec.decompress(data, size - 1, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError):
        return plain
    raise UnreadableEntryError("the decompressed payload does not have the size in its metadata")
