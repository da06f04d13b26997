"""The parts of a control plane: an ownership way for each kind of load manager, and a way of writing metadata."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.leader_writes import LeaderWrites
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.broker.cluster.metadata_writing import EachBrokerWrites, NotWrittenByLeaderError
from pulsar_barycenter.broker.control.lock_way import LockWay
from pulsar_barycenter.broker.control.ownership_way import Departure
from pulsar_barycenter.broker.control.parts import metadata_writing
from pulsar_barycenter.broker.control.record_way import RecordWay
from pulsar_barycenter.load.managers import ManagerKind
from support.control_cluster import ControlBroker, ControlCluster, NoPeers, on_virtual_time

WAYS = {
    ManagerKind.NOOP: (LockWay, LEADER_PATH),
    ManagerKind.MODULAR: (LockWay, LEADER_PATH),
    ManagerKind.SIMPLE: (LockWay, LEADER_PATH),
    ManagerKind.EXTENSIBLE: (RecordWay, CHANNEL_LEADER_PATH),
}


class Sender(NoPeers):
    async def write_by_leader(self, web_url: str, secret: str, request: bytes) -> bytes:
        raise ConnectionRefusedError(111, web_url)


class Steps:
    """What a way has done, in its order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def step(self, name: str) -> Callable[[], Awaitable[None]]:
        async def done() -> None:
            self.done.append(name)

        return done

    async def hand_over(self) -> int:
        self.done.append("hand over")
        return 3

    def departure(self) -> Departure:
        return Departure(self.hand_over, self.step("unregister"), self.step("resign"))


def made(cluster: ControlCluster, kind: ManagerKind, **settings: Any) -> ControlBroker:
    table = "ServiceUnitStateMetadataStoreTableViewImpl"
    return cluster.make(
        8081,
        load_manager_class_name=kind.class_name,
        load_manager_service_unit_state_table_view_class_name=table,
        **settings,
    )


def test_each_kind_of_load_manager_has_its_way() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        assert set(WAYS) == set(ManagerKind)
        for kind, (way, leader_path) in WAYS.items():
            plane = made(cluster, kind).plane
            assert type(plane.way) is way
            assert plane.leadership.path == leader_path
            assert plane.way.hands_over is (kind is ManagerKind.EXTENSIBLE)

    on_virtual_time(scenario)


@pytest.mark.parametrize(
    ("kind", "joining", "leaving"),
    [
        (ManagerKind.MODULAR, ["own namespaces", "register"], ["unregister", "resign", "hand over"]),
        (ManagerKind.EXTENSIBLE, ["register", "own namespaces"], ["hand over", "resign", "unregister"]),
    ],
)
def test_the_order_of_joining_and_leaving(kind: ManagerKind, joining: list[str], leaving: list[str]) -> None:
    """One that owns by records is known from before it owns the first bundle until it has given the last one up."""

    async def scenario(cluster: ControlCluster) -> None:
        broker = made(cluster, kind)
        steps = Steps()
        await broker.run(broker.plane.way.join(steps.step("register"), steps.step("own namespaces")))
        assert steps.done == joining
        await broker.start()
        steps = Steps()
        assert await broker.run(broker.plane.way.leave(steps.departure())) == 3
        assert steps.done == leaving

    on_virtual_time(scenario)


def test_only_brokers_that_own_by_records_have_metrics_of_them() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        assert not list(made(cluster, ManagerKind.MODULAR).plane.way.samples())
        samples = list(made(cluster, ManagerKind.EXTENSIBLE).plane.way.samples())
        assert ("pulsar_sunit_state_chn_owned_su_total", {"metric": "sunitStateChn"}, 0) in samples

    on_virtual_time(scenario)


def test_the_setting_says_who_writes() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        broker = made(cluster, ManagerKind.MODULAR)
        assert isinstance(broker.plane.writing, EachBrokerWrites)
        assert broker.plane.writing.store is broker.plane.env.store
        assert not broker.plane.writing.knows("")
        with pytest.raises(NotWrittenByLeaderError):
            await broker.plane.writing.answer_to(b"{}")
        config = msgspec.structs.replace(broker.config.current, leader_only_metadata_writes="true")
        env = replace(broker.plane.env, peers=Sender())
        writing = metadata_writing(config, env)
        assert isinstance(writing, LeaderWrites)
        assert writing.store is not env.store

    on_virtual_time(scenario)
