"""A port with TLS: a client that does not finish its handshake holds little, for a short time, and blocks no other."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pulsar_barycenter.broker.access.tls_listener import TlsListener, listen_by_tls
from pulsar_barycenter.credentials.tls import ServerTls, renewing_server_context
from support.authorities import Authority

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
DEADLINE_S = 30
HELLO = b"hello"

NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Greeting(asyncio.Protocol):
    """Sends a greeting to every client whose handshake is done, and stays open."""

    def connection_made(self, transport: Any) -> None:
        transport.write(HELLO)


class Port:
    """A listener and its clients."""

    def __init__(self, authority: Authority, listener: TlsListener) -> None:
        self.listener = listener
        self._trusting = authority.trusting()
        self._writers: list[asyncio.StreamWriter] = []

    async def silent(self, address: str = "127.0.0.1") -> asyncio.StreamReader:
        """Connect from an address without a word of a handshake."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, local_addr=(address, 0))
        self._writers.append(writer)
        return reader

    async def greeted(self, address: str = "127.0.0.1") -> bytes:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, local_addr=(address, 0), ssl=self._trusting, server_hostname="localhost"
        )
        self._writers.append(writer)
        return await reader.readexactly(len(HELLO))

    async def greets(self, reader: asyncio.StreamReader, at: int) -> bytes:
        """Begin the handshake of a client that was silent until now."""
        await self._writers[at].start_tls(self._trusting, server_hostname="localhost")
        return await reader.readexactly(len(HELLO))

    async def has(self, handshakes: int) -> None:
        while self.listener.handshakes != handshakes:
            await asyncio.sleep(0)

    def say(self, at: int, text: bytes) -> None:
        self._writers[at].write(text)

    def leave(self, at: int) -> None:
        self._writers[at].transport.abort()

    async def close(self) -> None:
        self.listener.close()
        await self.listener.wait_closed()
        for writer in self._writers:
            writer.transport.abort()


def played(new_loop: NewLoop, folder: Path, play: Callable[[Port], Awaitable[None]], **bounds: Any) -> None:
    """Run `play` on a loop of its kind with a port of these bounds."""
    authority = Authority(folder)
    issued = authority.issue("server")
    tls = ServerTls(str(issued.certificate), str(issued.key))

    async def run() -> None:
        context = renewing_server_context(tls, check_s=10, now_s=lambda: 0.0)
        port = Port(authority, await listen_by_tls(Greeting, "127.0.0.1", 0, context, backlog=64, **bounds))
        try:
            async with asyncio.timeout(DEADLINE_S):
                await play(port)
        finally:
            await port.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@LOOPS
def test_connections_that_are_through_are_bounded_by_others(new_loop: NewLoop, tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        for _ in range(5):
            assert await port.greeted() == HELLO
        await port.has(0)

    played(new_loop, tmp_path, play, most=2, most_per_address=1)


@LOOPS
def test_one_address_has_so_many_handshakes_under_way_and_others_get_in(new_loop: NewLoop, tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        held = [await port.silent() for _ in range(2)]
        await port.has(2)
        third = await port.silent()
        with suppress(ConnectionError):
            assert await third.read() == b""
        assert await port.greeted("127.0.0.2") == HELLO
        assert not any(each.at_eof() for each in held)
        port.leave(0)
        await port.has(1)
        assert await port.greeted() == HELLO

    played(new_loop, tmp_path, play, most=8, most_per_address=2)


@LOOPS
def test_where_all_are_under_way_others_wait_for_one_that_ends(new_loop: NewLoop, tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        for last in (1, 2):
            await port.silent(f"127.0.0.{last}")
        await port.has(2)
        waiting = asyncio.ensure_future(port.greets(await port.silent("127.0.0.3"), 2))
        await port.silent("127.0.0.4")  # its turn is after that of the one before
        assert port.listener.handshakes == 2
        assert not waiting.done()
        port.leave(0)
        assert await waiting == HELLO

    played(new_loop, tmp_path, play, most=2, most_per_address=1)


@LOOPS
def test_who_is_silent_or_talks_nonsense_is_closed(new_loop: NewLoop, tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        silent, other = await port.silent(), await port.silent()
        port.say(-1, b"GET / HTTP/1.1\r\n\r\n")
        for each in (other, silent):
            with suppress(ConnectionError):
                await each.read()
        await port.has(0)

    played(new_loop, tmp_path, play, most=2, most_per_address=2, handshake_timeout_s=0.3)


@LOOPS
def test_a_closed_port_ends_what_is_under_way_and_leaves_connections(new_loop: NewLoop, tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        assert await port.greeted() == HELLO
        silent = await port.silent()
        await port.has(1)
        port.listener.close()
        await port.listener.wait_closed()
        with suppress(ConnectionError):
            assert await silent.read() == b""
        assert port.listener.handshakes == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port.listener.port)).close()
        port.listener.close()

    played(new_loop, tmp_path, play, most=2, most_per_address=2)


async def test_a_port_in_use_is_told_and_nothing_is_left_open(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("server")
    context = renewing_server_context(
        ServerTls(str(issued.certificate), str(issued.key)), check_s=10, now_s=lambda: 0.0
    )
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await listen_by_tls(Greeting, "127.0.0.1", taken.getsockname()[1], context, backlog=1)
