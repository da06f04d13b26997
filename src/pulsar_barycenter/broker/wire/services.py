"""What the wire server gives to its connections: the parts of the broker that they call, and the list of all."""

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
from pulsar_barycenter.broker.wire.producer_names import ProducerNames
from pulsar_barycenter.config.broker_config import BrokerConfig

PULSAR_VERSION: Final = "4.0.0"
"""That of the features to expect."""
SERVER_VERSION: Final = f"Apache Pulsar {PULSAR_VERSION} (Barycenter {version()})"
"""What clients are told; tools read the first version number as that of the features to expect."""


class OpenConnection(Protocol):
    """A connection, as the server ends it, or what is attached over it."""

    producers: dict[int, Producer]
    consumers: dict[int, Consumer]

    @property
    def principal(self) -> Principal: ...
    def close_producer(self, producer: Producer) -> None: ...
    def close_consumer(self, consumer: Consumer) -> None: ...

    def close(self) -> None:
        """Send what is queued, then close."""
        ...

    def maybe_resume_reading(self) -> None: ...
    def abort(self, reason: str) -> None:
        """Close at once, without sending what is queued."""
        ...


class WireLogs:
    """What clients can cause as often as they like, each told as often as a log can bear; `now_s` is any clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.connection_closed = BoundedLog("connection_closed", now_s)
        """The broker ended it."""
        self.connection_refused = BoundedLog("connection_refused", now_s, "info")
        """There were too many."""
        self.request_refused = BoundedLog("request_refused", now_s, "info")
        self.producer_refused = BoundedLog("producer_refused", now_s, "info")
        self.consumer_refused = BoundedLog("consumer_refused", now_s, "info")
        self.message_refused = BoundedLog("message_refused", now_s)


@dataclass(slots=True)
class WireServices:
    """What connections use; `connections` holds those that are open, with the address of each; `emptied` is set while
    there is none.

    `authorizer` is None where everybody may do everything.
    """

    config: BrokerConfig
    registry: TopicRegistry
    lookup: LookupService
    producer_names: ProducerNames
    authentication: Authentication
    publish_buffer: PublishBuffer
    logs: WireLogs
    disk_room: DiskRoom
    authorizer: Authorizer | None = None
    server_version: str = SERVER_VERSION
    counts: Connections = field(default_factory=Connections)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    connections: dict[OpenConnection, str] = field(default_factory=dict)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def connected(self, connection: OpenConnection, host: str) -> str | None:
        """Take a connection from an address up, or return why there may not be another one."""
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
