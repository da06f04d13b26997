import pytest

from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import MAX_HANDSHAKE_BYTES, Connection, KeepAlive, Role, State
from pulsar_barycenter.protocol.errors import (
    FrameTooLargeError,
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedCommandError,
)
from support import client_requests


def open_pair():
    broker, client = Connection(Role.BROKER), Connection(Role.CLIENT)
    client.connect("Test 1", protocol_version=21)
    ((number, connect, _),) = broker.receive_data(client.data_to_send())
    assert (number, connect.client_version) == (api.BaseCommand.CONNECT, "Test 1")
    broker.accept("Broker 1")
    ((number, connected, _),) = client.receive_data(broker.data_to_send())
    assert (number, connected.protocol_version) == (api.BaseCommand.CONNECTED, commands.PROTOCOL_VERSION)
    return broker, client


def test_a_handshake_opens_both_sides_with_the_lower_version():
    broker, client = open_pair()
    assert (broker.state, client.state) == (State.OPEN, State.OPEN)
    assert (broker.peer_version, client.peer_version) == (21, commands.PROTOCOL_VERSION)


def test_nothing_is_taken_before_connect():
    broker = Connection(Role.BROKER)
    with pytest.raises(RemoteProtocolError, match="lookupTopic is not legal in state fresh"):
        broker.receive_data(client_requests.lookup(1, "t"))
    assert broker.state is State.CLOSED


def test_nothing_is_taken_between_connect_and_connected():
    """What comes behind CONNECT waits, in its order, for the answer."""
    broker = Connection(Role.BROKER)
    received = broker.receive_data(client_commands.connect("c") + client_requests.lookup(1, "t"))
    received += broker.receive_data(client_requests.lookup(2, "t"))
    assert [number for number, _, _ in received] == [api.BaseCommand.CONNECT]
    broker.accept("b")
    received = broker.receive_data(client_requests.lookup(3, "t"))
    assert [message.request_id for _, message, _ in received] == [1, 2, 3]


def test_commands_that_arrive_with_connected_are_those_of_an_open_connection():
    """Also in one read: the limits and the legal commands are those after CONNECTED from the next command on."""
    client = Connection(Role.CLIENT)
    client.connect("c", protocol_version=21)
    client.data_to_send()
    long_text = "x" * (MAX_HANDSHAKE_BYTES + 1)
    failed = commands.error(1, api.MetadataError, long_text)
    connected = commands.connected("b", protocol_version=21, max_message_size=1_000_000)
    received = client.receive_data(connected + failed + commands.PING + commands.success(2))
    assert [number for number, _, _ in received] == [
        api.BaseCommand.CONNECTED,
        api.BaseCommand.ERROR,
        api.BaseCommand.SUCCESS,
    ]
    assert client.data_to_send() == commands.PONG
    with pytest.raises(RemoteProtocolError, match="connected is not legal in state open"):
        client.receive_data(commands.success(3) + connected)


def test_a_long_command_before_connected_is_refused():
    client = Connection(Role.CLIENT)
    client.connect("c")
    with pytest.raises(RemoteProtocolError, match="before the connection is open; the limit is 65536"):
        client.receive_data(commands.error(1, api.AuthenticationError, "x" * (MAX_HANDSHAKE_BYTES + 1)))


def test_what_waits_for_connected_is_bounded():
    broker = Connection(Role.BROKER, max_frame_size=10_000)
    broker.receive_data(client_commands.connect("c"))
    with pytest.raises(RemoteProtocolError, match="more than 10000 bytes before its CONNECT was answered"):
        broker.receive_data(client_requests.lookup(1, "t") * 1000)


def test_a_second_connect_is_refused():
    broker, _ = open_pair()
    with pytest.raises(RemoteProtocolError, match="connect is not legal in state open"):
        broker.receive_data(client_commands.connect("c"))


def test_a_command_for_the_other_role_is_refused():
    broker, client = open_pair()
    with pytest.raises(UnsupportedCommandError):
        broker.receive_data(commands.success(1))
    with pytest.raises(UnsupportedCommandError):
        client.receive_data(client_commands.flow(1, 1))


def test_bytes_behind_a_command_that_takes_none_are_refused():
    broker, _ = open_pair()
    flow = client_commands.flow(1, 1)
    padded = (len(flow) - 4 + 3).to_bytes(4, "big") + flow[4:] + b"abc"
    with pytest.raises(RemoteProtocolError, match="followed by 3 bytes"):
        broker.receive_data(padded)


def test_a_frame_beyond_the_limit_closes_the_connection():
    broker = Connection(Role.BROKER, max_frame_size=64)
    with pytest.raises(FrameTooLargeError):
        broker.receive_data(b"\x00\x00\x00\x41\x00\x00\x00\x01")
    with pytest.raises(RemoteProtocolError):
        broker.receive_data(client_commands.connect("c"))


def test_a_ping_is_answered_at_once_and_a_pong_is_swallowed():
    broker, client = open_pair()
    assert broker.receive_data(commands.PING) == []
    assert broker.data_to_send() == commands.PONG
    assert broker.data_to_send() == b""
    assert client.receive_data(commands.PONG) == []


def test_an_idle_peer_is_pinged_at_one_tick_and_given_up_at_the_next():
    broker, _ = open_pair()
    assert broker.keep_alive() is KeepAlive.PING
    assert broker.data_to_send() == commands.PING
    assert broker.keep_alive(reading=False) is KeepAlive.WAIT
    assert broker.keep_alive() is KeepAlive.PEER_IS_GONE


def test_any_bytes_answer_a_ping():
    broker, _ = open_pair()
    broker.keep_alive()
    broker.receive_data(client_commands.flow(1, 1))
    assert broker.keep_alive() is KeepAlive.PING


def test_a_peer_that_did_not_finish_the_handshake_by_the_first_tick_is_given_up():
    assert Connection(Role.BROKER).keep_alive() is KeepAlive.PEER_IS_GONE


def test_a_client_too_old_for_keep_alive_is_never_pinged():
    broker = Connection(Role.BROKER)
    broker.receive_data(client_commands.connect("old", protocol_version=0))
    broker.accept("b")
    assert broker.keep_alive() is KeepAlive.WAIT
    assert broker.keep_alive() is KeepAlive.WAIT


def test_a_client_hears_why_it_is_refused():
    client = Connection(Role.CLIENT)
    client.connect("c")
    refusal = commands.error(commands.NO_REQUEST, api.AuthenticationError, "who are you?")
    ((number, error, _),) = client.receive_data(refusal)
    assert (number, error.request_id, error.error) == (
        api.BaseCommand.ERROR,
        commands.NO_REQUEST,
        api.AuthenticationError,
    )
    assert client.state is State.CONNECTING


def test_a_client_that_proves_who_it_is_has_to_wait_for_connected():
    broker = Connection(Role.BROKER)
    proof = commands.command_frame(api.BaseCommand.AUTH_RESPONSE, client_version="c")
    assert [number for number, _, _ in broker.receive_data(client_commands.connect("c") + proof)] == [
        api.BaseCommand.CONNECT,
        api.BaseCommand.AUTH_RESPONSE,
    ]
    assert broker.state is State.CONNECTING
    broker.accept("b")
    assert broker.state is State.OPEN


def test_our_own_misuse_is_not_the_peers_fault():
    with pytest.raises(LocalProtocolError):
        Connection(Role.CLIENT).accept("b")
    with pytest.raises(LocalProtocolError):
        Connection(Role.BROKER).connect("c")
    with pytest.raises(LocalProtocolError):
        Connection(Role.BROKER).send(commands.PING)
    broker, _ = open_pair()
    with pytest.raises(LocalProtocolError, match="CONNECTED is not allowed from a broker in state open"):
        broker.accept("again")
