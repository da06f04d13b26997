"""Opens a connection to a bookie: what is exchanged with the bookie before the first request.

Without steps the connection takes requests as soon as it is made. `StartTls` encrypts it. `Authenticate` lets an
authentication plug-in talk to that of the bookie; after `StartTls` it is encrypted, unlike in Java's client, which
authenticates first.
"""

import asyncio
import ssl
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pulsar_barycenter.bookkeeper.client.connection import BookieConnection
from pulsar_barycenter.bookkeeper.errors import BookieRefusedError, MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.opening_packets import check_start_tls, encode_start_tls, is_of_version_3
from pulsar_barycenter.bookkeeper.wire.packets import AnswerDecoder, AuthAnswer, encode_auth

_MAX_PACKET_BYTES: Final = 1 << 20
"""The largest packet (inclusive) that is accepted while a connection is opened."""
_MAX_MESSAGES: Final = 100
"""The most messages of an authentication, so that it ends with every bookie."""
_NO_AUTHENTICATION: Final = "AuthDisabledPlugin"
"""The name by which a bookie without an authentication plug-in answers."""


class Opening(asyncio.Protocol):
    """A connection to a bookie at `host` before its first request."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._received = asyncio.StreamReader(limit=_MAX_PACKET_BYTES)
        self._transports: list[asyncio.Transport] = []
        self._is_lost = False

    async def exchange(self, packet: bytes) -> bytes:
        """Send a packet, and return the next packet that the bookie sends, without the 4 bytes of its size.

        Raises:
            MalformedAnswerError: the bookie announces a packet that is too large for an opening.
            ConnectionError: the connection ended.
        """
        self._transports[-1].write(packet)
        return await self.packet()

    async def packet(self) -> bytes:
        """Return the next packet that the bookie sends, without its size. Raises the errors of `exchange`."""
        try:
            size = int.from_bytes(await self._received.readexactly(4), "big")
            if size > _MAX_PACKET_BYTES:
                raise MalformedAnswerError(
                    f"a bookie announces a packet of {size:,} bytes while the connection is opened, which is too "
                    "large: check that a bookie listens at this address"
                )
            return await self._received.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionError(
                "the bookie closed the connection while it was opened: see the log of the bookie"
            ) from None

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt what follows, after the certificate of the bookie was verified as `context` says.

        Raises:
            OSError: the handshake failed.
        """
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transports[-1], self, context, server_hostname=self.host)
        if transport is None:
            raise ConnectionError("the bookie closed the connection while TLS was started: see the log of the bookie")
        self._transports.append(transport)

    def hand_over(self, connection: BookieConnection) -> None:
        """Let `connection` use the open connection from now on.

        Raises:
            ConnectionError: the bookie has closed it.
        """
        if self._is_lost:
            raise ConnectionError("the bookie closed the connection while it was opened: see the log of the bookie")
        transport = self._transports[-1]
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def abort(self) -> None:
        """End the connection at once. Idempotent."""
        for transport in reversed(self._transports):
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(cast(asyncio.Transport, transport))  # that of uvloop is no instance of it

    def data_received(self, data: bytes) -> None:
        self._received.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._received.feed_eof()


class OpeningStep(Protocol):
    """A part of the opening of each connection."""

    async def take(self, opening: Opening) -> None:
        """Carry the step out.

        Raises:
            BookieRefusedError: the bookie does not accept this client.
            MalformedAnswerError: the bookie sent something else than was expected.
            OSError: the connection ended, or the handshake of TLS failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class StartTls:
    """Asks the bookie to start TLS. `context` is called for each connection, and returns the SSL context to use."""

    context: Callable[[], ssl.SSLContext]

    async def take(self, opening: Opening) -> None:
        check_start_tls(await opening.exchange(encode_start_tls()))
        await opening.start_tls(self.context())


class AuthenticationPlugin(Protocol):
    """The client's part of an authentication plug-in of bookies. `name` is the name that the bookie's plug-in returns
    (`getPluginName`).
    """

    @property
    def name(self) -> str: ...

    def conversation(self, host: str) -> Generator[bytes, bytes, None]:
        """Return a generator for one connection to the bookie at `host`. It yields each message for the bookie, gets
        the answer, and ends when the bookie has accepted the client.

        Raises:
            BookieRefusedError: the bookie's answer is not the expected one.
        """
        ...


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Lets `plugin` talk to the authentication plug-in of the bookie. A bookie without one accepts every client."""

    plugin: AuthenticationPlugin

    async def take(self, opening: Opening) -> None:
        conversation = self.plugin.conversation(opening.host)
        try:
            message = next(conversation)
            for _ in range(_MAX_MESSAGES):
                answer = await self._answer(opening, message)
                if answer.plugin == _NO_AUTHENTICATION:
                    conversation.close()
                    return
                message = conversation.send(answer.payload)
        except StopIteration:
            return
        raise BookieRefusedError(
            f"the authentication at the bookie did not end after {_MAX_MESSAGES} messages: check that this client and "
            "the bookie have the same authentication plug-in"
        )

    async def _answer(self, opening: Opening, message: bytes) -> AuthAnswer:
        packet = await opening.exchange(encode_auth(self.plugin.name, message))
        while is_of_version_3(packet):  # in TLS a bookie first says that the client is not authenticated yet
            packet = await opening.packet()
        answers = AnswerDecoder(_MAX_PACKET_BYTES).receive(len(packet).to_bytes(4, "big") + packet)
        for answer in answers:
            if isinstance(answer, AuthAnswer):
                return answer
        raise MalformedAnswerError(
            "a bookie answered a message of the authentication with something else than such a message"
        )


async def open_connection(
    make: Callable[[], BookieConnection], address: tuple[str, int], steps: Sequence[OpeningStep]
) -> BookieConnection:
    """Connect to the bookie at `address` (host and port), carry out the steps in their order, and return the
    connection, ready for requests.

    Raises:
        BookieRefusedError, MalformedAnswerError, OSError: no connection was made, or a step failed and the connection
            was closed.
    """
    loop = asyncio.get_running_loop()
    if not steps:
        return (await loop.create_connection(make, *address))[1]
    opening = (await loop.create_connection(lambda: Opening(address[0]), *address))[1]
    try:
        for step in steps:
            await step.take(opening)
        connection = make()
        opening.hand_over(connection)
    except BaseException:
        opening.abort()
        raise
    return connection
