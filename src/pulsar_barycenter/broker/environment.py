"""What reaches a broker from outside: time, chance, the store, the disks and the other brokers.

A broker reads no clock and no global random source. Monotonic time and sockets are those of the running
event loop, so a simulation replaces them with a loop of its own; all else is in an `Environment`.
"""

import random
from dataclasses import dataclass, field
from typing import Protocol

from pulsar_barycenter.broker.data_watch import DataCheck
from pulsar_barycenter.broker.instruments import Instruments
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle


class Peers(Protocol):
    """The other brokers, as the leader commands them. `broker_url` is the web URL of the broker asked.

    `epoch` is the number of the leader's term; whoever knows a later one refuses. None: it is no command of a leader.
    """

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        """Have `bundle` unloaded by its owner, whichever broker that is; `destination` is a broker id."""
        ...

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None: ...

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        """Bring a request to write to the leader, and return its answer: see `metadata.leader_writes.write_requests`.
        The `secret` is that of the request.

        Raises:
            ConnectionRefusedError: that broker is not reached, or refused to look at the request.
            OSError, AdminRequestError: unknown what became of it.
        """
        ...

    async def change_partition(self, broker_url: str, request: bytes) -> bytes:
        """Bring a request about a partition to its owner, which the broker asked knows, and return the owner's answer.

        See `partition_changes`. The broker asked is mostly the caller itself.

        Raises:
            OSError, TimeoutError, AdminRequestError: unknown what became of it.
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
    data_checks: tuple[DataCheck, ...] = ()
    """What is looked at to tell whether the broker still has its data; in memory there is nothing to look at."""
    instruments: Instruments = field(default_factory=Instruments)
    """What is counted and timed of the broker: the way out of it, to Prometheus."""
