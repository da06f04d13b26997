"""What a broker gets from outside: time, randomness, the store, the disks and the other brokers.

A broker reads no system clock and uses no global random source. Monotonic time and sockets are those of the running
event loop, so a simulation replaces them with a loop of its own. Everything else is in an `Environment`.
"""

import random
from dataclasses import dataclass, field
from typing import Protocol

from pulsar_barycenter.broker.data_watch import DataCheck
from pulsar_barycenter.broker.instruments import Instruments
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName


class Peers(Protocol):
    """Sends requests to other brokers. In every method, `broker_url` is the web URL of the broker to which the request
    is sent.

    `epoch` is the number of the leader's term in which the leader decided the request; a broker that knows a later term
    refuses it. None: the request is not a command of a leader.
    """

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        """Request the unload of `bundle` from the broker at `broker_url`, which passes the request on to the owner.
        Return when the bundle is unloaded. `destination` is the id of the next owner; None: any broker.
        """
        ...

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None: ...

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        """Send a request to write metadata to the leader at `broker_url`, and return its answer; see
        `metadata.leader_writes.write_requests`.

        `secret` is the secret that the leader requires in each such request.

        Raises:
            ConnectionRefusedError: nothing was written: the broker cannot be reached, or refused the request without
                reading it.
            OSError, AdminRequestError: it is not known whether the leader wrote.
        """
        ...

    async def change_partition(self, broker_url: str, request: bytes) -> bytes:
        """Send a request about a partition to the broker at `broker_url`, which passes it on to the owner of the
        partition. Return the owner's answer.

        See `partition_changes`. The broker at `broker_url` is mostly the calling broker itself.

        Raises:
            OSError, TimeoutError, AdminRequestError: it is not known whether the owner carried out the request.
        """
        ...

    async def owner_urls(self, broker_url: str, topic: TopicName) -> tuple[str | None, str | None]:
        """Ask the broker at `broker_url` for the owner of a topic. Return the owner's URLs for clients: the plain one,
        and the one with TLS; each is None if the owner has none.

        Raises:
            OSError, TimeoutError, AdminRequestError: no broker answered with an owner.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Environment:
    store: MetadataStore
    ledgers: LedgerStorage
    clock: Clock
    random: random.Random
    peers: Peers
    records: RecordForm = RECORDS_WITH_EPOCHS
    """How the lists of ledgers and the cursors are stored, the same at all brokers of a cluster."""
    data_checks: tuple[DataCheck, ...] = ()
    """Functions that each check whether the broker's data files still exist; none if the data is in memory."""
    instruments: Instruments = field(default_factory=Instruments)
    """The counters and timers of the broker, for Prometheus."""
