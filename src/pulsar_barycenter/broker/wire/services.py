"""The parts of the broker that connections use, and the table of the open connections."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from pulsar_barycenter import version
from pulsar_barycenter.broker.access.authentication import Authentication
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.authorizer import Authorizer
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.instruments import Connections
from pulsar_barycenter.broker.lookup.service import LookupService
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.wire.admission.connection_limits import ConnectionLimits
from pulsar_barycenter.broker.wire.admission.disk_room import DiskRoom
from pulsar_barycenter.broker.wire.admission.publish_buffer import PublishBuffer
from pulsar_barycenter.broker.wire.admission.topic_schemas import TopicSchemas
from pulsar_barycenter.broker.wire.producer_names import ProducerNames
from pulsar_barycenter.config.broker_config import BrokerConfig

PULSAR_VERSION: Final = "4.0.0"
"""The version of Apache Pulsar whose features clients may expect from this broker."""
SERVER_VERSION: Final = f"Apache Pulsar {PULSAR_VERSION} (Barycenter {version()})"
"""The version that the broker sends in CONNECTED. Tools read the first version number in it as that of Pulsar."""


class ServedConnection(Protocol):
    """The methods of a connection that are used by its handshake, its keep-alive, and requests that wait until it is
    writable.
    """

    client_version: str

    @property
    def address(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_reading(self) -> bool:
        """Whether the broker reads from the client now. While it does not, the keep-alive must not close the connection
        for the reason that nothing arrives.
        """
        ...

    def send(self, frame: bytes) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def close(self) -> None:
        """Send queued frames, then close."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, without sending queued frames."""
        ...


class OpenConnection(Protocol):
    """The members of a connection that the server uses: to close the connection, and to find and close its producers
    and consumers.
    """

    producers: dict[int, Producer]
    consumers: dict[int, Consumer]

    @property
    def principal(self) -> Principal: ...
    def close_producer(self, producer: Producer) -> None: ...
    def close_consumer(self, consumer: Consumer) -> None: ...

    def close(self) -> None:
        """Send queued frames, then close."""
        ...

    def maybe_resume_reading(self) -> None: ...
    def abort(self, reason: str) -> None:
        """Close the connection at once, without sending queued frames."""
        ...


class WireLogs:
    """The log events that clients can cause, each limited in rate. `now_s` returns the time in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.connection_closed = BoundedLog("connection_closed", now_s)
        """The broker closed a connection."""
        self.connection_refused = BoundedLog("connection_refused", now_s, "info")
        """A new connection was refused: there were too many."""
        self.request_refused = BoundedLog("request_refused", now_s, "info")
        self.producer_refused = BoundedLog("producer_refused", now_s, "info")
        self.consumer_refused = BoundedLog("consumer_refused", now_s, "info")
        self.message_refused = BoundedLog("message_refused", now_s)


@dataclass(slots=True)
class WireServices:
    """The parts of the broker that connections use.

    `connections` has each open connection with the host of its client. `emptied` is set when the last connection has
    closed, and cleared when a new one is registered. `authorizer` is None if rights are not checked.
    """

    config: BrokerConfig
    registry: TopicRegistry
    lookup: LookupService
    producer_names: ProducerNames
    authentication: Authentication
    publish_buffer: PublishBuffer
    logs: WireLogs
    disk_room: DiskRoom
    schemas: TopicSchemas
    authorizer: Authorizer | None = None
    server_version: str = SERVER_VERSION
    counts: Connections = field(default_factory=Connections)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    connections: dict[OpenConnection, str] = field(default_factory=dict)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def connected(self, connection: OpenConnection, host: str) -> str | None:
        """Register a new connection from a host, and return None. If there are too many connections, do not register
        it, and return the reason.
        """
        self.counts.created += 1
        refused = self.limits.admit(host, self.config)
        if refused is None:
            self.connections[connection] = host
            self.emptied.clear()
        else:
            self.counts.refused += 1
        return refused

    def disconnected(self, connection: OpenConnection) -> None:
        self.counts.closed += 1
        host = self.connections.pop(connection, None)
        if host is not None:
            self.limits.left(host)
        self.publish_buffer.paused.pop(connection, None)
        if not self.connections:
            self.emptied.set()
