"""Limits, rates and the deletion of unused objects, of namespaces and of single topics: Pulsar's paths and bodies."""

from typing import Any
from urllib.parse import quote

import pytest

from pulsar_barycenter.broker.rest import topic_policies
from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

NS = "/admin/v2/namespaces/public/ns"
T = "/admin/v2/persistent/public/ns/t"
NAME = "persistent://public/ns/t"
DELAYED = {"tickTime": 2000, "active": False, "maxDeliveryDelayInMillis": 5}
INACTIVE = {
    "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
    "maxInactiveDurationSeconds": 90,
    "deleteWhileInactive": True,
}
PERSISTENCE = {
    "bookkeeperEnsemble": 3,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 1.5,
    "managedLedgerStorageClassName": None,
}
DISPATCH = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
PUBLISH = {"publishThrottlingRateInMsg": 7, "publishThrottlingRateInByte": 8}
SUBSCRIBE = {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 10}
BOTH: tuple[tuple[str, Any, Any], ...] = (
    ("delayedDelivery", DELAYED, None),
    ("inactiveTopicPolicies", INACTIVE, None),
    ("deduplicationSnapshotInterval", 9, None),
    ("persistence", PERSISTENCE, None),
    ("subscriptionTypesEnabled", ["Shared", "Failover"], []),
    ("publishRate", PUBLISH, None),
    ("dispatchRate", DISPATCH, None),
    ("subscriptionDispatchRate", DISPATCH, None),
    ("subscribeRate", SUBSCRIBE, None),
    ("replicatorDispatchRate", DISPATCH, None),
    ("entryFilters", {"entryFilterNames": ""}, None),
)
"""Path, body, and the answer while nothing is set (None: 204)."""
OF_NAMESPACES = (
    *BOTH,
    ("maxUnackedMessagesPerConsumer", 4, None),
    ("maxUnackedMessagesPerSubscription", 5, None),
    ("subscriptionExpirationTime", 6, None),
    ("dispatcherPauseOnAckStatePersistent", True, False),
)
OF_TOPICS = (
    *BOTH,
    ("maxUnackedMessagesOnConsumer", 4, None),
    ("maxUnackedMessagesOnSubscription", 5, None),
    ("maxMessageSize", 1000, None),
    ("replication", ["standalone"], None),
    ("dispatcherPauseOnAckStatePersistent", True, None),
)


async def with_topic(cluster: RestCluster) -> None:
    await cluster.create_namespace()
    await cluster.expect(204, "PUT", T)


async def topic_of(cluster: RestCluster) -> Topic:
    await cluster.expect(200, "GET", f"{T}/stats")
    found = cluster.brokers[0].registry.get_loaded(TopicName.parse(NAME))
    assert found is not None
    return found


@pytest.mark.parametrize(("root", "cases"), [(NS, OF_NAMESPACES), (T, OF_TOPICS)], ids=["namespace", "topic"])
async def test_each_policy_is_set_shown_and_removed(root: str, cases: Any) -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        for path, body, unset in cases:
            status = 204 if unset is None else 200
            assert (await cluster.expect(status, "GET", f"{root}/{path}")).json == unset, path
            await cluster.expect(204, "POST", f"{root}/{path}", None if body is True else body)
            assert (await cluster.expect(200, "GET", f"{root}/{path}")).json == body
            if root == T:
                assert (await cluster.expect(200, "GET", f"{root}/{path}", applied="true")).json == body
            await cluster.expect(204, "DELETE", f"{root}/{path}")
            assert (await cluster.expect(status, "GET", f"{root}/{path}")).json == unset


async def test_a_subscription_follows_its_own_rate_else_that_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        for name in ("s", "a b/c", "other"):
            await cluster.expect(204, "PUT", f"{T}/subscription/{quote(name, safe='')}")
        await cluster.expect(204, "GET", f"{T}/s/dispatchRate")
        await cluster.expect(
            204, "POST", f"{T}/subscriptionDispatchRate", {**DISPATCH, "dispatchThrottlingRateInMsg": 0}
        )
        assert (await cluster.expect(200, "GET", f"{T}/s/dispatchRate", applied="true")).json["ratePeriodInSecond"] == 2
        for wrong in (None, {**DISPATCH, "ratePeriodInSecond": 0}):
            await cluster.expect(400 if wrong is None else 412, "POST", f"{T}/s/dispatchRate", wrong)
        for name in ("s", "a%20b%2Fc"):
            await cluster.expect(204, "POST", f"{T}/{name}/dispatchRate", DISPATCH)
            assert (await cluster.expect(200, "GET", f"{T}/{name}/dispatchRate")).json == DISPATCH
        await cluster.brokers[0].registry.apply_policies()
        topic: Any = await topic_of(cluster)
        throttled = {name for name, found in topic.subscriptions.items() if found.allotment.throttles}
        assert throttled == {"s", "a b/c"}
        monkeypatch.setattr(topic_policies, "MOST_SUBSCRIPTION_RATES", 2)
        assert "2 subscriptions" in (await cluster.expect(412, "POST", f"{T}/other/dispatchRate", DISPATCH)).reason
        await cluster.expect(204, "DELETE", f"{T}/s/dispatchRate")
        await cluster.expect(204, "GET", f"{T}/s/dispatchRate")
        await cluster.brokers[0].registry.apply_policies()
        assert not topic.subscriptions["s"].allotment.throttles


async def test_a_topic_follows_its_own_value_else_that_of_its_namespace() -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        for path, body, _ in OF_NAMESPACES:
            await cluster.expect(204, "POST", f"{NS}/{path}", None if body is True else body)
        await cluster.brokers[0].registry.apply_policies()
        rules = (await topic_of(cluster)).rules
        assert (rules.max_unacked_per_consumer, rules.max_unacked_per_subscription) == (4, 5)
        assert (rules.expiration_s, rules.deduplication_interval_s, rules.mark_delete_rate) == (360, 9.0, 1.5)
        assert rules.publish_rate.publish_throttling_rate_in_msg == 7
        assert rules.dispatch_rate == rules.subscription_dispatch_rate
        assert rules.dispatch_rate.rate_period_in_second == 2
        assert rules.subscribe_rate.subscribe_throttling_rate_per_consumer == 3
        assert rules.subscription_types == ("Shared", "Failover")
        assert rules.inactive.max_inactive_duration_seconds == 90
        assert rules.pauses_unstorable_acks
        assert not rules.delayed.active
        await cluster.expect(204, "POST", f"{T}/publishRate", {**PUBLISH, "publishThrottlingRateInMsg": 70})
        await cluster.expect(204, "POST", f"{T}/maxUnackedMessagesOnConsumer", 40)
        await cluster.brokers[0].registry.apply_policies()
        rules = (await topic_of(cluster)).rules
        assert rules.publish_rate.publish_throttling_rate_in_msg == 70
        assert (rules.max_unacked_per_consumer, rules.max_unacked_per_subscription) == (40, 5)
        assert (await cluster.expect(200, "GET", f"{T}/dispatchRate", applied="true")).json == DISPATCH


async def test_what_is_not_valid_is_refused_and_changes_nothing() -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        before = (await cluster.expect(200, "GET", NS)).json
        for path, body, reason in (
            ("delayedDelivery", {**DELAYED, "tickTime": -1}, "must be 0 or more"),
            ("inactiveTopicPolicies", {**INACTIVE, "inactiveTopicDeleteMode": None}, "inactiveTopicDeleteMode must be"),
            ("inactiveTopicPolicies", {**INACTIVE, "maxInactiveDurationSeconds": 0}, "from 1 to"),
            ("deduplicationSnapshotInterval", -1, "interval must be 0 or more"),
            ("persistence", {**PERSISTENCE, "bookkeeperAckQuorum": 0}, "Bookkeeper Ensemble (3)"),
            ("persistence", {**PERSISTENCE, "managedLedgerMaxMarkDeleteRate": -1}, "must be 0 or more"),
            ("subscriptionTypesEnabled", ["Shared", "Any"], "Shared, Any"),
            ("publishRate", {**PUBLISH, "publishThrottlingRateInMsg": 2**31}, "from -1"),
            ("dispatchRate", {**DISPATCH, "ratePeriodInSecond": 0}, "ratePeriodInSecond must be 1"),
            ("subscribeRate", {**SUBSCRIBE, "subscribeThrottlingRatePerConsumer": -2}, "from -1"),
        ):
            for root in (NS, T):
                assert reason in (await cluster.expect(412, "POST", f"{root}/{path}", body)).reason
        for path, body, reason in (
            ("maxMessageSize", 5_242_881, "smaller than that in the broker-level"),
            ("maxUnackedMessagesOnConsumer", -1, "maxUnackedNum must be 0 or more"),
        ):
            assert reason in (await cluster.expect(412, "POST", f"{T}/{path}", body)).reason
        assert "Invalid value" in (await cluster.expect(412, "POST", f"{NS}/subscriptionExpirationTime", -1)).reason
        await cluster.expect(400, "POST", f"{T}/dispatchRate", {**DISPATCH, "rate": 1})
        await cluster.expect(404, "POST", "/admin/v2/namespaces/public/missing/dispatchRate", DISPATCH)
        assert (await cluster.expect(200, "GET", NS)).json == before
        assert not await cluster.brokers[0].topic_policies.exist(TopicName.parse(NAME).namespace)


async def test_a_message_that_is_too_large_for_its_topic_is_refused() -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        await cluster.expect(204, "POST", f"{T}/maxMessageSize", 100)
        url = cluster.brokers[0].urls.broker_url
        assert url is not None
        client = await WireClient.connect(int(url.rpartition(":")[2]))
        await client.produce(NAME)
        client.send(0, b"x" * 200)
        client.send(1, b"x")
        refused = await client.expect(TYPE.SEND_ERROR)
        assert (refused.sequence_id, refused.error) == (0, api.NotAllowedError)
        assert "Exceed maximum message size" in refused.message
        assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 1
        client.close()


async def test_messages_must_be_encrypted_where_the_namespace_says_so() -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        assert (await cluster.expect(200, "GET", f"{NS}/encryptionRequired")).json is False
        url = cluster.brokers[0].urls.broker_url
        assert url is not None
        client = await WireClient.connect(int(url.rpartition(":")[2]))
        await client.produce(NAME)
        await cluster.expect(204, "POST", f"{NS}/encryptionRequired", True)
        await cluster.brokers[0].registry.apply_policies()
        client.send(0, b"plain")
        refused = await client.expect(TYPE.SEND_ERROR)
        assert "Messages must be encrypted" in refused.message
        error = await client.produce(NAME, 2)
        assert (error.error, "Encryption is required" in error.message) == (api.MetadataError, True)
        assert (await client.produce(NAME, 3, is_encrypted=True)).producer_name
        await cluster.expect(204, "POST", f"{NS}/encryptionRequired", False)
        await cluster.brokers[0].registry.apply_policies()
        assert (await client.produce(NAME, 4)).producer_name
        client.close()


async def test_what_only_other_clusters_and_filters_could_do_is_refused() -> None:
    async with rest_cluster() as cluster:
        await with_topic(cluster)
        for root in (NS, T):
            refused = await cluster.expect(400, "POST", f"{root}/entryFilters", {"entryFilterNames": "age,size"})
            assert "Entry filter 'age' not found" in refused.reason
            assert "not offloaded" in (await cluster.expect(405, "POST", f"{root}/offloadPolicies", {})).reason
            await cluster.expect(204, "GET", f"{root}/offloadPolicies")
        refused = await cluster.expect(412, "POST", f"{T}/replication", ["standalone", "far"])
        assert "standalone, far are not the clusters" in refused.reason
        assert (await cluster.expect(200, "GET", f"{NS}/offloadThreshold")).json == -1
        await cluster.expect(204, "DELETE", f"{NS}/removeOffloadPolicies")
        assert (await cluster.expect(200, "GET", f"{T}/offload")).json["status"] == "NOT_RUN"
        labels = f"{NS}/allowedTopicPropertyKeysForMetrics"
        assert "not labels of metrics" in (await cluster.expect(405, "POST", labels, ["colour"])).reason
        assert (await cluster.expect(200, "GET", labels)).json is None
        await cluster.expect(204, "DELETE", labels)
        await cluster.expect(404, "GET", f"{NS}x/offloadPolicies")
        await cluster.expect(404, "GET", f"{T}x/offloadPolicies")


async def test_the_strategy_by_its_old_name_counts_where_there_is_no_other() -> None:
    async with rest_cluster(schema_compatibility_strategy="UNDEFINED") as cluster:
        await with_topic(cluster)
        path, resources = f"{NS}/schemaAutoUpdateCompatibilityStrategy", cluster.brokers[0].resources
        await cluster.expect(204, "GET", path)
        await cluster.expect(412, "PUT", path, "Sometimes")
        await cluster.expect(204, "PUT", path, "AutoUpdateDisabled")
        assert (await cluster.expect(200, "GET", path)).json == "AutoUpdateDisabled"
        assert (await resources.schema_rules(TopicName.parse(NAME))).strategy is Strategy.ALWAYS_INCOMPATIBLE
        await cluster.expect(204, "PUT", f"{NS}/schemaCompatibilityStrategy", "FORWARD")
        assert (await resources.schema_rules(TopicName.parse(NAME))).strategy is Strategy.FORWARD
