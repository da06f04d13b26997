"""Moves that operators request are among the decisions, with principal, reason and request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.broker.rest.audit import WHY
from pulsar_barycenter.cluster_logs.decision_log import ANONYMOUS, DecisionRecord, read_decisions
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.naming.bundle import Bundle
from support.proofs import asking, token
from support.rest_cluster import RestCluster

NAMESPACES = "/admin/v2/namespaces"
TOPIC = "persistent/public/ns/t"
BUNDLE = "public/ns/0x00000000_0xffffffff"
DRAINED = "/admin/v2/brokers/configuration/barycenterDrainedBrokers"
MANAGERS = ("ModularLoadManagerImpl", "ExtensibleLoadManagerImpl", "SimpleLoadManagerImpl")


@asynccontextmanager
async def managed_cluster(manager: str = MANAGERS[0], brokers: int = 2, **settings: Any) -> AsyncIterator[RestCluster]:
    cluster = RestCluster()
    try:
        for _ in range(brokers):
            own = {"load_manager_class_name": manager, "broker_shutdown_timeout_ms": 0}
            await cluster.add(configured_load_manager, **{**own, **settings})
        yield cluster
    finally:
        await cluster.close()


def asked_for(cluster: RestCluster) -> list[DecisionRecord]:
    """Return what people asked for, by the logs of all brokers."""
    folder = Path(cluster.brokers[0].config.current.barycenter_data_dir)
    return [each for each in read_decisions(folder) if each.principal]


def others(cluster: RestCluster, owner: Broker) -> list[Broker]:
    return [broker for broker in cluster.brokers if broker is not owner]


@pytest.mark.parametrize("manager", MANAGERS)
async def test_a_bundle_sent_to_a_broker_is_a_decision_with_both_ends_whichever_broker_is_asked(manager: str) -> None:
    async with managed_cluster(manager) as cluster:
        await cluster.create_namespace(bundles=1)
        for asked in cluster.brokers:
            owner = await cluster.owner(TOPIC)
            target = others(cluster, owner)[0]
            await cluster.expect(
                204,
                "PUT",
                f"{NAMESPACES}/{BUNDLE}/unload",
                at=asked,
                destinationBroker=target.broker_id,
                headers={WHY: "before the sale"},
            )
            assert await cluster.owner(TOPIC) is target
            last = asked_for(cluster)[-1]
            assert (last.kind, last.bundle) == ("unload", BUNDLE)
            assert (last.source, last.destination) == (owner.broker_id, target.broker_id)
            assert (last.principal, last.reason.code) == (ANONYMOUS, Code.ADMIN)
            assert f"{ANONYMOUS}, before the sale" in last.sentence
            assert last.request.startswith(f"PUT {NAMESPACES}/{BUNDLE}/unload?")
            assert last.request_id
        assert len(asked_for(cluster)) == 2


async def test_unloads_without_a_destination_and_of_whole_namespaces_and_splits_are_decisions() -> None:
    async with managed_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner(TOPIC)
        await cluster.expect(204, "PUT", f"{NAMESPACES}/{BUNDLE}/unload", at=others(cluster, owner)[0])
        owner = await cluster.owner(TOPIC)
        asked = others(cluster, owner)[0]
        await cluster.expect(204, "PUT", f"{NAMESPACES}/public/ns/unload", at=asked, headers={WHY: "all of it"})
        owner = await cluster.owner(TOPIC)
        await cluster.expect(204, "PUT", f"{NAMESPACES}/{BUNDLE}/split", at=others(cluster, owner)[0])
        found = asked_for(cluster)
        assert [(each.kind, each.bundle) for each in found] == [
            ("unload", BUNDLE),
            ("unload", BUNDLE),
            ("split", BUNDLE),
        ]
        assert (found[1].by, found[1].request) == (asked.broker_id, f"PUT {NAMESPACES}/public/ns/unload")
        assert "all of it" in found[1].sentence
        assert found[2].source == owner.broker_id


async def test_a_destination_of_a_bundle_that_nobody_owns_is_a_decision_to_assign() -> None:
    async with managed_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        target = cluster.brokers[1]
        await cluster.expect(
            204, "PUT", f"{NAMESPACES}/{BUNDLE}/unload", destinationBroker=target.broker_id, headers={WHY: "first"}
        )
        (found,) = asked_for(cluster)
        assert (found.kind, found.bundle, found.destination) == ("assign", BUNDLE, target.broker_id)


@pytest.mark.parametrize("manager", MANAGERS[:2])
async def test_what_a_load_manager_commands_is_kept_by_it_alone(manager: str) -> None:
    async with managed_cluster(manager) as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner(TOPIC)
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        epoch = leader.leadership.epoch().number if manager == MANAGERS[0] else None
        peers = HttpPeers()
        bundle = Bundle.parse(BUNDLE)
        target = others(cluster, owner)[0]
        await peers.unload_bundle(str(owner.urls.web_url), bundle, destination=target.broker_id, epoch=epoch)
        assert await cluster.owner(TOPIC) is target
        await peers.split_bundle(
            str(target.urls.web_url), bundle, algorithm="range_equally_divide", unload=False, epoch=None
        )
        await peers.close()
        assert asked_for(cluster) == []


async def test_drains_and_their_ends_are_decisions_about_the_broker() -> None:
    async with managed_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        broker = cluster.brokers[1].broker_id
        await cluster.expect(200, "POST", f"{DRAINED}/{broker}", headers={WHY: "a new disk"})
        await cluster.expect(200, "POST", f"{DRAINED}/{broker}")
        await cluster.expect(200, "POST", f"{DRAINED}/%20")
        found = asked_for(cluster)
        assert [(each.kind, each.source) for each in found] == [("drain", broker), ("undrain", broker)]
        assert "a new disk" in found[0].sentence


async def test_what_an_isolation_policy_unloads_says_which_policy_and_who_set_it() -> None:
    async with managed_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner(TOPIC)
        limits = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "100"}}
        policy = {"namespaces": ["public/ns"], "primary": ["b1"], "secondary": [], "auto_failover_policy": limits}
        path = "/admin/v2/clusters/standalone/namespaceIsolationPolicies/here"
        await cluster.expect(204, "POST", path, policy, headers={WHY: "apart from others"})
        (found,) = asked_for(cluster)
        assert (found.kind, found.bundle, found.source) == ("unload", BUNDLE, owner.broker_id)
        assert f"isolation policy here was set by {ANONYMOUS}: apart from others" in found.sentence


async def test_who_asks_is_the_principal_where_authentication_is_on() -> None:
    async with managed_cluster(brokers=1, **asking()) as cluster:
        cluster.authorize(token("alice"))
        await cluster.create_namespace(bundles=1)
        await cluster.owner(TOPIC)
        await cluster.expect(204, "PUT", f"{NAMESPACES}/{BUNDLE}/unload")
        (found,) = asked_for(cluster)
        assert (found.principal, found.decided_by) == ("alice", "alice")
