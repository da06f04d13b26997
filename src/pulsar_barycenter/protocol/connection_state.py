"""The state of one connection of the binary protocol, without I/O: it performs the handshake and the keep-alive, and
decides which command is legal now.

The handshake is two tables. They list, for each role and state before OPEN, which commands it may receive and send, and
the next state. `close()` or a RemoteProtocolError leads to CLOSED from any state. In the state OPEN no command changes
the state; _LEGAL_WHEN_OPEN lists the legal commands. PING is answered and PONG is consumed here. Whether a producer or
consumer exists is not checked here.

Keep-alive (reference 3.1, the same on both sides): at each tick the handshake must be complete, and something must have
arrived since the previous PING. If so, a PING is due, otherwise the peer has failed. The caller provides the ticks.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import LocalProtocolError, RemoteProtocolError, UnsupportedCommandError
from pulsar_barycenter.protocol.frames import DEFAULT_MAX_MESSAGE_SIZE, FRAME_PADDING, Frame, FrameDecoder
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE, parse_command
from pulsar_barycenter.protocol.send_runs import MIN_RUN_BYTES, run_at

Received: TypeAlias = tuple[int, Any, bytes]
"""A received command: its type, its sub-message (`Send` for a SEND), and the entry that follows it (SEND and MESSAGE
only). Or several commands at once: `SEND_RUN`, a `SendRun`, and b"".
"""

SEND_RUN: Final = -1
"""A value instead of a command's type, which says that this is a run of several SENDs, given as one `SendRun`."""


class Role(enum.Enum):
    """The side of a connection that this program is: the broker or the client."""

    BROKER = "broker"
    CLIENT = "client"


class State(enum.Enum):
    FRESH = "fresh"
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"


class KeepAlive(enum.Enum):
    """What the caller of `Connection.keep_alive` has to do: nothing (WAIT), send the queued PING, or close the
    connection (PEER_IS_GONE).
    """

    WAIT = "wait"
    PING = "ping"
    PEER_IS_GONE = "peer_is_gone"


_BOTH_WAYS: Final = frozenset(
    {
        api.BaseCommand.PING,
        api.BaseCommand.PONG,
        api.BaseCommand.CLOSE_PRODUCER,
        api.BaseCommand.CLOSE_CONSUMER,
    }
)
_TO_CLIENT: Final = frozenset(
    {
        api.BaseCommand.CONNECTED,
        api.BaseCommand.SEND_RECEIPT,
        api.BaseCommand.SEND_ERROR,
        api.BaseCommand.MESSAGE,
        api.BaseCommand.SUCCESS,
        api.BaseCommand.ERROR,
        api.BaseCommand.PRODUCER_SUCCESS,
        api.BaseCommand.PARTITIONED_METADATA_RESPONSE,
        api.BaseCommand.LOOKUP_RESPONSE,
        api.BaseCommand.CONSUMER_STATS_RESPONSE,
        api.BaseCommand.REACHED_END_OF_TOPIC,
        api.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE,
        api.BaseCommand.ACTIVE_CONSUMER_CHANGE,
        api.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        api.BaseCommand.GET_SCHEMA_RESPONSE,
        api.BaseCommand.AUTH_CHALLENGE,
        api.BaseCommand.ACK_RESPONSE,
        api.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE,
        api.BaseCommand.NEW_TXN_RESPONSE,
        api.BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE,
        api.BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        api.BaseCommand.END_TXN_RESPONSE,
        api.BaseCommand.END_TXN_ON_PARTITION_RESPONSE,
        api.BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE,
        api.BaseCommand.TC_CLIENT_CONNECT_RESPONSE,
        api.BaseCommand.WATCH_TOPIC_LIST_SUCCESS,
        api.BaseCommand.WATCH_TOPIC_UPDATE,
        api.BaseCommand.TOPIC_MIGRATED,
        api.BaseCommand.SCALABLE_TOPIC_UPDATE,
        api.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
        api.BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE,
        api.BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE,
    }
)
_LEGAL_WHEN_OPEN: Final[dict[Role, frozenset[int]]] = {
    Role.CLIENT: frozenset(_TO_CLIENT - {api.BaseCommand.CONNECTED} | _BOTH_WAYS),
    Role.BROKER: frozenset(set(FIELD_OF_TYPE) - _TO_CLIENT - {api.BaseCommand.CONNECT}),
}
_RECEIVABLE: Final[Mapping[tuple[Role, State], Mapping[int, State]]] = {
    (Role.BROKER, State.FRESH): {api.BaseCommand.CONNECT: State.CONNECTING},
    (Role.BROKER, State.CONNECTING): {api.BaseCommand.AUTH_RESPONSE: State.CONNECTING},
    (Role.CLIENT, State.CONNECTING): {
        api.BaseCommand.CONNECTED: State.OPEN,
        api.BaseCommand.ERROR: State.CONNECTING,
        api.BaseCommand.AUTH_CHALLENGE: State.CONNECTING,
    },
}
"""For each role and state of the handshake: the commands that this side may receive, and the next state of each."""
_SENDABLE: Final[Mapping[tuple[Role, State], Mapping[int, State]]] = {
    (Role.BROKER, State.CONNECTING): {api.BaseCommand.CONNECTED: State.OPEN},
    (Role.CLIENT, State.FRESH): {api.BaseCommand.CONNECT: State.CONNECTING},
}
"""For each role and state of the handshake: the commands that this side may send, and the next state of each."""
_NOTHING: Final[Mapping[int, State]] = {}
MAX_HANDSHAKE_BYTES: Final = 64 << 10
"""The maximum size of a command in bytes before the connection is open. Credentials have at most 8,000."""
MAX_COMMAND_BYTES: Final = 2 << 20
"""The maximum size in bytes of a command that a broker receives, without the entry: its parts are parsed at once."""
_FRAME_OVERHEAD: Final = 128
"""The memory in bytes that a waiting frame takes in addition to its content."""
_WITH_ENTRY: Final = frozenset({api.BaseCommand.SEND, api.BaseCommand.MESSAGE})
_PING: Final = int(api.BaseCommand.PING)
_PONG: Final = int(api.BaseCommand.PONG)


class Connection:
    """The protocol state of one connection, of a broker or of a client.

    After each call of `receive_data`, send the bytes that `data_to_send` returns, for example a PONG. After a
    RemoteProtocolError the state is CLOSED and the caller must close the transport.

    A client may send commands after its CONNECT without waiting for the answer. On the broker's side such commands are
    kept until `accept` is called; the next call of `receive_data` returns them, even if it is called with no bytes. The
    kept commands and their entries may have at most the size of one frame in total.
    """

    __slots__ = ("_decoder", "_early", "_early_bytes", "_joins_sends", "_legal", "_longest", "_max_frame_size", "_out",
                 "_ping_open", "peer_version", "role", "state")  # fmt: skip

    def __init__(
        self,
        role: Role,
        *,
        max_frame_size: int = DEFAULT_MAX_MESSAGE_SIZE + FRAME_PADDING,
        joins_sends: bool = False,
    ) -> None:
        """`role` is the side of the connection that this program is. `max_frame_size` is the inclusive limit of the
        size of a received frame, in bytes. If `joins_sends` is True and the role is BROKER, `receive_data` returns
        consecutive SENDs of the same form together, as one `SEND_RUN`; the checksums of their entries have been
        verified then.
        """
        self.role: Final = role
        self._joins_sends = joins_sends and role is Role.BROKER
        self.state = State.FRESH
        self.peer_version = 0
        """The peer's protocol version, after its CONNECT or CONNECTED."""
        self._decoder = FrameDecoder(max_frame_size)
        self._max_frame_size = max_frame_size
        self._legal: Final = _LEGAL_WHEN_OPEN[role]
        """The commands that this role may receive while the connection is open."""
        self._longest: Final = MAX_COMMAND_BYTES if role is Role.BROKER else max_frame_size
        """The maximum size of a command in bytes while the connection is open."""
        self._early: list[Frame] = []
        self._early_bytes = 0
        self._out: list[bytes] = []
        self._ping_open = False

    # ---- bytes in and out ----

    def receive_data(self, data: bytes) -> list[Received]:
        """Return the commands that `data` completes, oldest first.

        Raises:
            RemoteProtocolError: the peer broke the protocol. Legal commands that the same `data` has before the error
                are lost with the connection, as if they had not arrived.
        """
        self._ping_open = False
        try:
            frames, data, offset = self._decoder.finish(data)
            if self._joins_sends and len(data) > MIN_RUN_BYTES and self.state is State.OPEN and not self._early:
                received = self._take(frames)
                runs, offset = self._take_runs(data, offset)
                return received + runs + self._take(self._decoder.cut(data, offset))
            frames += self._decoder.cut(data, offset)
            if self._early and self.state is State.OPEN:
                frames = self._early + frames
                self._early = []
            return self._take(frames)
        except RemoteProtocolError:
            self.state = State.CLOSED
            raise

    def _take_runs(self, data: bytes, offset: int) -> tuple[list[Received], int]:
        """Return the runs of SENDs (`SendRun`) that begin at `offset` of `data`, and the offset of the end of the last
        run (exclusive).
        """
        received: list[Received] = []
        while (found := run_at(data, offset, self._max_frame_size)) is not None:
            run, offset = found
            received.append((SEND_RUN, run, b""))
        return received, offset

    def _take(self, frames: list[Frame]) -> list[Received]:
        """Return those of the commands in `frames` that the caller has to handle; process the others, such as PING,
        here.
        """
        received: list[Received] = []
        if not frames:
            return received
        if self.state is not State.OPEN:
            frames = self._take_handshake(frames, received)
        legal = self._legal
        longest = self._longest
        for command, entry in frames:
            if len(command) > longest:
                raise _too_long(command, "", longest)
            number, message = parse_command(command)
            if number not in legal:
                raise self._illegal(number)
            if number == _PING:
                self._out.append(commands.PONG)
            elif entry and number not in _WITH_ENTRY:
                raise _has_no_entry(number, entry)
            elif number != _PONG:
                received.append((number, message, entry))
        return received

    def _take_handshake(self, frames: list[Frame], received: list[Received]) -> list[Frame]:
        """Process frames up to the one that opens the connection (inclusive); return the frames after it, no frames if
        the connection is not open yet. The commands that the caller has to handle are added to `received`.
        """
        for index, (command, entry) in enumerate(frames):
            if len(command) > MAX_HANDSHAKE_BYTES:
                raise _too_long(command, " before the connection is open", MAX_HANDSHAKE_BYTES)
            number, message = parse_command(command)
            if self._must_wait_for_accept(number):
                self._keep_until_accept(command, entry)
                continue
            is_open = self._advance(number, message)
            if entry:
                raise _has_no_entry(number, entry)
            received.append((number, message, entry))
            if is_open:
                return frames[index + 1 :]
        return []

    def _must_wait_for_accept(self, number: int) -> bool:
        """Return whether a command of a client, of the type `number`, must wait because this broker has not answered
        the client's CONNECT yet.
        """
        return (
            self.role is Role.BROKER
            and self.state is State.CONNECTING
            and number in _LEGAL_WHEN_OPEN[Role.BROKER]
            and number != api.BaseCommand.AUTH_RESPONSE
        )

    def _keep_until_accept(self, command: bytes, entry: bytes) -> None:
        self._early_bytes += _FRAME_OVERHEAD + len(command) + len(entry)
        if self._early_bytes > self._max_frame_size:
            raise RemoteProtocolError(
                f"the client sent more than {self._max_frame_size} bytes before its CONNECT was answered"
            )
        self._early.append((command, entry))

    def _advance(self, number: int, message: Any) -> bool:
        """Process a command of the handshake: `number` is its type, `message` its sub-message. Return whether the
        connection is open after it.
        """
        after = _RECEIVABLE.get((self.role, self.state), _NOTHING).get(number)
        if after is None:
            raise self._illegal(number)
        if number in (api.BaseCommand.CONNECT, api.BaseCommand.CONNECTED):
            self.peer_version = message.protocol_version
        self.state = after
        return after is State.OPEN

    def _illegal(self, number: int) -> RemoteProtocolError:
        if self.state is State.OPEN and number not in (api.BaseCommand.CONNECT, api.BaseCommand.CONNECTED):
            return UnsupportedCommandError(number)
        return RemoteProtocolError(
            f"{_name(number)} is not legal in state {self.state.value} of a {self.role.value}'s connection"
        )

    def data_to_send(self) -> bytes:
        """Return the bytes to send to the peer, and forget them: PINGs and PONGs, and frames that were passed to
        `send`.
        """
        if not self._out:
            return b""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def send(self, frame: bytes) -> None:
        """Queue a frame for `data_to_send`.

        Raises:
            LocalProtocolError: the connection is not open.
        """
        if self.state is not State.OPEN:
            raise LocalProtocolError(f"nothing can be sent in state {self.state.value}")
        self._out.append(frame)

    # ---- handshake ----

    def connect(self, client_version: str, *, protocol_version: int = commands.PROTOCOL_VERSION, **proof: Any) -> None:
        """As a client, queue the CONNECT command. `proof` are the credentials: further arguments of
        `client_commands.connect`.
        """
        self._advance_by_sending(api.BaseCommand.CONNECT)
        self._out.append(client_commands.connect(client_version, protocol_version=protocol_version, **proof))

    def accept(
        self,
        server_version: str,
        *,
        max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE,
        feature_flags: api.FeatureFlags | None = None,
    ) -> None:
        """As a broker, queue the CONNECTED command, which accepts the client's CONNECT. The command has the lower one
        of the protocol versions of client and broker.
        """
        self._advance_by_sending(api.BaseCommand.CONNECTED)
        self._out.append(
            commands.connected(
                server_version,
                protocol_version=min(self.peer_version, commands.PROTOCOL_VERSION),
                max_message_size=max_message_size,
                feature_flags=feature_flags,
            )
        )

    def _advance_by_sending(self, number: api.BaseCommand.Type.ValueType) -> None:
        """Change the state of the connection because this handshake command is sent. Raise LocalProtocolError if this
        role may not send the command in the present state.
        """
        after = _SENDABLE.get((self.role, self.state), _NOTHING).get(number)
        if after is None:
            raise LocalProtocolError(
                f"{api.BaseCommand.Type.Name(number)} is not allowed from a {self.role.value} in state "
                f"{self.state.value}"
            )
        self.state = after

    def close(self) -> None:
        """Close the connection's state: no command is legal any more. Idempotent."""
        self.state = State.CLOSED

    # ---- keep-alive ----

    def keep_alive(self, *, reading: bool = True) -> KeepAlive:
        """Decide, at a tick of the keep-alive interval, what to do: PING (its frame is queued already), PEER_IS_GONE
        (the caller closes the connection) or WAIT.

        `reading` is False if this side has stopped to read (back-pressure): then the missing answer to a PING does not
        count, and the result is WAIT.
        """
        if self.state is not State.OPEN:
            return KeepAlive.PEER_IS_GONE
        if self._ping_open:
            return KeepAlive.PEER_IS_GONE if reading else KeepAlive.WAIT
        if self.peer_version < 1:
            return KeepAlive.WAIT  # clients before version 1 do not know PING
        self._ping_open = True
        self._out.append(commands.PING)
        return KeepAlive.PING


def _name(number: int) -> str:
    return FIELD_OF_TYPE.get(number, str(number))


def _too_long(command: bytes, when: str, limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"a command of {len(command)} bytes{when}; the limit is {limit}")


def _has_no_entry(number: int, entry: bytes) -> RemoteProtocolError:
    return RemoteProtocolError(f"{_name(number)} is followed by {len(entry)} bytes, but this command has no entry")
