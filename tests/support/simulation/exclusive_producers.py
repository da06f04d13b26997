"""Producers with access modes in a simulated cluster, and what is demanded of them.

    run_access_history(seed)  ->  AccessHistory, or SimulationError

Several clients with shared, exclusive, waiting and fencing producers come, go, crash and write, while what befalls
whole clusters befalls this one. Demanded, besides what the `Referee` demands:

- *one producer an epoch*: no two producers are told the same epoch of a topic;
- *epochs never go back*: neither the one that is stored with a topic, at any write of its record, nor those of the
  entries in its ledgers, in their order: who was displaced writes nothing more;
- *nothing acknowledged is lost*: each message with a receipt is in the topic, with an epoch that its producer had;
- *a waiter gets its turn*: when the faults are over, each live producer that waits gets the topic as soon as those
  before it have left, and can write; in the end nobody waits at any broker.
"""

import asyncio
import json
import random
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.producer_access import EPOCH_PROPERTY
from pulsar_barycenter.ledger.managed.managed_ledger import MANAGED_LEDGERS
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import Notification, NotificationType
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands, frames
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.simulation.client import FIRST_BACKOFF_S, MAX_BACKOFF_S, ClientLink, RefusedError, RetryError, SimClient
from support.simulation.cluster import NAMESPACE, Cluster, Settings, quiet_logs
from support.simulation.faults import OF_ALL, OF_BALANCE, OF_ONE, Faults
from support.simulation.loop import Node, SimulationError, VirtualTimeLoop

FAULTS: Final = tuple(name for name in (*OF_ONE, *OF_ALL, *OF_BALANCE) if name != "burst")
FAULTS_S: Final = 20.0
TURN_S: Final = 150.0
"""Within what a live producer that waits has the topic after the one before it left. A client that fell silent is
found dead after two keep-alive intervals of 30 s."""
TOPICS: Final = 2
CLIENTS: Final = 4
MOST_LIVE: Final = 6
"""Live producers of a topic, so that there is a line and it is served."""

Mode = api.ProducerAccessMode
MODES: Final = (
    *(api.WaitForExclusive,) * 6,
    *(api.Exclusive,) * 3,
    *(api.ExclusiveWithFencing,) * 2,
    *(api.Shared,) * 2,
)


@dataclass(frozen=True, slots=True)
class AccessHistory:
    """What happened, for statistics and for comparing two runs."""

    seed: int
    steps: int
    faults: dict[str, int]
    outcomes: dict[str, int]
    """How often producers attached, waited, were fenced, left."""
    epochs: int
    acknowledged: int
    turns: int
    """Producers that got a topic after the faults."""


class ModeProducer:
    """A producer with an access mode; it reconnects until it is closed, fenced, or its process died."""

    def __init__(self, world: "AccessWorld", client: SimClient, topic: str, mode: Mode.ValueType, name: str) -> None:
        self.client = client
        self.topic = topic
        self.mode = mode
        self.name = name
        self.state = "asks"
        self.topic_epoch: int | None = None
        self.last_retry = ""
        self.acknowledged: list[int] = []
        self.sent = 0
        self._world = world
        self._id = client.next_id()
        self._epoch = 0
        self._link: ClientLink | None = None
        self._gone = asyncio.Event()
        self._assigned: str | None = None
        self._pending: deque[int] = deque()

    @property
    def is_live(self) -> bool:
        """Whether it wants the topic, or has it."""
        return self.client.node.alive and self.state in ("asks", "waits", "attached")

    @property
    def is_idle(self) -> bool:
        """Whether it can write, and all that it wrote has a receipt."""
        return self.state == "attached" and not self._pending

    @property
    def is_exclusive(self) -> bool:
        return self.mode != api.Shared

    async def run(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while self.is_live:
            self._gone.clear()
            try:
                assigned, self._assigned = self._assigned, None
                link = await self.client.link(assigned or await self.client.lookup(self.topic))
                if self.state in ("left", "fenced"):  # while it looked up
                    return
                await self._attach(link)
                backoff_s = FIRST_BACKOFF_S
                await self._gone.wait()
            except RefusedError as refused:
                self.last_retry = str(refused)
                if refused.code == api.ProducerFenced:
                    self._end("fenced")
                    return
            except RetryError as retry:
                self.last_retry = str(retry)
            self._link = None
            if self.is_live:
                self.state = "asks"
                if self._assigned is None:
                    await asyncio.sleep(backoff_s * (0.9 + 0.1 * self.client.random.random()))
                    backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    async def _attach(self, link: ClientLink) -> None:
        self._link = link
        link.producers[self._id] = self
        try:
            answer = await link.request(self._request, self._queued)
        except RetryError as error:
            if not isinstance(error, RefusedError):  # withdraw it, as a client does
                link.send(commands.close_producer(self._id, 1 << 40))
            raise
        if self._link is not link:
            raise RetryError("closed while attaching")
        self._epoch += 1
        self.state = "attached"
        self._world.outcomes["attached"] += 1
        if self.is_exclusive:
            self.topic_epoch = answer.topic_epoch
            self._world.told_epoch(self, answer.topic_epoch)
        for number in self._pending:
            self._send(link, number)

    def _request(self, request_id: int) -> bytes:
        return client_commands.producer(
            request_id,
            self._id,
            self.topic,
            producer_name=self.name,
            epoch=self._epoch,
            access_mode=self.mode,
            topic_epoch=self.topic_epoch,
            initial_subscription_name="keep",
        )

    def _queued(self) -> None:
        if self.is_live:
            self.state = "waits"
            self._world.outcomes["waited"] += 1

    def publish(self) -> None:
        if self.state != "attached" or self._link is None:
            return
        self._pending.append(self.sent)
        self._send(self._link, self.sent)
        self.sent += 1

    def _send(self, link: ClientLink, number: int) -> None:
        """Send a message with the epoch that the producer has now, which differs when it sends the message again."""
        epoch = self.topic_epoch if self.is_exclusive else "-"
        metadata = api.MessageMetadata(producer_name=self.name, sequence_id=number, publish_time=1)
        entry = frames.encode_entry(metadata.SerializeToString(), f"{epoch} {self.name} {number}".encode())
        link.send(client_commands.send(self._id, number, entry))

    def receipt(self, receipt: api.CommandSendReceipt) -> None:
        if self._pending and receipt.sequence_id == self._pending[0]:
            self.acknowledged.append(self._pending.popleft())

    def detached(self, link: ClientLink, assigned_url: str | None) -> None:
        if link is self._link:
            self._link = None
            self._assigned = assigned_url
            self.last_retry = "closed by the broker" if not link.is_lost else "connection lost"
            if self.state == "attached":
                self.state = "asks"
            self._gone.set()

    def close(self) -> None:
        """Leave: whether it has the topic, waits for it or is about to ask."""
        link = self._link
        if self.is_live:
            self._end("left")
            if link is not None:
                link.send(commands.close_producer(self._id, 1 << 40))

    def _end(self, state: str) -> None:
        self.state = state
        self._world.outcomes[state] += 1
        link, self._link = self._link, None
        if link is not None:
            link.producers.pop(self._id, None)
        self._gone.set()


class AccessWorld:
    def __init__(self, loop: VirtualTimeLoop, seed: int, settings: Settings | None, faults: tuple[str, ...]) -> None:
        self._loop = loop
        self._seed = seed
        self.random = random.Random(seed)
        asyncio._set_running_loop(loop)
        try:
            settings = settings or Settings.drawn(self.random)
            self.cluster = Cluster(loop, random.Random(self.random.getrandbits(64)), settings)
        finally:
            asyncio._set_running_loop(None)
        self.outcomes: Counter[str] = Counter()
        self.topics = [f"persistent://{NAMESPACE}/exclusive-{number}" for number in range(TOPICS)]
        self._clients: list[SimClient] = []
        self._producers: list[ModeProducer] = []
        self._told: dict[tuple[str, int], str] = {}
        self._stored: dict[str, int] = {}
        self._turns = 0
        self._faults = Faults(loop, self.cluster, self.random, self._clients, [], faults)
        self._watch_stored_epochs()

    async def play(self) -> AccessHistory:
        await self.cluster.start()
        for _ in range(CLIENTS):
            self._clients.append(self._new_client())
        living = [self._loop.create_task(self._live(topic), name=f"life of {topic}") for topic in self.topics]
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            await asyncio.sleep(self.random.expovariate(self.cluster.settings.faults_per_s))
            self._faults.strike()
        await asyncio.gather(*living)
        await self._faults.end()
        self.cluster.end_faults()
        await self.cluster.bring_up()
        await asyncio.gather(*map(self._serve_all, self.topics))
        self._check_nobody_waits()
        for topic in self.topics:
            await self._check_entries(topic)
        for error in self._loop.unheard():
            raise SimulationError("nobody asked", repr(error)) from error
        return AccessHistory(
            seed=self._seed,
            steps=self._loop.steps,
            faults=dict(self._faults.happened),
            outcomes=dict(self.outcomes),
            epochs=len(self._told),
            acknowledged=sum(len(producer.acknowledged) for producer in self._producers),
            turns=self._turns,
        )

    # ---- lives

    def _new_client(self) -> SimClient:
        node = Node(self._loop, f"client-{self.random.randrange(1 << 30)}")
        return SimClient(node, self.cluster.service_urls, random.Random(self.random.getrandbits(64)))

    def _of(self, topic: str) -> list[ModeProducer]:
        return [each for each in self._producers if each.topic == topic and each.is_live]

    async def _live(self, topic: str) -> None:
        """Have producers of a topic come, write, go and die."""
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            live = self._of(topic)
            (event,) = self.random.choices(("come", "write", "leave", "die", "reset"), (6, 10, 2, 0.5, 0.5))
            if event == "come" and len(live) < MOST_LIVE:
                self._come(topic)
            elif event == "write":
                for producer in live:
                    producer.client.node.call(producer.publish)
            elif event == "leave" and live:
                for producer in self.random.sample(live, self.random.randint(1, min(2, len(live)))):
                    producer.client.node.call(producer.close)
            elif event == "die":
                self._die()
            elif event == "reset" and (connections := self.cluster.network.connections()):
                self.cluster.network.reset(self.random.choice(connections))
            await asyncio.sleep(self.random.uniform(0.02, 0.5))

    def _come(self, topic: str) -> None:
        client = self.random.choice(self._clients)
        name = f"p{len(self._producers)}"
        producer = client.node.call(ModeProducer, self, client, topic, self.random.choice(MODES), name)
        self._producers.append(producer)
        client.node.spawn(producer.run(), f"{name} produces to {topic}")

    def _die(self) -> None:
        """A client process dies with all of its producers, those that have a topic and those that wait."""
        index = self.random.randrange(CLIENTS)
        dead = self._clients[index]
        dead.node.crash()
        self.cluster.network.crashed(dead.node, silently=self.random.random() < 0.2)
        self.outcomes["died"] += 1
        self._clients[index] = self._new_client()

    # ---- what is demanded

    def _fail(self, check: str, detail: str) -> None:
        error = SimulationError(check, detail)
        self._loop.failures.append(error)
        raise error

    def told_epoch(self, producer: ModeProducer, epoch: int) -> None:
        """A producer was told that it has a topic under an epoch."""
        other = self._told.setdefault((producer.topic, epoch), producer.name)
        if other != producer.name:
            self._fail("one producer an epoch", f"{producer.topic}: {other} and {producer.name} under epoch {epoch}")

    def _watch_stored_epochs(self) -> None:
        judged = self.cluster.referee.on_change

        def on_change(backend: MemoryBackend, change: Notification) -> None:
            judged(backend, change)
            if change.path.startswith(MANAGED_LEDGERS) and change.type is not NotificationType.CHILDREN_CHANGED:
                self._check_stored_epoch(backend, change)

        self.cluster.referee.on_change = on_change  # type: ignore[method-assign]

    def _check_stored_epoch(self, backend: MemoryBackend, change: Notification) -> None:
        path = change.path
        record = backend.keys.get(path, session=None)
        if record is None or (path not in self._stored and EPOCH_PROPERTY.encode() not in record.value):
            return
        stored: Any = json.loads(record.value)["properties"].get(EPOCH_PROPERTY)
        before = self._stored.get(path, -1)
        if stored is None or int(stored) < before:
            self._fail("epochs never go back", f"{path}: {stored} is stored after {before}")
        self._stored[path] = int(stored)

    async def _serve_all(self, topic: str) -> None:
        """Let those that have a topic write and leave, one after the other, until everybody had it."""
        while self._of(topic):
            attached = await self._somebody_attached(topic)
            alone = [each for each in attached if each.is_exclusive]
            if alone and len(attached) > 1:
                await asyncio.sleep(0.05)  # a broker has closed one of them, and that one does not know yet
                continue
            for producer in attached:
                await self._write_and_leave(producer)

    async def _somebody_attached(self, topic: str) -> list[ModeProducer]:
        deadline = self._loop.time() + TURN_S
        while live := self._of(topic):
            if attached := [each for each in live if each.state == "attached"]:
                return attached
            if self._loop.time() > deadline:
                self._fail("a waiter gets its turn", f"{topic}: {self._told_of(live)}; brokers: {self._at_brokers()}")
            await asyncio.sleep(0.1)
        return []

    async def _write_and_leave(self, producer: ModeProducer) -> None:
        """Have a producer that is attached write a message and leave, unless it loses the topic meanwhile."""
        before = len(producer.acknowledged)
        deadline = self._loop.time() + TURN_S
        while producer.state == "attached" and len(producer.acknowledged) == before:
            if self._loop.time() > deadline:
                self._fail("a waiter gets its turn", f"{producer.name} has no receipt: {producer.last_retry}")
            if producer.is_idle:
                producer.client.node.call(producer.publish)
            await asyncio.sleep(0.05)
        if len(producer.acknowledged) > before:
            self._turns += 1
            producer.client.node.call(producer.close)

    def _told_of(self, producers: list[ModeProducer]) -> str:
        return ", ".join(
            f"{each.name} ({Mode.Name(each.mode)}) {each.state} after {each.last_retry!r}" for each in producers
        )

    def _at_brokers(self) -> str:
        return "; ".join(
            f"{process.name} {topic.name}: {[*topic.producers]}, {topic.waiting_producers} wait"
            for process in self.cluster.up()
            for topic in process.broker.registry.loaded()
            if str(topic.name) in self.topics
        )

    def _check_nobody_waits(self) -> None:
        for process in self.cluster.up():
            for topic in process.broker.registry.loaded():
                if topic.waiting_producers and not topic.producers:
                    self._fail("a waiter gets its turn", self._at_brokers())

    async def _check_entries(self, topic: str) -> None:
        payloads = await self._stored_payloads(topic)
        highest = -1
        for payload in payloads:
            epoch, name, _ = payload.split()
            if epoch == "-":
                continue
            if int(epoch) < highest:
                self._fail("epochs never go back", f"{topic}: {name} wrote {payload!r} after epoch {highest}")
            highest = int(epoch)
            if self._told.get((topic, highest)) != name:
                self._fail("one producer an epoch", f"{topic}: {payload!r} was not written by who was told the epoch")
        stored = {payload.partition(" ")[2] for payload in payloads}
        for producer in self._producers:
            if producer.topic == topic and (
                lost := [number for number in producer.acknowledged if f"{producer.name} {number}" not in stored]
            ):
                self._fail("nothing acknowledged is lost", f"{topic}: {lost} of {producer.name}")

    async def _stored_payloads(self, topic: str) -> list[str]:
        """Read all entries of a topic at its owner."""
        reader = self._new_client()
        deadline = self._loop.time() + TURN_S
        while True:
            with suppress(RetryError):
                url = await reader.node.spawn(reader.lookup(topic), f"look up {topic}")
                owner = next(process for process in self.cluster.processes if process.url == url)
                return await owner.node.spawn(_payloads(owner.broker.registry.get_or_create, topic), f"read {topic}")
            if self._loop.time() > deadline:
                self._fail("served in time", f"{topic} is not")
            await asyncio.sleep(0.5)


async def _payloads(get_or_create: Any, topic: str) -> list[str]:
    loaded = await get_or_create(TopicName.parse(topic))
    assert isinstance(loaded, PersistentTopic)
    ledger = loaded.ledger
    found: list[str] = []
    position = ledger.next_valid(EARLIEST)
    while entries := await ledger.read(position, 500, 1 << 20):
        found += [frames.split_entry(entry.data)[1].decode() for entry in entries]
        position = ledger.next_valid(entries[-1].position)
    return found


def run_access_history(
    seed: int,
    *,
    settings: Settings | None = None,
    lines: list[str] | None = None,
    faults: tuple[str, ...] = FAULTS,
) -> AccessHistory:
    """Play the history of `seed`; collect the brokers' events in `lines` if it is given.

    Raises:
        SimulationError: a check failed. Whatever else is raised is a fault of a broker that nobody caught.
    """
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    world = AccessWorld(loop, seed, settings, faults)
    try:
        with quiet_logs(lines), world.cluster.referee.watching():
            try:
                playing: asyncio.Task[AccessHistory] = loop.create_task(world.play(), name="history")
                return loop.run_until_complete(playing)
            finally:
                with suppress(SimulationError):
                    loop.tear_down()
    finally:
        loop.close()
