"""Packets and entries: byte for byte what Java writes, bounded, and cut alike however the stream is split."""

import struct
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.bookkeeper.errors import DigestMismatchError, MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.digests import LAST_ENTRY, DigestType, Entry, EntryCodec, master_key
from pulsar_barycenter.bookkeeper.wire.packets import (
    RECOVERY_ADD,
    AddAnswers,
    Answer,
    AnswerDecoder,
    AuthAnswer,
    Code,
    Operation,
    encode_add,
    encode_adds,
    encode_auth,
    encode_batch_read,
    encode_fencing_read,
    encode_read,
)
from support.bookkeeper_bytes import DATA, LEDGER, PASSWORD, java_bytes

JAVA = java_bytes()
KEY = master_key(PASSWORD)
NUMBERS = st.integers(0, 2**62)


def test_keys_are_those_of_java():
    assert (KEY, master_key(b"")) == (JAVA["key"], JAVA["key-empty"])


@pytest.mark.parametrize("kind", DigestType)
def test_an_add_is_that_of_java(kind):
    codec = EntryCodec(LEDGER, kind, PASSWORD)
    assert encode_add(KEY, codec.pack(7, 5, 123, DATA)) == JAVA[f"add-{kind.name}"]


def test_a_run_of_adds_is_their_requests_one_after_the_other():
    codec = EntryCodec(LEDGER, DigestType.CRC32C, PASSWORD)
    bodies = codec.pack_all(7, 5, [123, 123, 130], [DATA, b"", bytes(7)])
    assert bodies == [codec.pack(7, 5, 123, DATA), codec.pack(8, 5, 123, b""), codec.pack(9, 5, 130, bytes(7))]
    data = bytes(100_000)
    large = [codec.pack(6, 5, 100_000, data), *bodies]
    for run, most_parts in ((bodies, 1), (large, 8)):
        parts = encode_adds(KEY, run)
        assert b"".join(parts) == b"".join(encode_add(KEY, body) for body in run)
        assert len(parts) <= most_parts
    assert any(part is data for part in encode_adds(KEY, large)), "a large entry is not copied"


@pytest.mark.parametrize("kind", DigestType)
def test_what_java_packed_is_unpacked(kind):
    body = JAVA[f"add-{kind.name}"][28:]
    assert EntryCodec(LEDGER, kind, PASSWORD).unpack(7, body) == Entry(LEDGER, 7, 5, 123, DATA)


def test_requests_are_those_of_java():
    empty = EntryCodec(LEDGER, DigestType.CRC32C, PASSWORD).pack(0, -1, 0, b"")
    assert encode_add(KEY, empty, RECOVERY_ADD) == JAVA["add-recovery"]
    assert encode_read(LEDGER, 7) == JAVA["read"]
    assert encode_read(LEDGER, LAST_ENTRY) == JAVA["read-last"]
    assert encode_fencing_read(LEDGER, LAST_ENTRY, KEY) == JAVA["read-fencing"]
    assert encode_batch_read(LEDGER, 7, 99, 10, 1 << 20) == JAVA["read-batch"]
    assert encode_auth("plugin", DATA) == JAVA["auth"]


ANSWERS = {
    "answer-add": AddAnswers(LEDGER, Code.OK, [7]),
    "answer-fenced": AddAnswers(LEDGER, Code.FENCED, [7]),
    "answer-read": Answer(Operation.READ, Code.OK, LEDGER, 7, DATA),
    "answer-none": Answer(Operation.READ, Code.NO_ENTRY, LEDGER, -1),
    "answer-batch": Answer(Operation.BATCH_READ, Code.OK, LEDGER, 7, b"", 99, (DATA, PASSWORD)),
    "answer-batch-none": Answer(Operation.BATCH_READ, Code.NO_ENTRY, LEDGER, 7, b"", 99),
    "answer-auth": AuthAnswer("plugin", DATA),
}


@given(order=st.permutations(sorted(ANSWERS)), cuts=st.lists(st.integers(1, 60)))
def test_answers_of_java_are_cut_alike_however_they_arrive(order, cuts):
    stream = b"".join(JAVA[name] for name in order)
    decoder = AnswerDecoder()
    found = []
    for size in cuts:
        found += decoder.receive(stream[:size])
        stream = stream[size:]
    found += decoder.receive(stream)
    assert found == [ANSWERS[name] for name in order]
    assert decoder.buffered == 0


RUN = st.tuples(st.sampled_from([LEDGER, 2**40]), st.sampled_from([Code.OK, Code.FENCED]), st.integers(-1, 2**40))


def answer_to_add(ledger, code, entry):
    answer = JAVA["answer-add"]
    return answer[:8] + struct.pack(">iqq", code, ledger, entry)


@given(adds=st.lists(st.one_of(RUN, st.none())), cuts=st.lists(st.integers(1, 90)))
def test_answers_to_adds_come_in_runs_of_one_ledger_and_code(adds, cuts):
    """Each None is an answer to a read between them."""
    stream = b"".join(JAVA["answer-read"] if add is None else answer_to_add(*add) for add in adds)
    whole = AnswerDecoder().receive(stream)
    decoder = AnswerDecoder()
    found = []
    for size in cuts:
        found += decoder.receive(stream[:size])
        stream = stream[size:]
    found += decoder.receive(stream)
    for answers in (whole, found):
        each = [
            [(answer.ledger, answer.code, entry) for entry in answer.entries]
            if isinstance(answer, AddAnswers)
            else [None]
            for answer in answers
        ]
        assert list(chain.from_iterable(each)) == adds
    for before, after in pairwise(whole):
        both_add = isinstance(before, AddAnswers) and isinstance(after, AddAnswers)
        assert not both_add or (before.ledger, before.code) != (after.ledger, after.code)


def test_a_frame_of_the_limit_passes_and_one_byte_more_is_refused_before_its_bytes_come():
    largest = JAVA["answer-read"]
    assert AnswerDecoder(len(largest) - 4).receive(largest)
    with pytest.raises(MalformedAnswerError, match="34 bytes, more than 33"):
        AnswerDecoder(len(largest) - 5).receive(largest[:4])


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (JAVA["answer-read"][:4] + b"\x03" + JAVA["answer-read"][5:], "version 3"),
        (JAVA["answer-read"][:5] + b"\x09" + JAVA["answer-read"][6:], "operation 9"),
        (b"\0\0\0\x03\x02\x02\0", "too short"),
        (b"\0\0\0\x08\x02\x02\0\0\0\0\0\0", "too short"),
        (b"\0\0\0\x06\x02\x03\0\0\x0a\x05", "authentication message"),
        (JAVA["answer-batch"][:32] + b"\0\0\0\x09\x01\0\0\0" + JAVA["answer-batch"][40:], "an entry of"),
    ],
)
def test_what_is_no_answer_is_refused(stream, reason):
    with pytest.raises(MalformedAnswerError, match=reason):
        AnswerDecoder().receive(stream)


@given(st.binary(max_size=80))
def test_any_bytes_are_answers_or_refused(data):
    decoder = AnswerDecoder(200)
    try:
        decoder.receive(data)
    except MalformedAnswerError:
        return
    assert decoder.buffered <= len(data)


def test_a_code_that_is_unknown_is_a_failure():
    answer = JAVA["answer-fenced"]
    for code in (b"\0\0\0\x6f", b"\xff\xff\xff\xff"):
        assert AnswerDecoder().receive(answer[:8] + code + answer[12:])[0].code is Code.IO_ERROR


@given(
    kind=st.sampled_from(DigestType),
    ledger=NUMBERS,
    entry=NUMBERS,
    data=st.binary(max_size=60),
    more=st.integers(0, 1000),
    distance=st.integers(1, 50),
)
def test_an_entry_comes_back_as_it_was_packed(kind, ledger, entry, data, more, distance):
    codec = EntryCodec(ledger, kind, PASSWORD)
    confirmed = max(-1, entry - distance)
    expected = Entry(ledger, entry, confirmed, len(data) + more, data)
    body = b"".join(codec.pack(entry, confirmed, len(data) + more, data))
    assert len(body) == codec.overhead + len(data)
    assert codec.unpack(entry, body) == codec.unpack(LAST_ENTRY, body) == expected


@given(kind=st.sampled_from([DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC]), bit=st.integers(0, 8 * 46 - 1))
def test_one_changed_bit_is_found(kind, bit):
    codec = EntryCodec(LEDGER, kind, PASSWORD)
    body = bytearray(b"".join(codec.pack(7, 5, 123, DATA)))
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DigestMismatchError):
        codec.unpack(7, bytes(body))


def test_an_entry_of_another_number_ledger_or_password_is_refused():
    codec = EntryCodec(LEDGER, DigestType.HMAC, PASSWORD)
    body = b"".join(codec.pack(7, 5, 123, DATA))
    with pytest.raises(DigestMismatchError, match="sent entry 7 of ledger"):
        codec.unpack(8, body)
    with pytest.raises(DigestMismatchError, match="another password"):
        EntryCodec(LEDGER, DigestType.HMAC, b"other").unpack(7, body)
    with pytest.raises(DigestMismatchError, match="the bookie sent entry 7"):
        EntryCodec(LEDGER + 1, DigestType.DUMMY, b"").unpack(
            7, b"".join(EntryCodec(LEDGER, DigestType.DUMMY, b"").pack(7, 5, 123, DATA))
        )
    with pytest.raises(DigestMismatchError, match="at least 52"):
        codec.unpack(7, body[:51])


@pytest.mark.parametrize(("entry", "confirmed", "length"), [(-2, -3, 10), (7, 7, 10), (7, -2, 10), (7, 5, 9)])
def test_numbers_that_cannot_be_are_refused(entry, confirmed, length):
    codec = EntryCodec(LEDGER, DigestType.CRC32C, PASSWORD)
    with pytest.raises(DigestMismatchError, match="numbers that contradict each other"):
        codec.unpack(entry, b"".join(codec.pack(entry, confirmed, length, DATA)))
