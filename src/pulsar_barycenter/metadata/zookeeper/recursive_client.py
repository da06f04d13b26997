"""Adds to the client of the library kazoo what ZooKeeper 3.6 has and kazoo 2.11 lacks: a watch on a whole tree of
nodes.

The watch is set again on each connection, before anything else, so no event of the session is missed. The connection's
thread passes on events and answers in the order in which they arrived. A client object is used for one session only:
where kazoo would open another session with the same object, this client ends.

Only this file uses non-public names of kazoo; `tests/unit/metadata/zookeeper` tests it with a real server.
"""

import logging
import math
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch, int_struct, write_string
from kazoo.retry import KazooRetry

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import ZooKeeperSettings

FIRST_RECONNECT_S: Final = 0.05
MAX_RECONNECT_S: Final = 1.0
"""The longest pause in seconds between two attempts to connect."""
MAX_STEP_S: Final = 5.0
"""The maximum number of seconds for which an attempt waits for a connection, and again for the answer to its first
request.
"""
_JITTER: Final = 0.4
"""The fraction by which kazoo shortens or prolongs a pause."""

_PERSISTENT_RECURSIVE: Final = 1
_log: Final = logging.getLogger("barycenter.zookeeper")
_log.setLevel(logging.INFO)  # below this level kazoo logs its requests, and passwords in them


def step_s(session_timeout_s: float) -> float:
    """An attempt to connect to a server has two steps: opening the connection, and waiting for the first answer. Return
    the maximum number of seconds for each of them.

    kazoo itself would wait for a whole session timeout in each step. If a single server is too busy to accept the
    connection, the next attempt would begin only after two timeouts, when the session has ended.
    """
    return min(session_timeout_s / 3, MAX_STEP_S)


@dataclass(frozen=True, slots=True)
class _AddWatch:
    path: str
    mode: int

    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        packed: bytes = write_string(self.path) + int_struct.pack(self.mode)
        return packed

    @classmethod
    def deserialize(cls, body: bytes, offset: int) -> bool:
        return True


class _ImmediateHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Runs kazoo's callbacks at once, on the thread of the connection, in the order in which events and answers arrive.
    (kazoo's own handler has one queue for events and another one for answers, so their order is lost.) A callback must
    not block.
    """

    def __init__(self, settings: ZooKeeperSettings, patience_s: float) -> None:
        super().__init__()
        self._settings = settings
        self._patience_s = patience_s

    def create_connection(self, *args: Any, use_ssl: bool, **options: Any) -> socket.socket:
        """Connect to a server, by TLS if `use_ssl` is True. This replaces kazoo's method, which would also trust the
        system's certificate authorities, and would not close the socket after a failed handshake.

        Raises:
            OSError: no server answers at this address, or its certificate is not trusted.
        """
        options["timeout"] = min(options["timeout"], self._patience_s)
        if not use_ssl:
            plain: socket.socket = super().create_connection(*args, use_ssl=use_ssl, **options)
            return plain
        connection = socket.create_connection(options["address"], options["timeout"])
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = self._settings.tls_context()
            return context.wrap_socket(connection, server_hostname=options["hostname"])
        except StoreSettingsError as error:
            connection.close()
            raise OSError(str(error)) from error
        except BaseException:
            connection.close()
            raise

    def start(self) -> None:
        """Do nothing: kazoo runs callbacks at once only as long as its handler was not started."""

    def stop(self) -> None:
        """Do nothing: the handler has no threads."""

    def select(
        self, readers: list[Any], writers: list[Any], _: list[Any], timeout_s: float | None = None
    ) -> tuple[list[Any], ...]:
        """Wait until one of the sockets can be read or written, for up to `timeout_s` seconds. This replaces kazoo's
        method, which creates an epoll object at each call, three times for each answer.
        """
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        found = poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000))
        ready = {number for number, _ in found}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    client: "RecursiveClient"

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        client = self.client
        if client.negotiated_timeout_s and client._session_id is None:
            raise SessionExpiredError  # another session needs another client
        try:
            read_timeout_s, connect_timeout_s = super()._connect(host, hostip, port)
        except (ConnectionDropped, KazooTimeoutError) as error:
            client.last_failure = f"{host}:{port}: {error}"
            raise
        client.negotiated_timeout_s = read_timeout_s * 3 / 2 / 1000  # kazoo's read timeout is two thirds of it, in ms
        armed = self.handler.async_result()
        armed.rawlink(client.on_armed)
        client._queue.appendleft((_AddWatch(client.root, _PERSISTENT_RECURSIVE), armed))
        self._write_sock.send(b"\0")
        return read_timeout_s, connect_timeout_s

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        """Send a request that opens a session or authenticates, and wait for its answer, at most for the time that
        `step_s` returns.
        """
        return super()._invoke(min(timeout_s, self.client.patience_s), request, xid)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self.client.on_event(watch.type, watch.path)


class RecursiveClient(KazooClient):  # type: ignore[misc]
    """One session with the ZooKeeper servers `hosts`, and a watch on the node `root` and all nodes below it.

    On the connection's thread, `on_armed` is called when a server has answered the request to set the watch, once for
    each connection; its argument is kazoo's AsyncResult with the answer or the error. `on_event` is called for each
    event, with its type (1 created, 2 deleted, 3 changed) and the full path of the node.
    """

    def __init__(
        self,
        hosts: str,
        root: str,
        *,
        timeout_s: float,
        settings: ZooKeeperSettings,
        on_armed: Callable[[Any], None],
        on_event: Callable[[int, str], None],
    ) -> None:
        self.patience_s = step_s(timeout_s)
        reconnect = KazooRetry(
            max_tries=-1, delay=FIRST_RECONNECT_S, max_delay=MAX_RECONNECT_S / (1 + _JITTER), max_jitter=_JITTER
        )
        super().__init__(
            hosts,
            timeout=timeout_s,
            handler=_ImmediateHandler(settings, self.patience_s),
            connection_retry=reconnect,
            logger=_log,
            **settings.client_options(),
        )
        self.root = root
        self.on_armed = on_armed
        self.on_event = on_event
        self.negotiated_timeout_s = 0.0
        """The session timeout that the server granted; 0 before the first session."""
        self.last_failure = ""
        """Why the last failed connection failed; blank if none did."""
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)
