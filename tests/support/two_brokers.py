"""Two data planes on one disk and one store: one of them owns everything, and transfers it to the other.

Ownership is a flag and a counter of epochs; the topics, the ledgers, the wire and its look-ups are real.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pulsar_barycenter.broker.cluster.lookup_answers import LookupAnswer, Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.one_broker import Everything, LookupHere, OneBroker

BUNDLE = Bundle.full(NamespaceName.parse("public/default"))


class HeldLedgers(MemoryLedgerStorage):
    """Ledgers in which nothing becomes durable while `held`."""

    held = False

    def next_delay_s(self) -> float | None:
        return 3600.0 if self.held else super().next_delay_s()

    def let_go(self) -> None:
        self.held = False
        for writer in list(self._writers):
            writer.commit_now()


@dataclass
class Turns(Everything):
    """Serves everything while it `owns`; each turn has terms of a later epoch."""

    epochs: Callable[[], int] = field(default_factory=lambda: count(1).__next__)
    owns: bool = False

    def take(self, epoch: int | None = None) -> None:
        self.terms.clear()
        self.next_epoch = self.epochs() if epoch is None else epoch
        self.owns = True

    def leave(self) -> None:
        """Refuse every new client."""
        self.owns = False
        for term in self.terms.values():
            term.active = False

    def served(self, topic: TopicName) -> OwnedBundle | None:
        return super().served(topic) if self.owns else None

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        if not self.owns:
            self.term(topic).active = False
        return await super().require_served(topic)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        super().lost(owned, reason)
        self.owns = False


@dataclass
class LookupOwner(LookupHere):
    """Answers with the owner, once there is one; `asked` counts the requests."""

    cluster: "TwoBrokers | None" = None
    asked: int = 0

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        return None

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        self.asked += 1
        assert self.cluster is not None
        return await self.cluster.wait_owner()


class TwoBrokers:
    """`a` owns first. `finish` sends `urls` to clients; a test may replace them."""

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        storage: Callable[[MemoryDisk], LedgerStorage] = MemoryLedgerStorage,
    ) -> None:
        backend, epochs = MemoryBackend(), count(1).__next__
        self.disk = disk = MemoryDisk()
        self._changed = asyncio.Condition()
        self.brokers: list[OneBroker] = []
        for _ in range(2):
            clock, lookup = SystemClock(), LookupOwner(cluster=self)
            broker = OneBroker(
                config,
                backend=backend,
                disk=disk,
                ledgers=storage(disk),
                clock=clock,
                authority=Turns(clock, epochs=epochs),
                lookup=lookup,
            )
            lookup.store = broker.store
            self.brokers.append(broker)
        self.a, self.b = self.brokers
        self.authority(self.a).take()

    async def start(self) -> "TwoBrokers":
        for broker in self.brokers:
            await broker.start()
        return self

    async def stop(self) -> None:
        for broker in self.brokers:
            await broker.stop()

    def authority(self, broker: OneBroker) -> Turns:
        assert isinstance(broker.authority, Turns)
        return broker.authority

    def urls(self, broker: OneBroker) -> ServiceUrls:
        return ServiceUrls(f"broker-{broker.port}", broker.lookup.url)

    def other(self, broker: OneBroker) -> OneBroker:
        return self.b if broker is self.a else self.a

    @property
    def owner(self) -> OneBroker | None:
        return next((broker for broker in self.brokers if self.authority(broker).owns), None)

    async def wait_owner(self) -> Owner:
        async with self._changed:
            await self._changed.wait_for(lambda: self.owner is not None)
        assert self.owner is not None
        return self.urls(self.owner).owner(is_local=False, epoch=None)

    @property
    def look_ups(self) -> int:
        """The number of look-ups that both brokers got."""
        return sum(broker.lookup.asked for broker in self.brokers)  # type: ignore[attr-defined]

    def number(self) -> int:
        """Take the number of a later term."""
        return self.authority(self.a).epochs()

    async def take(self, broker: OneBroker, epoch: int | None = None) -> None:
        """Begin a term, with a number that was taken before, or with the next one."""
        self.authority(broker).take(epoch)
        async with self._changed:
            self._changed.notify_all()

    async def begin(self, source: OneBroker) -> int:
        """The part of the source until the lock is released."""
        self.authority(source).leave()
        return await source.registry.begin_transfer(BUNDLE, reason="test")

    async def transfer(self, source: OneBroker) -> OneBroker:
        """Transfer everything and return the new owner."""
        target = self.other(source)
        await self.begin(source)
        await self.take(target)
        await source.registry.finish_transfer(BUNDLE, self.urls(target), reason="test")
        return target


def running_topics() -> list[asyncio.Task[Any]]:
    """The tasks of topics on the running loop."""
    return [task for task in asyncio.all_tasks() if "topic" in task.get_name() and not task.done()]


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)
