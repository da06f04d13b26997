"""A whole broker, with topics and listener, on virtual time: start, stop, and what they refuse."""

import asyncio
import random

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.broker import Broker, BrokerState, WebPortInUseError
from pulsar_barycenter.broker.cluster.lookup_answers import LookupNotReadyError
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.broker.start_errors import BrokerIdInUseError
from pulsar_barycenter.broker.wire.server import PortInUseError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.topic import TopicName
from support.control_cluster import NoPeers, channel_of
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.simulation.loop import Node, VirtualTimeLoop
from support.simulation.network import Network
from support.virtual_time import LoopClock

TOPIC = TopicName.parse("persistent://public/default/t")


class World:
    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.network = Network(loop, random.Random(1))
        self.backend = MemoryBackend()
        self.disk = MemoryDisk()
        self.admin = self.backend.connect(LoopClock(), 3_600_000)

    def broker(self, name: str, *, port: int = 6650, web_port: int = 8080, **options) -> tuple[Broker, Node]:
        node = Node(self.loop, name)
        settings = {"advertised_address": name, "bind_address": name, **options.pop("config", {})}
        config = msgspec.structs.replace(
            BrokerConfig(), broker_service_port=port, web_service_port=web_port, **settings
        )

        def make() -> Broker:
            store = self.backend.connect(LoopClock(), 10_000)
            ledgers = MemoryLedgerStorage(self.disk)
            env = Environment(store, ledgers, LoopClock(), random.Random(name), NoPeers())
            return Broker(config, env, **{"load_manager": NoopLoadManager, **options})

        return node.call(make), node

    async def started(self, name: str, **options) -> tuple[Broker, Node]:
        broker, node = self.broker(name, **options)
        await node.spawn(broker.start(), "start")
        return broker, node


def on_virtual_time(scenario):
    loop = VirtualTimeLoop()

    async def main():
        await scenario(World(loop))

    try:
        loop.run_until_complete(main())
        assert not loop.failures, loop.failures
    finally:
        loop.tear_down()


def extensible_in_memory(context: LoadManagerContext) -> ExtensibleLoadManager:
    return ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context))


class FakeWeb:
    def __init__(self, port: int) -> None:
        self.port = port
        self.tls_port = None
        self.closed = False

    async def close(self) -> None:
        self.closed = True


def test_a_started_broker_serves_topics_and_a_stopped_one_leaves_nothing_behind():
    async def scenario(world):
        broker, node = await world.started("a")
        assert broker.ready
        assert broker.broker_id == "a:8080"
        assert broker.urls.broker_url == "pulsar://a:6650"
        owner = await node.spawn(broker.lookup.lookup(TOPIC), "lookup")
        assert owner.is_local
        topic = await node.spawn(broker.registry.get_or_create(TOPIC), "load")
        assert topic.owned is broker.ownership.served(TOPIC)
        await asyncio.gather(*(node.spawn(broker.stop(), "stop") for _ in range(3)))
        assert broker.state is BrokerState.CLOSED
        assert not broker.registry.loaded()
        assert await world.admin.children("/namespace/public/default") == []
        assert await world.admin.children(BROKERS_ROOT) == []
        assert await world.admin.get("/loadbalance/leader") is None
        with pytest.raises(LookupNotReadyError):
            await node.spawn(broker.lookup.lookup(TOPIC), "lookup")

    on_virtual_time(scenario)


def test_a_new_cluster_has_its_first_records_and_what_is_deleted_later_stays_away():
    async def scenario(world):
        broker, node = await world.started("a")
        for path in ("clusters/standalone", "policies/public", "policies/public/default", "policies/pulsar/system"):
            assert await world.admin.exists(f"/admin/{path}")
        await node.spawn(broker.stop(), "stop")
        await world.admin.delete("/admin/policies/public/default")
        await world.started("b")
        assert not await world.admin.exists("/admin/policies/public/default")

    on_virtual_time(scenario)


def test_the_id_comes_from_the_port_that_the_web_server_really_has():
    async def scenario(world):
        web = FakeWeb(12345)

        async def start_web(broker, host, port, tls):
            assert (host, port) == ("a", 0)
            assert not broker.ready
            return web

        broker, node = await world.started("a", port=0, web_port=0, web=start_web)
        assert broker.broker_id == "a:12345"
        assert broker.urls.web_url == "http://a:12345"
        assert broker.urls.broker_url != "pulsar://a:0"
        await node.spawn(broker.stop(), "stop")
        assert web.closed

    on_virtual_time(scenario)


def test_a_port_in_use_is_named_with_the_key_that_mends_it():
    async def scenario(world):
        await world.started("a")
        second, node = world.broker("a", web_port=8081)
        with pytest.raises(PortInUseError, match=r"a:6650 is in use.*brokerServicePort"):
            await node.spawn(second.start(), "start")
        assert second.state is BrokerState.CLOSED

        async def web_in_use(broker, host, port, tls):
            raise OSError(98, "address already in use")

        third, node = world.broker("a", port=6651, web=web_in_use)
        with pytest.raises(WebPortInUseError, match=r"a:8080 is in use.*webServicePort"):
            await node.spawn(third.start(), "start")
        fourth, _ = await world.started("a", port=6651, web_port=8081)  # the third gave its port back
        assert fourth.ready

    on_virtual_time(scenario)


def test_a_second_broker_of_the_same_id_is_refused_and_gives_its_port_back():
    async def scenario(world):
        first, _ = await world.started("a")
        second, node = world.broker("a", port=6651)
        with pytest.raises(BrokerIdInUseError, match="a:8080"):
            await node.spawn(second.start(), "start")
        assert first.ready
        assert await world.admin.children(BROKERS_ROOT) == ["a:8080"]
        assert (await world.started("a", port=6651, web_port=8081))[0].ready

    on_virtual_time(scenario)


def test_a_stop_that_exceeds_its_budget_closes_all_the_same():
    async def scenario(world):
        broker, node = await world.started("a", config={"broker_shutdown_timeout_ms": 3000})
        await node.spawn(broker.lookup.lookup(TOPIC), "lookup")

        async def never(bundle, *, reason):
            await asyncio.sleep(3600)

        broker.registry.close_bundle = never
        began = world.loop.time()
        await node.spawn(broker.stop(), "stop")
        assert world.loop.time() - began < 10
        assert broker.state is BrokerState.CLOSED
        assert await world.admin.children("/namespace/public/default") == []

    on_virtual_time(scenario)


def test_a_lost_session_ends_the_process_only_if_the_policy_says_so():
    async def scenario(world):
        reasons = []
        config = {"zookeeper_session_expired_policy": "shutdown"}
        fatal, _ = await world.started("a", config=config, on_fatal=reasons.append)
        patient, _ = await world.started("b", on_fatal=lambda reason: reasons.append("not asked for"))
        world.backend.expire_session(fatal.env.store)
        world.backend.expire_session(patient.env.store)
        await asyncio.sleep(20)
        assert reasons == ["the metadata session was lost, and zookeeperSessionExpiredPolicy is shutdown"]
        assert patient.ready
        assert await world.admin.exists(f"{BROKERS_ROOT}/b:8080")

    on_virtual_time(scenario)


def test_a_topic_survives_a_split_of_its_bundle_and_a_lost_session():
    async def scenario(world):
        broker, node = await world.started("a")
        await node.spawn(broker.lookup.lookup(TOPIC), "lookup")
        topic = await node.spawn(broker.registry.get_or_create(TOPIC), "load")
        parent = topic.owned
        await node.spawn(broker.namespaces.split_bundle(parent.bundle, algorithm="range_equally_divide"), "split")
        assert broker.registry.get_loaded(TOPIC) is topic
        assert topic.owned is broker.ownership.served(TOPIC)
        assert topic.owned.epoch > parent.epoch
        child = topic.owned
        world.backend.expire_session(broker.env.store)
        await asyncio.sleep(20)
        again = await node.spawn(broker.registry.get_or_create(TOPIC), "load")
        assert again is not topic
        assert again.owned.epoch > child.epoch
        assert not child.may_acknowledge

    on_virtual_time(scenario)


def test_a_hot_bundle_is_cut_between_its_topics_by_what_they_carried():
    """Four topics of 20 000 messages in the last second, two of which fit into a bundle: cut once, all left open."""

    async def scenario(world):
        config = {"load_balancer_namespace_bundle_max_msg_rate": 40_000, "default_number_of_namespace_bundles": 1}
        broker, node = await world.started("a", config=config)
        names = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(5)]
        await node.spawn(broker.lookup.lookup(names[0]), "lookup")
        topics = [await node.spawn(broker.registry.get_or_create(name), "load") for name in names]
        parent, now = topics[0].owned, broker.env.clock.now_ms()
        broker.registry.update_rates(now + 1000)
        for topic in topics[:4]:
            topic.in_rates.messages += 5_000
            topic.out_rates.messages += 15_000
        broker.registry.update_rates(now + 2000)
        split = broker.namespaces.split_bundle(parent.bundle, algorithm="flow_or_qps_equally_divide")
        children = await node.spawn(split, "split")
        assert len(children) == 2
        busy = [topic.owned.bundle for topic in sorted(topics[:4], key=lambda topic: topic.name.hash32)]
        assert busy == [children[0], children[0], children[1], children[1]]
        assert all(broker.registry.get_loaded(topic.name) is topic for topic in topics)
        again = broker.namespaces.split_bundle(children[0], algorithm="flow_or_qps_equally_divide")
        assert await node.spawn(again, "split") == [], "no more than the limit"

    on_virtual_time(scenario)


def test_brokers_that_stop_together_hand_over_while_their_leader_serves_the_channel():
    async def scenario(world):
        config = {
            "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
            "default_number_of_namespace_bundles": 32,
        }
        started = [await world.started(name, config=config, load_manager=extensible_in_memory) for name in "abc"]
        brokers = [broker for broker, _ in started]
        (leader,) = [broker for broker in brokers if broker.control.leadership.is_leader()]
        ownership = channel_of(leader.control).ownership
        asker, node = started[0]
        for number in range(100):
            name = TopicName.parse(f"persistent://public/default/t{number}")
            await node.spawn(asker.lookup.lookup(name), "lookup")
        assert ownership.concerned() == {broker.broker_id for broker in brokers}
        with capture_logs() as logs:
            await asyncio.gather(*(node.spawn(broker.stop(), "stop") for broker, node in started))
        assert ownership.concerned() == set(), "the leader has read that everything was handed over"
        events = [each["event"] for each in logs]
        assert events.count("broker_left") == len(brokers)
        assert "bundle_not_handed_over" not in events
        assert not [each for each in logs if each["event"] == "leadership_changed" and each["leads"]]

    on_virtual_time(scenario)


def test_statistics_are_computed_at_the_configured_frequency():
    async def scenario(world):
        broker, _ = await world.started("a", config={"stats_update_frequency_in_secs": 10})
        times = []
        broker.registry.update_rates = times.append
        await asyncio.sleep(35)
        assert len(times) == 3

    on_virtual_time(scenario)
