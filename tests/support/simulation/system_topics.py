"""One simulated history of a system topic: brokers that hand it on, clients that publish to it and follow it.

    run_history(seed)  ->  History, or SimulationError

The brokers are data planes on one disk, with real topics, ledgers and fences; who serves the topic is scripted, and
told to the clients late, wrongly now and then, or not at all.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.entries import MessageId
from pulsar_barycenter.broker.system_topics.errors import NotPublishedError, PublishOutcomeUnknownError
from pulsar_barycenter.broker.system_topics.publisher import Publisher
from pulsar_barycenter.broker.system_topics.reader import Reader
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.broker.system_topics.table_view import TableView
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.bundle import FULL_RANGE, Bundle
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.one_broker import Everything, OneBroker
from support.simulation.cluster import BROKER_PORT, SimClock, quiet_logs
from support.simulation.loop import Node, SimulationError, VirtualTimeLoop
from support.simulation.network import Network

TOPIC: Final = SERVICE_UNIT_STATE_TOPIC
BUNDLE: Final = Bundle(TopicName.parse(TOPIC).namespace, FULL_RANGE)
BROKERS: Final = 2
CLIENTS: Final = 3
KEYS: Final = 5
FAULTS_S: Final = 10.0
SETTLE_S: Final = 150.0
QUICK: Final = ClientSettings(attempt_timeout_s=4.0, keep_alive_s=5.0, probe_s=1.0, ask_again_s=1.0, max_in_flight=20)


@dataclass(frozen=True, slots=True)
class History:
    """Counts of events, for statistics and for comparing two runs."""

    seed: int
    steps: int
    messages: int
    acknowledged: int
    unknown: int
    stored_twice: int
    moves: int
    faults: dict[str, int]
    attached: int


class Authority(Everything):
    """Lets a broker serve in the terms that the script gave it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.owned: OwnedBundle | None = None
        self.node: Node
        self.broker: OneBroker

    def served(self, topic: TopicName) -> OwnedBundle | None:
        return self.owned if self.owned is not None and self.owned.active else None

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        owned = self.served(topic)
        if owned is None:
            raise NotServedError(topic, "another broker leads")
        return owned

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        owned.revoked = True
        owned.active = False
        if self.owned is owned:
            self.owned = None
            self.node.spawn(self.broker.registry.close_bundle(BUNDLE, reason=reason), "close what was lost")


class SimBroker:
    """One incarnation of a broker."""

    def __init__(self, world: "World", index: int) -> None:
        self.name = f"broker-{index}"
        self.node = Node(world.loop, self.name)
        self.world = world
        self.broker: OneBroker = self.node.call(self._build)
        self.url = f"pulsar://{self.name}:{BROKER_PORT}"
        self.up = self.node.spawn(self.broker.server.listen(self.name, BROKER_PORT), "listen")

    def _build(self) -> OneBroker:
        world = self.world
        delay_s = world.random.choice((0.01, 0.01, 0.2))
        ledgers = MemoryLedgerStorage(world.disk, durability_delay_s=lambda: world.random.uniform(0.0002, delay_s))
        clock = SimClock(world.loop, 0)
        self.authority = Authority(clock)
        self.ledgers = ledgers
        broker = OneBroker(
            world.config,
            backend=world.backend,
            disk=world.disk,
            ledgers=ledgers,
            clock=clock,
            authority=self.authority,
        )
        self.authority.node, self.authority.broker = self.node, broker
        return broker

    def take(self, epoch: int) -> None:
        self.authority.owned = OwnedBundle(BUNDLE, epoch, self.broker.clock.now_ms())

    async def keep_everything(self) -> None:
        """Let a subscription hold all entries, as that of the compaction would; otherwise entries that all have read
        are trimmed."""
        topic = await self.broker.registry.get_or_create(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        async with topic.lock:
            await topic.create_subscription("keep", EARLIEST)

    async def give_up(self) -> None:
        owned = self.authority.owned
        if owned is not None:
            owned.active = False
            await self.broker.registry.close_bundle(BUNDLE, reason="handed on")
            if self.authority.owned is owned:
                self.authority.owned = None

    def crash(self) -> None:
        source = self.world.random
        self.node.crash()
        self.world.network.crashed(self.node, silently=source.random() < 0.3)
        self.world.backend.crash(self.broker.store)
        self.ledgers.crash(survivors=lambda queued: source.randint(0, queued))


@dataclass
class Sent:
    """The messages that one publisher had to publish, and the outcome of each."""

    acknowledged: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    count: int = 0


class SimFollower:
    """A client process: one connection, a publisher, a reader of everything, two views."""

    def __init__(self, world: "World", index: int) -> None:
        self.index = index
        self.node = Node(world.loop, f"client-{index}")
        self.world = world
        self.random = random.Random(world.random.getrandbits(32))
        self.sent = Sent()
        self.delivered: list[tuple[str, bytes]] = []
        self.latest: dict[str, int] = {}
        self.client: SystemTopicClient
        self.publisher: Publisher
        self.reader: Reader
        self.views: list[TableView] = []
        self.loads: TableView
        self.publishing: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        clock = SimClock(self.world.loop, self.random.randint(-500, 500))
        self.client = SystemTopicClient(self.find_broker, clock=clock, source=self.random, settings=QUICK)
        self.publisher = self.client.publisher(TOPIC)
        self.reader = self.client.reader(TOPIC, self.deliver)
        self.views = [self.client.table_view(TOPIC), self.client.table_view(TOPIC, accepts=longer_or_later)]
        self.loads = self.client.table_view(BROKER_LOAD_TOPIC)
        for view in (*self.views, self.loads):
            await view.start(60)

    async def find_broker(self) -> str | None:
        world = self.world
        await asyncio.sleep(self.random.uniform(0, 0.01))
        chance = self.random.random()
        if world.calm or chance > 0.2:
            return world.owner.url if world.owner is not None else None
        if chance < 0.02:
            raise OSError("the store does not answer")
        return None if chance < 0.05 else self.random.choice(world.brokers).url

    def deliver(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        assert key is not None
        text = value or key.encode()
        who, _, number = text.partition(b":")
        n, source = int(number.split(b" ")[0]), who.decode()
        before = self.latest.get(source, -1)
        if n <= before:
            raise_in(self.world.loop, SimulationError("every message once, in order", f"{text!r} after {before}"))
        self.latest[source] = n
        self.delivered.append((key, text))

    def publish(self, timeout_s: float) -> None:
        n = self.sent.count
        self.sent.count += 1
        self.publishing.append(self.node.spawn(self._publish(n, timeout_s), f"publish {n}"))

    async def _publish(self, n: int, timeout_s: float) -> None:
        text = b"%d:%d" % (self.index, n) + b" " * self.random.randint(0, 50)
        is_tombstone = n % 7 == 3
        key = f"{self.index}:{n}" if is_tombstone else f"key-{self.random.randrange(KEYS)}"
        try:
            await self.publisher.publish(key, None if is_tombstone else text, timeout_s=timeout_s)
        except NotPublishedError:
            self.sent.refused.add(n)
        except PublishOutcomeUnknownError:
            self.sent.unknown.add(n)
        else:
            self.sent.acknowledged.add(n)


def longer_or_later(before: bytes | None, after: bytes | None) -> bool:
    """A rule that depends on both, so that another order would produce another table."""
    return before is None or after is None or len(after) >= len(before) or after > before


def difference(one: SimFollower, other: SimFollower) -> str:
    """Return where their deliveries begin to differ."""
    longest = max(len(one.delivered), len(other.delivered))
    at = next(at for at in range(longest) if one.delivered[at : at + 1] != other.delivered[at : at + 1])
    return (
        f"client {one.index} read {len(one.delivered)} messages and client {other.index} {len(other.delivered)}; "
        f"from {at} on {one.delivered[at : at + 3]} and {other.delivered[at : at + 3]}"
    )


def raise_in(loop: VirtualTimeLoop, error: Exception) -> None:
    """End the run: the caller of a callback only logs its errors."""
    loop.failures.append(error)


class World:
    def __init__(self, loop: VirtualTimeLoop, seed: int) -> None:
        self.loop = loop
        self.random = random.Random(seed)
        self.network = Network(loop, self.random)
        self.backend = MemoryBackend()
        self.disk = MemoryDisk()
        self.config = BrokerConfig(
            broker_deduplication_enabled=self.random.random() < 0.3, managed_ledger_max_entries_per_ledger=40
        )
        self.epoch = 0
        self.calm = True
        self.faults: Counter[str] = Counter()
        self.brokers = [SimBroker(self, index) for index in range(BROKERS)]
        self.owner: SimBroker | None = None
        self.clients = [SimFollower(self, index) for index in range(CLIENTS)]

    # ---- who serves

    def elect(self) -> None:
        """Give the topic to a live broker, another one if there is one; the clients are notified, or not."""
        living = [broker for broker in self.brokers if broker.node.alive and not broker.node.paused]
        others = [broker for broker in living if broker is not self.owner] or living
        self.owner = self.random.choice(others) if others else None
        self.epoch += 1
        if self.owner is not None:
            self.owner.take(self.epoch)
        for client in self.clients:
            if self.calm or self.random.random() < 0.8:
                self.loop.call_later(
                    self.random.uniform(0, 0.5), client.client.owner_changed, context=client.node.context
                )

    async def hand_on(self) -> None:
        """An unload: the owner closes the topic, and then another broker has it."""
        owner = self.owner
        if owner is not None and owner.node.alive:
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await asyncio.shield(owner.node.spawn(owner.give_up(), "give up"))
        self.elect()

    async def crash(self) -> None:
        """The owner dies; after a while another is elected, and the dead one comes back."""
        victim = self.owner
        if victim is None:
            self.elect()
            return
        victim.crash()
        await asyncio.sleep(self.random.uniform(0, 2))
        self.elect()
        await asyncio.sleep(self.random.uniform(0, 2))
        self._restart(victim)

    def _restart(self, dead: SimBroker) -> None:
        index = self.brokers.index(dead)
        self.brokers[index] = SimBroker(self, index)
        if self.owner is dead:
            self.owner = None
            self.elect()

    async def depose(self) -> None:
        """Another is elected while the owner still considers itself the server; only fences keep it from storing."""
        former = self.owner
        term = former.authority.owned if former is not None else None
        if former is not None and self.random.random() < 0.3:
            former.node.pause()
        self.elect()
        await asyncio.sleep(self.random.uniform(0.2, 3))
        if former is not None and former.node.alive:
            if former.node.paused:
                former.node.resume()
            if term is not None and former is not self.owner:
                former.node.call(former.authority.lost, term, "deposed")

    async def partition(self) -> None:
        client, broker = self.random.choice(self.clients), self.random.choice(self.brokers)
        self.network.partition(client.node.name, broker.name)
        await asyncio.sleep(self.random.uniform(0.1, 12))
        self.network.heal(client.node.name, broker.name)

    async def reset(self) -> None:
        open_ = self.network.connections()
        if open_:
            self.network.reset(self.random.choice(open_))

    # ---- the history

    async def play(self, seed: int) -> History:
        await asyncio.gather(*(broker.up for broker in self.brokers))
        self.owner = self.brokers[0]
        self.epoch = 1
        self.owner.take(self.epoch)
        await self.owner.node.spawn(self.owner.keep_everything(), "keep everything")
        await asyncio.gather(*(client.node.spawn(client.start(), "start") for client in self.clients))
        self.calm = False
        working = [asyncio.create_task(self._work(client)) for client in self.clients]
        await self._faults()
        await self._settle()
        await asyncio.gather(*working)
        await asyncio.wait_for(self._finish(), SETTLE_S)
        late = await self._check()
        for client in self.clients:
            await client.node.spawn(client.client.close(), "close")
        self._check_no_task_is_left()
        sent = [client.sent for client in self.clients]
        return History(
            seed=seed,
            steps=self.loop.steps,
            messages=len(late),
            acknowledged=sum(len(each.acknowledged) for each in sent),
            unknown=sum(len(each.unknown) for each in sent),
            stored_twice=self._stored() - len(late),
            moves=self.epoch - 1,
            faults=dict(self.faults),
            attached=sum(client.publisher._epoch for client in self.clients),
        )

    async def _work(self, client: SimFollower) -> None:
        end = self.loop.time() + FAULTS_S
        while self.loop.time() < end:
            for _ in range(self.random.choice((1, 1, 3, 25))):
                client.publish(self.random.choice((0.5, 30.0, 60.0)))
            await asyncio.sleep(self.random.expovariate(2))

    async def _faults(self) -> None:
        kinds = [self.hand_on, self.hand_on, self.crash, self.depose, self.partition, self.reset, self.reset]
        end = self.loop.time() + FAULTS_S
        while self.loop.time() < end:
            kind = self.random.choice(kinds)
            self.faults[kind.__name__] += 1
            await kind()
            await asyncio.sleep(self.random.expovariate(1.5))

    async def _settle(self) -> None:
        self.calm = True
        self.network.heal()
        if self.owner is None:
            self.elect()
        for broker in self.brokers:
            await broker.up

    async def _finish(self) -> None:
        """Every publish ends; then a last message of each client must reach every other one."""
        for client in self.clients:
            await asyncio.gather(*client.publishing)
        for client in self.clients:
            client.publish(SETTLE_S)
            await client.publishing[-1]
            if client.sent.count - 1 not in client.sent.acknowledged:
                raise SimulationError("every message arrives", f"client {client.index} cannot publish in peace")
        last = {str(client.index): client.sent.count - 1 for client in self.clients}
        while any(client.latest != last for client in self.clients):
            await asyncio.sleep(0.1)
        while not all(view.is_caught_up for client in self.clients for view in (*client.views, client.loads)):
            await asyncio.sleep(0.1)
        for client in self.clients:
            await client.node.spawn(client.loads.put(f"client-{client.index}", b"load"), "publish load")
        loads = {f"client-{client.index}": b"load" for client in self.clients}
        while any(dict(client.loads.items()) != loads for client in self.clients):
            await asyncio.sleep(0.1)

    async def _check(self) -> list[tuple[str, bytes]]:
        """Compare all deliveries, including those of a new reader, with the acknowledged messages and the views."""
        first = self.clients[0]
        late = SimFollower(self, 9)
        await late.node.spawn(late.start(), "start late")
        await late.reader.caught_up()
        everyone = [*self.clients, late]
        for client in everyone:
            if client.delivered != first.delivered:
                raise SimulationError("all read the same", difference(client, first))
        texts = {text.split(b" ")[0] for _, text in first.delivered}
        for client in self.clients:
            for n in client.sent.acknowledged:
                if b"%d:%d" % (client.index, n) not in texts:
                    raise SimulationError("nothing acknowledged is lost", f"{client.index}:{n}")
            for n in client.sent.refused:
                if b"%d:%d" % (client.index, n) in texts:
                    raise SimulationError("what was not published is not there", f"{client.index}:{n}")
        for number, rule in ((0, None), (1, longer_or_later)):
            wanted: dict[str, bytes] = {}
            for key, text in first.delivered:
                if not key.startswith("key-"):
                    continue
                if rule is None or rule(wanted.get(key), text):
                    wanted[key] = text
            for client in everyone:
                if dict(client.views[number].items()) != wanted:
                    raise SimulationError("views agree at rest", f"view {number} of client {client.index}")
        await late.node.spawn(late.client.close(), "close")
        return first.delivered

    def _stored(self) -> int:
        assert self.owner is not None
        topic = self.owner.broker.registry.get_loaded(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        return topic.ledger.stats.entries

    def _check_no_task_is_left(self) -> None:
        nodes = {client.node for client in self.clients}
        left = [task for task in self.loop.running_tasks() if task.node in nodes]
        if left:
            raise SimulationError("no task is left", f"{left}")


def run_history(seed: int, *, lines: list[str] | None = None) -> History:
    """Play the history of `seed`; collect the events of all processes in `lines` if it is given.

    Raises:
        SimulationError: a check failed. Any other error is an uncaught fault.
    """
    loop = VirtualTimeLoop()  # type: ignore[abstract]

    async def play() -> History:
        return await World(loop, seed).play(seed)

    try:
        with quiet_logs(lines):
            try:
                playing: asyncio.Task[History] = loop.create_task(play(), name="history")
                return loop.run_until_complete(playing)
            finally:
                with suppress(SimulationError):
                    loop.tear_down()
    finally:
        loop.close()
