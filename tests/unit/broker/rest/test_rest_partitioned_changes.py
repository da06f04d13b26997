"""Changes of partitioned topics that the owner of one partition refuses, or does not carry out."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.partition_changes import coordinator
from pulsar_barycenter.broker.partition_changes.change_records import CHANGES_ROOT
from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest, Step
from pulsar_barycenter.broker.partition_changes.plan import PartAnswer
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_deletion import DELETIONS_ROOT
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.ledger.errors import LedgerUnavailableError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

P = "/admin/v2/persistent/public/ns"
FULL = "persistent://public/ns"
PARTITIONS = 4


async def partitioned(cluster: RestCluster, name: str = "x", subscriptions: Iterable[str] = ("billing",)) -> None:
    await cluster.create_namespace()
    await cluster.expect(204, "PUT", f"{P}/{name}/partitions", PARTITIONS)
    for subscription in subscriptions:
        await cluster.expect(204, "PUT", f"{P}/{name}/subscription/{subscription}", "earliest")


async def connect_to(cluster: RestCluster, topic: str) -> WireClient:
    owner: Broker = await cluster.owner(f"persistent/public/ns/{topic}")
    return await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))


async def subscriptions_of_each(cluster: RestCluster, name: str = "x", count: int = PARTITIONS) -> list[list[str]]:
    return [
        (await cluster.expect(200, "GET", f"{P}/{name}-partition-{index}/subscriptions")).json for index in range(count)
    ]


async def topics(cluster: RestCluster) -> list[str]:
    found: list[str] = (await cluster.expect(200, "GET", P)).json
    return found


@pytest.mark.parametrize("mode", ["false", "administration", "true"])
async def test_a_deletion_that_one_partition_refuses_leaves_all_partitions(mode: str) -> None:
    async with rest_cluster(3, leader_only_metadata_writes=mode) as cluster:
        await partitioned(cluster)
        client = await connect_to(cluster, "x-partition-2")
        await client.subscribe(f"{FULL}/x-partition-2", "reporting")
        before = await topics(cluster)
        refused = await cluster.expect(412, "DELETE", f"{P}/x/partitions")
        assert "x-partition-2" in refused.reason
        assert await topics(cluster) == before
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json == {
            "partitions": PARTITIONS,
            "deleted": False,
            "properties": {},
        }
        client.close()
        await cluster.expect(204, "DELETE", f"{P}/x/partitions", at=cluster.brokers[1], force="true")
        assert await topics(cluster) == []


async def test_a_deletion_of_a_subscription_that_one_partition_refuses_leaves_it_at_all() -> None:
    async with rest_cluster(3) as cluster:
        await partitioned(cluster)
        client = await connect_to(cluster, "x-partition-2")
        await client.subscribe(f"{FULL}/x-partition-2", "billing")
        refused = await cluster.expect(412, "DELETE", f"{P}/x/subscription/billing")
        assert "x-partition-2" in refused.reason
        assert await subscriptions_of_each(cluster) == [["billing"]] * PARTITIONS
        client.close()


async def test_a_subscription_that_one_partition_refuses_is_made_at_none() -> None:
    async with rest_cluster(3, max_subscriptions_per_topic=2) as cluster:
        await partitioned(cluster)
        await cluster.expect(204, "PUT", f"{P}/x-partition-2/subscription/other")
        refused = await cluster.expect(412, "PUT", f"{P}/x/subscription/new")
        assert "x-partition-2" in refused.reason
        expected = [["billing"], ["billing"], ["billing", "other"], ["billing"]]
        assert await subscriptions_of_each(cluster) == expected


# ---- an owner that does not answer, or not in time ----

VERBS = pytest.mark.parametrize("verb", ["delete", "delete subscription", "create subscription", "enlarge"])
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "delete": ("DELETE", f"{P}/x/partitions", None),
    "delete subscription": ("DELETE", f"{P}/x/subscription/billing", None),
    "create subscription": ("PUT", f"{P}/x/subscription/new", "earliest"),
    "enlarge": ("POST", f"{P}/x/partitions", PARTITIONS + 2),
}


ON_FIRE = RestError(403, "the disk is on fire")


class FailingOwners:
    """Has the owner of one partition fail at one step, until it is mended. An error of 4xx is not asked about again."""

    def __init__(
        self,
        cluster: RestCluster,
        monkeypatch: pytest.MonkeyPatch,
        part: str,
        step: Step,
        error: Exception = ON_FIRE,
    ) -> None:
        self.is_mended = False
        self._error = error
        for broker in cluster.brokers:
            monkeypatch.setattr(broker.partition_owner, "answer", self._failing(broker, part, step))

    def _failing(self, broker: Broker, part: str, step: Step) -> Any:
        honest = broker.partition_owner.answer

        async def answer(topic: TopicName, request: PartRequest) -> PartAnswer:
            if not self.is_mended and request.step is step and str(topic) == f"{FULL}/{part}":
                raise self._error
            return await honest(topic, request)

        return answer


async def state(cluster: RestCluster) -> tuple[Any, list[str], list[list[str]]]:
    """Return the record, the topics and the subscriptions of each."""
    record = await cluster.store.get("/admin/partitioned-topics/public/ns/persistent/x")
    found = await topics(cluster)
    stored = [
        sorted(await cluster.store.children(f"/managed-ledgers/public/ns/persistent/{name.rpartition('/')[2]}"))
        for name in found
    ]
    return None if record is None else msgspec.json.decode(record.value), found, stored


def after(verb: str) -> tuple[Any, list[str], list[list[str]]]:
    """Return the state after a change that was done."""
    if verb == "delete":
        return None, [], []
    count = PARTITIONS + 2 if verb == "enlarge" else PARTITIONS
    names = {"delete subscription": [], "create subscription": ["billing", "new"], "enlarge": ["billing"]}[verb]
    record = {"partitions": count, "deleted": False, "properties": {}}
    return record, [f"{FULL}/x-partition-{index}" for index in range(count)], [names] * count


async def test_the_subscriptions_of_partitions_are_seen_in_the_store() -> None:
    """Else the tests below would show nothing."""
    async with rest_cluster() as cluster:
        await partitioned(cluster)
        assert await state(cluster) == (
            {"partitions": PARTITIONS, "deleted": False, "properties": {}},
            [f"{FULL}/x-partition-{index}" for index in range(PARTITIONS)],
            [["billing"]] * PARTITIONS,
        )


@VERBS
async def test_an_owner_that_does_not_say_whether_it_agrees_leaves_all_as_it_was(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rest_cluster(2) as cluster:
        await partitioned(cluster)
        before = await state(cluster)
        owners = FailingOwners(cluster, monkeypatch, "x-partition-1", Step.ASK)
        refused = await cluster.expect(503, *REQUESTS[verb])
        assert "x-partition-1" in refused.reason
        assert "on fire" in refused.reason
        assert await state(cluster) == before
        assert await cluster.store.children(CHANGES_ROOT) == []
        owners.is_mended = True
        await cluster.expect(204, *REQUESTS[verb])
        assert await state(cluster) == after(verb)


async def a_producer_comes_until_it_is_complete(cluster: RestCluster, part: str) -> None:
    async with asyncio.timeout(30):
        while await cluster.store.children(CHANGES_ROOT):
            found = await cluster.call("GET", f"/lookup/v2/topic/persistent/public/ns/{part}")
            if found.status == 200:
                client = await WireClient.connect(int(found.json["brokerUrl"].rpartition(":")[2]))
                await client.ask(client_commands.producer(1, 1, f"{FULL}/{part}"), TYPE.PRODUCER_SUCCESS, TYPE.ERROR)
                client.close()


@VERBS
@pytest.mark.parametrize("by", ["the same request", "another request", "its broker"])
async def test_a_change_that_an_owner_did_not_make_is_completed_later(
    verb: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next request, or the broker that left it; until then clients get an error after which they try again."""
    async with rest_cluster(2) as cluster:
        await partitioned(cluster)
        failing = f"x-partition-{PARTITIONS if verb == 'enlarge' else 1}"
        owners = FailingOwners(cluster, monkeypatch, failing, Step.DO)
        pending = await cluster.expect(503, *REQUESTS[verb])
        assert failing in pending.reason
        assert len(await cluster.store.children(CHANGES_ROOT)) == 1
        if verb == "delete":
            client = await connect_to(cluster, failing)
            number, refused = await client.ask(
                client_commands.subscribe(1, 1, f"{FULL}/{failing}", "billing"), TYPE.SUCCESS, TYPE.ERROR
            )
            assert number == TYPE.ERROR
            assert refused.error == api.ServiceNotReady
            client.close()
        owners.is_mended = True
        match by:
            case "the same request":
                await cluster.expect(204, *REQUESTS[verb], at=cluster.brokers[1])
            case "another request":
                await cluster.call("DELETE", f"{P}/x/subscription/unheard-of", at=cluster.brokers[1])
            case _:
                await cluster.brokers[0].changes.sweep(is_leader=False)
        assert await state(cluster) == after(verb)
        assert await cluster.store.children(CHANGES_ROOT) == []


@VERBS
@pytest.mark.parametrize("by", ["the leader", "a client"])
async def test_a_change_whose_broker_has_left_is_completed_by_another(
    verb: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rest_cluster(3) as cluster:
        await partitioned(cluster)
        failing = f"x-partition-{PARTITIONS if verb == 'enlarge' else 1}"
        owners = FailingOwners(cluster, monkeypatch, failing, Step.DO)
        await cluster.expect(503, *REQUESTS[verb], at=cluster.brokers[2])
        await cluster.brokers.pop().stop()
        owners.is_mended = True
        async with asyncio.timeout(30):
            while any(len(broker.registration.brokers) > 2 for broker in cluster.brokers):
                await asyncio.sleep(0.01)
        if by == "the leader":
            async with asyncio.timeout(30):
                while await cluster.store.children(CHANGES_ROOT):
                    for broker in cluster.brokers:
                        await broker.changes.sweep(is_leader=broker.leadership.is_leader())
        else:
            await a_producer_comes_until_it_is_complete(cluster, "x-partition-0" if verb == "enlarge" else failing)
        assert await state(cluster) == after(verb)


async def test_a_change_that_was_not_decided_is_undone_when_its_broker_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rest_cluster(3) as cluster:
        await partitioned(cluster)
        before = await state(cluster)
        FailingOwners(cluster, monkeypatch, "x-partition-1", Step.ASK, LedgerUnavailableError("asked again and again"))
        monkeypatch.setattr(coordinator, "ASK_S", 600)
        asking = asyncio.ensure_future(cluster.call("DELETE", f"{P}/x/partitions", at=cluster.brokers[2]))
        async with asyncio.timeout(30):
            while "barycenterChange" not in (await state(cluster))[0]:
                await asyncio.sleep(0.01)
        busy = await cluster.expect(409, "PUT", f"{P}/x/subscription/new", "earliest")
        assert "is in progress" in busy.reason
        await cluster.brokers.pop().stop()
        asking.cancel()
        async with asyncio.timeout(30):
            while await cluster.store.children(CHANGES_ROOT):
                for broker in cluster.brokers:
                    await broker.changes.sweep(is_leader=broker.leadership.is_leader())
        assert await state(cluster) == before


# ---- what may be repeated ----


async def test_an_unload_of_a_namespace_says_which_bundles_were_not_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_cluster(1) as cluster:
        await cluster.create_namespace(bundles=4)
        for index in range(8):
            await cluster.expect(204, "PUT", f"{P}/t{index}")
        (broker,) = cluster.brokers
        unload = broker.namespaces.unload_bundle
        unloaded: list[str] = []

        async def failing(bundle: Bundle, **options: Any) -> int | None:
            if bundle.range.lower == 0:
                raise LedgerUnavailableError("the disk is on fire")
            unloaded.append(str(bundle))
            return await unload(bundle, **options)

        monkeypatch.setattr(broker.namespaces, "unload_bundle", failing)
        answer = await cluster.expect(500, "PUT", "/admin/v2/namespaces/public/ns/unload")
        assert "0x00000000" in answer.reason
        assert f"{len(unloaded)} of 4 were" in answer.reason or "3 of 4 were" in answer.reason
        assert unloaded


async def test_a_compaction_is_begun_at_all_partitions_or_at_none() -> None:
    async with rest_cluster(1) as cluster:
        await partitioned(cluster)
        (broker,) = cluster.brokers
        busy = broker.registry.get_loaded(TopicName.parse(f"{FULL}/x-partition-2"))
        assert isinstance(busy, PersistentTopic)
        busy.compactions.status = "RUNNING"
        refused = await cluster.expect(409, "PUT", f"{P}/x/compaction")
        assert "in progress" in refused.reason
        for index in (0, 1, 3):
            status = await cluster.expect(200, "GET", f"{P}/x-partition-{index}/compaction")
            assert status.json["status"] == "NOT_RUN"


# ---- namespaces and tenants ----


async def test_a_namespace_that_gets_a_topic_while_it_is_deleted_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_cluster(1) as cluster:
        await cluster.create_namespace()
        (broker,) = cluster.brokers
        find = broker.resources.persistent_topics
        calls = 0

        async def with_one_more(namespace: NamespaceName) -> list[TopicName]:
            nonlocal calls
            calls += 1
            if calls == 2:  # behind the mark
                await broker.registry.create(TopicName.parse(f"{FULL}/late"))
            return await find(namespace)

        await cluster.expect(200, "GET", "/lookup/v2/topic/persistent/public/ns/late")
        monkeypatch.setattr(broker.resources, "persistent_topics", with_one_more)
        refused = await cluster.expect(409, "DELETE", "/admin/v2/namespaces/public/ns")
        assert "late" in refused.reason
        assert (await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ns")).json["deleted"] is False
        assert await topics(cluster) == [f"{FULL}/late"]
        assert await cluster.store.children(DELETIONS_ROOT) == []


async def test_a_deletion_of_a_namespace_that_failed_is_completed_by_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rest_cluster(2, force_delete_namespace_allowed=True) as cluster:
        await cluster.create_namespace()
        for index in range(6):
            await cluster.expect(204, "PUT", f"{P}/t{index}")
        with monkeypatch.context() as patch:

            async def on_fire(self: TopicRegistry, topic: TopicName, **options: Any) -> None:
                raise LedgerUnavailableError("the disk is on fire")

            patch.setattr(TopicRegistry, "delete_topic", on_fire)
            await cluster.expect(500, "DELETE", "/admin/v2/namespaces/public/ns", force="true")
        assert len(await topics(cluster)) == 6
        (leader,) = [broker for broker in cluster.brokers if broker.leadership.is_leader()]
        for sweep in leader.sweeps:
            await sweep()
        await cluster.expect(404, "GET", "/admin/v2/namespaces/public/ns")
        assert await cluster.store.children(DELETIONS_ROOT) == []
        assert await cluster.store.children("/managed-ledgers/public/ns/persistent") == []


async def test_a_tenant_is_deleted_with_all_its_namespaces_or_with_none() -> None:
    async with rest_cluster(force_delete_tenant_allowed=True) as cluster:
        tenant = {"allowedClusters": ["standalone", "west"]}
        await cluster.expect(200, "PUT", "/admin/v2/clusters/west", {"serviceUrl": "http://w:8080"})
        await cluster.expect(204, "PUT", "/admin/v2/tenants/acme", tenant)
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/acme/a")
        shared = {"replication_clusters": ["standalone", "west"]}
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/acme/b", shared)
        assert "acme/b" in (await cluster.expect(412, "DELETE", "/admin/v2/tenants/acme", force="true")).reason
        assert (await cluster.expect(200, "GET", "/admin/v2/namespaces/acme")).json == ["acme/a", "acme/b"]


async def test_partitions_that_were_added_a_moment_before_are_asked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of partitions is that of the record in which the change begins."""
    async with rest_cluster(1) as cluster:
        await partitioned(cluster)
        (broker,) = cluster.brokers
        records = broker.changes._records
        begin = records.begin
        client = await connect_to(cluster, "x-partition-0")

        async def late(topic: TopicName, change: PartitionedChange) -> int:
            monkeypatch.setattr(records, "begin", begin)
            await cluster.expect(204, "POST", f"{P}/x/partitions", PARTITIONS + 1)
            await client.subscribe(f"{FULL}/x-partition-{PARTITIONS}", "reporting")
            return await begin(topic, change)

        monkeypatch.setattr(records, "begin", late)
        refused = await cluster.expect(412, "DELETE", f"{P}/x/partitions")
        assert f"x-partition-{PARTITIONS}" in refused.reason
        assert len(await topics(cluster)) == PARTITIONS + 1
        client.close()


async def test_a_client_that_asks_for_a_partition_that_is_deleted_already_has_the_deletion_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rest_cluster(2) as cluster:
        await partitioned(cluster)
        owners = FailingOwners(cluster, monkeypatch, "x-partition-3", Step.DO)
        await cluster.expect(503, "DELETE", f"{P}/x/partitions", at=cluster.brokers[1])
        assert await topics(cluster) == [f"{FULL}/x-partition-3"]
        await cluster.brokers.pop().stop()
        owners.is_mended = True
        (broker,) = cluster.brokers
        part = TopicName.parse(f"{FULL}/x-partition-0")
        async with asyncio.timeout(30):
            while len(broker.registration.brokers) > 1:
                await asyncio.sleep(0.01)
            client = await WireClient.connect(int(str(broker.urls.broker_url).rpartition(":")[2]))
            while await cluster.store.children(CHANGES_ROOT):
                await broker.lookup.lookup_bundle(await broker.lookup.bundle_of(part))
                number, refused = await client.ask(
                    client_commands.producer(1, 1, f"{FULL}/x-partition-0"), TYPE.PRODUCER_SUCCESS, TYPE.ERROR
                )
                assert number == TYPE.ERROR
                assert refused.error in (api.ServiceNotReady, api.TopicNotFound)
        assert await state(cluster) == after("delete")
        client.close()


async def test_the_audit_has_the_request_and_not_what_brokers_ask_of_each_other() -> None:
    async with rest_cluster(2) as cluster:
        await partitioned(cluster)
        await cluster.expect(204, "DELETE", f"{P}/x/subscription/billing")
        kept = (await cluster.expect(200, "GET", "/barycenter/v1/audit")).json
        routes = [each["route"] for each in kept["changes"]]
        assert not [route for route in routes if "partition-changes" in route]
        assert [route for route in routes if route.endswith("/subscription/{subscription}")]
