"""The locations of ownership records that the contract suite runs on, on virtual time, with brokers that read and
write.

A new location is one more class with an entry in PLACES. Records are wrapped as the broker wraps them.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from pulsar_barycenter.broker.ownership.channel.channel_counters import ChannelCounters, CountedRecords
from pulsar_barycenter.broker.ownership.channel.places.following_records import FollowingRecords
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT, StoreRecords
from pulsar_barycenter.broker.ownership.channel.topic_records import TopicRecords, keeps_earlier
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.store import Notification
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.one_broker import OneBroker
from support.simulation.cluster import BROKER_PORT, SimClock
from support.simulation.loop import NODE, Node, VirtualTimeLoop
from support.simulation.network import Network

T = TypeVar("T")

Record: TypeAlias = ServiceUnitStateData | None

BUNDLE: Final = Bundle.parse("public/default/0x00000000_0x40000000")
OTHER: Final = Bundle.parse("public/default/0x40000000_0xffffffff")
BUNDLES: Final = (BUNDLE, OTHER)

DEADLINE_S: Final = 120.0
"""Of virtual time; far more than anything here takes."""
SESSION_MS: Final = 10_000
TOPIC: Final = TopicName.parse(SERVICE_UNIT_STATE_TOPIC)


class Change(NamedTuple):
    """A notification of a listener."""

    bundle: Bundle
    before: Record
    after: Record


class View:
    """The records as one broker reads them, and the notifications of its listener."""

    def __init__(
        self, node: Node, records: OwnershipRecords, clean_up: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """`clean_up` closes what the records depend on."""
        self.node = node
        self.records: Final = CountedRecords(records, ChannelCounters())
        self.changes: list[Change] = []
        self._clean_up = clean_up

    def begin(self) -> None:
        self.node.call(self.records.start, lambda *change: self.changes.append(Change(*change)))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` as part of this broker."""
        return await self.node.spawn(work, "test")

    def get(self, bundle: Bundle) -> Record:
        return self.records.get(bundle)

    def told(self, bundle: Bundle) -> list[Record]:
        """Return the successive records of a bundle in the notifications."""
        return [change.after for change in self.changes if change.bundle == bundle]

    async def put(self, bundle: Bundle, before: Record, after: Record) -> bool:
        return await self.run(self.records.put(bundle, before, after))

    async def replace(self, bundle: Bundle, after: Record) -> bool:
        """Offer a record in place of the one that this broker has read."""
        return await self.put(bundle, self.get(bundle), after)

    async def catch_up(self) -> None:
        await self.run(self.records.catch_up())

    async def close(self) -> None:
        """Close the records, and what they depend on."""
        await self.run(self.records.close())
        await self.run(self._clean_up())


class Place(ABC):
    """A location of records, and the faults that may happen to it."""

    storage: StorageType

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.views: list[View] = []

    @abstractmethod
    async def open(self) -> None:
        """Create the location."""

    def new_view(self) -> View:
        """Return the view of another broker, which has read nothing yet."""
        node = Node(self.loop, f"broker-{len(self.views)}")
        view = node.call(self._make, node)
        self.views.append(view)
        return view

    async def view(self) -> View:
        """Return the view of another broker, which has read all records."""
        view = self.new_view()
        view.begin()
        await self.until(lambda: view.records.is_read)
        return view

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until `holds`, without a notification."""
        deadline = self.loop.time() + DEADLINE_S
        while not holds():
            assert self.loop.time() < deadline, [view.changes[-3:] for view in self.views]
            await asyncio.sleep(0.01)

    async def until_read(self, record: Record, bundle: Bundle, *views: View) -> None:
        """Wait until `views` have all read that record of the bundle."""
        await self.until(lambda: all(view.get(bundle) == record for view in views))

    async def close(self) -> None:
        for view in self.views:
            await view.close()

    @abstractmethod
    def _make(self, node: Node) -> View: ...

    @abstractmethod
    async def write(self, key: str, value: bytes) -> None:
        """Write a value there as another program would, without any check."""

    @abstractmethod
    def slow_down(self, view: View, mean_s: float) -> None:
        """Delay everything between this broker and the location by about this time, in both directions."""

    @abstractmethod
    def cut_off(self, view: View) -> None:
        """Make the location unreachable for this broker until `heal`."""

    @abstractmethod
    def heal(self, view: View) -> None: ...

    @abstractmethod
    def tell_nothing(self, view: View) -> None:
        """Lose the notifications of this broker, where notifications may be lost."""

    @abstractmethod
    async def disturb(self) -> None:
        """End the broker or the sessions that the location depends on, and start others."""

    @abstractmethod
    async def tidy(self) -> None:
        """Let the location remove what no broker needs any more."""


class InStore(Place):
    """Keys of the metadata store. Fault of the location: all sessions end."""

    storage = StorageType.METADATA_STORE

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__(loop)
        self._backend = MemoryBackend(latency=lambda operation, path: self._delay_s())
        self._stores: dict[Node | None, MemoryStore] = {}
        self._delays: dict[Node | None, float] = {}
        self._admin = self._backend.connect(SimClock(loop, 0), 3_600_000)

    async def open(self) -> None:
        """The store exists."""

    def _delay_s(self) -> float:
        return self._delays.get(NODE.get(), 0.001)

    def _make(self, node: Node) -> View:
        store = self._stores[node] = self._backend.connect(SimClock(self.loop, 0), SESSION_MS)
        return View(node, StoreRecords(store), store.close)

    async def write(self, key: str, value: bytes) -> None:
        await self._admin.put(f"{RECORDS_ROOT}/{key}", value)

    def slow_down(self, view: View, mean_s: float) -> None:
        self._delays[view.node] = mean_s
        self._backend.route_notifications(self._stores[view.node], lambda change: mean_s)

    def cut_off(self, view: View) -> None:
        self._backend.partition(self._stores[view.node])

    def heal(self, view: View) -> None:
        self._backend.heal(self._stores[view.node])

    def tell_nothing(self, view: View) -> None:
        def lose(change: Notification) -> None:
            return None

        self._backend.route_notifications(self._stores[view.node], lose)

    async def disturb(self) -> None:
        for store in self._stores.values():
            self._backend.expire_session(store)

    async def tidy(self) -> None:
        """Each bundle has only its last record already."""


class InTopic(Place):
    """Messages of a topic that a broker serves. Fault of the location: the broker dies, and the next one serves it."""

    storage = StorageType.SYSTEM_TOPIC

    def __init__(self, loop: VirtualTimeLoop, *, deduplicates: bool = False) -> None:
        super().__init__(loop)
        self._network = Network(loop, random.Random(1))
        self.backend, self._disk = MemoryBackend(), MemoryDisk()
        self._config = BrokerConfig(managed_ledger_max_entries_per_ledger=20, broker_deduplication_enabled=deduplicates)
        self._terms = 0
        self._clients: dict[str, SystemTopicClient] = {}
        self._cut_off: set[str] = set()
        self._other = Node(loop, "another program")
        self._server: Node
        self._broker: OneBroker

    async def open(self) -> None:
        await self._serve()
        self._other.call(self._connect, self._other)

    async def _serve(self) -> None:
        """Let a broker serve the topic that no other does."""
        self._terms += 1
        self._server = Node(self.loop, f"server-{self._terms}")
        self._broker = self._server.call(self._make_broker)
        await self._server.spawn(self._broker.server.listen(self._server.name, BROKER_PORT), "listen")
        for name in self._cut_off:
            self._network.partition(name, self._server.name)

    def _make_broker(self) -> OneBroker:
        return OneBroker(
            self._config,
            backend=self.backend,
            disk=self._disk,
            ledgers=MemoryLedgerStorage(self._disk, durability_delay_s=lambda: 0.001),
            clock=SimClock(self.loop, 0),
            first_epoch=self._terms * 1000,
            compaction_strategies={TOPIC: keeps_earlier},
        )

    async def _owner(self) -> str | None:
        return f"pulsar://{self._server.name}:{BROKER_PORT}"

    def _connect(self, node: Node) -> SystemTopicClient:
        source = random.Random(node.name)
        made = self._clients[node.name] = SystemTopicClient(self._owner, clock=SimClock(self.loop, 0), source=source)
        return made

    def _make(self, node: Node) -> View:
        client = self._connect(node)
        return View(node, TopicRecords(client), client.close)

    async def write(self, key: str, value: bytes) -> None:
        await self._other.spawn(self._publish(key, value), "publish")

    async def _publish(self, key: str, value: bytes) -> None:
        publisher = self._clients[self._other.name].publisher(SERVICE_UNIT_STATE_TOPIC)
        await publisher.publish(key, value)
        await publisher.close()

    def slow_down(self, view: View, mean_s: float) -> None:
        self._network.slow_down(view.node.name, self._server.name, mean_s)

    def cut_off(self, view: View) -> None:
        self._cut_off.add(view.node.name)
        self._network.partition(view.node.name, self._server.name)

    def heal(self, view: View) -> None:
        self._cut_off.discard(view.node.name)
        self._network.heal(view.node.name, self._server.name)

    def tell_nothing(self, view: View) -> None:
        """Every message arrives sooner or later: records are read by nothing else."""

    async def disturb(self) -> None:
        self._server.crash()
        self._network.crashed(self._server)
        self._broker.ledgers.crash(survivors=lambda queued: queued // 2)  # type: ignore[attr-defined]
        self.backend.crash(self._broker.store)
        await self._serve()
        for name, client in self._clients.items():
            node = next((view.node for view in self.views if view.node.name == name), self._other)
            node.call(client.owner_changed)

    async def tidy(self) -> None:
        await self._server.spawn(self._compact(), "compact")

    async def _compact(self) -> None:
        topic = await self._broker.registry.get_or_create(TOPIC)
        assert isinstance(topic, PersistentTopic)
        await topic.compact()
        await self.until(lambda: topic.compactions.status != "RUNNING")
        assert topic.compactions.status == "SUCCESS", topic.compactions.last_error

    async def close(self) -> None:
        await super().close()
        await self._other.spawn(self._clients[self._other.name].close(), "close")


class Followed(InTopic):
    """Messages of a topic, as the location that the key in the metadata store names; the key may change."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__(loop)
        self.stores: dict[str, MemoryStore] = {}
        self.followed: dict[str, FollowingRecords] = {}
        self.made: dict[str, Callable[[StorageType], StoreRecords | TopicRecords]] = {}
        """All by the name of the view's node."""

    def _make(self, node: Node) -> View:
        store = self.stores[node.name] = self.backend.connect(SimClock(self.loop, 0), SESSION_MS)
        client = self._connect(node)

        def make(place: StorageType) -> StoreRecords | TopicRecords:
            return StoreRecords(store) if place is StorageType.METADATA_STORE else TopicRecords(client)

        async def clean_up() -> None:
            await client.close()
            await store.close()

        self.made[node.name] = make
        self.followed[node.name] = FollowingRecords(store, node.name, lambda: StorageType.SYSTEM_TOPIC, make)
        return View(node, self.followed[node.name], clean_up)


PLACES: Final[dict[str, Callable[[VirtualTimeLoop], Place]]] = {
    "store": InStore,
    "topic": InTopic,
    "topic that is followed": Followed,
    "topic that deduplicates": partial(InTopic, deduplicates=True),
}

Scenario: TypeAlias = Callable[[Place], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Scenario], None]
"""Runs a scenario at one of the places."""


def play_at(kind: str, scenario: Scenario) -> None:
    """Run one scenario at a new location, close all views, and check that no task of theirs is left."""
    loop = VirtualTimeLoop()  # type: ignore[abstract]

    async def play() -> None:
        place = PLACES[kind](loop)
        await place.open()
        await scenario(place)
        await place.close()
        await asyncio.sleep(0)
        nodes = {view.node for view in place.views}
        left = [task for task in loop.running_tasks() if task.node in nodes]
        assert left == []
        assert loop.unheard() == []

    try:
        loop.run_until_complete(play())
        assert loop.failures == []
    finally:
        loop.tear_down()


# ---- what brokers say of bundles


async def assigned(view: View, bundle: Bundle = BUNDLE, broker: str = "a:1") -> ServiceUnitStateData:
    """Assign an unowned bundle to a broker; return the record."""
    record = events.assigning(view.get(bundle), broker, 1)
    assert await view.replace(bundle, record)
    return record


async def owned(view: View, bundle: Bundle = BUNDLE, broker: str = "a:1", epoch: int = 7) -> ServiceUnitStateData:
    """Let a broker own an unowned bundle; return the record."""
    record = events.owned(await assigned(view, bundle, broker), 2, epoch)
    assert await view.replace(bundle, record)
    return record


async def count_up(view: View, bundle: Bundle, count: int) -> list[ServiceUnitStateData]:
    """Change the owner of a bundle by force the given number of times; return the records."""
    found = []
    for number in range(count):
        record = events.claimed(view.get(bundle), f"b{number}:1", number, number)
        assert await view.replace(bundle, record)
        found.append(record)
    return found


def of_version(record: ServiceUnitStateData, version: int) -> ServiceUnitStateData:
    return msgspec.structs.replace(record, version_id=version)
