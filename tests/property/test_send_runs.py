"""SENDs that are read together equal SENDs that are read one by one."""

from dataclasses import dataclass

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.protocol import client_commands, commands, frames
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import SEND_RUN, Connection, Role
from pulsar_barycenter.protocol.errors import ProtocolError
from support import client_requests
from support.short_forms import examples

SEND = api.BaseCommand.SEND
MAX_FRAME_SIZE = 6000

first_ids = st.sampled_from([0, 100, 120, 16_370, 2**21 - 9, 2**28 - 9, 2**40]) | st.integers(0, 2**30)
others = st.sampled_from(
    [
        commands.PING,
        client_commands.flow(1, 10),
        client_requests.lookup(7, "t"),
        client_commands.send(1, 5, b"no entry"),
        client_commands.send(1, 5, frames.encode_entry(b"\x0a\x01p\x10\x05\x18\x01", b"x", checksum=False)),
        commands.simple_frame(b"\x08\x06\x32\x00"),
        bytes(8),
    ]
)


@dataclass(frozen=True)
class Row:
    """Messages of one producer as a client without batching writes them; usual ones unless a field says otherwise."""

    count: int
    first: int = 20_000
    producer_id: int = 1
    step: int = 1
    name: str = "standalone-0-1"
    time_ms: int = 1_795_207_814_998
    payload: bytes = b"hello"
    compressed: bool = False
    batch: int | None = None
    delayed: bool = False

    def written(self) -> list[bytes]:
        found = []
        for at in range(self.count):
            sequence_id = self.first + at * self.step
            metadata = api.MessageMetadata(
                producer_name=self.name, sequence_id=sequence_id, publish_time=self.time_ms + at // 5
            )
            if self.compressed:
                metadata.uncompressed_size = 1000
            if self.delayed:
                metadata.deliver_at_time = self.time_ms + at // 3
            if self.batch is not None:
                metadata.num_messages_in_batch = self.batch
            entry = frames.encode_entry(metadata.SerializeToString(), self.payload)
            found.append(client_commands.send(self.producer_id, sequence_id, entry))
        return found


usual_rows = st.builds(
    Row,
    st.integers(8, 30),
    first_ids,
    payload=st.binary(max_size=20),
    compressed=st.booleans(),
    delayed=st.booleans(),
)
rows = usual_rows | st.builds(
    Row,
    st.integers(1, 30),
    first_ids,
    st.sampled_from([0, 127, 128]),
    st.sampled_from([1, 0, 2]),
    st.sampled_from(["p", "", "ü" * 40, "x" * 127, "x" * 128]),
    st.sampled_from([0, 127, 1_795_207_814_998]),
    st.binary(max_size=60) | st.sampled_from([bytes(4096), bytes(7000)]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)
bytes_that_say_something = st.sampled_from([0, 1, 8, 0x0A, 0x10, 0x18, 0x1F, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)


@st.composite
def streams(draw):
    """Draw rows of SENDs with other commands between them."""
    written = []
    for row in draw(st.lists(rows, min_size=1, max_size=4)):
        written += row.written()
        written += draw(st.lists(others, max_size=1))
    return b"".join(written)


@st.composite
def rows_with_a_change(draw):
    """Draw a usual row with another byte in one of its SENDs, or in all. The checksums may be corrected."""
    written = draw(usual_rows).written()
    at = draw(st.integers(0, min(map(len, written)) - 1))
    by = bytes((draw(bytes_that_say_something),))
    changed = range(len(written)) if draw(st.booleans()) else [draw(st.integers(0, len(written) - 1))]
    are_summed = draw(st.booleans())
    for n in changed:
        written[n] = written[n][:at] + by + written[n][at + 1 :]
        if are_summed:
            written[n] = summed(written[n])
    return b"".join(written)


def summed(frame):
    begin = 8 + int.from_bytes(frame[4:8], "big")
    if frame[begin : begin + 2] != b"\x0e\x01":
        return frame
    return frame[: begin + 2] + crc32c(frame[begin + 6 :]).to_bytes(4, "big") + frame[begin + 6 :]


def read(stream, cuts, *, joins_sends):
    """Return the result of the stream: commands, each SEND with its stamp or its error, and the error that ends it;
    and what is owed to the client."""
    connection = Connection(Role.BROKER, max_frame_size=MAX_FRAME_SIZE, joins_sends=joins_sends)
    connection.receive_data(client_commands.connect("c"))
    connection.accept("b")
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        try:
            received = connection.receive_data(stream[start:stop])
        except ProtocolError as error:
            found.append((type(error), str(error)))
            break
        for number, message, entry in received:
            if number == SEND_RUN:
                found += as_sends(message)
            elif number == SEND:
                found.append((message, entry, checked(entry)))
            else:
                found.append((number, message, entry))
    return found, connection.data_to_send()


def as_sends(run):
    rows = zip(run.sequence_ids, run.entries, run.publish_times_ms, run.delivery_times_ms, strict=True)
    return [
        ((run.producer_id, number, 0, 1, False, False), entry, (time_ms, 1, delivery_ms))
        for number, entry, time_ms, delivery_ms in rows
    ]


def checked(entry):
    try:
        return frames.check_entry(entry)
    except ProtocolError as error:
        return type(error), str(error)


@given(streams(), st.data())
def test_sends_read_together_are_those_read_one_by_one(stream, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    assert read(stream, cuts, joins_sends=True) == read(stream, cuts, joins_sends=False)


@settings(max_examples=examples(400))
@given(rows_with_a_change())
def test_no_change_of_a_byte_is_overlooked_in_sends_read_together(stream):
    assert read(stream, [], joins_sends=True) == read(stream, [], joins_sends=False)
