"""No request succeeds in part: a field that no code reads is refused by name, unless it is empty."""

import re
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.admin.routes.route import Route
from pulsar_barycenter.admin.routes.table import ROUTES
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    AutoTopicCreationOverride,
    BacklogQuota,
    BookieAffinityGroup,
    ClusterData,
    ClusterUrl,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    ResourceGroup,
    RetentionPolicies,
    SubscribeRate,
    TenantInfo,
)
from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest
from pulsar_barycenter.broker.rest.bodies import body_type
from pulsar_barycenter.broker.rest.body_fields import NOT_DONE, require_known_fields
from pulsar_barycenter.broker.rest.bookies import BookieInfo
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.partitioned_topics import WithProperties
from pulsar_barycenter.broker.rest.schemas import PostSchemaPayload
from pulsar_barycenter.broker.rest.subscriptions import ResetCursorData
from pulsar_barycenter.load.policies import FailureDomain, NamespaceIsolationData
from pulsar_barycenter.load.reports.load_report import ResourceQuota
from support.rest_cluster import rest_cluster

POLICY = {
    "namespaces": ["public/.*"],
    "primary": ["b.*"],
    "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}},
    "unload_scope": "none",
}

OBJECTS: dict[type, dict[str, Any]] = {
    AutoSubscriptionCreationOverride: {"allowAutoSubscriptionCreation": True},
    AutoTopicCreationOverride: {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    BacklogQuota: {"limitSize": 1, "policy": "producer_exception"},
    ClusterData: {"serviceUrl": "http://b1:8080"},
    ClusterUrl: {"serviceUrl": "http://b1:8080"},
    EntryFilters: {"entryFilterNames": ""},
    FailureDomain: {"brokers": ["b1:8080"]},
    NamespaceIsolationData: POLICY,
    PartRequest: {"topic": "persistent://public/ns/parted-partition-0", "id": "1", "step": "ask"},
    Policies: {"bundles": {"numBundles": 2}},
    PostSchemaPayload: {"type": "STRING"},
    ResetCursorData: {"ledgerId": -1, "entryId": -1},
    ResourceQuota: {"msgRateIn": 1.0},
    RetentionPolicies: {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1},
    DelayedDeliveryPolicies: {"active": True},
    DispatchRate: {"dispatchThrottlingRateInMsg": 1},
    InactiveTopicPolicies: {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 1,
    },
    PersistencePolicies: {"managedLedgerMaxMarkDeleteRate": 1.0},
    PublishRate: {"publishThrottlingRateInMsg": 1},
    ResourceGroup: {"publishRateInMsgs": 1},
    BookieAffinityGroup: {"bookkeeperAffinityGroupPrimary": "g"},
    BookieInfo: {"rack": "/r"},
    SubscribeRate: {"subscribeThrottlingRatePerConsumer": 1},
    TenantInfo: {"allowedClusters": ["standalone"]},
    WithProperties: {"partitions": 2},
}
"""A body of each type that is an object with fields of its own."""

ABOUT_MESSAGES = {"Cursors", "Messages", "Backlogs"}
"""Groups whose requests are about a subscription or a topic that is not there: 404 after the body was accepted."""

EMPTY: list[Any] = [None, False, 0, "", [], {}]


def object_in(body: Any) -> type | None:
    """Return the type of an object with fields that a body may be."""
    kinds = [body, *getattr(body, "__args__", ())]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)


def with_bodies() -> list[tuple[Route, type]]:
    found = [(row, object_in(body_type(row))) for row in ROUTES if row.body is not None]
    return [(row, kind) for row, kind in found if kind is not None]


def path_of(operation: Route, number: int) -> str:
    """Return a path whose objects are there, or are not there yet if the request creates them."""
    is_new = operation.method == "PUT"
    parts = {
        "domain": "persistent",
        "tenant": "public" if "namespace" in operation.parts or not is_new else f"tenant-{number}",
        "namespace": f"ns-{number}" if is_new and operation.path.endswith("{namespace}") else "ns",
        "cluster": f"cluster-{number}" if is_new else "standalone",
        "topic": f"topic-{number}" if is_new or operation.group in ABOUT_MESSAGES else "parted",
        "range": "0x00000000_0x40000000",
    }
    return re.sub(r"\{(\w+)[^}]*\}", lambda part: parts.get(part[1], f"{part[1]}-{number}"), operation.path)


def test_every_body_of_fields_is_in_the_table() -> None:
    assert {kind for _, kind in with_bodies()} == set(OBJECTS)


async def test_every_route_refuses_an_unknown_field_by_name() -> None:
    """A misspelt field would otherwise be ignored in a request that succeeds."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parted/partitions", 1)
        for number, (operation, kind) in enumerate(with_bodies()):
            body = {**OBJECTS[kind], "retentionDays": 7}
            refused = await cluster.call(operation.method, path_of(operation, number), body)
            assert refused.status == 400, (operation.method, operation.path, refused.body)
            assert "retentionDays = 7" in refused.reason, (operation.path, refused.reason)


async def test_every_route_accepts_an_unknown_field_that_says_nothing() -> None:
    """Pulsar's tools send what newer classes have, with null or the default of Java."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parted/partitions", 1)
        for number, (operation, kind) in enumerate(with_bodies()):
            body = {**OBJECTS[kind], **{f"newField{place}": value for place, value in enumerate(EMPTY)}}
            required = {"group": "g"} if operation.path.endswith("{bookie}") else {}
            answer = await cluster.call(operation.method, path_of(operation, number), body, **required)
            accepted = (404,) if operation.group in ABOUT_MESSAGES else (200, 202, 204)
            assert answer.status in accepted, (operation.method, operation.path, answer.body)


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        (Policies, {"bundles": {"count": 4}}, "bundles.count = 4"),
        (Policies, {"auth_policies": {"namespaceAuth": {"me": ["produce"]}}}, "auth_policies.namespaceAuth"),
        (Policies, {"autoTopicCreationOverride": {"partitions": 3}}, "autoTopicCreationOverride.partitions = 3"),
        (NamespaceIsolationData, {"auto_failover_policy": {"parameters": {"limit": 1}}},
         "auto_failover_policy.parameters.limit = 1"),
        (ResetCursorData | str, {"position": "1:2"}, 'position = "1:2"'),
        (list[TenantInfo], [{}, {"roles": ["a"]}], '[1].roles = ["a"]'),
        (dict[str, TenantInfo], {"t": {"roles": ["a"]}}, 't.roles = ["a"]'),
    ],
)  # fmt: skip
def test_a_field_within_others_is_named_by_its_path(kind: Any, body: Any, path: str) -> None:
    with pytest.raises(RestError, match=re.escape(path)) as refused:
        require_known_fields(body, kind)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", sorted(NOT_DONE[Policies]))
def test_policies_that_no_broker_acts_on_are_refused(name: str) -> None:
    """A namespace with a retention that no broker keeps would lose messages its creator wanted."""
    for value in ("x", 7, {"a": 1}):
        with pytest.raises(RestError, match=name):
            require_known_fields({name: value}, Policies)
    for value in EMPTY:
        require_known_fields({name: value}, Policies)


def test_policies_not_done_are_fields_of_the_record() -> None:
    for kind, names in NOT_DONE.items():
        assert names <= {field.encode_name for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]


def test_a_new_policies_object_of_java_is_accepted() -> None:
    """Every field of Pulsar's `Policies` as its constructor leaves it, which is what `namespaces create` sends."""
    java = {
        "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
        "replication_clusters": [],
        "allowed_clusters": [],
        "bundles": {"boundaries": None, "numBundles": 4},
        "backlog_quota_map": {},
        "clusterDispatchRate": {},
        "topicDispatchRate": {},
        "subscriptionDispatchRate": {},
        "replicatorDispatchRate": {},
        "clusterSubscribeRate": {},
        "persistence": None,
        "deduplicationEnabled": None,
        "autoTopicCreationOverride": None,
        "autoSubscriptionCreationOverride": None,
        "publishMaxMessageRate": {},
        "latency_stats_sample_rate": {},
        "message_ttl_in_seconds": None,
        "subscription_expiration_time_minutes": None,
        "retention_policies": None,
        "deleted": False,
        "encryption_required": False,
        "delayed_delivery_policies": None,
        "inactive_topic_policies": None,
        "subscription_auth_mode": "None",
        "max_producers_per_topic": None,
        "compaction_threshold": None,
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "offload_deletion_lag_ms": None,
        "schema_auto_update_compatibility_strategy": "Full",
        "schema_compatibility_strategy": "UNDEFINED",
        "is_allow_auto_update_schema": None,
        "is_allow_auto_update_schema_with_replicator": True,
        "schema_validation_enforced": False,
        "offload_policies": None,
        "deduplicationSnapshotIntervalSeconds": None,
        "subscription_types_enabled": [],
        "properties": {},
        "resource_group_name": None,
        "entryFilters": None,
        "migrated": False,
        "dispatcherPauseOnAckStatePersistentEnabled": None,
    }
    require_known_fields(java, Policies)


def test_what_pulsar_admin_sends_of_a_cluster_and_of_a_namespace_is_accepted() -> None:
    """Seen of pulsar-admin 4.0.8: a default that is not empty, and what a getter works out of others; and of Go."""
    cluster = {
        "serviceUrl": "http://o:8080",
        "brokerServiceUrl": "pulsar://o:6650",
        "brokerClientTlsEnabled": False,
        "tlsAllowInsecureConnection": False,
        "brokerClientTlsEnabledWithKeyStore": False,
        "brokerClientTlsTrustStoreType": "JKS",
        "brokerClientTlsKeyStoreType": "JKS",
        "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
        "brokerClientSslFactoryPluginParams": "",
    }
    require_known_fields(cluster, ClusterData)
    require_known_fields(
        {"replication_clusters": ["standalone"], "clusterThatCanDeleteNamespace": "standalone"}, Policies
    )
    go = {"antiAffinityGroup": "", "offload_threshold": -1, "schema_auto_update_compatibility_strategy": "Full"}
    require_known_fields(go, Policies)
    with pytest.raises(RestError, match=r'brokerClientSslFactoryPlugin = "org.example.Own"'):
        require_known_fields({**cluster, "brokerClientSslFactoryPlugin": "org.example.Own"}, ClusterData)


def test_many_unknown_fields_and_long_values_make_a_short_reason() -> None:
    with pytest.raises(RestError) as refused:
        require_known_fields({f"field{number}": "x" * 5_000 for number in range(500)}, TenantInfo)
    assert len(refused.value.reason) < 1_200
    assert "and 490 more" in refused.value.reason
