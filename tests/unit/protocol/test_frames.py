import pytest
from crc32c import crc32c

from pulsar_barycenter.protocol import frames
from pulsar_barycenter.protocol.errors import ChecksumMismatchError, FrameTooLargeError, MalformedFrameError
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

# send(b"hello") of the real client, as observed on the wire (reference 4.3).
SEND_HELLO = bytes.fromhex(
    "00000034 00000008 0806320408001000 0e01 749db0a8 00000019 0a0e".replace(" ", "")
    + b"standalone-0-1".hex()
    + "1000 18d6bee5d59f34".replace(" ", "")
    + b"hello".hex()
)
PING = bytes.fromhex("00000009000000050812920100")


def hello_entry():
    ((_, entry),) = frames.FrameDecoder().receive(SEND_HELLO)
    return entry


def test_a_simple_frame_has_a_command_and_no_entry():
    assert frames.FrameDecoder().receive(PING) == [(bytes.fromhex("0812920100"), b"")]


def test_a_send_of_the_real_client_splits_into_command_metadata_and_payload():
    ((command, entry),) = frames.FrameDecoder().receive(SEND_HELLO)
    assert command == bytes.fromhex("0806320408001000")
    frames.verify_checksum(entry)
    metadata, payload = frames.split_entry(entry)
    assert (metadata.producer_name, metadata.sequence_id, payload) == ("standalone-0-1", 0, b"hello")
    assert frames.check_entry(entry) == (metadata.publish_time, 1, 0) == (1795207814998, 1, 0)


def test_no_delivery_time_is_overlooked():
    plain = MessageMetadata(producer_name="standalone-0-1", sequence_id=7, publish_time=1_700_000_000_000)
    delayed = MessageMetadata()
    delayed.CopyFrom(plain)
    delayed.deliver_at_time = 1
    with_a_longer_tag = plain.SerializeToString() + b"\x98\x81\x00\x01"
    assert MessageMetadata.FromString(with_a_longer_tag).deliver_at_time == 1
    head, tags = delayed.SerializeToString(), b"\x98\x01" * 9
    entries = [
        frames.encode_entry(plain.SerializeToString(), b"x"),
        frames.encode_entry(plain.SerializeToString(), tags),
        frames.encode_entry(head, b"x"),
        frames.encode_entry(head, b"x", checksum=False),
        b"\x0e\x02\x00\x00\x00\x00" + frames.encode_entry(head, b"x"),
        frames.encode_entry(with_a_longer_tag, b"x"),
    ]
    assert [frames.check_entry(entry)[2] for entry in entries] == [0, 0, 1, 1, 1, 1]


def test_encoding_the_entry_again_gives_the_bytes_of_the_real_client():
    entry = hello_entry()
    metadata, payload = frames.split_entry(entry)
    assert frames.encode_entry(metadata.SerializeToString(), payload) == entry


def test_an_entry_without_checksum_or_behind_broker_metadata_is_read_alike():
    metadata, payload = frames.split_entry(hello_entry())
    bare = frames.encode_entry(metadata.SerializeToString(), payload, checksum=False)
    broker_part = b"\x0e\x02" + (4).to_bytes(4, "big") + b"\x08\x01\x10\x02"
    for entry in (bare, broker_part + bare, broker_part + hello_entry()):
        frames.verify_checksum(entry)
        assert frames.split_entry(entry) == (metadata, payload)
        assert frames.check_entry(entry) == (metadata.publish_time, 1, 0)


@pytest.mark.parametrize("position", [6, 20, -1])
def test_a_changed_byte_behind_the_checksum_is_noticed(position):
    damaged = bytearray(hello_entry())
    damaged[position] ^= 1
    for check in (frames.verify_checksum, frames.check_entry):
        with pytest.raises(ChecksumMismatchError):
            check(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 3, 5, 8, 9, 20])
def test_an_entry_that_ends_too_early_is_malformed(size):
    cut = hello_entry()[:size]
    with pytest.raises(MalformedFrameError):
        frames.read_metadata(cut)
    with pytest.raises((MalformedFrameError, ChecksumMismatchError)):
        frames.check_entry(cut)


@pytest.mark.parametrize("size", [1, 3, 15, 16, 18, 24])
def test_an_entry_whose_metadata_end_too_early_is_malformed_though_its_checksum_holds(size):
    cut = hello_entry()[10 : 10 + size]
    for announced in (size, 25):
        body = announced.to_bytes(4, "big") + cut
        with pytest.raises(MalformedFrameError):
            frames.check_entry(b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body)


def test_metadata_without_its_required_fields_is_malformed():
    entry = frames.encode_entry(b"\x10\x01", b"")
    with pytest.raises(MalformedFrameError):
        frames.check_entry(entry)


def test_a_frame_of_the_limit_passes_and_one_byte_more_is_refused_before_its_bytes_come():
    decoder = frames.FrameDecoder(max_frame_size=100)
    assert decoder.receive((100).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes(96)) == [(bytes(1), bytes(95))]
    with pytest.raises(FrameTooLargeError) as refused:
        decoder.receive((101).to_bytes(4, "big"))
    assert (refused.value.size, refused.value.limit) == (101, 100)


def test_a_frame_too_large_is_refused_behind_whole_frames_too():
    decoder = frames.FrameDecoder(max_frame_size=100)
    with pytest.raises(FrameTooLargeError) as refused:
        decoder.receive(PING + b"\xff\xff\xff\xff" + bytes(8))
    assert refused.value.size == 0xFFFFFFFF


@pytest.mark.parametrize("head", ["00000003", "00000008 00000005", "00000000 00000000"])
def test_sizes_that_contradict_each_other_are_refused(head):
    with pytest.raises(MalformedFrameError):
        frames.FrameDecoder().receive(bytes.fromhex(head.replace(" ", "")))


def test_an_incomplete_frame_is_kept_and_counted():
    decoder = frames.FrameDecoder()
    assert decoder.receive(SEND_HELLO[:30]) == []
    assert decoder.buffered == 30
    assert len(decoder.receive(SEND_HELLO[30:])) == 1
    assert decoder.buffered == 0
