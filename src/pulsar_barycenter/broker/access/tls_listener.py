"""Listens on a TLS port, and limits the number of running handshakes.

A client in its handshake is not authenticated, and no limit of connections counts it yet. These limits make sure that
such a client uses no more than a socket for a short time:

| bound                                                    | a further connection                            |
|----------------------------------------------------------|-------------------------------------------------|
| MOST_HANDSHAKES handshakes at this port                  | waits in the backlog until one has ended        |
| MOST_HANDSHAKES_PER_ADDRESS handshakes from one address  | from this address is closed                     |
| HANDSHAKE_TIMEOUT_S for a handshake                      | (the slow one is closed)                        |
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.credentials.tls import ListeningContext

log = structlog.get_logger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long a client may take for its TLS handshake, in seconds."""

MOST_HANDSHAKES: Final = 1_024
MOST_HANDSHAKES_PER_ADDRESS: Final = 256
"""The maximum number of TLS handshakes that run at the same time at one port, and from one address. A handshake takes a
millisecond or two of a processor, so ordinary clients finish long before they block others.
"""

_ACCEPT_AGAIN_S: Final = 1.0
"""The pause after a connection could not be accepted because the process has no file descriptors left, in seconds."""


class TlsListener:
    """Accepts TLS connections until it is closed; `listen_by_tls` creates it."""

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
            loop.create_task(self._accept(socket_), name=f"accept by TLS at port {self.port}") for socket_ in listening
        ]

    @property
    def handshakes(self) -> int:
        """The number of TLS handshakes that are running."""
        return len(self._handshakes)

    def close(self) -> None:
        """Stop listening, and abort the handshakes that are running. Connections whose handshake is complete stay open.
        Idempotent.
        """
        for task in self._accepting:
            task.cancel()
        self._handshakes.cancel()

    async def wait_closed(self) -> None:
        """Wait until this listener does not listen any more and all its handshakes have ended. Call it after `close`.
        It does not wait for connections whose handshake was complete.
        """
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
                    continue  # the client closed the connection before it was accepted
                except OSError as error:
                    log.error("connections_not_accepted", port=self.port, reason=str(error))
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                self._begin(accepted, str(address[0]))
                await asyncio.sleep(0)  # other tasks get their turn between two connections of a full backlog
        finally:
            listening.close()

    def _begin(self, accepted: socket.socket, address: str) -> None:
        if self._by_address[address] >= self._most_per_address:
            self._refused.log(
                address=address, reason=f"{self._most_per_address} handshakes from this address are running"
            )
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
        except OSError as error:  # the errors of TLS are OSErrors, too
            log.debug("handshake_failed", port=self.port, reason=str(error))

    def _ended(self, done: asyncio.Task[None], accepted: socket.socket, address: str) -> None:
        self._has_room.set()
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if done.cancelled():
            accepted.close()  # the task may have been cancelled before its first step
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
    """Listen at all addresses of `host`. After the TLS handshake with a client, `new_connection` is called and returns
    the protocol object that serves this client.

    Port 0 picks a free port, the same at all addresses. `backlog` is the number of connections that may wait to be
    accepted. While `most` handshakes are running, further clients wait in the backlog. While `most_per_address`
    handshakes with one IP address are running, further connections from this address are closed at once. A handshake
    that takes longer than `handshake_timeout_s` fails, and its connection is closed.

    Raises:
        OSError: the host is no address of this machine, or the port is in use.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            socket_ = socket.socket(family, kind, protocol)
            listening.append(socket_)
            socket_.setblocking(False)
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                socket_.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(listening) > 1:  # the same port at each address
                address = (address[0], listening[0].getsockname()[1], *address[2:])
            socket_.bind(address)
            socket_.listen(backlog)
    except BaseException:
        for socket_ in listening:
            socket_.close()
        raise
    return TlsListener(listening, new_connection, context, most, most_per_address, handshake_timeout_s)
