"""The types of the stored records: clusters, tenants, namespaces and partitioned topics, with Pulsar's JSON names.

Fields of Pulsar that this program does not use have the type `Any`: they are stored and returned unchanged. Fields that
it does not know are kept when a record is updated (`records`).

Source: Pulsar's `Policies`, `LocalPolicies`, `BundlesData`, `TenantInfo`, `ClusterData`, `PartitionedTopicMetadata`,
`AutoTopicCreationOverride`, `RetentionPolicies`, `BacklogQuotaImpl`, `ResourceGroup`,
`BookieAffinityGroupDataImpl`, `ClusterPolicies`.
"""

import enum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType, field

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName


class BundlesData(msgspec.Struct, frozen=True, rename="camel"):
    """The boundaries of a namespace's bundles, as texts of the form `0x%08x`, ascending, and the number of bundles
    between them.
    """

    boundaries: tuple[str, ...] | None = None
    num_bundles: int = 0

    @staticmethod
    def from_bundles(bundles: NamespaceBundles) -> "BundlesData":
        return BundlesData(tuple(bundles.boundary_texts()), len(bundles))

    def to_bundles(
        self, namespace: NamespaceName, *, default_count: int = 1, version: int | None = None
    ) -> NamespaceBundles:
        """Return the bundles that this record describes: those between the boundaries if there are any, else
        `num_bundles` of equal width, or `default_count` if `num_bundles` is 0.

        Raises:
            InvalidBundlesError: the boundaries do not cover the hash range, or the count is out of range.
        """
        if self.boundaries:
            return NamespaceBundles.from_boundaries(namespace, self.boundaries, version)
        return NamespaceBundles.equal(namespace, self.num_bundles or default_count, version)


class BookieAffinityGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The groups of bookies on which the ledgers of a namespace are stored: names of groups, separated by commas.

    Bookies of the secondary groups are used if the primary groups have too few bookies.
    """

    bookkeeper_affinity_group_primary: str | None = None
    bookkeeper_affinity_group_secondary: str | None = None

    @property
    def primary(self) -> tuple[str, ...]:
        return _names(self.bookkeeper_affinity_group_primary)

    @property
    def secondary(self) -> tuple[str, ...]:
        return _names(self.bookkeeper_affinity_group_secondary)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


ANY_BOOKIES: Final = BookieAffinityGroup()
"""The group of a namespace without one: its ledgers may be on all bookies."""


class LocalPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """The policies of a namespace that are local to one cluster. `bundles` is the authoritative list of bundles."""

    bundles: BundlesData
    bookie_affinity_group: BookieAffinityGroup | None = None
    namespace_anti_affinity_group: str | None = None
    migrated: bool = False

    @staticmethod
    def from_bundles(bundles: NamespaceBundles) -> "LocalPolicies":
        return LocalPolicies(BundlesData.from_bundles(bundles))


class AutoTopicCreationOverride(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace's own rule, which replaces the configuration: whether a topic is created when a client first uses it,
    and if so with how many partitions.
    """

    allow_auto_topic_creation: bool = False
    topic_type: str | None = None
    default_num_partitions: int | None = None


class AutoSubscriptionCreationOverride(msgspec.Struct, frozen=True, rename="camel"):
    allow_auto_subscription_creation: bool = False


class RetentionPolicies(msgspec.Struct, frozen=True):
    """For how long, and up to which size of the topic, ledgers are kept after all their messages are acknowledged. -1:
    no limit. If either field is 0, such ledgers are not kept.
    """

    time_in_minutes: int = field(name="retentionTimeInMinutes", default=0)
    size_in_mb: int = field(name="retentionSizeInMB", default=0)


class BacklogQuota(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A limit of the backlog: its size, `limit_size` in bytes, or its age, `limit_time` in seconds. `policy` is
    Pulsar's name of what happens at the limit.

    `limit` is the older name of `limit_size`; Pulsar's brokers write both. A field without a value is not written,
    because Java reads null as 0.
    """

    limit: int | None = None
    limit_size: int | None = None
    limit_time: int | None = None
    policy: str | None = None


class DispatchRate(msgspec.Struct, frozen=True, rename="camel"):
    """How many messages and bytes are delivered in each period of `rate_period_in_second` seconds; -1 means no limit.

    `relative_to_publish_rate`: the rate at which messages arrive is added to both limits.
    """

    dispatch_throttling_rate_in_msg: int = -1
    dispatch_throttling_rate_in_byte: int = -1
    relative_to_publish_rate: bool = False
    rate_period_in_second: int = 1


class PublishRate(msgspec.Struct, frozen=True, rename="camel"):
    """How many messages and bytes are accepted in a second; 0 or below means no limit."""

    publish_throttling_rate_in_msg: int = -1
    publish_throttling_rate_in_byte: int = -1


class ResourceGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The rates of a resource group: how many messages and bytes all topics of its namespaces together accept and
    deliver in a second.

    A rate that is 0 or below, or missing, is no limit. Only the rates of accepted messages are applied. The rates of
    deliveries are stored without an effect, as in Pulsar.
    """

    publish_rate_in_msgs: int | None = None
    publish_rate_in_bytes: int | None = None
    dispatch_rate_in_msgs: int | None = None
    dispatch_rate_in_bytes: int | None = None


class SubscribeRate(msgspec.Struct, frozen=True, rename="camel"):
    """How often one consumer may attach in each period of `rate_period_in_second` seconds; 0 or below means
    no limit.
    """

    subscribe_throttling_rate_per_consumer: int = -1
    rate_period_in_second: int = 30


class PersistencePolicies(msgspec.Struct, frozen=True, rename="camel"):
    """How entries are stored. Only the rate at which cursors are stored has an effect. The numbers of bookies have
    none: the configuration decides on how many bookies the entries of a ledger are stored.
    """

    bookkeeper_ensemble: int = 2
    bookkeeper_write_quorum: int = 2
    bookkeeper_ack_quorum: int = 2
    managed_ledger_max_mark_delete_rate: float = 0.0
    managed_ledger_storage_class_name: str | None = None


class InactiveDeleteMode(enum.StrEnum):
    """Which unused topics are deleted: those without subscriptions, or those whose subscriptions have no backlog."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


class InactiveTopicPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """Whether topics that were not used for some time are deleted, after which time, and which of them."""

    inactive_topic_delete_mode: InactiveDeleteMode | None = None
    max_inactive_duration_seconds: int = 0
    delete_while_inactive: bool = False


class DelayedDeliveryPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a message with a delivery time is delivered only at that time. `max_delivery_delay_in_millis` is the
    longest time that a message may wait; 0 means no limit.
    """

    tick_time: int = 0
    active: bool = False
    max_delivery_delay_in_millis: int = 0


class EntryFilters(msgspec.Struct, frozen=True, rename="camel"):
    """The names of the filters that decide which entries are delivered, separated by commas."""

    entry_filter_names: str | None = None


class Policies(msgspec.Struct, frozen=True):
    """The policies of a namespace. `bundles` is a copy of the list in the local policies, which is authoritative."""

    auth_policies: Any = field(
        default_factory=lambda: {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
        }
    )
    replication_clusters: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()
    bundles: BundlesData | None = None
    backlog_quota_map: dict[str, BacklogQuota] = field(default_factory=dict)
    cluster_dispatch_rate: Any = field(name="clusterDispatchRate", default_factory=dict)
    topic_dispatch_rate: dict[str, DispatchRate] = field(name="topicDispatchRate", default_factory=dict)
    subscription_dispatch_rate: dict[str, DispatchRate] = field(name="subscriptionDispatchRate", default_factory=dict)
    replicator_dispatch_rate: dict[str, DispatchRate] = field(name="replicatorDispatchRate", default_factory=dict)
    cluster_subscribe_rate: dict[str, SubscribeRate] = field(name="clusterSubscribeRate", default_factory=dict)
    persistence: PersistencePolicies | None = None
    deduplication_enabled: bool | None = field(name="deduplicationEnabled", default=None)
    auto_topic_creation_override: AutoTopicCreationOverride | None = field(
        name="autoTopicCreationOverride", default=None
    )
    auto_subscription_creation_override: AutoSubscriptionCreationOverride | None = field(
        name="autoSubscriptionCreationOverride", default=None
    )
    publish_max_message_rate: dict[str, PublishRate] = field(name="publishMaxMessageRate", default_factory=dict)
    latency_stats_sample_rate: Any = field(default_factory=dict)
    message_ttl_in_seconds: int | None = None
    subscription_expiration_time_minutes: int | None = None
    retention_policies: RetentionPolicies | None = None
    deleted: bool = False
    encryption_required: bool = False
    delayed_delivery_policies: DelayedDeliveryPolicies | None = None
    inactive_topic_policies: InactiveTopicPolicies | None = None
    subscription_auth_mode: Any = "None"
    max_producers_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_unacked_messages_per_consumer: int | None = None
    max_unacked_messages_per_subscription: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_topics_per_namespace: int | None = None
    compaction_threshold: int | None = None
    offload_policies: Any = None
    schema_auto_update_compatibility_strategy: str | None = None
    schema_compatibility_strategy: Strategy | None = Strategy.UNDEFINED
    schema_validation_enforced: bool = False
    is_allow_auto_update_schema: bool | None = None
    deduplication_snapshot_interval_seconds: int | None = field(
        name="deduplicationSnapshotIntervalSeconds", default=None
    )
    subscription_types_enabled: tuple[str, ...] = ()
    dispatcher_pause_on_ack_state_persistent_enabled: bool | None = field(
        name="dispatcherPauseOnAckStatePersistentEnabled", default=None
    )
    properties: dict[str, str] = field(default_factory=dict)
    resource_group_name: str | None = None
    migrated: bool = False
    entry_filters: EntryFilters | None = field(name="entryFilters", default=None)


class TenantInfo(msgspec.Struct, frozen=True, rename="camel"):
    admin_roles: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()


class ClusterData(msgspec.Struct, frozen=True, rename="camel"):
    service_url: str | None = None
    service_url_tls: str | None = None
    broker_service_url: str | None = None
    broker_service_url_tls: str | None = None
    proxy_service_url: str | None = None
    proxy_protocol: str | None = None
    authentication_plugin: str | None = None
    authentication_parameters: str | None = None
    peer_cluster_names: tuple[str, ...] | None = None
    broker_client_tls_enabled: bool = False
    tls_allow_insecure_connection: bool = False
    broker_client_tls_enabled_with_key_store: bool | UnsetType = UNSET
    broker_client_trust_certs_file_path: str | UnsetType | None = UNSET
    listener_name: str | None = None


class ClusterUrl(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The addresses under which clients find the cluster to which their cluster has migrated."""

    service_url: str | None = None
    service_url_tls: str | None = None
    broker_service_url: str | None = None
    broker_service_url_tls: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no address at all."""
        return self == ClusterUrl()


class ClusterPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a cluster has migrated to another cluster (`migrated`), and the addresses of that other cluster; None:
    they are not set.
    """

    migrated: bool = False
    migrated_cluster_url: ClusterUrl | None = None


class PartitionedTopicMetadata(msgspec.Struct, frozen=True):
    """The record of a partitioned topic. `deleted` is set while its partitions are being deleted.

    `change` is a change of all its partitions that is in progress. It is set before the owners of the partitions are
    asked whether they agree, and removed after all of them have made the change, or if one did not agree.
    """

    partitions: int = 0
    deleted: bool = False
    properties: dict[str, str] | None = None
    change: PartitionedChange | UnsetType = field(name="barycenterChange", default=UNSET)

    @property
    def pending(self) -> PartitionedChange | None:
        return None if isinstance(self.change, UnsetType) else self.change
