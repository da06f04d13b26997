"""The control planes of several brokers on one memory store and one virtual-time loop, without topics or sockets."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.service_urls import NextOwner, ServiceUrls
from pulsar_barycenter.broker.control.parts import control_parts, metadata_writing
from pulsar_barycenter.broker.control.record_way import RecordWay
from pulsar_barycenter.broker.control_plane import ControlPlane
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.broker.namespaces.boundaries import boundaries_value, local_policies_path
from pulsar_barycenter.broker.ownership.channel.ownership_channel import OwnershipChannel
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.metadata.coordination.epochs import EpochRecord, epoch_path
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound
from pulsar_barycenter.naming.topic import TopicName
from support.simulation.loop import Node, VirtualTimeLoop
from support.virtual_time import LoopClock

T = TypeVar("T")

NAMESPACE = NamespaceName.parse("public/default")
SESSION_S = 10.0


class NoPeers:
    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        raise NotImplementedError

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class FakeTopics:
    """Replaces the topic registry: records its calls, and closes slowly on request."""

    def __init__(self) -> None:
        self.closed: list[tuple[Bundle, str]] = []
        self.bundles_refreshed = 0
        self.sent_to: list[tuple[Bundle, str | None]] = []
        """Bundles whose clients were sent to another broker, and which one; None: away."""
        self.written: list[str] = []
        """What producers are attached to, here."""
        self.prepared: list[tuple[Bundle, tuple[str, ...], int, bool]] = []
        """Bundles of which topics were opened ahead, which, and for the term of which number."""
        self.loads: list[TopicLoad] = []
        self.closing: Callable[[Bundle], Awaitable[object]] | None = None

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int:
        if self.closing is not None:
            await self.closing(bundle)
        self.closed.append((bundle, reason))
        return 1

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        if self.closing is not None:
            await self.closing(bundle)
        return 1

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        self.sent_to.append((bundle, None if owner is None else owner.broker_id))
        return 1

    def written_topics(self, bundle: Bundle) -> list[str]:
        return self.written

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        self.prepared.append((bundle, tuple(topics), epoch, are_closed))

    def refresh_bundles(self) -> None:
        self.bundles_refreshed += 1

    def topic_loads(self, bundle: Bundle) -> list[TopicLoad]:
        return [load for load in self.loads if bundle.range.contains(load.hash)]


class FakeDirectory:
    """The topics of the cluster, kept as a list."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        return 0

    async def topic_exists(self, topic: TopicName) -> bool:
        return str(topic) in self.topics

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        return self.topics


class HashLoadManager(NoopLoadManager):
    """Centralised; chooses by the hash of the bundle's name, so that the answer is known and evenly spread."""

    @property
    def is_centralized(self) -> bool:
        return True

    @staticmethod
    def choose(bundle: Bundle, available: Collection[str]) -> str | None:
        brokers = sorted(available)
        return brokers[blake2b(str(bundle).encode()).digest()[0] % len(brokers)] if brokers else None

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        placement = await super().select_broker(bundle)
        assert placement is not None
        return msgspec.structs.replace(placement, broker=self.choose(bundle, self.available_brokers()))


def channel_of(plane: ControlPlane) -> OwnershipChannel:
    """Return the ownership channel of a broker that owns by records."""
    assert isinstance(plane.way, RecordWay)
    return plane.way.channel


class ControlBroker:
    """One broker process as the loop sees it."""

    def __init__(
        self, cluster: "ControlCluster", port: int, factory: Callable[[LoadManagerContext], Any], **settings: Any
    ) -> None:
        self.cluster = cluster
        self.broker_id = f"127.0.0.1:{port}"
        self.node = Node(cluster.loop, self.broker_id)
        self.topics = FakeTopics()
        self.store: MemoryStore = self.node.call(cluster.backend.connect, LoopClock(), round(SESSION_S * 1000))
        self.config = ConfigHolder(
            msgspec.structs.replace(
                BrokerConfig(), metadata_store_session_timeout_millis=round(SESSION_S * 1000), **settings
            )
        )
        env = Environment(self.store, None, LoopClock(), random.Random(port), NoPeers())  # type: ignore[arg-type]
        self.plane: ControlPlane = self.node.call(self._make_plane, env, factory)
        self.urls = ServiceUrls.of_ports("127.0.0.1", port + 1000, port)

    def _make_plane(self, env: Environment, factory: Callable[[LoadManagerContext], Any]) -> ControlPlane:
        parts = control_parts(
            self.config,
            env,
            directory=self.cluster.directory,
            load_manager=factory,
            administration=env.store,
            writing=metadata_writing(self.config.current, env),
        )
        plane = ControlPlane(parts)
        plane.attach(self.topics, dict, self.topics.topic_loads)
        return plane

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` as part of this process."""
        return await self.node.spawn(work, "test")

    async def start(self) -> None:
        async def starting() -> None:
            await self.plane.start()
            self.plane.set_identity(self.urls)
            await self.plane.join()

        await self.run(starting())

    def crash(self) -> None:
        """End as by SIGKILL; the session expires by time."""
        self.node.crash()
        self.cluster.backend.crash(self.store)

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> Any:
        return await self.run(self.plane.lookup.lookup(topic, authoritative=authoritative))

    @property
    def owned(self) -> list[Bundle]:
        """The bundles it serves, without its own heartbeat namespaces."""
        return [bundle for bundle in self.plane.ownership.owned_bundles() if not is_broker_bound(bundle.namespace)]


class ControlCluster:
    """Must be made while the loop runs."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.backend = MemoryBackend()
        self.directory = FakeDirectory()
        self.brokers: dict[str, ControlBroker] = {}
        self.admin = self.backend.connect(LoopClock(), 3_600_000)

    async def create_namespace(self, bundles: int, namespace: NamespaceName = NAMESPACE) -> NamespaceBundles:
        made = NamespaceBundles.equal(namespace, bundles)
        await self.admin.put(f"/admin/policies/{namespace}", boundaries_value(None, made))
        return made

    async def add(self, port: int, factory: Callable[[LoadManagerContext], Any] = HashLoadManager) -> ControlBroker:
        broker = self.make(port, factory)
        await broker.start()
        return broker

    def make(
        self, port: int, factory: Callable[[LoadManagerContext], Any] = HashLoadManager, **settings: Any
    ) -> ControlBroker:
        """Return a broker that is not started yet, configured with `settings`."""
        broker = ControlBroker(self, port, factory, **settings)
        self.brokers[broker.broker_id] = broker
        return broker

    async def pass_by(self, leader: ControlBroker, leader_path: str = LEADER_PATH) -> None:
        """Let a leader that is no broker here take the next epoch, without a notification to this broker."""
        self.backend.route_notifications(leader.store, lambda told: None)
        following = leader.plane.leadership.epoch().number + 1
        record = EpochRecord(following, "passed-by:1")
        await self.admin.put(epoch_path(leader_path), msgspec.json.encode(record))
        assert leader.plane.leadership.is_leader(), "as far as it knows"

    async def follow(self, topic: TopicName, first: ControlBroker) -> Owner:
        """Look `topic` up as a client does: follow redirects, and try again on errors that ask for it."""
        broker, authoritative = first, False
        for _ in range(20):
            answer = await broker.lookup(topic, authoritative=authoritative)
            if isinstance(answer, Owner):
                return answer
            broker, authoritative = self.brokers[answer.broker_id], answer.authoritative
        raise AssertionError(f"{topic}: redirected without end")

    async def boundaries(self, namespace: NamespaceName = NAMESPACE) -> list[str]:
        record = await self.admin.get(local_policies_path(namespace))
        assert record is not None
        return list(msgspec.json.decode(record.value)["bundles"]["boundaries"])

    def servers(self, bundle: Bundle) -> list[str]:
        """The ids of the brokers that serve `bundle`, or a part of it, at this instant."""
        return [
            broker.broker_id
            for broker in self.brokers.values()
            if broker.node.alive
            for owned in broker.owned
            if owned.namespace == bundle.namespace
            and owned.range.lower < bundle.range.upper
            and bundle.range.lower < owned.range.upper
        ]

    def check_one_server(self) -> None:
        """At most one broker serves each hash, now."""
        served = sorted(
            (str(bundle.namespace), bundle.range.lower, bundle.range.upper, broker.broker_id)
            for broker in self.brokers.values()
            if broker.node.alive and not broker.node.paused
            for bundle in broker.owned
        )
        for (ns, _, upper, one), (next_ns, lower, _, other) in pairwise(served):
            assert ns != next_ns or lower >= upper, f"{one} and {other} both serve a part of {ns}"

    async def until(self, condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        deadline = self.loop.time() + within_s
        while not condition():
            assert self.loop.time() < deadline, f"not within {within_s} s: {what}"
            await asyncio.sleep(0.05)


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://{NAMESPACE}/{name}")


def on_virtual_time(scenario: Callable[[ControlCluster], Awaitable[None]]) -> None:
    """Run one scenario on a loop of its own; an error in any callback or task fails it."""
    loop = VirtualTimeLoop()  # type: ignore[abstract]

    async def main() -> None:
        cluster = ControlCluster(loop)
        await scenario(cluster)

    try:
        loop.run_until_complete(main())
        assert not loop.failures, loop.failures
    finally:
        loop.tear_down()
