"""Retention, expiry and backlog quotas of a namespace: paths, bodies and refusals are Pulsar's."""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.ledger_settings import NO_RETENTION, Retention
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster

NS = "/admin/v2/namespaces/public/ns"
MISSING = "/admin/v2/namespaces/public/missing"
T = TopicName.parse("persistent://public/ns/t")
RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}
QUOTA = {"limitSize": 5 << 20, "limitTime": -1, "policy": "consumer_backlog_eviction"}
AGE = {"limitTime": 60, "policy": "producer_exception"}
DEADLINE_S = 30


async def policies(cluster: RestCluster) -> Any:
    return (await cluster.expect(200, "GET", NS)).json


async def test_each_policy_is_set_shown_and_removed() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for path, body, field in (
            ("retention", RETENTION, "retention_policies"),
            ("messageTTL", 77, "message_ttl_in_seconds"),
        ):
            assert (await cluster.expect(204, "GET", f"{NS}/{path}")).json is None
            await cluster.expect(204, "POST", f"{NS}/{path}", body)
            assert (await cluster.expect(200, "GET", f"{NS}/{path}")).json == body
            assert (await policies(cluster))[field] == body
            await cluster.expect(204, "DELETE", f"{NS}/{path}")
            await cluster.expect(204, "GET", f"{NS}/{path}")


async def test_quotas_by_type() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        assert (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json == {}
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", QUOTA)
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", AGE, backlogQuotaType="message_age")
        by_size = {"limit": 5 << 20, **QUOTA}
        by_age = {"limit": -1, "limitSize": -1, **AGE}
        both = {"destination_storage": by_size, "message_age": by_age}
        assert (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json == both
        assert (await policies(cluster))["backlog_quota_map"] == both
        await cluster.expect(204, "DELETE", f"{NS}/backlogQuota")
        assert (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json == {"message_age": by_age}
        await cluster.expect(204, "DELETE", f"{NS}/backlogQuota", backlogQuotaType="message_age")
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", {"limit": 5 << 20, "policy": "producer_request_hold"})
        shown = (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json
        assert shown["destination_storage"]["limitSize"] == 5 << 20, "the field of older tools"


async def test_numbers_of_a_quota_may_be_in_quotes() -> None:
    """Pulsar reads them, and the test suite of the client for Go sends them."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        quota = {"limit": "10240", "limitTime": "-1", "policy": "producer_request_hold"}
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", quota)
        shown = (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json["destination_storage"]
        assert shown == {"limit": 10240, "limitSize": 10240, "limitTime": -1, "policy": "producer_request_hold"}
        for wrong in ("", "1.5", "ten", "9" * 19):
            await cluster.expect(400, "POST", f"{NS}/backlogQuota", {**quota, "limit": wrong})
        assert (await cluster.expect(200, "GET", f"{NS}/backlogQuotaMap")).json["destination_storage"] == shown


async def test_what_is_not_valid_is_refused_and_changes_nothing() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        before = await policies(cluster)
        for status, path, body, told in (
            (412, "retention", {"retentionTimeInMinutes": 10}, "single time or size limit"),
            (412, "retention", {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, "-2"),
            (400, "retention", None, "send a DELETE"),
            (400, "retention", {**RETENTION, "retentionDays": 1}, "retentionDays"),
            (412, "messageTTL", -1, "message TTL must >= 0"),
            (412, "messageTTL", 2**31, str(2**31)),
            (400, "messageTTL", "7", "int"),
            (400, "messageTTL", None, "send a DELETE"),
            (400, "backlogQuota", None, "send a DELETE"),
            (400, "backlogQuota", {**QUOTA, "policy": "drop"}, "'drop'"),
            (400, "backlogQuota", {"limitSize": 1}, "policy must be one of"),
            (400, "backlogQuota", {**QUOTA, "limit": 1}, "send limitSize only"),
            (412, "backlogQuota", AGE, "needs a size limit"),
            (412, "backlogQuota?backlogQuotaType=message_age", {"limitSize": -1, "policy": "producer_exception"},
             "needs a time limit"),
            (412, "backlogQuota?backlogQuotaType=message_age", {**AGE, "limitSize": 5}, "limitSize has no effect"),
            (412, "backlogQuota?backlogQuotaType=message_age", {**AGE, "limitTime": 2**31}, "limitTime must be"),
        ):  # fmt: skip
            assert told in (await cluster.expect(status, "POST", f"{NS}/{path}", body)).reason, (path, body)
        refused = await cluster.expect(400, "POST", f"{NS}/backlogQuota", QUOTA, backlogQuotaType="disk")
        assert "backlogQuotaType" in refused.reason
        assert await policies(cluster) == before
        for path in ("retention", "messageTTL", "backlogQuotaMap"):
            await cluster.expect(404, "GET", f"{MISSING}/{path}")
        for path, body in (("retention", RETENTION), ("messageTTL", 7), ("backlogQuota", QUOTA)):
            await cluster.expect(404, "POST", f"{MISSING}/{path}", body)
            await cluster.expect(404, "DELETE", f"{MISSING}/{path}")


async def test_retention_has_to_be_above_the_backlog_quota() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", {**QUOTA, "limitSize": 20 << 20})
        refused = await cluster.expect(412, "POST", f"{NS}/retention", RETENTION)
        assert refused.reason == "Retention Quota must exceed configured backlog quota for namespace."
        await cluster.expect(204, "GET", f"{NS}/retention")
        await cluster.expect(204, "POST", f"{NS}/retention", {**RETENTION, "retentionSizeInMB": 21})
        refused = await cluster.expect(412, "POST", f"{NS}/backlogQuota", {**QUOTA, "limitSize": 21 << 20})
        assert refused.reason.startswith("Backlog Quota exceeds configured retention quota for namespace.")
        await cluster.expect(204, "POST", f"{NS}/backlogQuota", QUOTA)


async def test_a_namespace_is_created_with_them() -> None:
    async with rest_cluster() as cluster:
        wanted = {
            "retention_policies": RETENTION,
            "message_ttl_in_seconds": 5,
            "backlog_quota_map": {"destination_storage": QUOTA},
        }
        for field, value in (
            ("retention_policies", {"retentionTimeInMinutes": 1}),
            ("message_ttl_in_seconds", -1),
            ("backlog_quota_map", {"destination_storage": {**QUOTA, "limitSize": 20 << 20}}),
        ):
            await cluster.expect(412, "PUT", NS, {**wanted, field: value})
        await cluster.expect(400, "PUT", NS, {**wanted, "backlog_quota_map": {"disk": QUOTA}})
        await cluster.expect(404, "GET", NS)
        await cluster.expect(204, "PUT", NS, wanted)
        stored = await policies(cluster)
        assert {field: stored[field] for field in wanted} == wanted


def loaded(broker: Broker) -> PersistentTopic:
    found = broker.registry.get_loaded(T)
    assert isinstance(found, PersistentTopic)
    return found


@pytest.mark.parametrize("by_other", [False, True])
async def test_a_change_at_any_broker_reaches_loaded_topics(by_other: bool) -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t")
        owner = await cluster.owner("persistent/public/ns/t")
        at = next(broker for broker in cluster.brokers if (broker is owner) is not by_other)
        for method, body, wanted in (
            ("POST", RETENTION, Retention(600_000, 20 << 20)),
            ("DELETE", None, NO_RETENTION),
        ):
            await cluster.expect(204, method, f"{NS}/retention", body, at=at)
            async with asyncio.timeout(DEADLINE_S):
                while loaded(owner).ledger.settings.retention != wanted:
                    await asyncio.sleep(0)
