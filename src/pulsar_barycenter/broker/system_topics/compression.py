"""Payloads that a client compressed, made plain again. Source: Pulsar's `CompressionCodec`s.

Ours are never compressed; those of other clients may be. pyarrow, which has the codecs besides zlib, is loaded for the
first message that needs it: few brokers ever see one.
"""

import zlib
from typing import Final

from pulsar_barycenter.broker.system_topics.errors import UnreadableEntryError
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_ARROW_NAMES: Final[dict[int, str]] = {api.LZ4: "lz4_raw", api.ZSTD: "zstd", api.SNAPPY: "snappy"}


def decompress(kind: int, data: bytes, size: int, *, limit: int) -> bytes:
    """Return what `data` was before it was compressed: `size` bytes, at most `limit`.

    Raises:
        UnreadableEntryError: it is damaged, too large, or not of the size that it says; a payload that is said to be
            plain is then of a compression that this client does not know. 0 says nothing of a plain one.
    """
    if kind == api.NONE:
        if size not in (0, len(data)):
            raise UnreadableEntryError(f"a payload of {len(data)} bytes that says {size}")
        return data
    if size > limit:
        raise UnreadableEntryError(f"a compressed payload of {size} bytes; at most {limit} are read")
    if size == 0:
        return b""
    if kind == api.ZLIB:
        return _inflate(data, size)
    return _by_arrow(_ARROW_NAMES[kind], data, size)


def _inflate(data: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise UnreadableEntryError(f"a payload that zlib does not read: {error}") from error
    if len(plain) != size or not stream.eof:
        raise UnreadableEntryError("a compressed payload is not of the size that it says")
    return plain


def _by_arrow(name: str, data: bytes, size: int) -> bytes:
    import pyarrow

    codec = pyarrow.Codec(name)
    try:
        plain: bytes = codec.decompress(data, size, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UnreadableEntryError(f"a payload that {name} does not read: {error}") from error
    # pyarrow does not tell how much it wrote: behind a shorter text there is whatever was in memory. One byte less
    # must be too little.
    try:
        codec.decompress(data, size - 1, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError):
        return plain
    raise UnreadableEntryError("a compressed payload is not of the size that it says")
