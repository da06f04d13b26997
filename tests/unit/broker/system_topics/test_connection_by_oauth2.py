"""A connection between brokers with tokens of an issuer: obtained before, and again when the broker asks."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from pulsar_barycenter.broker.system_topics.connection import BrokerConnection
from pulsar_barycenter.broker.system_topics.errors import UnreachableError
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.credentials.client_authentication import parse_authentication
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol.connection_state import Connection, Role
from support.fake_issuer import FakeIssuer, fake_issuer, oauth2


@dataclass
class AskingBroker(asyncio.Protocol):
    """Greets every client, and keeps the credentials that it got, first by CONNECT and then by AUTH_RESPONSE."""

    shown: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.wire = Connection(Role.BROKER)

    def data_received(self, data: bytes) -> None:
        for _, message, _ in self.wire.receive_data(data):
            if hasattr(message, "auth_data"):
                self.shown.put_nowait(message.auth_data)
                self.wire.accept("Asking")
            elif hasattr(message, "response"):
                self.shown.put_nowait(message.response.auth_data)
        self.write(self.wire.data_to_send())

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@asynccontextmanager
async def connected(issuer: FakeIssuer) -> AsyncIterator[tuple[BrokerConnection, AskingBroker]]:
    broker = AskingBroker()
    make: Callable[[], AskingBroker] = lambda: broker  # noqa: E731
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    shows = parse_authentication("oauth2", oauth2(issuer.url))
    connection = BrokerConnection(f"pulsar://127.0.0.1:{port}", ClientSettings(), ClientTls(shows=shows))
    try:
        async with asyncio.timeout(30):
            yield connection, broker
    finally:
        connection.drop("the test is over")
        await connection.ended()
        server.close()


async def test_another_token_is_shown_when_the_broker_asks() -> None:
    async with fake_issuer() as issuer, connected(issuer) as (connection, broker):
        await connection.opened()
        first = await broker.shown.get()
        for number in (2, 3):
            broker.write(commands.auth_challenge("Asking", "token"))
            assert await broker.shown.get() != first
            assert len(issuer.forms) == number
        assert not connection.is_lost


async def test_a_connection_without_a_token_is_none() -> None:
    async with fake_issuer() as issuer:
        issuer.status = 503
        async with connected(issuer) as (connection, broker):
            with pytest.raises(UnreachableError, match="no token was obtained"):
                await connection.opened()
            assert connection.is_lost
            assert broker.transport is None


async def test_a_connection_whose_token_cannot_be_renewed_ends() -> None:
    async with fake_issuer() as issuer, connected(issuer) as (connection, broker):
        await connection.opened()
        issuer.status = 503
        broker.write(commands.auth_challenge("Asking", "token"))
        await broker.lost.wait()
        await connection.ended()
        assert connection.is_lost


async def test_a_connection_that_ends_while_it_asks_for_a_token_leaves_nothing() -> None:
    async with fake_issuer() as issuer, connected(issuer) as (connection, broker):
        await connection.opened()
        issuer.hangs = True
        asked = dict(issuer.asked)
        broker.write(commands.auth_challenge("Asking", "token"))
        while issuer.asked == asked:
            await asyncio.sleep(0)
        connection.drop("enough")
        await connection.ended()
        assert connection.is_lost


def test_the_context_of_a_connection_is_as_strict_as_before() -> None:
    context = ClientTls().context()
    assert (context.minimum_version, context.check_hostname, context.verify_mode) == (
        ssl.TLSVersion.TLSv1_2,
        True,
        ssl.CERT_REQUIRED,
    )
