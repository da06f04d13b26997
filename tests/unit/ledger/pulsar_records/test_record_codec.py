"""The records of Pulsar as bytes, against those of Java."""

import struct
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.ledger.pulsar_records import ledger_marks
from pulsar_barycenter.ledger.pulsar_records.compression import MAX_PLAIN_BYTES, MAX_STORED_BYTES, pack, unpack
from pulsar_barycenter.ledger.pulsar_records.errors import PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LZ4,
    NONE,
    ZLIB,
    CompressedHead,
    CompressionType,
)
from pulsar_barycenter.ledger.pulsar_records.record_codec import (
    MAX_ENTRY_BYTES,
    read_cursor,
    read_ledgers,
    read_position,
    write_position,
    write_record,
)
from support.pulsar_record_bytes import COMPRESSIONS, java_records

PATH = "/managed-ledgers/t/n/persistent/a"
JAVA = java_records()


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_values_of_java_are_read_and_written_in_their_compression(name: str) -> None:
    ledgers, cursor = read_ledgers(PATH, JAVA[f"ledgers-{name}"]), read_cursor(PATH, JAVA[f"cursor-{name}"])
    assert CompressionType.Name(ledgers.compression) == CompressionType.Name(cursor.compression) == name
    assert ledgers.info.SerializeToString() == JAVA["ledgers-NONE"]
    assert cursor.info.SerializeToString() == JAVA["cursor-NONE"]
    assert read_ledgers(PATH, write_record(PATH, ledgers)) == ledgers
    assert [(part.ledgerId, part.entries, part.timestamp) for part in ledgers.info.ledgerInfo] == [
        (7, 100, 1_700_000_000_123),
        (9, 0, 0),
    ]


@pytest.mark.parametrize("name", ["position-ranges", "position-words"])
def test_entries_of_cursor_ledgers_are_the_bytes_of_java(name: str) -> None:
    assert write_position(read_position(77, JAVA[name])) == JAVA[name]


def test_an_offload_context_is_kept_byte_for_byte() -> None:
    value = JAVA["ledgers-offloaded"]
    stored = read_ledgers(PATH, value)
    context = stored.info.ledgerInfo[0].offloadContext
    assert context.complete
    assert context.bookkeeperDeleted
    assert sorted(write_record(PATH, stored)) == sorted(value)  # unknown fields move behind the known ones
    assert read_ledgers(PATH, write_record(PATH, stored)) == stored


def test_an_empty_value_is_a_topic_without_ledgers() -> None:
    assert not read_ledgers(PATH, b"").info.ledgerInfo


def test_unknown_fields_are_kept() -> None:
    value = JAVA["ledgers-NONE"] + b"\x9a\x06\x03new"
    assert write_record(PATH, read_ledgers(PATH, value)).endswith(b"\x03new")


def test_marks_of_ledgers_are_those_of_java() -> None:
    def lines(marks: dict[str, bytes]) -> bytes:
        return "".join(f"{key}={value.hex()}\n" for key, value in sorted(marks.items())).encode()

    topic = "t/n/persistent/a%2Fb"
    assert lines(ledger_marks.of_topic(topic)) == JAVA["marks-topic"]
    both = ledger_marks.of_cursor(topic, "sub/1")
    assert lines({key: both[key] for key in both.keys() - ledger_marks.of_topic(topic)}) == JAVA["marks-cursor"]
    assert lines(ledger_marks.of_compacted("persistent://t/n/a", b"\1\2")) == JAVA["marks-compacted"]


def _framed(compression: int, size: int, packed: bytes) -> bytes:
    head = (
        b"\x08%c\x10" % compression
        + CompressedHead(compressionType=NONE, uncompressedSize=size).SerializeToString()[3:]
    )
    return struct.pack(">Hi", 0x4778, len(head)) + head + packed


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00" * (MAX_STORED_BYTES + 1), "more than the maximum of 1,048,576"),
        (b"\x47\x78\x00", "ends before the size"),
        (b"\x47\x78\xff\xff\xff\xff", "its head should have -1 bytes"),
        (b"\x47\x78\x7f\xff\xff\xff\x08\x01", "which the value does not have"),
        (b"\x47\x78\x00\x00\x00\x02\xff\xff", "cannot be read"),
        (_framed(5, 3, b"abc"), "has no size, or names no known compression"),
        (_framed(ZLIB, MAX_PLAIN_BYTES + 1, b""), "16,777,217 bytes uncompressed"),
        (_framed(NONE, 4, b"abc"), "does not have the 4 bytes"),
        (_framed(ZLIB, 3, b"abc"), "ZLIB cannot decompress"),
        (JAVA["ledgers-ZLIB"][:-12], "does not have the 55 bytes"),
        (JAVA["ledgers-LZ4"].replace(b"\x10\x37", b"\x10\x38", 1), "does not have the 56 bytes"),
        (JAVA["ledgers-ZSTD"][:-3], "ZSTD cannot decompress"),
        (JAVA["ledgers-SNAPPY"][:-3], "SNAPPY cannot decompress"),
        (b"\x0a\x00", "lacks a required field"),
        (b'{"epoch":1}', "not a ManagedLedgerInfo"),
    ],
)
def test_values_that_cannot_be_read_are_refused_with_the_path_and_the_reason(value: bytes, reason: str) -> None:
    with pytest.raises(PulsarRecordError, match=reason) as refused:
        read_ledgers(PATH, value)
    assert str(refused.value).startswith(PATH)


def test_a_large_entry_of_a_cursor_ledger_is_refused() -> None:
    with pytest.raises(PulsarRecordError, match="cursor ledger 7: the entry that was read has 5,253,121"):
        read_position(7, bytes(MAX_ENTRY_BYTES + 1))


def test_a_value_that_a_store_does_not_take_is_not_written() -> None:
    stored = read_ledgers(PATH, b"")
    stored.info.properties.add(key="k", value="v" * MAX_STORED_BYTES)
    with pytest.raises(PulsarRecordError, match=PATH):
        write_record(PATH, stored)
    assert read_ledgers(PATH, write_record(PATH, stored._replace(compression=ZLIB))).info == stored.info


def test_without_pyarrow_the_compression_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PulsarRecordError, match=r"LZ4 needs pyarrow.*\[history\]"):
        read_ledgers(PATH, JAVA["ledgers-LZ4"])
    assert read_ledgers(PATH, JAVA["ledgers-ZLIB"]).info.ledgerInfo


@given(plain=st.binary(max_size=300), compression=st.sampled_from(CompressionType.values()))
def test_what_is_packed_is_unpacked(plain: bytes, compression: CompressionType.ValueType) -> None:
    if compression == NONE and plain.startswith(b"\x47\x78"):
        return  # no record begins so
    assert unpack(pack(plain, compression)) == (plain, compression)


@given(data=st.binary(max_size=200), compression=st.sampled_from([NONE, LZ4, ZLIB]))
def test_hostile_bytes_are_a_record_or_refused(data: bytes, compression: CompressionType.ValueType) -> None:
    for value in (data, b"\x47\x78" + data, pack(data, compression)):
        for read in (read_ledgers, read_cursor):
            with suppress(PulsarRecordError):
                read(PATH, value)
    with suppress(PulsarRecordError):
        assert write_position(read_position(1, data))
