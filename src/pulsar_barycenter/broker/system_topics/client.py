"""The client of system topics of one broker: it finds the owner of the topics and has one connection to it.

Publishers and readers share the connection. Before one of them attaches, the client looks up the present owner. If the
connection goes to another broker, the client drops it, so that all publishers and readers move to the new owner.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.system_topics.attachment import Attachment
from pulsar_barycenter.broker.system_topics.connection import BrokerConnection
from pulsar_barycenter.broker.system_topics.errors import ClosedError, UnreachableError
from pulsar_barycenter.broker.system_topics.publisher import Publisher
from pulsar_barycenter.broker.system_topics.reader import Deliver, Reader, Start
from pulsar_barycenter.broker.system_topics.repeats import publisher_name
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.broker.system_topics.table_view import Accepts, TableView, newest_wins
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.metadata.clock import Clock

FindBroker: TypeAlias = "Callable[[], Awaitable[str | None]]"
"""A function that returns the service URL (`pulsar://host:port`, `pulsar+ssl://host:port`) of the broker that serves
the topics, None if no broker does now.
"""


class SystemTopicClient:
    """A client for system topics: topics in which brokers publish records for one another. It creates publishers,
    readers and table views in a running event loop; `close` ends all of them.
    """

    def __init__(
        self,
        find_broker: FindBroker,
        *,
        clock: Clock,
        source: random.Random,
        settings: ClientSettings | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        """`find_broker` returns the service URL of the broker that serves the system topics, None if no broker does.
        `source` generates names and the jitter of back-offs. `tls` has the certificate authorities that this client
        trusts, and the credentials that it sends.
        """
        self._tls = tls or ClientTls()
        self._settings = settings or ClientSettings()
        self._find_broker = find_broker
        self._clock = clock
        self._random = source
        self._connection: BrokerConnection | None = None
        self._connections: dict[BrokerConnection, None] = {}
        """The connection, and former ones that have not ended yet."""
        self._attachments: dict[Attachment, None] = {}
        self._tasks = BackgroundTasks("system_topic_task_failed")
        self._following: asyncio.Task[None] | None = None
        self._hint = NextChange()
        self._hints = 0
        self._closed = False

    # ---- publishers, readers, views ----

    def publisher(self, topic: str) -> Publisher:
        """Return a new publisher for a topic. It begins to attach at once.

        Raises:
            ClosedError: this client is closed.
        """
        self._check_open()
        publisher = Publisher(self, topic, name=publisher_name(self._random), clock=self._clock)
        self._attachments[publisher] = None
        return publisher

    def reader(
        self, topic: str, deliver: Deliver, *, start: Start = Start.EARLIEST, read_compacted: bool = False
    ) -> Reader:
        """Return a new reader of a topic, which calls `deliver` with each message. It begins to attach at once; see
        `Reader`.

        Raises:
            ClosedError: this client is closed.
        """
        self._check_open()
        reader = Reader(
            self,
            topic,
            deliver,
            subscription=f"reader-{self._random.getrandbits(64):016x}",
            start=start,
            read_compacted=read_compacted,
        )
        self._attachments[reader] = None
        return reader

    def table_view(self, topic: str, *, accepts: Accepts = newest_wins, read_compacted: bool = False) -> TableView:
        """Return a new table view of a topic. It reads nothing until the caller calls its `start`. `accepts` decides
        whether a new value of a key replaces the present one.
        """
        return TableView(self, topic, accepts=accepts, read_compacted=read_compacted, settings=self._settings)

    # ---- the owner ----

    def owner_changed(self) -> None:
        """Called when another broker may serve the system topics: look the owner up at once. This returns without
        waiting for the look-up.

        If the look-up finds another owner, or none in time, the connection is dropped, and publishers and readers
        attach again. If the owner is the same, the connection is probed with a PING.
        """
        if self._closed:
            return
        self._hints += 1
        self._hint.notify()
        if self._following is not None:
            self._following.cancel()
        self._following = self._tasks.start(self._follow_owner(), "follow the owner of system topics")

    async def _follow_owner(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                url = await self._owner()
        except (UnreachableError, TimeoutError):
            url = None
        if url == connection.url:
            connection.probe()
        else:
            connection.drop(f"{connection.url} no longer serves the system topics")

    async def _owner(self) -> str:
        try:
            url = await self._find_broker()
        except Exception as error:
            raise UnreachableError(f"the owner of the system topics cannot be found: {error!r}") from error
        if url is None:
            raise UnreachableError("no broker serves the system topics now")
        return url

    # ---- what attachments need (Connections) ----

    @property
    def settings(self) -> ClientSettings:
        return self._settings

    @property
    def hints(self) -> int:
        return self._hints

    def new_back_off(self) -> BackOff:
        return BackOff(self._random, self._settings.first_back_off_s, self._settings.longest_back_off_s)

    async def pause(self, seconds: float) -> None:
        await self._hint.wait(seconds)

    async def connection(self) -> BrokerConnection:
        while True:
            hints = self._hints
            url = await self._owner()
            if self._hints == hints:
                break  # else the answer may be older than the change of the owner
        self._check_open()
        connection = self._connection
        if connection is None or connection.is_lost or connection.url != url:
            if connection is not None:
                connection.drop(f"{url} serves the system topics now")
                self._tasks.start(self._wait_ended(connection), "end a connection")
            connection = self._connection = BrokerConnection(url, self._settings, self._tls)
            self._connections[connection] = None
        await connection.opened()
        return connection

    def forget(self, attachment: Attachment) -> None:
        self._attachments.pop(attachment, None)

    async def _wait_ended(self, connection: BrokerConnection) -> None:
        await connection.ended()
        self._connections.pop(connection, None)

    # ---- close ----

    async def close(self) -> None:
        """Close all publishers, readers and table views, and the connection. When this returns, no task is left.
        Idempotent.
        """
        self._closed = True
        await asyncio.gather(*(attachment.close() for attachment in list(self._attachments)))
        await self._tasks.close()
        for connection in self._connections:
            connection.close()
        await asyncio.gather(*(connection.ended() for connection in self._connections))
        self._connections.clear()
        self._connection = None

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the client of system topics is closed")
