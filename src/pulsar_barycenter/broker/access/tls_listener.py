"""A port with TLS: connections are handed on once their handshake is done, and so many at a time may be in theirs.

A client that has not finished its handshake is nobody, and counts among no connections. So that it costs no more than
a socket for a short time:

| there are                                                | then                                            |
|----------------------------------------------------------|-------------------------------------------------|
| MOST_HANDSHAKES under way at this port                   | others wait in the backlog until one has ended  |
| MOST_HANDSHAKES_PER_ADDRESS under way from an address    | another one from there is closed                |
| HANDSHAKE_TIMEOUT_S over since it came                   | it is closed                                    |
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.background import BackgroundTasks
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.credentials.tls import ListeningContext

log = structlog.get_logger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long a client may take for the handshake of TLS."""

MOST_HANDSHAKES: Final = 1_024
MOST_HANDSHAKES_PER_ADDRESS: Final = 256
"""At one port at a time. A handshake takes a millisecond or two of a processor, so that clients that shake hands are
through long before others are kept out."""

_ACCEPT_AGAIN_S: Final = 1.0
"""Pause after a connection could not be taken, as there are no descriptors left."""


class TlsListener:
    """Listens until it is closed; made by `listen_by_tls`."""

    def __init__(
        self,
        listening: list[socket.socket],
        new_connection: Callable[[], asyncio.BaseProtocol],
        context: ListeningContext,
        most: int,
        most_per_address: int,
        handshake_timeout_s: float,
    ) -> None:
        self.port = int(listening[0].getsockname()[1])
        self._listening = listening
        self._new_connection = new_connection
        self._context = context
        self._most = most
        self._most_per_address = most_per_address
        self._handshake_timeout_s = handshake_timeout_s
        self._by_address: Counter[str] = Counter()
        self._handshakes = BackgroundTasks("handshake_failed", expected=(Exception,))
        self._has_room = asyncio.Event()
        self._has_room.set()
        loop = asyncio.get_running_loop()
        self._refused = BoundedLog("handshake_refused", loop.time, "info")
        self._accepting = [
            loop.create_task(self._accept(each), name=f"accept by TLS at port {self.port}") for each in listening
        ]

    @property
    def handshakes(self) -> int:
        """How many are under way."""
        return len(self._handshakes)

    def close(self) -> None:
        """Listen no more, and end the handshakes that are under way; connections stay. Idempotent."""
        for task in self._accepting:
            task.cancel()
        self._handshakes.cancel()

    async def wait_closed(self) -> None:
        """Return when nothing of it is left, after `close`."""
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await self._handshakes.ended()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._has_room.wait()
                try:
                    accepted, address = await loop.sock_accept(listening)
                except ConnectionError:
                    continue  # it went before it was taken
                except OSError as error:
                    log.error("connections_not_accepted", port=self.port, reason=str(error))
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                self._begin(accepted, str(address[0]))
                await asyncio.sleep(0)  # a full backlog is taken in turns with all else
        finally:
            listening.close()

    def _begin(self, accepted: socket.socket, address: str) -> None:
        if self._by_address[address] >= self._most_per_address:
            self._refused.tell(address=address, reason=f"{self._most_per_address} others from there are under way")
            accepted.close()
            return
        self._by_address[address] += 1
        task = self._handshakes.start(self._shake_hands(accepted), f"TLS handshake with {address}")
        if len(self._handshakes) >= self._most:
            self._has_room.clear()
        task.add_done_callback(lambda done: self._ended(done, accepted, address))

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._new_connection, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake_timeout_s
            )
        except OSError as error:  # those of TLS are such
            log.debug("handshake_failed", port=self.port, reason=str(error))

    def _ended(self, done: asyncio.Task[None], accepted: socket.socket, address: str) -> None:
        self._has_room.set()
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if done.cancelled():
            accepted.close()  # it may not have begun
        elif (error := done.exception()) is not None:
            log.error("handshake_failed", port=self.port, exc_info=error)


async def listen_by_tls(
    new_connection: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    context: ListeningContext,
    *,
    backlog: int,
    most: int = MOST_HANDSHAKES,
    most_per_address: int = MOST_HANDSHAKES_PER_ADDRESS,
    handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> TlsListener:
    """Listen at all addresses of `host`, and have each client served by a new connection once it is through TLS.

    0 picks a free port. `backlog` is how many may wait to be accepted.

    Raises:
        OSError: the address is not one of this machine, or the port is in use.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            made = socket.socket(family, kind, protocol)
            listening.append(made)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(listening) > 1:  # the same one at each address
                address = (address[0], listening[0].getsockname()[1], *address[2:])
            made.bind(address)
            made.listen(backlog)
    except BaseException:
        for each in listening:
            each.close()
        raise
    return TlsListener(listening, new_connection, context, most, most_per_address, handshake_timeout_s)
