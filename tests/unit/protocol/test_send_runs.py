"""Which SENDs are read together, and which are not."""

import pytest
from crc32c import crc32c

from pulsar_barycenter.protocol import client_commands, frames
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import SEND_RUN, Connection, Role
from pulsar_barycenter.protocol.send_runs import run_at

NAME = "standalone-0-1"
LIMIT = 10_000


def entry_of(sequence_id, *, time_ms=1_795_207_814_998, payload=b"hello", name=NAME, **more):
    metadata = api.MessageMetadata(producer_name=name, sequence_id=sequence_id, publish_time=time_ms, **more)
    return frames.encode_entry(metadata.SerializeToString(), payload)


def sends(first, count, producer_id=1):
    return [client_commands.send(producer_id, n, entry_of(n)) for n in range(first, first + count)]


def test_a_run_is_all_that_its_sends_say():
    entries = [entry_of(200 + n, time_ms=1000 + n // 4) for n in range(20)]
    data = b"PONG" + b"".join(client_commands.send(3, 200 + n, entry) for n, entry in enumerate(entries))
    run, end = run_at(data, 4, LIMIT)
    assert run == (3, range(200, 220), entries, [1000 + n // 4 for n in range(20)], (0,) * 20)
    assert end == len(data)


@pytest.mark.parametrize("first", [0, 130, 20_000, 3_000_000])
def test_a_run_of_ids_of_every_length(first):
    run, _ = run_at(b"".join(sends(first, 9)), 0, LIMIT)
    assert run.sequence_ids == range(first, first + 9)


@pytest.mark.parametrize(
    "behind",
    [
        b"".join(sends(220, 1))[:-1],
        client_commands.send(1, 220, entry_of(220, payload=b"longer")),
        client_commands.flow(1, 5) * 20,
        b"".join(sends(220, 10, producer_id=2)),
    ],
)
def test_a_run_ends_where_frames_are_others(behind):
    data = b"".join(sends(200, 20))
    run, end = run_at(data + behind, 0, LIMIT)
    assert (len(run.entries), end) == (20, len(data))


def test_a_long_read_is_several_runs_and_the_rest_frame_by_frame():
    connection = Connection(Role.BROKER, joins_sends=True)
    connection.receive_data(client_commands.connect("c"))
    connection.accept("b")
    written = sends(20_000, 3000)
    data = b"".join(written)
    received = connection.receive_data(data[:-5]) + connection.receive_data(data[-5:] + b"".join(sends(7, 2)))
    kinds = [number for number, _, _ in received]
    assert kinds == [SEND_RUN] * 3 + [api.BaseCommand.SEND] * 3
    assert [n for _, run, _ in received[:3] for n in run.sequence_ids] == list(range(20_000, 22_999))


def test_nothing_is_read_together_unless_it_is_asked_for():
    connection = Connection(Role.BROKER)
    connection.receive_data(client_commands.connect("c"))
    connection.accept("b")
    received = connection.receive_data(b"".join(sends(20_000, 20)))
    assert [number for number, _, _ in received] == [api.BaseCommand.SEND] * 20


def summed_anew(frame, *, metadata):
    """Return a SEND with a part of the metadata replaced and the checksum right."""
    begin = 8 + int.from_bytes(frame[4:8], "big")
    body = frame[begin + 6 :].replace(*metadata)
    return frame[:begin] + b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body


USUAL = client_commands.send(1, 210, entry_of(210))
ODD = {
    "another checksum": USUAL[:-1] + b"?",
    "no checksum": USUAL.replace(b"\x0e\x01", b"\x0e\x00"),
    "another id in the metadata": client_commands.send(1, 210, entry_of(211)),
    "an id twice": client_commands.send(1, 209, entry_of(209)),
    "an id left out": client_commands.send(1, 211, entry_of(211)),
    "an id longer than it need be": USUAL.replace(b"\xd2\x01", b"\xd2\x00"),
    "another name": client_commands.send(1, 210, entry_of(210, name="standalone-0-2")),
    "a shorter name": client_commands.send(1, 210, entry_of(210, name="standalone-0-", payload=b"hello!")),
    "no time": summed_anew(USUAL, metadata=(b"\x18\xd6", b"\x48\xd6")),
    "a field that does not parse": summed_anew(USUAL, metadata=(b"\x18\xd6", b"\x1f\xd6")),
}


@pytest.mark.parametrize("odd", ODD)
def test_no_run_has_a_send_that_is_unusual_or_wrong(odd):
    written = sends(200, 20)
    assert written[10] == USUAL != ODD[odd]
    assert len(ODD[odd]) == len(USUAL)
    written[10] = ODD[odd]
    assert run_at(b"".join(written), 0, LIMIT) is None


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        (b"\x0a\x0estandalone", b"\x12\x0estandalone"),
        (b"0-1\x10", b"0-1\x20"),
        (b"\x00\x00\x00\x1a\x0a", b"\x00\x00\x00\x24\x0a"),
        (b"\x00\x00\x00\x1a\x0a", b"\xff\x00\x00\x1a\x0a"),
        (b"\x00\x00\x00\x1a\x0a", b"\x00\x00\x00\x10\x0a"),
    ],
)
def test_sends_that_are_alike_and_wrong_are_no_run(said, instead):
    """Another first field, another second; more or less metadata than there is."""
    usual = sends(200, 20)
    wrong = [summed_anew(frame, metadata=(said, instead)) for frame in usual]
    assert all(len(each) == len(was) and each != was for each, was in zip(wrong, usual, strict=True))
    assert run_at(b"".join(usual), 0, LIMIT) is not None
    assert run_at(b"".join(wrong), 0, LIMIT) is None


def test_sends_whose_producer_has_a_name_longer_than_the_entry_are_no_run():
    metadata = [b"\x0a\x80\x7f" + b"x" * 127 + b"\x10%c\x18\x05" % n for n in range(20)]
    data = b"".join(client_commands.send(1, n, frames.encode_entry(each, b"")) for n, each in enumerate(metadata))
    assert run_at(data, 0, LIMIT) is None


@pytest.mark.parametrize(
    ("more", "is_run"),
    [({}, True), ({"uncompressed_size": 5}, True), ({"num_messages_in_batch": 1}, True),
     ({"num_messages_in_batch": 2}, False), ({"partition_key": "k" * 70}, False),
     ({"name": "n" * 128}, False), ({"payload": bytes(4096)}, False)],
)  # fmt: skip
def test_sends_that_are_alike_are_a_run_if_they_are_usual(more, is_run):
    data = b"".join(client_commands.send(1, n, entry_of(n, **more)) for n in range(200, 220))
    assert (run_at(data, 0, LIMIT) is not None) == is_run


def test_frames_above_the_limit_are_no_run():
    data = b"".join(sends(200, 20))
    size = len(data) // 20 - 4
    assert run_at(data, 0, size) is not None
    assert run_at(data, 0, size - 1) is None


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_are_no_run(count):
    assert run_at(b"".join(sends(200, count)), 0, LIMIT) is None
