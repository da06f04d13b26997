"""A running cluster changes its load manager and its shedder by a dynamic key, and serves all the while."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.cluster.dynamic_configuration import CONFIGURATION_PATH, ChangeRefusedError
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reports.load_report import ResourceUsage, SystemResourceUsage
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from support.control_cluster import SESSION_S, ControlBroker, ControlCluster, on_virtual_time, topic
from support.report_log import MemoryReportLog

KEY = "loadManagerClassName"
MODULAR, SIMPLE, NOOP = (kind.class_name for kind in (ManagerKind.MODULAR, ManagerKind.SIMPLE, ManagerKind.NOOP))


class Factory:
    """Makes what the configuration names, on environment without files; `fault` spoils the next start."""

    def __init__(self) -> None:
        self.log = MemoryReportLog()
        self.fault: Exception | None = None
        self.made: list[LoadManager] = []

    def __call__(self, context: LoadManagerContext) -> LoadManager:
        environment = LoadManagerEnvironment.in_memory(context, report_log=self.log)
        manager: LoadManager
        match manager_in_force(context.config.current):
            case ManagerKind.NOOP:
                manager = NoopLoadManager(context)
            case ManagerKind.SIMPLE:
                manager = SimpleLoadManager(context, environment)
            case _:
                manager = ModularLoadManager(context, environment)
        if self.fault is not None:
            manager.start = self._fail  # type: ignore[method-assign]
        self.made.append(manager)
        return manager

    async def _fail(self) -> None:
        assert self.fault is not None
        raise self.fault


async def cluster_of(cluster: ControlCluster, count: int) -> tuple[list[ControlBroker], list[Factory]]:
    await cluster.create_namespace(8)
    factories = [Factory() for _ in range(count)]
    return [await cluster.add(8081 + index, each) for index, each in enumerate(factories)], factories


async def choose(broker: ControlBroker, value: str, key: str = KEY) -> None:
    await broker.run(broker.plane.dynamic_configuration.set(key, value))


def kinds(brokers: list[ControlBroker]) -> set[str]:
    return {type(broker.plane.load_manager).__name__ for broker in brokers}


async def until_all_run(cluster: ControlCluster, brokers: list[ControlBroker], name: str) -> None:
    await cluster.until(lambda: kinds(brokers) == {name}, f"all run {name}", within_s=10)


async def clients_until(
    cluster: ControlCluster, brokers: list[ControlBroker], done: Callable[[], bool], seed: int
) -> int:
    """Look topics up from everywhere until `done`; return how many lookups were answered. A failure fails the test."""
    rng, answered = random.Random(seed), 0
    while not done():
        await cluster.follow(topic(f"t{rng.randrange(64)}"), rng.choice(brokers))
        answered += 1
        cluster.check_one_server()
        await asyncio.sleep(0.01)
    return answered


def test_the_load_manager_is_exchanged_everywhere_while_clients_look_topics_up() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers, factories = await cluster_of(cluster, 3)
        for number in range(64):
            await cluster.follow(topic(f"t{number}"), brokers[number % 3])
        owned = {broker.broker_id: list(broker.owned) for broker in brokers}
        assert sum(map(len, owned.values())) == 8
        ids = {broker.broker_id for broker in brokers}
        gone: list[str] = []
        cluster.admin.add_listener(
            lambda told: gone.append(told.path) if told.type.name == "DELETED" and BROKERS_ROOT in told.path else None
        )
        managers = {SIMPLE: "SimpleLoadManager", NOOP: "NoopLoadManager", MODULAR: "ModularLoadManager"}
        for round_, value in enumerate((SIMPLE, MODULAR, NOOP, SIMPLE, NOOP, MODULAR)):
            name = managers[value]
            await choose(brokers[1], value)
            looked_up = await clients_until(cluster, brokers, lambda name=name: kinds(brokers) == {name}, round_)  # type: ignore[misc]
            assert looked_up > 0
            await asyncio.sleep(10)
            assert {broker.broker_id: list(broker.owned) for broker in brokers} == owned
            reports = [await broker.run(broker.plane.registration.data_of(broker.broker_id)) for broker in brokers]
            assert {report.load_manager_class_name for report in reports if report} == {value}
            assert all(broker.plane.registration.brokers == ids for broker in brokers)
        assert gone == []
        for each in factories:
            sequences = [report.sequence for report in each.log.reports]
            assert sequences == sorted(set(sequences))  # the second manager does not count from 1 again

    on_virtual_time(scenario)


def test_new_bundles_are_assigned_by_the_new_manager_and_a_late_broker_starts_with_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers, _ = await cluster_of(cluster, 2)
        await choose(brokers[0], NOOP)
        await until_all_run(cluster, brokers, "NoopLoadManager")
        late = await cluster.add(8090, Factory())
        assert kinds([late]) == {"NoopLoadManager"}
        answer = await cluster.follow(topic("t0"), late)
        assert answer.broker_id == late.broker_id  # whoever is asked takes it

    on_virtual_time(scenario)


def test_a_manager_that_does_not_start_leaves_the_old_one_serving_under_its_own_name() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers, factories = await cluster_of(cluster, 2)
        await cluster.follow(topic("t0"), brokers[0])
        factories[1].fault = RuntimeError("no such device")
        with capture_logs() as logs:
            await choose(brokers[0], NOOP)
            await until_all_run(cluster, brokers[:1], "NoopLoadManager")
            await asyncio.sleep(60)
        assert kinds(brokers[1:]) == {"ModularLoadManager"}
        told = [entry for entry in logs if entry["event"] == "load_manager_not_exchanged"]
        assert [(entry["value"], entry["still"], entry["reason"]) for entry in told] == [
            (NOOP, ManagerKind.MODULAR, "no such device")
        ]
        report = await brokers[1].run(brokers[1].plane.registration.data_of(brokers[1].broker_id))
        assert report is not None
        assert report.load_manager_class_name == MODULAR
        assert brokers[1].plane.registration.is_registered
        await cluster.follow(topic("t5"), brokers[1])
        assert await brokers[1].run(brokers[1].plane.load_manager.write_report(force=True))
        factories[1].fault = None
        await choose(brokers[0], MODULAR)
        await choose(brokers[0], NOOP)
        await until_all_run(cluster, brokers, "NoopLoadManager")

    on_virtual_time(scenario)


def test_an_exchange_that_the_store_prevented_is_tried_again() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (broker,), (factory,) = await cluster_of(cluster, 1)
        factory.fault = StoreUnavailableError("/loadbalance", "the store did not answer")
        await choose(broker, NOOP)
        await asyncio.sleep(1)
        assert kinds([broker]) == {"ModularLoadManager"}
        factory.fault = None
        await until_all_run(cluster, [broker], "NoopLoadManager")

    on_virtual_time(scenario)


@pytest.mark.parametrize("cut_off_s", [3.0, SESSION_S + 5])
def test_a_broker_cut_off_from_the_store_exchanges_its_manager_when_it_is_back(cut_off_s: float) -> None:
    """For less than a session it keeps what it owns; after more it has lost its key, and takes it again first."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers, _ = await cluster_of(cluster, 3)
        for number in range(24):
            await cluster.follow(topic(f"t{number}"), brokers[0])
        other = next(broker for broker in brokers if not broker.plane.leadership.is_leader())
        owned = list(other.owned)
        assert owned
        cluster.backend.partition(other.store)
        await choose(next(broker for broker in brokers if broker is not other), SIMPLE)
        other.node.call(other.config.apply, {KEY: SIMPLE})  # as if it had heard of it at the last moment
        await asyncio.sleep(cut_off_s)
        cluster.backend.heal(other.store)
        await cluster.until(lambda: kinds(brokers) == {"SimpleLoadManager"}, "all run it", within_s=30)
        await cluster.until(lambda: other.plane.registration.is_registered, "registered", within_s=30)
        for number in range(24):
            await cluster.follow(topic(f"t{number}"), brokers[number % 3])
            cluster.check_one_server()
        report = await other.run(other.plane.registration.data_of(other.broker_id))
        assert report is not None
        assert report.load_manager_class_name == SIMPLE
        if cut_off_s < SESSION_S:
            assert list(other.owned) == owned

    on_virtual_time(scenario)


def test_a_broker_that_leaves_during_an_exchange_leaves_the_list() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (broker,), (factory,) = await cluster_of(cluster, 1)
        started = asyncio.Event()

        class Slow(Factory):
            async def _fail(self) -> None:
                started.set()
                await asyncio.Event().wait()

        broker.plane._switch._factory = slow = Slow()
        slow.fault = RuntimeError()
        await choose(broker, NOOP)
        await broker.run(asyncio.wait_for(started.wait(), 5))
        await broker.run(broker.plane.leave(reason="test"))
        assert not await cluster.admin.exists(f"{BROKERS_ROOT}/{broker.broker_id}")
        await broker.run(broker.plane.close())
        assert factory.made[0] is broker.plane.load_manager

    on_virtual_time(scenario)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (KEY, ManagerKind.EXTENSIBLE.class_name, "restart the brokers one by one"),
        (KEY, "ModularLoadManagerImpk", "did you mean ModularLoadManagerImpl"),
        ("loadBalancerLoadSheddingStrategy", "TransferShedder", "belongs to the extensible load manager"),
    ],
)
def test_a_change_that_brokers_cannot_make_is_refused_with_a_sentence_and_not_stored(
    key: str, value: str, said: str
) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers, _ = await cluster_of(cluster, 1)
        before = brokers[0].config.current
        with pytest.raises(ChangeRefusedError, match=said):
            await choose(brokers[0], value, key)
        assert not await cluster.admin.exists(CONFIGURATION_PATH)
        # one that stands in the store already (an older broker took it) is passed over, and told
        with capture_logs() as logs:
            await cluster.admin.put(CONFIGURATION_PATH, msgspec.json.encode({key: value}))
            late = await cluster.add(8090, Factory())
        assert brokers[0].config.current == before
        assert late.config.current == before
        told = [entry for entry in logs if entry["event"] == "dynamic_configuration_ignored"]
        assert told
        assert all(said in entry["reason"] for entry in told)

    on_virtual_time(scenario)


def test_another_shedder_is_in_force_at_the_next_round_without_a_restart() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers, _ = await cluster_of(cluster, 2)
        key = "loadBalancerLoadSheddingStrategy"
        leader = next(broker for broker in brokers if broker.plane.leadership.is_leader())
        manager: Any = leader.plane.load_manager
        strategies: list[str] = []
        manager.executor.log_round = lambda reason: strategies.append(reason.strategy)
        await asyncio.sleep(61)
        for name in ("UniformLoadShedder", "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder"):
            await choose(brokers[0], name, key)
            await asyncio.sleep(60)
        assert strategies == ["AvgShedder", "UniformLoadShedder", "OverloadShedder"]
        assert leader.plane.load_manager is manager

    on_virtual_time(scenario)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("SimpleLoadManagerImpl", SimpleLoadManager),
        ("", SimpleLoadManager),
        ("NoopLoadManager", NoopLoadManager),
        (MODULAR, ModularLoadManager),
    ],
)
def test_a_load_manager_is_made_by_its_name(name: str, made: type) -> None:
    with capture_logs() as logs:
        assert load_manager_factory(name) is made
    assert logs == []


def test_a_name_that_nobody_knows_is_the_simple_manager_and_the_log_says_so_once() -> None:
    with capture_logs() as logs:
        assert load_manager_factory("com.acme.Balancer") is SimpleLoadManager
    [entry] = logs
    assert (entry["log_level"], entry["key"], entry["value"]) == ("warning", KEY, "com.acme.Balancer")
    assert entry["used_instead"] == SIMPLE
    assert entry["to_silence"].startswith(f"set {KEY}={SIMPLE}")


def test_advice_is_told_once_at_the_start_and_after_a_change_only_what_is_new() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        broker = cluster.make(8081, Factory())
        share, rate = "maxUnloadPercentage", "loadBalancerMsgRateDifferenceShedderThreshold"
        broker.config.current = msgspec.structs.replace(
            broker.config.current,
            load_balancer_load_shedding_strategy="UniformLoadShedder",
            load_balancer_load_placement_strategy="LeastLongTermMessageRate",
            max_unload_percentage=0.0,
        )

        def told() -> list[tuple[str, str, str]]:
            entries = [entry for entry in logs if entry["event"] == "configuration_advice"]
            logs.clear()
            return [(entry["log_level"], entry["key"], entry["value"]) for entry in entries]

        with capture_logs() as logs:
            await broker.start()
            assert told() == [("warning", share, "0")]
            await choose(broker, "0", rate)
            assert told() == []
            await choose(broker, "0.3", share)
            await choose(broker, "0", share)
            assert told() == [("warning", share, "0")]
            await choose(broker, "false", "loadBalancerSheddingEnabled")
            assert told() == [("info", "loadBalancerSheddingEnabled", "false")]

    on_virtual_time(scenario)


def test_a_threshold_beyond_what_the_network_carries_is_told_once_the_broker_knows_its_network() -> None:
    """A gigabit carries 125 MB/s each way; no broker can be 300 MiB/s above the others."""

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        gigabit = SystemResourceUsage(bandwidth_in=ResourceUsage(0, 1e6), bandwidth_out=ResourceUsage(0, 1e6))

        def measured(context: LoadManagerContext) -> LoadManager:
            return ModularLoadManager(context, LoadManagerEnvironment.in_memory(context, meter=FixedUsage(gigabit)))

        for factory, told in ((measured, ["loadBalancerBundleUnloadMinThroughputThreshold"]), (Factory(), [])):
            broker = cluster.make(8081 + len(cluster.brokers), factory)
            broker.config.current = msgspec.structs.replace(
                default_config("4.x"), load_balancer_bundle_unload_min_throughput_threshold=300.0
            )
            with capture_logs() as logs:
                await broker.start()
            assert [entry["key"] for entry in logs if entry["event"] == "configuration_advice"] == told

    on_virtual_time(scenario)
