"""Messages as entries: what we write, and what other programs may have written."""

import struct
import zlib
from contextlib import suppress

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.system_topics.compression import decompress
from pulsar_barycenter.broker.system_topics.entries import encode_message, read_entry
from pulsar_barycenter.broker.system_topics.errors import UnreadableEntryError
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import DEFAULT_MAX_MESSAGE_SIZE, encode_entry

LIMIT = 1000


def entry(payload: bytes = b"", **fields: object) -> bytes:
    metadata = api.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, **fields)  # type: ignore[arg-type]
    return encode_entry(metadata.SerializeToString(), payload)


def single(payload: bytes, **fields: object) -> bytes:
    metadata = api.SingleMessageMetadata(payload_size=len(payload), **fields).SerializeToString()  # type: ignore[arg-type]
    return struct.pack(">I", len(metadata)) + metadata + payload


@given(st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.binary(), st.integers(0, 2**63))
def test_what_is_encoded_is_read(key: str, value: bytes | None, sequence_id: int) -> None:
    read = read_entry(encode_message("p", sequence_id, 7, key, value))
    assert read == ("p", sequence_id, 7, 1, ((-1, key, value),))


def test_a_batch_is_its_messages_and_takes_as_many_permits() -> None:
    payload = (
        single(b"one", partition_key="a")
        + single(b"", partition_key="b", null_value=True)
        + single(b"gone", partition_key="c", compacted_out=True)
        + single(b"")
    )
    read = read_entry(entry(payload, num_messages_in_batch=4, partition_key="x"))
    assert list(read.messages) == [(0, "a", b"one"), (1, "b", None), (3, None, b"")]
    assert read.permits == 4


def test_a_batch_of_one_is_a_batch() -> None:
    read = read_entry(entry(single(b"v", partition_key="k"), num_messages_in_batch=1))
    assert list(read.messages) == [(0, "k", b"v")]


def test_a_message_without_a_key_has_none() -> None:
    assert read_entry(entry(b"v")).messages == ((-1, None, b"v"),)
    assert read_entry(entry(b"v", partition_key="", null_partition_key=True)).messages == ((-1, None, b"v"),)


def test_a_marker_is_nothing_to_deliver() -> None:
    assert read_entry(entry(b"v", marker_type=1)).messages == ()


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x0e\x01\x00\x00",
        encode_message("p", 1, 2, "k", b"v")[:-1],
        entry(b"v", num_messages_in_batch=0),
        entry(b"v", num_messages_in_batch=-1),
        entry(b"v", num_messages_in_batch=2**31 - 1),
        entry(b"", num_messages_in_batch=1),
        entry(single(b"v")[:-1], num_messages_in_batch=1),
        entry(single(b"v"), num_messages_in_batch=2),
        entry(b"\xff\xff\xff\xff" + single(b"v"), num_messages_in_batch=1),
        entry(struct.pack(">I", 11) + b"\x18" + b"\xff" * 9 + b"\x01", num_messages_in_batch=1),
        entry(struct.pack(">I", 2) + b"\xff\xff", num_messages_in_batch=1),
        entry(struct.pack(">I", 5) + b"\x12\x01\xff\x18\x00", num_messages_in_batch=1),
        encode_entry(b"\x0a\x01\xff\x10\x01\x18\x02", b""),
        entry(b"v", num_chunks_from_msg=2, chunk_id=0),
        entry(b"v", encryption_keys=[api.EncryptionKeys(key="k", value=b"v")]),
        entry(b"v", compression=api.ZSTD, uncompressed_size=10),
        entry(b"v", compression=api.ZLIB, uncompressed_size=DEFAULT_MAX_MESSAGE_SIZE + 1),
        entry(b"v", uncompressed_size=10),
    ],
)  # fmt: skip
def test_what_is_damaged_or_absurd_is_refused(bad: bytes) -> None:
    with pytest.raises(UnreadableEntryError):
        read_entry(bad)


@given(st.binary() | st.binary().map(lambda data: entry(data, num_messages_in_batch=2)))
def test_no_bytes_do_worse_than_being_refused(data: bytes) -> None:
    with suppress(UnreadableEntryError):
        read_entry(data)


def compressed(kind: int, data: bytes) -> bytes:
    if kind == api.ZLIB:
        return zlib.compress(data)
    name = {api.LZ4: "lz4_raw", api.ZSTD: "zstd", api.SNAPPY: "snappy"}[kind]  # type: ignore[index]
    return bytes(pyarrow.Codec(name).compress(data, asbytes=True))


KINDS = [api.ZLIB, api.LZ4, api.ZSTD, api.SNAPPY]


@pytest.mark.parametrize("kind", KINDS)
@given(st.binary(max_size=LIMIT))
def test_each_compression_is_read(kind: int, data: bytes) -> None:
    assert decompress(kind, compressed(kind, data), len(data), limit=LIMIT) == data


@given(st.binary(max_size=LIMIT))
def test_zlib_without_an_end_of_the_stream_is_read(data: bytes) -> None:
    """So Java's clients write it: they flush the stream and do not finish it."""
    stream = zlib.compressobj()
    packed = stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)
    assert decompress(api.ZLIB, packed, len(data), limit=LIMIT) == data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("off", [-1, 1, 500])
def test_a_payload_of_another_size_than_it_says_is_refused(kind: int, off: int) -> None:
    data = b"some text, some text" * 10
    with pytest.raises(UnreadableEntryError):
        decompress(kind, compressed(kind, data), len(data) + off, limit=LIMIT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_that_grows_beyond_the_limit_is_not_unpacked(kind: int) -> None:
    with pytest.raises(UnreadableEntryError, match="the limit is"):
        decompress(kind, compressed(kind, bytes(LIMIT + 1)), LIMIT + 1, limit=LIMIT)


@pytest.mark.parametrize("kind", KINDS)
@given(st.binary(max_size=100), st.integers(1, LIMIT))
def test_no_compressed_bytes_do_worse_than_being_refused(kind: int, data: bytes, size: int) -> None:
    with suppress(UnreadableEntryError):
        assert len(decompress(kind, data, size, limit=LIMIT)) == size
