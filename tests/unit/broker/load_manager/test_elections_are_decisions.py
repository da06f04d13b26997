"""The start of a leader's term, and the end of the previous one, are among the decisions."""

import asyncio
from pathlib import Path

import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord, read_decisions
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.questions.past_state import Subject, state_at
from support.rest_cluster import RestCluster

KINDS = [ManagerKind.MODULAR, ManagerKind.SIMPLE, ManagerKind.EXTENSIBLE]


def elections(data: Path) -> list[DecisionRecord]:
    return [each for each in read_decisions(data) if each.kind == "elect"]


async def until_told(data: Path, number: int) -> DecisionRecord:
    async with asyncio.timeout(30):
        while len(found := elections(data)) < number:
            await asyncio.sleep(0.005)
    return found[-1]


def leader_of(brokers: list[Broker]) -> Broker:
    return next(broker for broker in brokers if broker.leadership.is_leader())


@pytest.mark.parametrize("kind", KINDS)
async def test_each_term_is_told_with_who_led_before_and_why_that_is_over(kind: ManagerKind, tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        in_store = "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateMetadataStoreTableViewImpl"
        for _ in range(3):
            await cluster.add(
                configured_load_manager,
                broker_shutdown_timeout_ms=0,
                barycenter_data_dir=str(tmp_path),
                load_manager_class_name=kind.class_name,
                load_manager_service_unit_state_table_view_class_name=in_store,
            )
        first = leader_of(cluster.brokers)
        (told,) = elections(tmp_path)
        assert (told.by, told.source, told.destination, told.epoch) == (first.broker_id, "", first.broker_id, 1)
        assert (told.reason.code, told.manager) == (Code.FIRST_LEADER, kind)

        cluster.brokers.remove(first)
        await first.stop()
        told = await until_told(tmp_path, 2)
        second = leader_of(cluster.brokers)
        assert (told.source, told.destination, told.epoch) == (first.broker_id, second.broker_id, 2)
        assert (told.reason.code, told.sentence) == (
            Code.LEADER_RELEASED,
            f"{second.broker_id}: it became leader because the previous leader stopped and gave up the role: "
            "leader epoch 2",
        )
        shown = state_at(Subject.of(second.broker_id), told.at, read_decisions(tmp_path))
        assert told in shown.recent
        path = "/barycenter/v1/decision-log"
        page = (await cluster.expect(200, "GET", path, at=second, kind="elect")).json["decisions"]
        assert [each["epoch"] for each in page] == [1, 2]

        cluster.backend.expire_session(second.env.store)
        told = await until_told(tmp_path, 3)
        again = told.destination == second.broker_id
        assert told.reason.code == (Code.LEADS_AGAIN if again else Code.LEADER_GONE)
        assert (told.source, told.epoch) == (second.broker_id, 3)
    finally:
        await cluster.close()
