"""Policies of single topics: paths, bodies and refusals are Pulsar's; they hold on all brokers and after a restart."""

import asyncio
from collections.abc import Callable
from typing import Any

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.ledger_settings import Retention
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster

NS = "/admin/v2/namespaces/public/ns"
ROOT = "/admin/v2/persistent/public/ns"
T = f"{ROOT}/t"
EVENTS = "persistent/public/ns/__change_events"
RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}
QUOTA = {"limitSize": 5 << 20, "limitTime": -1, "policy": "consumer_backlog_eviction"}
DEADLINE_S = 30


async def cluster_with_topic(cluster: RestCluster, *topics: str) -> None:
    await cluster.create_namespace()
    for topic in topics or ("t",):
        await cluster.expect(204, "PUT", f"{ROOT}/{topic}")


def loaded(cluster: RestCluster, topic: str) -> PersistentTopic:
    name = TopicName.parse(f"persistent://public/ns/{topic}")
    found = [broker.registry.get_loaded(name) for broker in cluster.brokers]
    (only,) = [topic for topic in found if topic is not None]
    assert isinstance(only, PersistentTopic)
    return only


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not done():
            await asyncio.sleep(0.002)


async def test_each_policy_is_set_shown_and_removed() -> None:
    cases: tuple[tuple[str, Any, Any], ...] = (
        ("retention", RETENTION, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
        ("compactionThreshold", 1000, 0),
        ("deduplicationEnabled", True, False),
        ("maxProducers", 3, 0),
        ("maxConsumers", 4, 0),
        ("maxConsumersPerSubscription", 5, 0),
        ("maxSubscriptionsPerTopic", 6, 0),
        ("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}, {"allowAutoSubscriptionCreation": True}),
        ("schemaCompatibilityStrategy", "BACKWARD", "FULL"),
        ("schemaValidationEnforced", True, False),
    )
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        for path, body, configured in cases:
            method = "PUT" if path == "schemaCompatibilityStrategy" else "POST"
            assert (await cluster.expect(204, "GET", f"{T}/{path}")).json is None
            assert (await cluster.expect(200, "GET", f"{T}/{path}", applied="true")).json == configured, path
            await cluster.expect(204, method, f"{T}/{path}", body)
            assert (await cluster.expect(200, "GET", f"{T}/{path}")).json == body
            assert (await cluster.expect(200, "GET", f"{T}/{path}", applied="true")).json == body
            await cluster.expect(204, "DELETE", f"{T}/{path}")
            await cluster.expect(204, "GET", f"{T}/{path}")


async def test_the_ttl_is_in_the_query_and_quotas_are_by_type() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/messageTTL", messageTTL=77)
        assert (await cluster.expect(200, "GET", f"{T}/messageTTL")).json == 77
        await cluster.expect(204, "DELETE", f"{T}/messageTTL")
        await cluster.expect(204, "GET", f"{T}/messageTTL")

        assert (await cluster.expect(200, "GET", f"{T}/backlogQuotaMap")).json == {}
        await cluster.expect(204, "POST", f"{T}/backlogQuota", QUOTA)
        stored = {"destination_storage": {"limit": 5 << 20, **QUOTA}}
        assert (await cluster.expect(200, "GET", f"{T}/backlogQuotaMap")).json == stored
        applied = (await cluster.expect(200, "GET", f"{T}/backlogQuotaMap", applied="true")).json
        assert applied.keys() == {"destination_storage", "message_age"}
        await cluster.expect(204, "DELETE", f"{T}/backlogQuota")
        assert (await cluster.expect(200, "GET", f"{T}/backlogQuotaMap")).json == {}


async def test_what_is_not_valid_is_refused_and_changes_nothing() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/retention", RETENTION)
        for status, method, path, body, reason in (
            (412, "POST", "maxProducers", -1, "maxProducers must be 0 or more"),
            (400, "POST", "maxProducers", None, "send a number"),
            (400, "POST", "messageTTL", None, "messageTTL=<seconds>"),
            (400, "POST", "messageTTL?messageTTL=-1", None, "messageTTL"),
            (400, "POST", "deduplicationEnabled", "yes", "not valid"),
            (412, "PUT", "schemaCompatibilityStrategy", "SOME", "is not a schema compatibility strategy"),
            (412, "POST", "retention", {**RETENTION, "retentionSizeInMB": 0}, "Invalid retention policy"),
            (412, "POST", "backlogQuota", {**QUOTA, "limitSize": 21 << 20}, "Backlog Quota exceeds"),
            (412, "POST", "retention?isGlobal=true", RETENTION, "not replicated"),
            (412, "GET", "retention?isGlobal=true", None, "not replicated"),
        ):
            answer = await cluster.expect(status, method, f"{T}/{path}", body)
            assert reason in answer.reason, answer.reason
        await cluster.expect(204, "POST", f"{T}/backlogQuota", QUOTA)
        small = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}
        assert "Retention Quota must" in (await cluster.expect(412, "POST", f"{T}/retention", small)).reason
        assert (await cluster.expect(200, "GET", f"{T}/retention")).json == RETENTION
        await cluster.expect(404, "POST", f"{ROOT}/missing/retention", RETENTION)
        await cluster.expect(404, "POST", "/admin/v2/persistent/public/missing/t/retention", RETENTION)
        await cluster.expect(405, "POST", f"{ROOT}/__change_events/retention", RETENTION)


async def test_policies_of_topics_may_be_switched_off() -> None:
    async with rest_cluster(topic_level_policies_enabled=False) as cluster:
        await cluster_with_topic(cluster)
        refused = await cluster.expect(405, "POST", f"{T}/retention", RETENTION)
        assert refused.reason.startswith("Topic level policies is disabled")


async def test_a_namespace_without_policies_of_topics_has_no_topic_for_them() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "GET", f"{T}/retention")
        assert (await cluster.expect(200, "GET", ROOT, includeSystemTopic="true")).json == ["persistent://public/ns/t"]


async def test_a_change_is_followed_by_every_broker_and_outlives_unload_and_restart() -> None:
    names = [f"t{number}" for number in range(6)]
    async with rest_cluster(2) as cluster:
        await cluster_with_topic(cluster, *names)
        assert len({(await cluster.owner(f"persistent/public/ns/{name}")).broker_id for name in names}) == 2
        for number, name in enumerate(names):
            at = cluster.brokers[number % 2]
            await cluster.expect(204, "POST", f"{ROOT}/{name}/retention", RETENTION, at=at)
        kept = Retention(10 * 60_000, 20 << 20)
        await until(lambda: all(loaded(cluster, name).storage.retention == kept for name in names))
        await cluster.expect(204, "POST", f"{NS}/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
        await cluster.expect(204, "DELETE", f"{ROOT}/t0/retention")
        await until(lambda: loaded(cluster, "t0").storage.retention == Retention(60_000, 1 << 20))
        assert loaded(cluster, "t1").storage.retention == kept, "the topic's own policy wins"

        await cluster.expect(204, "PUT", f"{NS}/unload")
        for name in names:
            await cluster.expect(200, "GET", f"{ROOT}/{name}/stats")
            wanted = Retention(60_000, 1 << 20) if name == "t0" else kept
            assert loaded(cluster, name).storage.retention == wanted, "known before the topic is open"

        for broker in list(cluster.brokers):
            await broker.stop()
            cluster.brokers.remove(broker)
        await cluster.add(broker_shutdown_timeout_ms=0)
        assert (await cluster.expect(200, "GET", f"{ROOT}/t3/retention")).json == RETENTION
        await cluster.expect(200, "GET", f"{ROOT}/t3/stats")
        assert loaded(cluster, "t3").storage.retention == kept


async def test_concurrent_changes_at_two_brokers_are_all_kept() -> None:
    async with rest_cluster(2) as cluster:
        await cluster_with_topic(cluster)
        paths = ("maxProducers", "maxConsumers", "maxConsumersPerSubscription", "maxSubscriptionsPerTopic")
        requests = [
            cluster.expect(204, "POST", f"{T}/{path}", number, at=cluster.brokers[number % 2])
            for number, path in enumerate(paths, 3)
        ]
        await asyncio.gather(*requests)
        for number, path in enumerate(paths, 3):
            assert (await cluster.expect(200, "GET", f"{T}/{path}")).json == number


async def test_partitions_have_the_policies_of_their_topic() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{ROOT}/p/partitions", 2)
        await cluster.expect(204, "POST", f"{ROOT}/p/messageTTL", messageTTL=5)
        await cluster.expect(204, "POST", f"{ROOT}/p-partition-1/maxProducers", 7)
        assert (await cluster.expect(200, "GET", f"{ROOT}/p/maxProducers")).json == 7
        for index in range(2):
            await cluster.expect(200, "GET", f"{ROOT}/p-partition-{index}/stats")
            assert loaded(cluster, f"p-partition-{index}").storage.ttl_s == 5
        await cluster.expect(204, "DELETE", f"{ROOT}/p/partitions")
        await cluster.expect(204, "PUT", f"{ROOT}/p/partitions", 2)
        await cluster.expect(204, "GET", f"{ROOT}/p/maxProducers")


async def test_any_broker_removes_the_policies_of_a_deleted_topic() -> None:
    """A broker that serves no topic of the namespace does not know its policies before it has to remove some."""
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=1)
        await cluster.expect(204, "PUT", f"{ROOT}/p/partitions", 1)
        await cluster.expect(204, "POST", f"{ROOT}/p/maxProducers", 7)
        owner = await cluster.owner(EVENTS)
        (other,) = [broker for broker in cluster.brokers if broker is not owner]
        name = TopicName.parse("persistent://public/ns/p")
        assert owner.topic_policies.of(name).max_producer_per_topic == 7
        await other.topic_policies.remove(name)
        await until(lambda: owner.topic_policies.of(name).max_producer_per_topic is None)
        await other.topic_policies.refresh(other.registry.namespaces())
        assert not other.topic_policies._followed, "it reads them no longer"


async def test_policies_that_are_switched_on_again_are_followed() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/retention", RETENTION)
        kept = Retention(10 * 60_000, 20 << 20)
        assert loaded(cluster, "t").storage.retention == kept
        path = "/admin/v2/brokers/configuration/topicLevelPoliciesEnabled"
        await cluster.expect(200, "POST", f"{path}/false")
        await until(lambda: loaded(cluster, "t").storage.retention != kept)
        await cluster.expect(200, "POST", f"{path}/true")
        await until(lambda: loaded(cluster, "t").storage.retention == kept)


async def test_a_deleted_topic_leaves_no_policies_and_a_namespace_can_be_deleted() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/maxProducers", 2)
        await cluster.expect(204, "DELETE", T)
        await cluster.expect(204, "PUT", T)
        await cluster.expect(204, "GET", f"{T}/maxProducers")
        await cluster.expect(204, "POST", f"{T}/maxProducers", 2)
        await cluster.expect(204, "DELETE", f"{T}/policies")
        await cluster.expect(204, "GET", f"{T}/maxProducers")
        await cluster.expect(204, "DELETE", T)
        await cluster.expect(204, "DELETE", NS)
        await cluster.create_namespace()
        await cluster_with_topic_again(cluster)


async def cluster_with_topic_again(cluster: RestCluster) -> None:
    await cluster.expect(204, "PUT", T)
    await cluster.expect(204, "GET", f"{T}/maxProducers")
    await cluster.expect(204, "POST", f"{T}/maxProducers", 9)
    assert (await cluster.expect(200, "GET", f"{T}/maxProducers")).json == 9


async def events_of(broker: Broker) -> PersistentTopic:
    found = broker.registry.get_loaded(TopicName.parse(f"persistent://{EVENTS.removeprefix('persistent/')}"))
    assert isinstance(found, PersistentTopic)
    return found


async def test_the_topic_with_the_policies_is_compacted() -> None:
    async with rest_cluster() as cluster:
        await cluster_with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/maxProducers", 1)
        await cluster.expect(204, "POST", f"{T}/maxProducers", 2)
        topic = await events_of(cluster.brokers[0])
        assert "__compaction" in topic.subscriptions, "its cursor keeps the messages until they are compacted"
        await topic.compact()
        await until(lambda: topic.ledger.compacted.horizon == topic.ledger.last_position)
        await cluster.expect(204, "PUT", f"/admin/v2/{EVENTS}/unload")
        assert (await cluster.expect(200, "GET", f"{T}/maxProducers")).json == 2
