"""Bookies on loopback, in the loop of a test: they speak the protocol, and keep entries in memory.

A bookie can stop and start again with what it has, hold back its answers, or answer every request with one code. It can
have TLS, and ask clients for a password.
"""

import asyncio
import ssl
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.wire.bookie_opening_pb2 import AuthMessage
from pulsar_barycenter.bookkeeper.wire.packets import Code, Flag, Operation, encode_auth
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore

_HEAD: Final = struct.Struct(">BBH")
_NUMBERS: Final = struct.Struct(">qq")
# packets of version 3, as BookKeeper's classes write them
_START_TLS: Final = bytes.fromhex("0a06 0803 1009 1801 d20600")
_TLS_STARTS: Final = bytes.fromhex("0a06 0803 1009 1801 1000 d20600")
_BAD_REQUEST: Final = bytes.fromhex("0a06 0803 1009 1801 109403")
_NOT_AUTHENTICATED: Final = bytes.fromhex("0a06 0803 1009 1801 10f503")


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
        self.contexts: list[ssl.SSLContext] = []
        """That of its TLS; empty if it has none."""
        self.password = b""
        """If set, the only message that it accepts of the authentication plug-in `password`."""
        self.may_add: Callable[[], bool] = lambda: True
        """Asked at each add; an add for which it is False is neither carried out nor answered."""
        self.requests: dict[Operation, int] = defaultdict(int)
        self.encrypted = 0
        """The number of connections on which TLS was started."""
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
            is_accepted = not self.password
            while True:
                packet = await _packet(reader)
                if packet == _START_TLS:
                    await self._start_tls(writer, is_accepted=is_accepted)
                    continue
                if packet[1] == Operation.AUTH:
                    is_accepted = await self._authenticate(reader, writer, packet)
                    continue
                answer = self._answer(packet) if is_accepted else _refusal(packet)
                if answer and not self.is_mute:
                    writer.write(_sized(answer))
        self._writers.discard(writer)
        writer.close()

    async def _start_tls(self, writer: asyncio.StreamWriter, *, is_accepted: bool) -> None:
        if not self.contexts:
            writer.write(_sized(_BAD_REQUEST))
            return
        writer.write(_sized(_TLS_STARTS))
        with suppress(ssl.SSLError):
            await writer.start_tls(self.contexts[0])
            self.encrypted += 1
            if not is_accepted:
                writer.write(_sized(_NOT_AUTHENTICATED))

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, packet: bytes) -> bool:
        """Ask for the password after the first message; close the connection if it is wrong."""
        if not self.password:
            writer.write(encode_auth("AuthDisabledPlugin", b""))
            return True
        if AuthMessage.FromString(packet[4:]).authPluginName == "password":
            writer.write(encode_auth("password", b"password?"))
            answer = AuthMessage.FromString((await _packet(reader))[4:])
            if answer.payload == self.password:
                writer.write(encode_auth("password", b"welcome"))
                return True
        writer.close()
        return False

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


async def _packet(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _sized(packet: bytes) -> bytes:
    return len(packet).to_bytes(4, "big") + packet


def _refusal(packet: bytes) -> bytes:
    _, operation, _ = _HEAD.unpack_from(packet)
    ledger, entry = _NUMBERS.unpack_from(packet, 24 if operation == Operation.ADD else 4)
    return _HEAD.pack(2, operation, 0) + struct.pack(">iqq", Code.UNAUTHORIZED, ledger, entry)


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

    async def client(self, **settings: Any) -> LedgerClient:
        client = await LedgerClient.open(self.store, settings=ClientSettings(**{"reconnect_s": 0.0, **settings}))
        self._clients.append(client)
        return client

    def named(self, name: str) -> BookieServer:
        return next(bookie for bookie in self.bookies if bookie.name == name)
