"""The payloads of batches, whose compression a compactor has to undo and to do again.

LZ4 blocks, ZLIB, ZSTD and Snappy are all that Pulsar's clients have.
"""

import asyncio
import importlib
import sys
import zlib
from typing import Any, Final

from pulsar_barycenter.protocol import pulsar_api_pb2 as api

MOST_UNCOMPRESSED: Final = 32 << 20
"""Largest payload that is opened; clients make batches of 128 KiB unless told otherwise, brokers take 5 MiB."""

_IN_A_THREAD: Final = 64 << 10
_CODECS: Final = {int(api.LZ4): "lz4_raw", int(api.ZSTD): "zstd", int(api.SNAPPY): "snappy"}
_ENDLESS: Final = frozenset({int(api.LZ4), int(api.SNAPPY)})
"""Of these pyarrow fills what is lacking to the size that was asked for with whatever lay in memory."""
_PYARROW: Final = "pyarrow"


class UnreadablePayloadError(Exception):
    """A payload cannot be opened: a compression that is not known, damage, or more than may be opened."""


async def decompress(kind: int, payload: bytes, size: int) -> bytes:
    """Return `payload`, which has `size` bytes uncompressed.

    Raises:
        UnreadablePayloadError
    """
    if kind == api.NONE:
        return payload
    if size > MOST_UNCOMPRESSED:
        raise UnreadablePayloadError(f"{size} bytes uncompressed are more than {MOST_UNCOMPRESSED}")
    return await _in_turn(size, kind, _decompressed, kind, payload, size)


async def compress(kind: int, payload: bytes) -> bytes:
    return payload if kind == api.NONE else await _in_turn(len(payload), kind, _compressed, kind, payload)


async def _in_turn(size: int, kind: int, work: Any, *args: Any) -> bytes:
    """Do what takes long, as loading the library does, beside the event loop."""
    is_long = size > _IN_A_THREAD or (kind in _CODECS and _PYARROW not in sys.modules)
    found: bytes = await asyncio.to_thread(work, *args) if is_long else work(*args)
    return found


def _decompressed(kind: int, payload: bytes, size: int) -> bytes:
    try:
        if kind == api.ZLIB:
            found = zlib.decompressobj().decompress(payload, size + 1)
        else:
            found = _codec(kind).decompress(payload, decompressed_size=size, asbytes=True)
            if kind in _ENDLESS and size and _fits(kind, payload, size - 1):
                raise UnreadablePayloadError(f"fewer than {size} bytes uncompressed")
    except (zlib.error, OSError, ValueError) as error:  # pyarrow's errors are of the latter two
        raise UnreadablePayloadError(str(error)) from error
    if len(found) != size:
        raise UnreadablePayloadError(f"not {size} bytes uncompressed")
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
        raise UnreadablePayloadError(f"compression {kind} is not known")
    return importlib.import_module(_PYARROW).Codec(name)
