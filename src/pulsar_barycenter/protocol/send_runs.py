"""Reads a run of SENDs in one step: consecutive SENDs of a producer whose messages are not batched and all have one
size.

Frames of one size with the same beginning are cut, parsed and checked together, by C code that processes all of them in
one call. A run contains exactly what parsing each frame separately would return. If anything is unusual or wrong, there
is no run, and the general path handles the frames one by one.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError

from pulsar_barycenter.protocol.frames import COPY_BELOW_BYTES, ENTRY_HEAD, REMEMBERED_BYTES, SIZES, stamp_in
from pulsar_barycenter.protocol.parsing import PLAIN_SENDS, plain_sequence_id
from pulsar_barycenter.protocol.varints import joined_varints

_MIN_FRAMES: Final = 8
"""The minimum number of frames that are read together: for fewer, reading them one by one is as fast."""

MIN_RUN_BYTES: Final = _MIN_FRAMES * (8 + 8 + ENTRY_HEAD.size)
"""The minimum size in bytes of a run: for each frame both sizes, the shortest plain SEND and the beginning of an
entry.
"""

_MAX_FRAMES: Final = 1024
"""The maximum number of frames that are read together, so that little work is wasted if a run ends early."""

_HEAD_SIZE: Final = 15
"""The size in bytes of the beginning of a frame: its two sizes, and a plain SEND up to its sequence id."""

_CHECKSUM_MAGIC: Final = b"\x0e\x01"


class SendRun(NamedTuple):
    """Consecutive SENDs of one producer, of one message each. The checksums of the entries match, and all entries have
    one size.

    `sequence_ids`, `entries`, `publish_times_ms` and `delivery_times_ms` have the same length. A delivery time is 0 if
    the message has none.
    """

    producer_id: int
    sequence_ids: range
    entries: Sequence[bytes]
    publish_times_ms: Sequence[int]
    delivery_times_ms: Sequence[int]


class _Shape(NamedTuple):
    """The common form of the frames of a run. `head` is the beginning that all frames have; the structs unpack the
    parts of one frame.

    `frames` unpacks the head, the sequence id, the checksum's magic number, the checksum, and the bytes that the
    checksum covers. `metadata` unpacks the metadata before the sequence id, the sequence id, and the metadata after it.
    `entries` unpacks the whole entry.
    """

    head: bytes
    frames: struct.Struct
    metadata: struct.Struct
    entries: struct.Struct


def run_at(data: bytes, offset: int, max_frame_size: int) -> tuple[SendRun, int] | None:
    """Return the run of SENDs that begins at `offset`, and the offset of its end (exclusive); None if no run begins
    there. A frame must begin at `offset`. Frames of more than `max_frame_size` bytes are not part of a run.
    """
    producer_id = PLAIN_SENDS.get(data[offset + 8 : offset + _HEAD_SIZE])
    if producer_id is None:
        return None
    shape = _shape_at(data, offset, max_frame_size)
    if shape is None:
        return None
    size = shape.frames.size
    count = min((len(data) - offset) // size, _MAX_FRAMES)
    found = _read(shape, producer_id, memoryview(data)[offset : offset + count * size])
    return None if found is None else (found, offset + len(found.entries) * size)


def _shape_at(data: bytes, offset: int, max_frame_size: int) -> _Shape | None:
    """Return the form that the SEND at `offset` and the frames after it have; None if this SEND has another form than a
    run can have, or if no frame with the same beginning follows it.
    """
    head = data[offset : offset + _HEAD_SIZE]
    total, command_size = SIZES.unpack_from(head)
    id_size = command_size - 7
    entry_size = total - 4 - command_size
    following = offset + 4 + total
    if (
        total > max_frame_size
        or not 1 <= id_size <= 4
        or not ENTRY_HEAD.size < entry_size < COPY_BELOW_BYTES
        or data[following : following + _HEAD_SIZE] != head
    ):
        return None
    entry = offset + 8 + command_size
    magic, _, metadata_size, tag, name_size = ENTRY_HEAD.unpack_from(data, entry)
    behind_id = metadata_size - 3 - name_size - id_size
    if (
        magic != 0x0E01
        or tag != 0x0A
        or name_size > 0x7F
        or not 0 <= behind_id <= REMEMBERED_BYTES
        or 10 + metadata_size > entry_size
        or data[entry + 12 + name_size] != 0x10
    ):
        return None
    return _Shape(head, *_columns(id_size, name_size, behind_id, entry_size))


@lru_cache(maxsize=256)
def _columns(
    id_size: int, name_size: int, behind_id: int, entry_size: int
) -> tuple[struct.Struct, struct.Struct, struct.Struct]:
    """Return the structs of `_Shape` for frames with these sizes in bytes: of the sequence id, the producer name, the
    metadata after the sequence id (`behind_id`), and the entry.
    """
    before_id = 7 + name_size
    before_metadata = _HEAD_SIZE + id_size + 6
    payload = entry_size - 6 - before_id - id_size - behind_id
    return (
        struct.Struct(f">{_HEAD_SIZE}s{id_size}s2sI{entry_size - 6}s"),
        struct.Struct(f">{before_metadata}x{before_id}s{id_size}s{behind_id}s{payload}x"),
        struct.Struct(f">{_HEAD_SIZE + id_size}x{entry_size}s"),
    )


def _read(shape: _Shape, producer_id: int, frames: memoryview) -> SendRun | None:
    """Return the run of SENDs at the beginning of `frames`; None if there are too few SENDs, or if any of them has
    another form or a wrong checksum.
    """
    heads, ids, magics, checksums, summed = zip(*shape.frames.iter_unpack(frames), strict=True)
    count = len(heads)
    if heads.count(shape.head) < count:
        count = next(at for at, head in enumerate(heads) if head != shape.head)
        return _read(shape, producer_id, frames[: count * shape.frames.size])
    if count < _MIN_FRAMES:
        return None
    before_ids, ids_again, behind_ids = zip(*shape.metadata.iter_unpack(frames), strict=True)
    first = plain_sequence_id(shape.head[8:] + ids[0])
    if (
        first < 0
        or b"".join(ids) != joined_varints(first, count)
        or ids_again != ids
        or before_ids.count(before_ids[0]) < count
        or magics.count(_CHECKSUM_MAGIC) < count
        or tuple(map(crc32c, summed)) != checksums
    ):
        return None
    times_ms = _times(behind_ids)
    if times_ms is None:
        return None
    entries = [entry for (entry,) in shape.entries.iter_unpack(frames)]
    return SendRun(producer_id, range(first, first + count), entries, *times_ms)


def _times(fields: Sequence[bytes]) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return the publish times and the delivery times of messages. `fields` are the parts of their metadata after the
    producer name and the sequence id.

    Return None if the metadata of a message cannot be parsed, lacks the publish time, or is that of a batch.
    """
    times_ms: dict[bytes, int] = {}
    delayed_ms: dict[bytes, int] = {}
    for metadata in set(fields):
        try:
            stamp = stamp_in(metadata)
        except DecodeError:
            return None
        if stamp is None or stamp[1] != 1:
            return None
        times_ms[metadata] = stamp[0]
        if stamp[2]:
            delayed_ms[metadata] = stamp[2]
    delivery_times_ms = [delayed_ms.get(metadata, 0) for metadata in fields] if delayed_ms else (0,) * len(fields)
    return list(map(times_ms.__getitem__, fields)), delivery_times_ms
