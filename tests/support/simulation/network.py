"""A network in memory: connections with delays, partitions, resets and crashed ends.

Bytes arrive in order, after a delay drawn for every moment of writing, sometimes in pieces. A partition delays them
(as TCP does, sending again) and refuses new connections; healing lets them through. The two ends of a connection
belong to nodes: a paused one does not read; a crashed one resets its connections, or falls silent if the whole
machine was lost.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from support.simulation.loop import NODE, Node, VirtualTimeLoop

Address = tuple[str, int]

CONNECT_TIMEOUT_S = 10.0
_HIGH_WATER = 64 * 1024
_LOW_WATER = 16 * 1024


class Network:
    """`latency_s` bounds the delay of one direction; every pair of nodes has its own mean within them."""

    def __init__(
        self, loop: VirtualTimeLoop, source: random.Random, *, latency_s: tuple[float, float] = (0.0002, 0.004)
    ) -> None:
        self.loop = loop
        loop.network = self
        self._random = source
        self._latency_s = latency_s
        self._means: dict[frozenset[str], float] = {}
        self._partitions: set[frozenset[str]] = set()
        self.unanswered_until_s = 0.0
        """Until when somebody waits for a connection that was asked for across a partition; it may be over before."""
        self._servers: dict[Address, Server] = {}
        self._transports: list[Transport] = []
        self._ports = iter(range(20_000, 10_000_000))

    # ---- for asyncio

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> "Server":
        node = NODE.get()
        assert node is not None
        address = (host, port or next(self._ports))
        if address in self._servers:
            raise OSError(98, f"address already in use: {address}")
        server = self._servers[address] = Server(self, node, factory, address)
        return server

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> "tuple[Transport, asyncio.BaseProtocol]":
        node = NODE.get()
        assert node is not None
        server = self._servers.get((host, port))
        if server is None or not server.is_open():
            await asyncio.sleep(2 * self.delay_s(node.name, host))
            raise ConnectionRefusedError(111, f"{host}:{port} refuses connections")
        if self.is_cut(node.name, server.node.name):
            self.unanswered_until_s = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_S
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(110, f"{host}:{port} does not answer")
        await asyncio.sleep(2 * self.delay_s(node.name, host))
        if not server.is_open():
            raise ConnectionRefusedError(111, f"{host}:{port} refuses connections")
        near = Transport(self, node, node.context, (node.name, next(self._ports)), server.address)
        far = Transport(self, server.node, server.node.context, server.address, near.local)
        near.peer, far.peer = far, near
        self._transports = [each for each in self._transports if not each.is_lost]
        self._transports += [near, far]
        server.accept(far)
        protocol = factory()
        near.set_protocol(protocol)
        protocol.connection_made(near)
        return near, protocol

    def forget(self, server: "Server") -> None:
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    # ---- delays and faults

    def delay_s(self, one: str, other: str) -> float:
        """Draw the time that one message takes between two nodes."""
        pair = frozenset((one, other))
        mean = self._means.get(pair)
        if mean is None:
            mean = self._means[pair] = self._random.uniform(*self._latency_s)
        return mean * (0.5 + self._random.random())

    def slow_down(self, one: str, other: str, mean_s: float) -> None:
        """Let messages between two nodes take `mean_s`, from half to one and a half times that."""
        self._means[frozenset((one, other))] = mean_s

    def in_pieces(self, size: int) -> int:
        """Draw how many of `size` bytes arrive first; mostly all."""
        return self._random.randrange(1, size) if size > 1 and self._random.random() < 0.05 else size

    def is_cut(self, one: str, other: str) -> bool:
        return bool(self._partitions) and frozenset((one, other)) in self._partitions

    def partition(self, one: str, other: str) -> None:
        self._partitions.add(frozenset((one, other)))

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """End one partition, or all."""
        if one is None or other is None:
            self._partitions.clear()
        else:
            self._partitions.discard(frozenset((one, other)))
        for transport in self._transports:
            transport.wake()

    def connections(self) -> "list[Transport]":
        """Return one end of every live connection, the connecting one, oldest first."""
        return [each for each in self._transports if not each.is_lost and each.local[1] >= 20_000]

    def reset(self, transport: "Transport") -> None:
        """Break a connection: both ends lose it."""
        transport.lose(ConnectionResetError(104, "connection reset"))
        transport.peer.lose(ConnectionResetError(104, "connection reset"))

    def crashed(self, node: Node, *, silently: bool = False) -> None:
        """A node died: its ports close, and its peers are notified, unless the machine is lost as well."""
        for server in [each for each in self._servers.values() if each.node is node]:
            self.forget(server)
        for transport in self._transports:
            if transport.node is node and not transport.is_lost:
                transport.vanish(silently=silently)


class _Socket:
    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class Server(asyncio.AbstractServer):
    def __init__(
        self, network: Network, node: Node, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> None:
        self.node = node
        self.address = address
        self.listening = True
        self.sockets: tuple[_Socket, ...] = (_Socket(address),)
        self._network = network
        self._factory = factory

    def is_open(self) -> bool:
        return self.node.alive and self.listening

    def accept(self, transport: "Transport") -> None:
        """Let the listening node accept a connection, when it runs."""

        def take() -> None:
            if transport.is_lost:
                return
            protocol = self._factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            transport.wake()

        self._network.loop.call_soon(take, context=transport.context)

    def close(self) -> None:
        self.listening = False
        self.sockets = ()
        self._network.forget(self)

    async def wait_closed(self) -> None:
        return

    def is_serving(self) -> bool:
        return self.listening

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        return

    async def serve_forever(self) -> None:
        raise NotImplementedError


class Transport(asyncio.Transport):
    """One end of a connection."""

    peer: "Transport"

    def __init__(
        self, network: Network, node: Node, context: contextvars.Context, local: Address, remote: Address
    ) -> None:
        super().__init__()
        self.node = node
        self.context = context
        self.local = local
        self.remote = remote
        self.is_lost = False
        self._network = network
        self._loop = network.loop
        self._protocol: Any = None
        self._inbox: deque[tuple[float, bytes | None]] = deque()
        self.inbox_bytes = 0
        self._pump_at: float | None = None
        self._reading = True
        self._closing = False
        self.asked_to_wait = False
        self._sent_at = self._sent_due = 0.0

    # ---- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.remote, "sockname": self.local}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self.is_lost or not data:
            return
        self._send(bytes(data))
        if self.peer.inbox_bytes > _HIGH_WATER and not self.asked_to_wait:
            self.asked_to_wait = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._send(None)

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._closing or self.is_lost

    def close(self) -> None:
        if not self._closing and not self.is_lost:
            self._closing = True
            self._send(None)
            self.lose(None)

    def abort(self) -> None:
        if not self.is_lost:
            self._closing = True
            self._loop.call_later(
                self._network.delay_s(self.node.name, self.peer.node.name),
                self.peer.lose,
                ConnectionResetError(104, "connection reset by peer"),
                context=self.peer.context,
            )
            self.lose(None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.wake()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return _LOW_WATER, _HIGH_WATER

    def get_write_buffer_size(self) -> int:
        return self.peer.inbox_bytes

    # ---- the way of the bytes

    def _send(self, data: bytes | None) -> None:
        """Send `data` (None: the end); what is written at one moment arrives at one moment."""
        now = self._loop.time()
        if self._sent_at != now or self._sent_due <= now:
            self._sent_at = now
            due = now + self._network.delay_s(self.node.name, self.peer.node.name)
            self._sent_due = max(self._sent_due, due)
        peer = self.peer
        peer._inbox.append((self._sent_due, data))
        peer.inbox_bytes += len(data or b"")
        peer.wake()

    def wake(self) -> None:
        """Ensure that the content of the inbox is delivered when it is due."""
        if not self._inbox or self.is_lost or not self._reading or self._protocol is None:
            return
        due = max(self._inbox[0][0], self._loop.time())
        if self._pump_at is None or self._pump_at > due:
            self._pump_at = due
            self._loop.call_at(due, self._pump, context=self.context)

    def _pump(self) -> None:
        self._pump_at = None
        now = self._loop.time()
        if self.is_lost or not self._reading or self._network.is_cut(self.node.name, self.peer.node.name):
            return
        chunks: list[bytes] = []
        ended = False
        while self._inbox and self._inbox[0][0] <= now and not ended:
            _, data = self._inbox.popleft()
            if data is None:
                ended = True
            else:
                chunks.append(data)
        if chunks:
            self._deliver(b"".join(chunks), now)
        if ended and self._inbox and self._inbox[0][0] == now:
            self._inbox.append((now, None))  # a piece of the data waits before the end
        elif ended and not self._protocol.eof_received():
            self.close()  # does nothing if that was done meanwhile
        self.wake()

    def _deliver(self, data: bytes, now: float) -> None:
        first = self._network.in_pieces(len(data))
        if first < len(data):
            self._inbox.appendleft((now, data[first:]))
            data = data[:first]
        self.inbox_bytes -= len(data)
        sender = self.peer
        if sender.asked_to_wait and self.inbox_bytes < _LOW_WATER and not sender.is_lost:
            sender.asked_to_wait = False
            self._loop.call_soon(sender._protocol.resume_writing, context=sender.context)
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._fill_buffers(data)
        else:
            self._protocol.data_received(data)

    def _fill_buffers(self, data: bytes) -> None:
        while data and not self.is_lost:
            buffer = memoryview(self._protocol.get_buffer(-1)).cast("B")
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self._protocol.buffer_updated(size)

    def lose(self, error: Exception | None) -> None:
        """Close this end: its protocol is notified in the next turn of its node."""
        if self.is_lost:
            return
        self.is_lost = True
        self._closing = True
        self._inbox.clear()
        self._loop.call_soon(self._tell_lost, error, context=self.context)

    def _tell_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def vanish(self, *, silently: bool) -> None:
        """The process of this end died. What it had written still arrives."""
        self.is_lost = True
        self._closing = True
        if not silently:
            due = max(self._sent_due, self._loop.time() + self._network.delay_s(self.node.name, self.peer.node.name))
            self._loop.call_at(
                due, self.peer.lose, ConnectionResetError(104, "connection reset by peer"), context=self.peer.context
            )
