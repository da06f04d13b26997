"""Retention, expiry and backlog quotas: a namespace's policies win over the configuration."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import BacklogQuota, Policies, RetentionPolicies
from pulsar_barycenter.broker.namespaces.records import Records
from pulsar_barycenter.broker.namespaces.storage_policies import (
    backlog_limits_of,
    message_ttl_of,
    quota_exceeds_retention,
    retention_fault,
    retention_of,
)
from pulsar_barycenter.broker.namespaces.topic_limits import BacklogLimits, QuotaPolicy
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.ledger_settings import NO_RETENTION, Retention
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend

NONE = Policies()
HOLD, REFUSE, EVICT = QuotaPolicy


def quota(**fields: Any) -> BacklogQuota:
    return BacklogQuota(**{"policy": "producer_exception", **fields})


def test_retention_and_ttl() -> None:
    config = replace(
        BrokerConfig(), default_retention_time_in_minutes=2, default_retention_size_in_mb=-1,
        ttl_duration_default_in_seconds=9,
    )  # fmt: skip
    assert retention_of(NONE, BrokerConfig()) == NO_RETENTION
    assert retention_of(NONE, config) == Retention(120_000, -1)
    assert retention_of(replace(NONE, retention_policies=RetentionPolicies(-1, 3)), config) == Retention(-1, 3 << 20)
    assert [message_ttl_of(NONE, BrokerConfig()), message_ttl_of(NONE, config)] == [0, 9]
    assert [message_ttl_of(replace(NONE, message_ttl_in_seconds=ttl_s), config) for ttl_s in (0, 7, -1)] == [0, 7, 0]


@pytest.mark.parametrize(
    ("settings", "quotas", "limits"),
    [
        ({}, {}, BacklogLimits()),
        ({"backlog_quota_default_limit_bytes": 5, "backlog_quota_default_limit_second": 6}, {},
         BacklogLimits(5, HOLD, 6, HOLD)),
        ({"backlog_quota_default_limit_bytes": 5, "backlog_quota_default_limit_gb": 0.5,
          "backlog_quota_default_retention_policy": "consumer_backlog_eviction"}, {},
         BacklogLimits(1 << 29, EVICT, 0, EVICT)),
        ({"backlog_quota_default_limit_second": 6}, {"destination_storage": quota(limit_size=7, limit_time=-1)},
         BacklogLimits(7, REFUSE, 6, HOLD)),
        ({"backlog_quota_default_limit_bytes": 5}, {"message_age": quota(limit=-1, limit_size=-1, limit_time=8)},
         BacklogLimits(5, HOLD, 8, REFUSE)),
        ({"backlog_quota_default_limit_bytes": 5}, {"destination_storage": quota(limit=3)}, BacklogLimits(3, REFUSE)),
        ({"backlog_quota_default_limit_bytes": 5}, {"destination_storage": quota(policy="newer")}, BacklogLimits(-1)),
    ],
)  # fmt: skip
def test_backlog_quotas(settings: dict[str, Any], quotas: dict[str, BacklogQuota], limits: BacklogLimits) -> None:
    """Also as older brokers of Pulsar wrote them, and with a policy that this broker does not know."""
    config = replace(BrokerConfig(), **settings)
    assert backlog_limits_of(replace(NONE, backlog_quota_map=quotas), config) == limits


@pytest.mark.parametrize(
    ("time", "size", "fault"),
    [(0, 0, None), (-1, -1, None), (5, -1, None), (-1, 5, None), (2**31 - 1, 2**43 - 1, None), (0, 5, "single"),
     (5, 0, "single"), (0, -1, "single"), (-2, 5, "time limit"), (2**31, 5, "time limit"), (5, -2, "size limit"),
     (5, 2**43, "size limit")],
)  # fmt: skip
def test_what_retention_may_be(time: int, size: int, fault: str | None) -> None:
    found = retention_fault(RetentionPolicies(time, size))
    assert found is None if fault is None else found is not None and fault in found


@pytest.mark.parametrize(
    ("retention", "quotas", "exceeds"),
    [
        (None, {"destination_storage": quota(limit_size=1 << 40)}, False),
        (RetentionPolicies(10, 10), {}, False),
        (RetentionPolicies(10, 10), {"destination_storage": quota(limit_size=(10 << 20) - 1, limit_time=599)}, False),
        (RetentionPolicies(10, 10), {"destination_storage": quota(limit_size=10 << 20)}, True),
        (RetentionPolicies(10, 10), {"destination_storage": quota(limit_size=-1, limit_time=600)}, True),
        (RetentionPolicies(-1, -1), {"destination_storage": quota(limit_size=10 << 20, limit_time=600)}, False),
        (RetentionPolicies(10, -1), {"destination_storage": quota(limit_size=10 << 20)}, False),
        (RetentionPolicies(10, 10), {"message_age": quota(limit_time=6000)}, False),
        (RetentionPolicies(10, 20), {"message_age": quota(limit_time=6000)}, True),
    ],
)  # fmt: skip
def test_retention_has_to_be_above_the_backlog_quota(
    retention: RetentionPolicies | None, quotas: dict[str, BacklogQuota], exceeds: bool
) -> None:
    """In the last two, the configured quota of the size is compared, which is 20 MiB."""
    policies = replace(NONE, retention_policies=retention, backlog_quota_map=quotas)
    size = 20 << 20 if retention == RetentionPolicies(10, 20) else -1
    assert quota_exceeds_retention(policies, replace(BrokerConfig(), backlog_quota_default_limit_bytes=size)) is exceeds


async def test_a_change_of_one_policy_keeps_the_others_as_java_wrote_them() -> None:
    store = MemoryBackend().connect(SystemClock(), 30_000)
    records = Records(store, Policies, "/admin/policies")
    java = {
        "bundles": {"numBundles": 1, "boundaries": ["0x00000000", "0xffffffff"], "newer": 2},
        "backlog_quota_map": {"message_age": {"limitTime": 9, "policy": "newer", "limitOfNext": 3}},
        "retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6, "retentionOfNext": 7},
        "newer": {"x": 1},
    }
    await store.put("/admin/policies/t/n", msgspec.json.encode(java), expected_version=None)
    await records.update("t/n", lambda found: replace(found, message_ttl_in_seconds=4))
    found = await store.get("/admin/policies/t/n")
    assert found is not None
    stored = msgspec.json.decode(found.value)
    assert stored["message_ttl_in_seconds"] == 4
    assert {name: stored[name] for name in java} == java
    await records.update("t/n", lambda found: replace(found, retention_policies=None))
    found = await store.get("/admin/policies/t/n")
    assert found is not None
    assert msgspec.json.decode(found.value)["retention_policies"] is None
    records.close()
    await store.close()


async def test_a_change_within_an_object_keeps_what_this_program_does_not_know_of_it_and_of_its_neighbours() -> None:
    store = MemoryBackend().connect(SystemClock(), 30_000)
    records = Records(store, Policies, "/admin/policies")
    quotas = {
        "message_age": {"limitTime": 9, "policy": "newer", "limitOfNext": 3},
        "destination_storage": {"limitSize": 5, "policy": "newer", "limitOfNext": 4},
    }
    java = {"backlog_quota_map": quotas, "retention_policies": {"retentionTimeInMinutes": 5, "retentionOfNext": 7}}
    await store.put("/admin/policies/t/n", msgspec.json.encode(java), expected_version=None)

    async def stored(**changed: Any) -> Any:
        await records.update("t/n", lambda found: replace(found, **changed))
        found = await store.get("/admin/policies/t/n")
        assert found is not None
        return msgspec.json.decode(found.value)

    held = (await records.get_fresh("t/n") or NONE).backlog_quota_map
    aged = replace(held["message_age"], limit_time=8)
    found = (await stored(backlog_quota_map={**held, "message_age": aged}))["backlog_quota_map"]
    assert found["message_age"].items() >= {"limitTime": 8, "policy": "newer", "limitOfNext": 3}.items()
    assert found["destination_storage"] == quotas["destination_storage"]
    found = (await stored(backlog_quota_map={"message_age": aged}))["backlog_quota_map"]
    assert found.keys() == {"message_age"}, "a quota that was removed is gone, with all of it"
    found = (await stored(retention_policies=RetentionPolicies(6, 0)))["retention_policies"]
    assert found == {"retentionTimeInMinutes": 6, "retentionSizeInMB": 0, "retentionOfNext": 7}
    records.close()
    await store.close()
