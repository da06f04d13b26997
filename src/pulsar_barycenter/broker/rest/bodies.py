"""The types of the request bodies that the route table names."""

from collections.abc import Mapping
from typing import Any, Final

from pulsar_barycenter.admin.routes.route import Route
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
from pulsar_barycenter.broker.rest.bookies import BookieInfo
from pulsar_barycenter.broker.rest.compaction import Bytes
from pulsar_barycenter.broker.rest.namespace_limits import Limit
from pulsar_barycenter.broker.rest.partitioned_topics import Partitions, WithProperties
from pulsar_barycenter.broker.rest.schemas import PostSchemaPayload
from pulsar_barycenter.broker.rest.subscriptions import ResetCursorData
from pulsar_barycenter.load.policies import FailureDomain, NamespaceIsolationData
from pulsar_barycenter.load.reports.load_report import ResourceQuota

BODIES: Final[Mapping[str, Any]] = {
    "AutoSubscriptionCreationOverride": AutoSubscriptionCreationOverride,
    "AutoTopicCreationOverride": AutoTopicCreationOverride,
    "BacklogQuota": BacklogQuota,
    "BookieAffinityGroup": BookieAffinityGroup,
    "BookieInfo": BookieInfo,
    "Bytes": Bytes,
    "ClusterData": ClusterData,
    "ClusterUrl": ClusterUrl,
    "DelayedDeliveryPolicies": DelayedDeliveryPolicies,
    "DispatchRate": DispatchRate,
    "EntryFilters": EntryFilters,
    "FailureDomain": FailureDomain,
    "InactiveTopicPolicies": InactiveTopicPolicies,
    "Limit": Limit,
    "MessageId": ResetCursorData,
    "Names": list[str],
    "NamespaceIsolationData": NamespaceIsolationData,
    "PartRequest": PartRequest,
    "PostSchemaPayload": PostSchemaPayload,
    "PartitionedTopic": Partitions | WithProperties,
    "PersistencePolicies": PersistencePolicies,
    "Policies": Policies,
    "PublishRate": PublishRate,
    "ResourceGroup": ResourceGroup,
    "ResourceQuota": ResourceQuota,
    "RetentionPolicies": RetentionPolicies,
    "SubscribeRate": SubscribeRate,
    "SubscriptionStart": ResetCursorData | str,
    "TenantInfo": TenantInfo,
}


def body_type(row: Route) -> Any:
    """Return the Python type of the bodies of requests to the route `row`; None if its requests have no body."""
    return BODIES[row.body] if isinstance(row.body, str) else row.body
