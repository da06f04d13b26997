from itertools import product
from typing import Any

import pytest

from pulsar_barycenter.protocol import client_commands, commands, varints
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import MalformedCommandError, UnsupportedCommandError
from pulsar_barycenter.protocol.frames import FrameDecoder
from pulsar_barycenter.protocol.parsing import parse_command


def only(frame):
    ((command, entry),) = FrameDecoder().receive(frame)
    assert entry == b""
    return command


def test_ping_is_the_smallest_real_frame():
    assert bytes.fromhex("00000009000000050812920100") == commands.PING


def test_connect_is_byte_for_byte_that_of_the_real_client():
    flags = api.FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=True)
    frame = client_commands.connect("Pulsar-CPP-v4.2.0", protocol_version=20, feature_flags=flags)
    assert frame == (
        bytes.fromhex("0000002900000025080212210a11")
        + b"Pulsar-CPP-v4.2.0"
        + bytes.fromhex("20142a04")
        + b"none"
        + bytes.fromhex("520408011001")
    )


def test_an_individual_ack_is_byte_for_byte_that_of_the_real_client():
    frame = client_commands.ack(0, [commands.message_id(7, 0)])
    assert only(frame) == bytes.fromhex("080a520a080010001a0408071000")


def test_earliest_and_latest_are_the_observed_numbers():
    assert (client_commands.EARLIEST.ledgerId, client_commands.EARLIEST.entryId) == (2**64 - 1, 2**64 - 1)
    assert (client_commands.LATEST.ledgerId, client_commands.LATEST.entryId) == (2**63 - 1, 2**63 - 1)
    assert commands.signed(client_commands.EARLIEST.entryId) == -1
    assert commands.signed(7) == 7


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16383, 16384, 2**28 - 1, 2**28, 2**35, 2**63, 2**64 - 1])
def test_a_varint_is_that_of_protobuf(number):
    assert b"\x08" + varints.varint(number) == api.CommandSuccess(request_id=number).SerializeToString()


@pytest.mark.parametrize("big", [0, 300, 2**31, 2**64 - 1])
def test_a_hand_made_receipt_is_what_protobuf_writes(big):
    expected = api.BaseCommand(type=api.BaseCommand.SEND_RECEIPT)
    receipt = expected.send_receipt
    receipt.producer_id, receipt.sequence_id = big, big
    receipt.message_id.ledgerId, receipt.message_id.entryId = big, big
    assert commands.send_receipt(big, big, big, big) == commands.encode(expected)
    receipt.highest_sequence_id = 7
    assert commands.send_receipt(big, big, big, big, 7) == commands.encode(expected)


def test_a_hand_made_message_header_is_what_protobuf_writes():
    expected = api.BaseCommand(type=api.BaseCommand.MESSAGE)
    message = expected.message
    message.consumer_id = 3
    message.message_id.ledgerId, message.message_id.entryId, message.message_id.partition = 700, 2**40, 12
    message.redelivery_count = 2
    message.ack_set.extend([5, -1])
    message.consumer_epoch = 9
    entry = b"entry"
    header = commands.message_header(
        3, 700, 2**40, len(entry), partition=12, redelivery_count=2, ack_set=[5, -1], consumer_epoch=9
    )
    assert FrameDecoder().receive(header + entry) == [(expected.SerializeToString(), entry)]


REQUEST_IDS = (0, 1, 127, 128, 16383, 16384, 2**28, 2**31, 2**62, 2**63, 2**64 - 1)
URLS_TLS = (None, "", "pulsar+ssl://broker:6651/" + 200 * "x")


def test_a_hand_made_lookup_answer_is_what_protobuf_writes(subtests):
    for request_id, url_tls, authoritative in product(REQUEST_IDS, URLS_TLS, (False, True)):
        with subtests.test(request_id=request_id, url_tls=url_tls, authoritative=authoritative):
            url = "pulsar:// \x7f\x01 broker:6650"
            expected = api.BaseCommand(type=api.BaseCommand.LOOKUP_RESPONSE)
            answer = expected.lookupTopicResponse
            answer.brokerServiceUrl, answer.request_id = url, request_id
            if url_tls is not None:
                answer.brokerServiceUrlTls = url_tls
            answer.response = api.CommandLookupTopicResponse.Connect
            answer.authoritative, answer.proxy_through_service_url = authoritative, False
            made = commands.lookup_connect(request_id, url, url_tls, authoritative=authoritative)
            assert made == commands.encode(expected)


TOPICS = ("", "t", "persistent://public/default/topic", "naïve", 120 * "x", 200 * "x")
LOOKUP_FIELDS: tuple[dict[str, Any], ...] = (
    {},
    {"authoritative": True},
    {"authoritative": False, "advertised_listener_name": ""},
    {"advertised_listener_name": "internal"},
    {"original_principal": "\x18\x00\x3a\x00", "properties": [api.KeyValue(key="a", value="b")]},
)


def test_a_lookup_is_read_as_protobuf_reads_it(subtests):
    for topic, request_id, more in product(TOPICS, (0, 127, 128, 2**64 - 1), LOOKUP_FIELDS):
        with subtests.test(topic=topic, request_id=request_id, more=more):
            command = api.BaseCommand(type=api.BaseCommand.LOOKUP)
            command.lookupTopic.CopyFrom(api.CommandLookupTopic(topic=topic, request_id=request_id, **more))
            assert parse_command(command.SerializeToString()) == (23, command.lookupTopic)


def test_fields_that_are_none_stay_absent():
    _, response = parse_command(only(commands.ack_response(1, 2)))
    assert not response.HasField("error")
    _, closing = parse_command(only(commands.close_producer(4)))
    assert closing.request_id == commands.NO_REQUEST
    assert not closing.HasField("assignedBrokerServiceUrl")


@pytest.mark.parametrize("command_type", [50, 52, 54, 56, 58, 60, 62])
def test_a_transaction_is_refused_with_its_own_response_type(command_type):
    number, response = parse_command(only(commands.refuse_transaction(command_type, 5, "no transactions here")))
    assert (number, response.request_id, response.error) == (command_type + 1, 5, api.NotAllowedError)


@pytest.mark.parametrize("head", ["0863", "080132020801", "08aa01"])
def test_an_undefined_type_is_named(head):
    with pytest.raises(UnsupportedCommandError):
        parse_command(bytes.fromhex(head))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "ffff",
        "0806",  # SEND without its sub-message
        "08063200",  # without its producer id and sequence id
        "080632020800",  # without its sequence id
        "0806320410001001",  # sequence id twice, producer id never
        "320408001000",  # without a type
        "08063204080010",  # cut short
        "0817ba01050a01ff1001",  # a topic that is not UTF-8
        "0817ba0108" + "0a0174" + "1001" + "3a01ff",  # nor the name of a listener
        "0817ba0108" + "0a0174" + "1001" + "1801",  # LOOKUP cut short
        "0817ba0103" + "0a0174",  # without its request id
        "0817ba0102" + "1001",  # without its topic
        "0817ba0104" + "0a0174" + "10",  # its request id has no end
        "0817ba010e" + "0a0174" + "10" + 10 * "ff",
        "0817ba0105" + "0a0574" + "1001",  # its topic ends behind it
        "080632" + "0f" + "08001000" + "18ffffffffffffffffff01",  # a SEND of -1 messages
    ],
)
def test_bytes_that_are_no_command_are_malformed(data):
    with pytest.raises(MalformedCommandError):
        parse_command(bytes.fromhex(data))


def test_unknown_fields_are_tolerated():
    assert parse_command(bytes.fromhex("0806320708001000980601")) == (6, (0, 0, 0, 1, False, False))
