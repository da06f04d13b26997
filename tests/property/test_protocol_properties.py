import contextlib

from hypothesis import given
from hypothesis import strategies as st

from barycenter.protocol import client_commands, commands, frames
from barycenter.protocol import pulsar_api_pb2 as api
from barycenter.protocol.errors import ProtocolError
from barycenter.protocol.parsing import parse_command

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
    st.builds(client_commands.lookup, ids, names, authoritative=st.booleans()),
    st.builds(commands.error, ids, st.sampled_from([v for _, v in api.ServerError.items()]), names),
    st.just(commands.PING),
    st.builds(commands.topics_of_namespace_response, ids, st.lists(names, max_size=5)),
)


@given(st.lists(wire_frames, max_size=12), st.data())
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(sent, data):
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    decoder = frames.FrameDecoder()
    received = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.receive(stream[start:stop])
    encoded = [frames.payload_header(command, len(entry)) + entry for command, entry in received]
    assert encoded == sent
    assert decoder._chunks == []


@given(ids, ids, st.none() | st.integers(1, 2**31 - 1), st.none() | st.booleans())
def test_a_send_reads_as_it_was_written_whatever_the_size_of_its_numbers(producer, sequence, count, chunk):
    frame = client_commands.send(producer, sequence, b"entry", num_messages=count, is_chunk=chunk)
    ((command, entry),) = frames.FrameDecoder().receive(frame)
    number, send = parse_command(command)
    assert (number, send.producer_id, send.sequence_id, entry) == (6, producer, sequence, b"entry")
    assert (send.num_messages, send.is_chunk) == (1 if count is None else count, bool(chunk))


@given(ids, ids, ids, ids, ids)
def test_a_hand_made_receipt_reads_as_it_was_written(producer, sequence, ledger, entry, highest):
    frame = commands.send_receipt(producer, sequence, ledger, entry, highest)
    ((command, _),) = frames.FrameDecoder().receive(frame)
    _, receipt = parse_command(command)
    position = receipt.message_id
    assert (receipt.producer_id, receipt.sequence_id, receipt.highest_sequence_id) == (producer, sequence, highest)
    assert (position.ledgerId, position.entryId) == (ledger, entry)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_end_in_a_protocol_error_or_a_command_and_nothing_else(data):
    for read in (parse_command, frames.read_metadata, frames.verify_checksum, frames.FrameDecoder(1000).receive):
        with contextlib.suppress(ProtocolError):
            read(data)
