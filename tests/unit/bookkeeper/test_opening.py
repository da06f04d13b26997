"""Connections to bookies by TLS and with authentication, and the reasons for which there is none."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.connection import BookieConnection
from pulsar_barycenter.bookkeeper.client.opening import Authenticate, OpeningStep, StartTls, open_connection
from pulsar_barycenter.bookkeeper.errors import (
    BookieRefusedError,
    BookKeeperError,
    MalformedAnswerError,
)
from pulsar_barycenter.bookkeeper.wire.opening_packets import check_start_tls, encode_start_tls
from pulsar_barycenter.bookkeeper.wire.packets import encode_add, encode_auth
from pulsar_barycenter.credentials.client_authentication import ClientAuthentication
from pulsar_barycenter.credentials.tls import ClientTls, ServerTls
from support.bookkeeper_server import BookieCluster, BookieServer
from support.certificates import Certificates, make_certificates

SHAPE = LedgerShape(1, 1, 1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("strangers"))


def server(made: Certificates) -> ssl.SSLContext:
    return ServerTls(str(made.certificate), str(made.key), str(made.authority), requires_certificate=True).context()


def start_tls(made: Certificates, authority: Path | None = None) -> StartTls:
    shows = ClientAuthentication("tls", certificate_file=str(made.certificate), key_file=str(made.key))
    return StartTls(ClientTls(str(authority or made.authority), shows).context)


@dataclass(frozen=True)
class Password:
    """A plug-in that says hello, is asked for its password, and is welcomed."""

    text: bytes
    name: str = "password"

    def conversation(self, host: str) -> Generator[bytes, bytes, None]:
        assert host == "127.0.0.1"
        assert (yield b"hello") == b"password?"
        if (yield self.text) != b"welcome":
            raise BookieRefusedError("the bookie does not welcome")


def played(test: Callable[[BookieCluster, BookieServer], Awaitable[None]]) -> None:
    async def play() -> None:
        async with BookieCluster(1) as bookies:
            await test(bookies, bookies.bookies[0])

    asyncio.run(asyncio.wait_for(play(), 30))


async def write_and_read(bookies: BookieCluster, *steps: OpeningStep) -> None:
    """Write an entry, and let another client take the ledger over and read it."""
    client = await bookies.client(opening=steps)
    writer = await client.create(SHAPE, lambda last, error: None)
    assert await writer.add(b"one") == 0
    reader = await (await bookies.client(opening=steps)).recover(writer.ledger)
    assert await reader.read(0, 0, max_bytes=100) == [b"one"]


async def refused(bookies: BookieCluster, *steps: OpeningStep) -> str:
    """Try to write an entry; return why the bookie was not reached. It has stored nothing."""
    client = await bookies.client(opening=steps)
    with capture_logs() as logs:
        writer = await client.create(SHAPE, lambda last, error: None)
        with pytest.raises(BookKeeperError):
            await writer.add(b"one")
    assert bookies.bookies[0].ledgers == {}
    (reason,) = {line["error"] for line in logs if line["event"] == "bookie_unreachable"}
    return str(reason)


def test_requests_go_by_tls_with_a_certificate_of_each_side(certificates: Certificates) -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        bookie.contexts = [server(certificates)]
        await write_and_read(bookies, start_tls(certificates))
        assert bookie.encrypted == 2

    played(test)


def test_a_bookie_without_tls_is_not_used_when_tls_is_wanted(certificates: Certificates) -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        assert "the bookie does not offer TLS" in await refused(bookies, start_tls(certificates))

    played(test)


def test_a_bookie_with_a_certificate_of_another_authority_is_not_used(
    certificates: Certificates, strangers: Certificates
) -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        bookie.contexts = [server(strangers)]
        assert "CERTIFICATE_VERIFY_FAILED" in await refused(bookies, start_tls(certificates))

    played(test)


def test_a_bookie_that_refuses_the_certificate_of_the_client_counts_as_failed(
    certificates: Certificates, strangers: Certificates
) -> None:
    """In TLS 1.3 the handshake of the client has succeeded by then."""

    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        bookie.contexts = [server(certificates)]
        reason = await refused(bookies, start_tls(strangers, certificates.authority))
        assert reason
        assert bookie.requests == {}

    played(test)


@pytest.mark.parametrize("by_tls", [False, True])
def test_a_plug_in_authenticates_the_client_before_its_first_request(
    certificates: Certificates, *, by_tls: bool
) -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        bookie.password = b"right"
        bookie.contexts = [server(certificates)] if by_tls else []
        tls = [start_tls(certificates)] if by_tls else []
        await write_and_read(bookies, *tls, Authenticate(Password(b"right")))

    played(test)


def test_a_bookie_without_authentication_accepts_every_client() -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        await write_and_read(bookies, Authenticate(Password(b"any")))

    played(test)


@pytest.mark.parametrize("plugin", [Password(b"wrong"), Password(b"right", name="another")])
def test_a_client_that_is_not_authenticated_sends_no_request(plugin: Password) -> None:
    async def test(bookies: BookieCluster, bookie: BookieServer) -> None:
        bookie.password = b"right"
        assert "closed the connection" in await refused(bookies, Authenticate(plugin))
        assert bookie.requests == {}

    played(test)


def test_the_start_of_tls_is_what_java_writes() -> None:
    assert encode_start_tls() == bytes.fromhex("0000000b 0a06080310091801 d20600")
    check_start_tls(bytes.fromhex("0a06080310091801 1000 d20600"))
    with pytest.raises(BookieRefusedError, match="does not offer TLS"):
        check_start_tls(bytes.fromhex("0a06080310091801 109403"))
    with pytest.raises(BookieRefusedError, match="status 501"):
        check_start_tls(bytes.fromhex("0a06080310091801 10f503"))
    for damaged in (b"", b"\x0a", bytes.fromhex("0a06080310021801 1000"), b"\x02\x01\0\0"):
        with pytest.raises(MalformedAnswerError):
            check_start_tls(damaged)


@dataclass(frozen=True)
class Endless:
    """A plug-in that always has another message."""

    name: str = "endless"

    def conversation(self, host: str) -> Generator[bytes, bytes, None]:
        while True:
            yield b"again"


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (encode_auth("endless", b"more"), BookieRefusedError, "after 100 messages"),
        ((1 << 20).to_bytes(4, "big") + b"\1", ConnectionError, "closed the connection"),
        (((1 << 20) + 1).to_bytes(4, "big"), MalformedAnswerError, "1,048,577 bytes"),
        (encode_add(bytes(20), (bytes(36), bytes(4))), MalformedAnswerError, "something else than such a message"),
    ],
)
def test_what_a_bookie_sends_before_the_first_request_is_bounded(
    answer: bytes, error: type[Exception], text: str
) -> None:
    async def bookie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(1000):
            if not await reader.read(100):
                break
            writer.write(answer)
            if not answer.endswith(b"more"):
                writer.write_eof()
        writer.close()

    async def play() -> None:
        async with await asyncio.start_server(bookie, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            with pytest.raises(error, match=text):
                await open_connection(unreachable, (host, port), [Authenticate(Endless())])

    asyncio.run(asyncio.wait_for(play(), 30))


def unreachable() -> BookieConnection:
    raise AssertionError("the connection was opened")
