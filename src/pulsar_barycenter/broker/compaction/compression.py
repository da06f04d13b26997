"""Decompresses and compresses the payloads of batches for a compactor.

LZ4 blocks, ZLIB, ZSTD and Snappy are all compression types of Pulsar's clients.
"""

import asyncio
import importlib
import sys
import zlib
from typing import Any, Final

from pulsar_barycenter.protocol import pulsar_api_pb2 as api

MOST_UNCOMPRESSED: Final = 32 << 20
"""The maximum size in bytes of a decompressed payload. Clients make batches of 128 KiB by default, brokers accept 5
MiB.
"""

_IN_A_THREAD_FROM: Final = 64 << 10
_CODECS: Final = {int(api.LZ4): "lz4_raw", int(api.ZSTD): "zstd", int(api.SNAPPY): "snappy"}
_UNDETECTED_END: Final = frozenset({int(api.LZ4), int(api.SNAPPY)})
"""The compression types for which pyarrow does not notice that the data is too short, and fills the rest with arbitrary
memory.
"""
_PYARROW: Final = "pyarrow"


class UnreadablePayloadError(Exception):
    """A payload cannot be decompressed: unknown compression, damaged, or larger than allowed."""


async def decompress(kind: int, payload: bytes, size: int) -> bytes:
    """Return the decompressed `payload`, which must have `size` bytes.

    Raises:
        UnreadablePayloadError: the payload is damaged or too large, or its compression is not known.
    """
    if kind == api.NONE:
        return payload
    if size > MOST_UNCOMPRESSED:
        raise UnreadablePayloadError(
            f"the payload's metadata says that it has {size} bytes uncompressed; at most "
            f"{MOST_UNCOMPRESSED} are allowed"
        )
    return await _run(size, kind, _decompressed, kind, payload, size)


async def compress(kind: int, payload: bytes) -> bytes:
    return payload if kind == api.NONE else await _run(len(payload), kind, _compressed, kind, payload)


async def _run(size: int, kind: int, work: Any, *args: Any) -> bytes:
    """Call `work(*args)`, which compresses or decompresses, and return its result. The call runs in a thread if it
    takes long: if `size`, the number of bytes, is large, or if the compression `kind` needs pyarrow, which is not
    imported yet.
    """
    is_long = size > _IN_A_THREAD_FROM or (kind in _CODECS and _PYARROW not in sys.modules)
    found: bytes = await asyncio.to_thread(work, *args) if is_long else work(*args)
    return found


def _decompressed(kind: int, payload: bytes, size: int) -> bytes:
    try:
        if kind == api.ZLIB:
            found = zlib.decompressobj().decompress(payload, size + 1)
        else:
            found = _codec(kind).decompress(payload, decompressed_size=size, asbytes=True)
            if kind in _UNDETECTED_END and size and _fits(kind, payload, size - 1):
                raise UnreadablePayloadError(
                    f"the decompressed payload has fewer than the {size} bytes that its metadata says: the payload is "
                    "damaged"
                )
    except (zlib.error, OSError, ValueError) as error:  # pyarrow raises the latter two
        raise UnreadablePayloadError(str(error)) from error
    if len(found) != size:
        raise UnreadablePayloadError(
            f"the decompressed payload does not have the {size} bytes that its metadata says: the payload is damaged"
        )
    return bytes(found)


def _fits(kind: int, payload: bytes, size: int) -> bool:
    try:
        _codec(kind).decompress(payload, decompressed_size=size)
    except (OSError, ValueError):
        return False
    return True


def _compressed(kind: int, payload: bytes) -> bytes:
    if kind == api.ZLIB:
        return zlib.compress(payload)
    found: bytes = _codec(kind).compress(payload, asbytes=True)
    return found


def _codec(kind: int) -> Any:
    name = _CODECS.get(kind)
    if name is None:
        raise UnreadablePayloadError(f"the payload's compression type {kind} is not known")
    return importlib.import_module(_PYARROW).Codec(name)
