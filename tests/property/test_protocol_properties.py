import contextlib

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.protocol import client_commands, commands, frames, parsing, varints
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import ProtocolError
from pulsar_barycenter.protocol.parsing import parse_command
from support import client_requests

ids = st.integers(0, 2**64 - 1)
names = st.text(min_size=0, max_size=30)
payloads = st.binary(max_size=200)


@st.composite
def sends(draw):
    metadata = api.MessageMetadata(producer_name=draw(names), sequence_id=draw(ids), publish_time=draw(ids))
    entry = frames.encode_entry(metadata.SerializeToString(), draw(payloads), checksum=draw(st.booleans()))
    count = draw(st.none() | st.integers(1, 1000))
    return client_commands.send(draw(ids), draw(ids), entry, num_messages=count)


wire_frames = st.one_of(
    sends(),
    st.builds(commands.send_receipt, ids, ids, ids, ids, ids),
    st.builds(client_requests.lookup, ids, names, authoritative=st.booleans()),
    st.builds(commands.error, ids, st.sampled_from([v for _, v in api.ServerError.items()]), names),
    st.just(commands.PING),
    st.builds(commands.topics_of_namespace_response, ids, st.lists(names, max_size=5)),
)


large_sends = st.builds(
    lambda size, command: frames.payload_header(command, size) + bytes(size),
    st.integers(frames.COPY_BELOW_BYTES - 100, 3 * frames.COPY_BELOW_BYTES),
    st.binary(max_size=40) | st.just(bytes(frames.COPY_BELOW_BYTES)),
)
"""Frames that are not copied with what follows them, with short and long commands."""


@given(st.lists(wire_frames | large_sends, max_size=12), st.data())
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(sent, data):
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    decoder = frames.FrameDecoder()
    received = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.receive(stream[start:stop])
    encoded = [frames.payload_header(command, len(entry)) + entry for command, entry in received]
    assert encoded == sent
    assert decoder.buffered == 0


@given(ids, ids, st.none() | st.integers(1, 2**31 - 1), st.none() | st.booleans())
def test_a_send_reads_as_it_was_written_whatever_the_size_of_its_numbers(producer, sequence, count, chunk):
    frame = client_commands.send(producer, sequence, b"entry", num_messages=count, is_chunk=chunk)
    ((command, entry),) = frames.FrameDecoder().receive(frame)
    assert parse_command(command) == (
        6,
        (producer, sequence, 0, 1 if count is None else count, bool(chunk), False),
    )
    assert entry == b"entry"


small_ids = st.integers(0, 2**30)


@given(st.integers(0, 130), small_ids, st.data())
def test_a_send_that_is_read_by_hand_is_read_as_by_protobuf_or_refused_alike(producer, sequence, data):
    """Also with a byte changed, removed or added, with a number longer than necessary, and with more bytes after it."""
    ((command, _),) = frames.FrameDecoder().receive(client_commands.send(producer, sequence, b""))
    at = data.draw(st.integers(0, len(command)))
    by = data.draw(st.binary(max_size=3))
    changed = command[:at] + by + command[at + data.draw(st.integers(0, 2)) :]
    resized = changed[:3] + bytes((len(changed) - 4,)) + changed[4:] if len(changed) > 4 else changed
    for each in (command, changed, resized):
        assert outcome(parse_command, each) == outcome(parsing.parse_any, each)


def outcome(read, data):
    try:
        return read(data)
    except ProtocolError as error:
        return type(error)


@given(ids, ids, ids, ids, ids)
def test_a_hand_made_receipt_reads_as_it_was_written(producer, sequence, ledger, entry, highest):
    frame = commands.send_receipt(producer, sequence, ledger, entry, highest)
    ((command, _),) = frames.FrameDecoder().receive(frame)
    _, receipt = parse_command(command)
    position = receipt.message_id
    assert (receipt.producer_id, receipt.sequence_id, receipt.highest_sequence_id) == (producer, sequence, highest)
    assert (position.ledgerId, position.entryId) == (ledger, entry)


near_wider = st.sampled_from([0, 100, 16_370, 2**21 - 5, 2**28 - 5, 2**35 - 5, 2**63 - 5, 2**64 - 40])
"""Where numbers a little higher have longer varints."""


@given(
    ids,
    st.lists(ids, min_size=1, max_size=20) | st.builds(lambda n: list(range(n, n + 40)), small_ids | near_wider),
    ids,
)
def test_receipts_made_together_are_those_made_one_by_one(producer, sequences, ledger):
    for first in (0, 100, 16_370, 2**21 - 5, 2**28 - 5, sequences[0] % 2**60):
        for highest in [0] * len(sequences), [sequence // 2 for sequence in sequences]:
            one_by_one = [
                commands.send_receipt(producer, sequence, ledger, entry, its_highest)
                for entry, (sequence, its_highest) in enumerate(zip(sequences, highest, strict=True), first)
            ]
            assert commands.send_receipts(producer, sequences, highest, ledger, first) == b"".join(one_by_one)


@given(
    ids, ids, ids.filter(lambda n: n < 2**63), st.lists(payloads, max_size=20), st.integers(-1, 2**31 - 1), st.data()
)
def test_messages_made_together_are_those_made_one_by_one(consumer, ledger, first, entries, partition, data):
    first = data.draw(st.sampled_from([first, first % 20_000, 120, 16_380, 2**28 - 3]))
    epoch = data.draw(st.none() | ids)
    options = {"partition": partition, "consumer_epoch": epoch}
    one_by_one = [
        commands.message_header(consumer, ledger, entry_id, len(entry), **options) + entry
        for entry_id, entry in enumerate(entries, first)
    ]
    together = commands.messages(consumer, ledger, first, entries, **options)
    assert b"".join(together) == b"".join(one_by_one)


@given(st.integers(0, 2**63) | near_wider, st.integers(0, 40_000))
def test_varints_in_a_row_are_those_made_one_by_one(first, count):
    one_by_one = [varints.varint(number) for number in range(first, first + count)]
    assert varints.varints(first, count) == one_by_one
    assert varints.joined_varints(first, count) == b"".join(one_by_one)


@given(ids | near_wider)
def test_the_last_of_a_width_is_the_last(number):
    last = varints.last_of_width(number)
    assert last >= number
    assert len(varints.varint(last)) == len(varints.varint(number)) < len(varints.varint(last + 1))


@st.composite
def metadata_bytes(draw):
    """Draw metadata as clients write it, some changed afterwards, or with fields in another order."""
    metadata = api.MessageMetadata(producer_name=draw(names), sequence_id=draw(ids), publish_time=draw(ids))
    if draw(st.booleans()):
        metadata.uncompressed_size = draw(st.integers(0, 2**31))
        metadata.partition_key = draw(names)
        metadata.properties.add(key=draw(names), value=draw(names))
        if draw(st.booleans()):
            metadata.properties[0].ClearField("value")
    data = metadata.SerializePartialToString()
    at = draw(st.integers(0, len(data)))
    return draw(st.sampled_from([data, data[:at], data[at:] + data[:at], data[:at] + draw(payloads) + data[at + 1 :]]))


@given(metadata_bytes(), payloads, st.integers(-20, 20))
def test_an_entry_is_checked_as_if_all_of_its_metadata_were_parsed(metadata, payload, shift):
    entry = frames.encode_entry(metadata, payload)
    size = max(0, len(metadata) + shift)
    body = size.to_bytes(4, "big") + entry[10:]
    for each in (entry, b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body, entry[6:]):
        found = outcome(frames.check_entry, each)
        # Twice: what was parsed is remembered.
        assert found == outcome(frames.check_entry, each)
        assert found == outcome(_checksum_and_stamp, each)


def _checksum_and_stamp(entry):
    frames.verify_checksum(entry)
    metadata = frames.read_metadata(entry)
    return metadata.publish_time, metadata.num_messages_in_batch, metadata.deliver_at_time


@given(st.binary(max_size=100))
def test_arbitrary_bytes_end_in_a_protocol_error_or_a_command_and_nothing_else(data):
    decode = frames.FrameDecoder(1000).receive
    for read in (parse_command, frames.read_metadata, frames.verify_checksum, frames.check_entry, decode):
        with contextlib.suppress(ProtocolError):
            read(data)
