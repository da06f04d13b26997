"""A proxy on loopback in front of a TCP server, whose connections can be cut, and whose answers can be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class LoopbackProxy:
    """Passes bytes on to `HOST:PORT` `target` until `cut` or `hold_answers` is called."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._passes_answers = asyncio.Event()
        self._passes_answers.set()
        self._is_open = True
        self._server: asyncio.Server
        self.lost = asyncio.Event()
        """Set when an answer came that was not passed on."""

    @property
    def endpoint(self) -> str:
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def close(self) -> None:
        self._server.close()
        self.heal()
        self._abort()
        with suppress(asyncio.CancelledError):
            await self._server.wait_closed()

    def cut(self) -> None:
        """End all connections, and end every new one at once, until `heal`."""
        self._is_open = False
        self._abort()

    def hold_answers(self) -> None:
        """Pass on requests but no answers, until `heal`; held answers are lost when their connection ends."""
        self.lost.clear()
        self._passes_answers.clear()

    def heal(self) -> None:
        self._is_open = True
        self._passes_answers.set()

    def _abort(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        ends = [writer]
        try:
            there, to_server = await asyncio.open_connection(*self._target)
            ends.append(to_server)
            self._writers.update(ends)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pass(reader, to_server, are_answers=False))
                ways.create_task(self._pass(there, writer, are_answers=True))
        except* OSError:
            pass
        finally:
            self._writers.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool) -> None:
        while data := await reader.read(1 << 16):
            if are_answers and not self._passes_answers.is_set():
                self.lost.set()
                await self._passes_answers.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # so that the other way ends too


@asynccontextmanager
async def loopback_proxy(target: str) -> AsyncIterator[LoopbackProxy]:
    proxy = LoopbackProxy(target)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
