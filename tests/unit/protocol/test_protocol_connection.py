import pytest

from barycenter.protocol import client_commands, commands
from barycenter.protocol import pulsar_api_pb2 as api
from barycenter.protocol.connection import Connection, KeepAlive, Role, State
from barycenter.protocol.errors import (
    FrameTooLargeError,
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedCommandError,
)


def open_pair():
    broker, client = Connection(Role.BROKER, 0.0), Connection(Role.CLIENT, 0.0)
    client.connect("Test 1", protocol_version=21)
    ((number, connect, _),) = broker.receive_data(client.data_to_send(), 0.0)
    assert (number, connect.client_version) == (api.BaseCommand.CONNECT, "Test 1")
    broker.accept("Broker 1")
    ((number, connected, _),) = client.receive_data(broker.data_to_send(), 0.0)
    assert (number, connected.protocol_version) == (api.BaseCommand.CONNECTED, commands.PROTOCOL_VERSION)
    return broker, client


def test_a_handshake_opens_both_sides_with_the_lower_version():
    broker, client = open_pair()
    assert (broker.state, client.state) == (State.OPEN, State.OPEN)
    assert (broker.peer_version, client.peer_version) == (21, commands.PROTOCOL_VERSION)


def test_nothing_is_taken_before_connect():
    broker = Connection(Role.BROKER, 0.0)
    with pytest.raises(RemoteProtocolError, match="lookupTopic in state fresh"):
        broker.receive_data(client_commands.lookup(1, "t"), 0.0)
    assert broker.state is State.CLOSED


def test_nothing_is_taken_between_connect_and_connected():
    broker = Connection(Role.BROKER, 0.0)
    with pytest.raises(RemoteProtocolError, match="lookupTopic in state connecting"):
        broker.receive_data(client_commands.connect("c") + client_commands.lookup(1, "t"), 0.0)


def test_a_second_connect_is_refused():
    broker, _ = open_pair()
    with pytest.raises(RemoteProtocolError, match="connect in state open"):
        broker.receive_data(client_commands.connect("c"), 0.0)


def test_a_command_for_the_other_role_is_refused():
    broker, client = open_pair()
    with pytest.raises(UnsupportedCommandError):
        broker.receive_data(commands.success(1), 0.0)
    with pytest.raises(UnsupportedCommandError):
        client.receive_data(client_commands.flow(1, 1), 0.0)


def test_bytes_behind_a_command_that_takes_none_are_refused():
    broker, _ = open_pair()
    flow = client_commands.flow(1, 1)
    padded = (len(flow) - 4 + 3).to_bytes(4, "big") + flow[4:] + b"abc"
    with pytest.raises(RemoteProtocolError, match="3 bytes behind it"):
        broker.receive_data(padded, 0.0)


def test_a_frame_beyond_the_limit_closes_the_connection():
    broker = Connection(Role.BROKER, 0.0, max_frame_size=64)
    with pytest.raises(FrameTooLargeError):
        broker.receive_data(b"\x00\x00\x00\x41\x00\x00\x00\x01", 0.0)
    with pytest.raises(RemoteProtocolError):
        broker.receive_data(client_commands.connect("c"), 0.0)


def test_a_ping_is_answered_at_once_and_a_pong_is_swallowed():
    broker, client = open_pair()
    assert broker.receive_data(commands.PING, 1.0) == []
    assert broker.data_to_send() == commands.PONG
    assert broker.data_to_send() == b""
    assert client.receive_data(commands.PONG, 1.0) == []


def test_an_idle_peer_is_pinged_at_one_tick_and_given_up_at_the_next():
    broker, _ = open_pair()
    assert broker.keep_alive() is KeepAlive.PING
    assert broker.data_to_send() == commands.PING
    assert broker.keep_alive(reading=False) is KeepAlive.WAIT
    assert broker.keep_alive() is KeepAlive.PEER_IS_GONE


def test_any_bytes_answer_a_ping():
    broker, _ = open_pair()
    broker.keep_alive()
    broker.receive_data(client_commands.flow(1, 1), 31.0)
    assert broker.last_received_at == 31.0
    assert broker.keep_alive() is KeepAlive.PING


def test_a_peer_that_did_not_finish_the_handshake_by_the_first_tick_is_given_up():
    assert Connection(Role.BROKER, 0.0).keep_alive() is KeepAlive.PEER_IS_GONE


def test_a_client_too_old_for_keep_alive_is_never_pinged():
    broker = Connection(Role.BROKER, 0.0)
    broker.receive_data(client_commands.connect("old", protocol_version=0), 0.0)
    broker.accept("b")
    assert broker.keep_alive() is KeepAlive.WAIT
    assert broker.keep_alive() is KeepAlive.WAIT


def test_a_refused_client_hears_why():
    broker = Connection(Role.BROKER, 0.0)
    broker.receive_data(client_commands.connect("c"), 0.0)
    broker.refuse(api.AuthenticationError, "who are you?")
    client = Connection(Role.CLIENT, 0.0)
    client.connect("c")
    ((number, error, _),) = client.receive_data(broker.data_to_send(), 0.0)
    assert (number, error.request_id, error.error) == (
        api.BaseCommand.ERROR,
        commands.NO_REQUEST,
        api.AuthenticationError,
    )


def test_our_own_misuse_is_not_the_peers_fault():
    with pytest.raises(LocalProtocolError):
        Connection(Role.CLIENT, 0.0).accept("b")
    with pytest.raises(LocalProtocolError):
        Connection(Role.BROKER, 0.0).connect("c")
    with pytest.raises(LocalProtocolError):
        Connection(Role.BROKER, 0.0).send(commands.PING)
    broker, _ = open_pair()
    with pytest.raises(LocalProtocolError):
        broker.refuse(api.AuthenticationError, "too late")
    with pytest.raises(LocalProtocolError):
        broker.accept("again")
