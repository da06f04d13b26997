"""What the wire server gives to its connections: the parts of the broker that they call, and the list of all."""

import asyncio
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, Protocol

from barycenter.broker.lookup.service import LookupService
from barycenter.broker.topics.registry import TopicRegistry
from barycenter.broker.wire.producer_names import ProducerNames
from barycenter.config.broker_config import BrokerConfig

SERVER_VERSION: Final = f"Apache Pulsar 4.0.0 (Barycenter {version('barycenter')})"
"""What clients are told; tools read the first version number as that of the features to expect."""


class OpenConnection(Protocol):
    """A connection, as the server ends it."""

    def close(self) -> None:
        """Send what is queued, then close."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once, without sending what is queued."""
        ...


@dataclass(slots=True)
class WireServices:
    """What connections use; `connections` holds those that are open, `emptied` is set while there is none."""

    config: BrokerConfig
    registry: TopicRegistry
    lookup: LookupService
    producer_names: ProducerNames
    server_version: str = SERVER_VERSION
    connections: dict[OpenConnection, None] = field(default_factory=dict)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def connected(self, connection: OpenConnection) -> None:
        self.connections[connection] = None
        self.emptied.clear()

    def disconnected(self, connection: OpenConnection) -> None:
        self.connections.pop(connection, None)
        if not self.connections:
            self.emptied.set()
