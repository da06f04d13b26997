"""Brokers over REST: membership, configuration, health, stats, metrics, decisions, shutdown."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.broker import Broker, BrokerState
from pulsar_barycenter.broker.cluster.dynamic_configuration import CONFIGURATION_PATH
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.config.broker_conf import HIDDEN
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.snapshot.document import decode_snapshot
from support.known_roles import ASKED, ROOT, as_role
from support.rest_cluster import RestCluster, rest_cluster

BROKERS = "/admin/v2/brokers"

NAMES = {
    *("barycenter_broker_is_leader", "barycenter_broker_owned_bundles", "barycenter_brokers_active"),
    *("barycenter_damaged_ledgers", "pulsar_broker_consumers_count", "pulsar_broker_in_bytes_total"),
    *("pulsar_broker_in_messages_total", "pulsar_broker_lookup_pending_requests", "pulsar_broker_out_bytes_total"),
    *("pulsar_broker_out_messages_total", "pulsar_broker_producers_count", "pulsar_broker_topics_count"),
    *("pulsar_bundle_topics_count", "pulsar_consumers_count", "pulsar_msg_backlog", "pulsar_producers_count"),
    *("pulsar_rate_in", "pulsar_rate_out", "pulsar_storage_size", "pulsar_subscriptions_count"),
    *("pulsar_throughput_in", "pulsar_throughput_out", "pulsar_topics_count"),
}
"""The broker's own metrics, which dashboards ask for."""

BUNDLE_TRAFFIC = {
    *("pulsar_bundle_msg_rate_in", "pulsar_bundle_msg_rate_out", "pulsar_bundle_msg_throughput_in"),
    *("pulsar_bundle_msg_throughput_out", "pulsar_bundle_producer_count", "pulsar_bundle_consumer_count"),
}


async def test_the_members_and_the_leader_are_the_same_everywhere() -> None:
    async with rest_cluster(3) as cluster:
        ids = sorted(broker.broker_id for broker in cluster.brokers)
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        for broker in cluster.brokers:
            async with asyncio.timeout(30):
                while (await cluster.expect(200, "GET", BROKERS, at=broker)).json != ids:
                    await asyncio.sleep(0.005)
            assert (await cluster.expect(200, "GET", f"{BROKERS}/standalone", at=broker)).json == ids
            assert (await cluster.expect(200, "GET", f"{BROKERS}/leaderBroker", at=broker)).json == {
                "brokerId": leader.broker_id,
                "serviceUrl": leader.urls.web_url,
            }
        await cluster.expect(404, "GET", f"{BROKERS}/elsewhere")
        await cluster.expect(200, "PUT", "/admin/v2/clusters/west", {"serviceUrl": "http://west:8080"})
        answer = await cluster.expect(307, "GET", f"{BROKERS}/west", follow=False)
        assert answer.location.startswith("http://west:8080/admin/v2/brokers/west")


async def test_what_a_broker_owns_is_asked_of_itself() -> None:
    async with rest_cluster(2) as cluster:
        first, second = cluster.brokers
        path = f"{BROKERS}/standalone/{second.broker_id}/ownedNamespaces"
        answer = await cluster.expect(307, "GET", path, at=first, follow=False)
        assert answer.location.startswith(str(second.urls.web_url))
        owned = (await cluster.expect(200, "GET", path, at=first)).json
        assert owned[f"pulsar/{second.broker_id}/0x00000000_0xffffffff"] == {
            "broker_assignment": "shared",
            "is_controlled": False,
            "is_active": True,
        }
        await cluster.expect(404, "GET", f"{BROKERS}/standalone/nobody:1/ownedNamespaces")
        await cluster.expect(404, "GET", f"{BROKERS}/elsewhere/{second.broker_id}/ownedNamespaces")


async def test_configuration_changes_at_run_time_on_every_broker() -> None:
    async with rest_cluster(2) as cluster:
        key = "loadBalancerSheddingExcludedNamespaces"
        await cluster.expect(200, "POST", f"{BROKERS}/configuration/{key}/public%2Fa,public%2Fb")
        for broker in cluster.brokers:
            async with asyncio.timeout(30):
                while not broker.config.current.load_balancer_shedding_excluded_namespaces:
                    await asyncio.sleep(0.005)
            runtime = (await cluster.expect(200, "GET", f"{BROKERS}/configuration/runtime", at=broker)).json
            assert runtime[key] == "public/a,public/b"
        assert (await cluster.expect(200, "GET", f"{BROKERS}/configuration/values")).json == {key: "public/a,public/b"}
        assert key in (await cluster.expect(200, "GET", f"{BROKERS}/configuration")).json
        await cluster.expect(200, "DELETE", f"{BROKERS}/configuration/{key}")
        assert (await cluster.expect(200, "GET", f"{BROKERS}/configuration/values")).json == {}
        assert "non-dynamic" in (await cluster.expect(412, "POST", f"{BROKERS}/configuration/clusterName/x")).reason
        assert "non-dynamic" in (await cluster.expect(412, "DELETE", f"{BROKERS}/configuration/nothing")).reason
        bad = await cluster.expect(412, "POST", f"{BROKERS}/configuration/loadBalancerSheddingIntervalMinutes/0")
        assert bad.reason.startswith(" Invalid dynamic-config value")
        assert "above 0" in bad.reason
        internal = (await cluster.expect(200, "GET", f"{BROKERS}/internal-configuration")).json
        assert internal["metadataStoreUrl"]


async def test_a_secret_that_was_stored_or_sent_by_mistake_is_told_nowhere() -> None:
    key = "brokerClientAuthenticationParameters"
    with capture_logs() as logs:
        async with rest_cluster(**ASKED) as cluster:
            path = f"{BROKERS}/configuration/{key}/token%3Ahush%2Fhush"
            for role, status in ((ROOT, 412), ("mallory", 403), ("", 401)):
                answer = await cluster.expect(status, "POST", path, headers=as_role(role))
                assert "hush" not in answer.reason
            await cluster.store.put(CONFIGURATION_PATH, msgspec.json.encode({key: "token:hush", "maxTenants": "-1"}))
            async with asyncio.timeout(30):
                while not (
                    told := (await cluster.expect(200, "GET", f"{BROKERS}/configuration/values", headers=as_role(ROOT)))
                ).json:
                    await asyncio.sleep(0.005)
            assert told.json == {key: HIDDEN, "maxTenants": "-1"}
    assert "hush" not in str(logs)
    ignored = {each["key"]: each["value"] for each in logs if each["event"] == "dynamic_configuration_ignored"}
    assert ignored == {key: HIDDEN, "maxTenants": "-1"}
    requests = [each["request"] for each in logs if each["event"] == "access_refused"]
    assert requests == [f"POST {BROKERS}/configuration/{key}/{HIDDEN}"]


async def test_a_broker_in_service_is_ready_healthy_and_in_rotation(tmp_path: Path) -> None:
    status_file = tmp_path / "in-rotation"
    async with rest_cluster(2, status_file_path=str(status_file)) as cluster:
        assert (await cluster.expect(200, "GET", f"{BROKERS}/ready")).body == b"ok"
        for version in ("V1", "V2"):
            answer = await cluster.expect(200, "GET", f"{BROKERS}/health", topicVersion=version)
            assert answer.body == b"ok"
        other = cluster.brokers[1].broker_id
        assert (await cluster.expect(200, "GET", f"{BROKERS}/health", brokerId=other)).body == b"ok"
        await cluster.expect(404, "GET", f"{BROKERS}/health", brokerId="nobody:1")
        assert (await cluster.expect(200, "GET", f"{BROKERS}/version")).body
        await cluster.expect(404, "GET", "/status.html")
        status_file.touch()
        assert (await cluster.expect(200, "GET", "/status.html")).body == b"OK"


async def test_a_broker_that_starts_or_stops_says_so() -> None:
    async with rest_cluster() as cluster:
        cluster.brokers[0].state = BrokerState.CLOSING
        await cluster.expect(500, "GET", f"{BROKERS}/ready")
        await cluster.expect(503, "GET", f"{BROKERS}/health")
        await cluster.expect(404, "GET", "/status.html")
        cluster.brokers[0].state = BrokerState.STARTED


async def test_a_full_disk_makes_a_broker_unhealthy() -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(200, "GET", f"{BROKERS}/health")
        cluster.disk.capacity_bytes = cluster.disk.used_bytes
        answer = await cluster.expect(500, "GET", f"{BROKERS}/health")
        assert "Health check" in answer.reason
        cluster.disk.capacity_bytes = None
        await cluster.expect(200, "GET", f"{BROKERS}/health")


async def test_figures_of_the_broker_are_shown() -> None:
    async with rest_cluster(expose_topic_level_metrics_in_prometheus=True) as cluster:
        await cluster.create_namespace()
        stats = "/admin/v2/broker-stats"
        assert "public/ns" not in (await cluster.expect(200, "GET", f"{stats}/topics")).json
        for name in ('quo"te', "t"):
            await cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/{name.replace(chr(34), '%22')}")
            await cluster.expect(204, "PUT", f"/admin/v2/non-persistent/public/ns/{name.replace(chr(34), '%22')}")
        topics = (await cluster.expect(200, "GET", f"{stats}/topics")).json["public/ns"]
        found = [name for domains in topics.values() for members in domains.values() for name in members]
        assert len(found) == 4
        assert {domain for domains in topics.values() for domain in domains} == {"persistent", "non-persistent"}
        report = (await cluster.expect(200, "GET", f"{stats}/load-report")).json
        assert report["webServiceUrl"] == cluster.brokers[0].urls.web_url
        metrics = (await cluster.expect(200, "GET", f"{stats}/metrics")).json
        assert metrics[-1]["metrics"]["brk_topics_count"] == 4
        await cluster.expect(406, "GET", f"{stats}/allocator-stats/other")
        await cluster.expect(409, "GET", f"{stats}/broker-resource-availability/public/ns")


async def test_prometheus_reads_the_metrics() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/quo%22te%5C")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/quo%22te%5C/subscription/s")
        text = (await cluster.expect(200, "GET", "/metrics")).body.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert {name: family.type for name, family in families.items() if not family.documentation} == {}
        assert {family.type for family in families.values()} <= {"gauge", "counter", "histogram", "summary"}
        assert {sample.name for family in families.values() for sample in family.samples} >= NAMES
        topic = next(s for s in families["pulsar_subscriptions_count"].samples if s.labels["namespace"] == "public/ns")
        assert topic.labels["topic"] == 'persistent://public/ns/quo"te\\'
        assert topic.value == 1
        assert families["barycenter_broker_is_leader"].samples[0].value == 1
        assert families["pulsar_topics_count"].samples


EXTENSIBLE = {
    "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
    "load_manager_service_unit_state_table_view_class_name": (
        "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateMetadataStoreTableViewImpl"
    ),
}


@pytest.mark.parametrize(
    ("settings", "are_shown"),
    [
        ({}, False),
        ({"expose_bundles_metrics_in_prometheus": True}, True),
        ({"expose_bundles_metrics_in_prometheus": True, "barycenter_pulsar_compatibility": "4.x"}, True),
        ({"expose_bundles_metrics_in_prometheus": True, **EXTENSIBLE}, True),
        ({"expose_bundles_metrics_in_prometheus": True, "barycenter_pulsar_compatibility": "4.x", **EXTENSIBLE}, False),
    ],
)
async def test_the_traffic_of_bundles_is_shown_where_pulsar_shows_it(settings: dict[str, Any], are_shown: bool) -> None:
    async with rest_cluster(**settings) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/a")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/a/subscription/s")
        text = (await cluster.expect(200, "GET", "/metrics")).body.decode()
        shown = {name for name in BUNDLE_TRAFFIC if f'\n{name}{{broker="' in text}
        assert shown == (BUNDLE_TRAFFIC if are_shown else set())


class _WithDecisions:
    """A load manager's log added to the broker's own load manager."""

    def __init__(self, cluster: RestCluster) -> None:
        self.log = DecisionLog("me")
        manager = cluster.brokers[0].load_manager
        manager.decisions = self.log  # type: ignore[attr-defined]


async def test_decisions_are_shown_oldest_first_and_by_bundle() -> None:
    async with rest_cluster() as cluster:
        path = "/barycenter/v1/decisions"
        assert (await cluster.expect(200, "GET", path)).json == []
        decisions = _WithDecisions(cluster).log
        bundles = ["public/ns/0x00000000_0x80000000", "public/ns/0x80000000_0xffffffff"]
        for index in range(6):
            decisions.record(
                index, "assign", Reason(code=next(iter(Code))), bundle=bundles[index % 2], destination="b:1"
            )
        shown = (await cluster.expect(200, "GET", path)).json
        assert [decision["at"] for decision in shown] == list(range(6))
        shown = (await cluster.expect(200, "GET", path, limit=2, bundle=bundles[1])).json
        assert [decision["at"] for decision in shown] == [3, 5]
        assert all(decision["sentence"] for decision in shown)
        assert (await cluster.expect(200, "GET", path, limit=0)).json == []
        shown = (await cluster.expect(200, "GET", path, since=4)).json
        assert [decision["at"] for decision in shown] == [4, 5]
        assert (await cluster.expect(200, "GET", path, namespace="public/other")).json == []
        assert len((await cluster.expect(200, "GET", path, namespace="public/ns")).json) == 6
        assert (await cluster.expect(200, "GET", path, broker="b:2")).json == []
        decisions.record(9, "shed", Reason(code=Code.BALANCED))
        shown = (await cluster.expect(200, "GET", path, broker="b:1")).json
        assert [decision["at"] for decision in shown] == [0, 1, 2, 3, 4, 5, 9]
        await cluster.expect(400, "GET", path, limit="many")
        await cluster.expect(400, "GET", path, since="yesterday")
        await cluster.expect(412, "GET", path, bundle="nonsense")
        await cluster.expect(412, "GET", path, namespace="nonsense")


@pytest.mark.parametrize("folders", ["one", "each"])
async def test_decisions_outlive_their_broker_and_any_other_tells_them(tmp_path: Path, folders: str) -> None:
    """The leader is gone: every broker that reads its log answers, in a shared folder or, once it is back, in its
    own."""
    cluster = RestCluster()
    path = "/barycenter/v1/decision-log"

    async def add(number: int) -> Broker:
        folder = tmp_path / ("" if folders == "one" else str(number))
        return await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            broker_shutdown_timeout_ms=0,
            barycenter_data_dir=str(folder),
        )

    try:
        leader, other = await add(0), await add(1)
        await cluster.create_namespace(bundles=2)
        for number in range(6):
            await cluster.owner(f"persistent/public/ns/t{number}")
        before = (await cluster.expect(200, "GET", path, at=other)).json
        decided = [each for each in before["decisions"] if each["by"] == leader.broker_id and each["kind"] == "assign"]
        assert len(decided) == 2
        assert before["silent"] == []
        await leader.stop()
        cluster.brokers.remove(leader)
        if folders == "each":
            await add(0)
        page = (await cluster.expect(200, "GET", path, at=other, bundle=decided[0]["bundle"])).json
        assert decided[0] in page["decisions"]
        assert page["knownSince"] <= decided[0]["at"] <= page["knownUntil"]

        newest = (await cluster.expect(200, "GET", path, at=other, limit=1)).json
        older = (await cluster.expect(200, "GET", path, at=other, limit=1, before=newest["next"])).json
        assert older["decisions"] != newest["decisions"]
        until = (await cluster.expect(200, "GET", path, at=other, until=decided[0]["at"])).json["decisions"]
        assert decided[0] in until
        assert all(each["at"] <= decided[0]["at"] for each in until)
        whole = "public/ns/0x00000000_0x40000000"
        covering = (await cluster.expect(200, "GET", path, at=other, covering=whole)).json["decisions"]
        assert {each["bundle"] for each in covering} == {"public/ns/0x00000000_0x80000000"}
        topic = (await cluster.expect(200, "GET", path, at=other, topic="persistent://public/ns/t1")).json
        assert {each["bundle"] for each in topic["decisions"]} <= {each["bundle"] for each in decided}
        assert topic["decisions"]
        await cluster.expect(400, "GET", path, before="yesterday")
        await cluster.expect(400, "GET", path, of="nobody")
        await cluster.expect(400, "GET", path, covering=whole, topic="persistent://public/ns/t1")
        await cluster.expect(412, "GET", path, topic="a/b")
    finally:
        await cluster.close()


async def test_a_load_manager_without_snapshot_says_so() -> None:
    async with rest_cluster() as cluster:
        answer = await cluster.expect(412, "GET", "/barycenter/v1/snapshot")
        assert "has no snapshot" in answer.reason


async def test_a_shutdown_is_begun_and_carried_out() -> None:
    async with rest_cluster(2, broker_shutdown_timeout_ms=10_000) as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner("persistent/public/ns/t")
        rest = next(broker for broker in cluster.brokers if broker is not owner)
        await cluster.expect(400, "POST", f"{BROKERS}/shutdown", at=owner, maxConcurrentUnloadPerSec="-1")
        await cluster.expect(204, "POST", f"{BROKERS}/shutdown", at=owner, maxConcurrentUnloadPerSec="100")
        await owner.stop()
        assert owner.state is BrokerState.CLOSED
        assert await cluster.owner("persistent/public/ns/t", at=rest) is rest


async def test_the_modular_load_managers_decisions_and_metrics_are_shown(tmp_path: Path) -> None:
    """With the default load manager an assignment has a reason, and its gauges are next to the broker's own."""
    cluster = RestCluster()
    try:
        leader = await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            broker_shutdown_timeout_ms=0,
            barycenter_data_dir=str(tmp_path),
        )
        await cluster.create_namespace(bundles=1)
        await cluster.owner("persistent/public/ns/t")
        bundle = "public/ns/0x00000000_0xffffffff"
        shown = (await cluster.expect(200, "GET", "/barycenter/v1/decisions", bundle=bundle)).json
        assert [(decision["kind"], decision["destination"]) for decision in shown] == [("assign", leader.broker_id)]
        assert shown[0]["sentence"]
        metrics = (await cluster.expect(200, "GET", "/metrics")).body
        assert b"pulsar_lb_cpu_usage{" in metrics
        assert b"barycenter_pipeline_in_use{" in metrics
    finally:
        await cluster.close()


async def test_the_leaders_snapshot_is_shown_by_any_broker(tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(
                load_manager_factory("ModularLoadManagerImpl"),
                broker_shutdown_timeout_ms=0,
                barycenter_data_dir=str(tmp_path),
                load_balancer_broker_threshold_shedder_percentage=7,
            )
        leader, other = cluster.brokers
        if not leader.leadership.is_leader():
            leader, other = other, leader
        redirect = await cluster.expect(307, "GET", "/barycenter/v1/snapshot", at=other, follow=False)
        assert redirect.location.startswith(f"{leader.urls.web_url}/barycenter/v1/snapshot")
        async with asyncio.timeout(30):
            while True:
                answer = await cluster.expect(200, "GET", "/barycenter/v1/snapshot", at=other)
                document = decode_snapshot(answer.body)
                if len(document.brokers) == 2:
                    break
        assert set(document.brokers) == {leader.broker_id, other.broker_id}
        assert document.configuration == {
            "barycenterPulsarCompatibility": "5.x",
            "loadBalancerBrokerThresholdShedderPercentage": "7",
        }
        assert document.taken_at > 0
        assert len(document.snapshot().brokers) == 2
    finally:
        await cluster.close()
