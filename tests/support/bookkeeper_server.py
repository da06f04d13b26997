"""Bookies on loopback, in the loop of a test: they speak the protocol, and keep entries in memory.

A bookie can stop and start again with what it has, hold back its answers, or answer every request with one code.
"""

import asyncio
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.wire.packets import Code, Flag, Operation
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore

_HEAD: Final = struct.Struct(">BBH")
_NUMBERS: Final = struct.Struct(">qq")


@dataclass(slots=True)
class _Ledger:
    key: bytes
    is_fenced: bool = False
    entries: dict[int, bytes] = field(default_factory=dict)


class BookieServer:
    """One bookie; its id is its address."""

    def __init__(self) -> None:
        self.ledgers: dict[int, _Ledger] = {}
        self.port = 0
        self.code: Code = Code.OK
        """If not OK, the answer to every request, which is not carried out."""
        self.is_mute = False
        """Whether it carries requests out and answers none."""
        self.may_add: Callable[[], bool] = lambda: True
        """Asked at each add; an add for which it is False is neither carried out nor answered."""
        self.requests: dict[Operation, int] = defaultdict(int)
        self._server: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._server = [server]

    async def stop(self) -> None:
        for server in self._server:
            server.close()
        self._server.clear()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = self._answer(await reader.readexactly(size))
                if answer and not self.is_mute:
                    writer.write(len(answer).to_bytes(4, "big") + answer)
        self._writers.discard(writer)
        writer.close()

    def _answer(self, frame: bytes) -> bytes:
        _, operation, flags = _HEAD.unpack_from(frame)
        self.requests[Operation(operation)] += 1
        if operation == Operation.ADD:
            if not self.may_add():
                return b""
            ledger, entry = _NUMBERS.unpack_from(frame, 24)
            code, body = self._add(ledger, entry, frame[4:24], frame[24:], Flag(flags)), b""
        else:
            ledger, entry = _NUMBERS.unpack_from(frame, 4)
            code, body = self._read(ledger, entry, frame[20:], Flag(flags))
        return _HEAD.pack(2, operation, 0) + struct.pack(">iqq", code, ledger, entry) + body

    def _add(self, ledger: int, entry: int, key: bytes, body: bytes, flags: Flag) -> Code:
        if self.code is not Code.OK:
            return self.code
        stored = self.ledgers.setdefault(ledger, _Ledger(key))
        if stored.key != key:
            return Code.UNAUTHORIZED
        if stored.is_fenced and Flag.RECOVERY_ADD not in flags:
            return Code.FENCED
        stored.entries[entry] = body
        return Code.OK

    def _read(self, ledger: int, entry: int, key: bytes, flags: Flag) -> tuple[Code, bytes]:
        if self.code is not Code.OK:
            return self.code, b""
        if Flag.FENCING in flags:
            fenced = self.ledgers.setdefault(ledger, _Ledger(key))
            if fenced.key != key:
                return Code.UNAUTHORIZED, b""
            fenced.is_fenced = True
        if ledger not in self.ledgers:
            return Code.NO_LEDGER, b""
        entries = self.ledgers[ledger].entries
        number = max(entries, default=-1) if entry == -1 else entry
        return (Code.OK, entries[number]) if number in entries else (Code.NO_ENTRY, b"")


class BookieCluster:
    """Bookies that are registered in a metadata store: in one in memory, or in that of the caller."""

    def __init__(self, count: int, store: MetadataStore | None = None) -> None:
        self.bookies = [BookieServer() for _ in range(count)]
        self.store = store or MemoryBackend().connect()
        self._clients: list[LedgerClient] = []

    async def __aenter__(self) -> "BookieCluster":
        await self.store.put("/ledgers/INSTANCEID", b"7b2f6a4e")
        for bookie in self.bookies:
            await bookie.start()
            await self.register(bookie)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        for bookie in self.bookies:
            await bookie.stop()
        await self.store.close()

    async def register(self, bookie: BookieServer) -> None:
        await self.store.put(f"/ledgers/available/{bookie.name}", b"")

    async def client(self, **settings: float) -> LedgerClient:
        client = await LedgerClient.open(self.store, settings=ClientSettings(**{"reconnect_s": 0.0, **settings}))  # type: ignore[arg-type]
        self._clients.append(client)
        return client

    def named(self, name: str) -> BookieServer:
        return next(bookie for bookie in self.bookies if bookie.name == name)
