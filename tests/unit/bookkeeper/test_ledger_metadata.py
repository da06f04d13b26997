"""Values of ledgers: byte for byte what Java writes, of all three versions; keys and registrations."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.bookkeeper.errors import ClusterLayoutError, LedgerMetadataError
from pulsar_barycenter.bookkeeper.metadata.bookie_info import Address, bookie_address
from pulsar_barycenter.bookkeeper.metadata.ledger_formats_pb2 import BookieServiceInfoFormat, LedgerMetadataFormat
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import (
    MAX_VALUE_BYTES,
    LedgerMetadata,
    LedgerState,
    Segment,
    decode,
    encode,
    write_set,
)
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import Layout, ledger_path, parse_layout
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from support.bookkeeper_bytes import PASSWORD, java_bytes

JAVA = java_bytes()
FIRST = Segment(0, ("a:3181", "b:3181", "c:3181"))
SECOND = Segment(100, ("a:3181", "d:3181", "c:3181"))


def expected(name: str, version: int) -> LedgerMetadata:
    of_version = {"digest_type": None, "password": b""} if version == 1 else {"password": PASSWORD}
    opened = replace(LedgerMetadata(3, 2, 2, (FIRST,), version=version), **of_version)
    recovering = opened.with_ensemble(100, SECOND.members).recovering()
    return {"open": opened, "recovering": recovering, "closed": recovering.closed(499, 51234)}[name]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["open", "recovering", "closed"])
def test_a_value_is_read_and_written_as_by_java(name, version):
    value = JAVA[f"ledger-{name}-{version}"]
    assert decode(3, value) == expected(name, version)
    assert encode(expected(name, version)) == value


def test_fields_that_are_not_used_stay_when_a_value_is_changed():
    value = JAVA["ledger-rich"]
    metadata = decode(3, value)
    assert (metadata.ack_quorum, metadata.token, metadata.custom) == (1, -77, {"application": b"pulsar"})
    assert encode(metadata) == value
    body = LedgerMetadataFormat.FromString(value[value.index(b"\n") + 2 :]).SerializeToString() + b"\xf8\x7f\x07"
    unknown = value[: value.index(b"\n") + 1] + bytes([len(body)]) + body
    closed = decode(3, encode(decode(3, unknown).closed(4, 5)))
    assert LedgerMetadataFormat.FromString(closed.source).ctime == 1_700_000_000_000
    assert closed.source.endswith(b"\xf8\x7f\x07")
    assert (closed.state, closed.last_entry, closed.length) == (LedgerState.CLOSED, 4, 5)


def test_an_ack_quorum_that_is_not_stored_is_the_write_quorum():
    stored = LedgerMetadataFormat(quorumSize=2, ensembleSize=3, length=0, state="OPEN")
    stored.segment.add(firstEntryId=0, ensembleMember=FIRST.members)
    metadata = decode(3, b"BookieMetadataFormatVersion\t2\n" + str(stored).encode())
    assert (metadata.ack_quorum, metadata.digest_type) == (2, None)


SEGMENTS = st.lists(st.integers(1, 1000), min_size=1, max_size=5).map(
    lambda gaps: tuple(
        Segment(sum(gaps[:number]), tuple(f"b{number}{member}" for member in range(3))) for number in range(len(gaps))
    )
)


@given(
    segments=SEGMENTS,
    state=st.sampled_from(LedgerState),
    end=st.tuples(st.integers(-1, 2**62), st.integers(0, 2**62)),
    kind=st.sampled_from(DigestType),
    token=st.integers(-(2**63), 2**63 - 1),
    version=st.sampled_from([2, 3]),
)
def test_a_value_comes_back_as_it_was_written(segments, state, end, kind, token, version):
    metadata = LedgerMetadata(3, 3, 2, segments, state, digest_type=kind, password=b"\0\xff", version=version)
    metadata = replace(metadata, token=token if version == 3 else 0, custom={"k": b"\0v"})
    if state is LedgerState.CLOSED:
        metadata = metadata.closed(*end)
    assert decode(1, encode(metadata)) == metadata


@given(
    st.binary(max_size=100),
    st.sampled_from([b"", b"BookieMetadataFormatVersion\t", b"BookieMetadataFormatVersion\t3\n"]),
)
def test_any_value_is_read_or_refused(data, head):
    with suppress(LedgerMetadataError):
        assert decode(17, head + data).segments


def bad(**changes: object) -> bytes:
    return encode(replace(LedgerMetadata(3, 2, 2, (FIRST, SECOND)), **changes))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the stored metadata begins with b''"),
        (b"BookieMetadataFormatVersion\t4\n", "version b'4'"),
        (b"BookieMetadataFormatVersion\t3\n\0", "a required field"),
        (JAVA["ledger-open-3"][:-1], "the stored metadata is truncated"),
        (b"BookieMetadataFormatVersion\t3\n\xff\xff\xff\xff\xff\x01", "not a number of 32 bits"),
        (bad(segments=()), "segments begin at"),
        (bad(segments=(SECOND, FIRST)), "segments begin at"),
        (bad(segments=(Segment(0, ("a", "b")),)), "expected 3 bookies"),
        (bad(write_quorum=4), "do not fit"),
        (bad(ack_quorum=0), "do not fit"),
        (bad(state=LedgerState.CLOSED, last_entry=-2), "the ledger is closed at entry -2"),
        (b"BookieMetadataFormatVersion\t1\n2\n3\nx\n", "invalid literal"),
        (b"BookieMetadataFormatVersion\t3\n" + bytes(MAX_VALUE_BYTES), "at most 1,048,576 are allowed"),
    ],
)
def test_a_value_that_contradicts_itself_is_refused(value, reason):
    with pytest.raises(LedgerMetadataError, match=reason):
        decode(17, value)


def test_the_last_segment_is_replaced_and_earlier_ones_are_never_touched():
    metadata = expected("recovering", 3)
    assert metadata.with_ensemble(100, FIRST.members).segments == (FIRST, Segment(100, FIRST.members))
    assert metadata.with_ensemble(200, FIRST.members).segments == (FIRST, SECOND, Segment(200, FIRST.members))
    with pytest.raises(ValueError, match="begins later"):
        metadata.with_ensemble(99, FIRST.members)


def test_entries_are_on_the_bookies_of_their_segment_round_robin():
    metadata = expected("closed", 3)
    assert [metadata.segment_of(entry) for entry in (0, 99, 100, 101)] == [FIRST, FIRST, SECOND, SECOND]
    assert metadata.write_set(99) == ("a:3181", "b:3181")
    assert metadata.write_set(101) == ("c:3181", "a:3181")
    assert write_set(("a",), 7, 1) == ("a",)


def test_paths_are_those_of_java():
    asked = {name: value for name, value in JAVA.items() if "path-" in name}
    for name, value in asked.items():
        layout = Layout.LONG_HIERARCHICAL if name.startswith("long") else Layout.HIERARCHICAL
        assert ledger_path("", layout, int(name.rpartition("-")[2])) == value.decode(), name
    assert len(asked) == 12
    assert ledger_path("/ledgers", Layout.HIERARCHICAL, 2) == "/ledgers/00/0000/L0002"


def test_only_layouts_that_are_written_are_accepted():
    for layout in Layout:
        assert parse_layout(f"2\norg.apache.bookkeeper.meta.{layout.value}:1".encode()) is layout
    for value in (b"", b"1\n", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"):
        with pytest.raises(ClusterLayoutError, match="this client supports only the layouts"):
            parse_layout(value)


def test_a_bookie_listens_where_its_registration_says():
    info = BookieServiceInfoFormat()
    info.endpoints.add(id="httpserver", port=8080, host="h", protocol="http")
    assert bookie_address("10.0.0.1:3181", info.SerializeToString()) == Address("10.0.0.1", 3181)
    info.endpoints.add(id="bookie", port=3182, host="h", protocol="bookie-rpc")
    assert bookie_address("10.0.0.1:3181", info.SerializeToString()) == Address("h", 3182)
    assert bookie_address("10.0.0.1:3181", b"") == Address("10.0.0.1", 3181)


@pytest.mark.parametrize(("bookie", "value"), [("bookie-7", b""), ("a:0", b""), ("a:99999", b""), ("a:1", b"\xff")])
def test_a_bookie_without_an_address_is_told(bookie, value):
    with pytest.raises(LedgerMetadataError, match=f"bookie {bookie}"):
        bookie_address(bookie, value)
