"""The records of clusters, tenants, namespaces and topics, and the rules for creating a topic when a client first uses
it.

A topic that does not exist is created by its first use if all of these rules apply:

| rule                                                                         | else                         |
|------------------------------------------------------------------------------|------------------------------|
| its namespace exists and is not being deleted                                | no topic                     |
| the namespace's `autoTopicCreationOverride`, or the configuration, allows it | only system topics           |
| a partition belongs to a partitioned topic and its index is below the count  | no topic                     |
| it is not itself a partitioned topic                                         | only its partitions exist    |
| the namespace has fewer topics than `maxTopicsPerNamespace`                  | no more topics               |

The brokers' own namespaces (heartbeat, `pulsar/system`) need no record.
Source: Pulsar's `PulsarResources`, `BrokerService.isAllowAutoTopicCreationAsync`, `NamespaceService`.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import structlog
from msgspec.structs import replace

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import NamespaceNotFoundError
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.namespaces.cluster_policies import CLUSTERS_ROOT
from pulsar_barycenter.broker.namespaces.own_policies import NO_OWN_POLICIES, NoOwnPolicies, OwnPolicySource, overlaid
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import (
    ANY_BOOKIES,
    BookieAffinityGroup,
    ClusterData,
    ClusterPolicies,
    LocalPolicies,
    PartitionedTopicMetadata,
    Policies,
    ResourceGroup,
    TenantInfo,
)
from pulsar_barycenter.broker.namespaces.records import Records
from pulsar_barycenter.broker.namespaces.topic_limits import NO_LIMITS, TopicLimits
from pulsar_barycenter.broker.namespaces.topic_rules import (
    NO_GROUP_RATE,
    GroupRate,
    TopicRules,
    group_rate_of,
    rules_of,
    rules_of_system_topic,
)
from pulsar_barycenter.broker.schemas.compatibility import BY_OLD_NAME, Strategy, effective
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.policies import FailureDomain
from pulsar_barycenter.load.reports.load_report import ResourceQuota
from pulsar_barycenter.metadata.errors import AlreadyExistsError, InvalidValueError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import (
    DOMAINS,
    MAX_PARTITIONS,
    TopicName,
    decode_local_name,
    is_change_events,
    is_system_topic,
)

log = structlog.get_logger(__name__)

MANAGED_LEDGERS: Final = "/managed-ledgers"
CHANGE_EVENTS_THRESHOLD_BYTES: Final = 256 << 10
"""The compaction threshold in bytes of the topics that store topic policies: a broker reads such a topic before it
serves other topics of the namespace.
"""
NO_POLICIES: Final = Policies()
SHARED_RULES: Final = 1_000
"""The maximum number of namespaces whose rules are cached, so that their topics share one object."""
RESOURCE_GROUPS: Final = "/admin/resourcegroups"
POLICIES_READ_ONLY: Final = "/admin/flags/policies-readonly"


class Resources:
    """The records of the cluster, and what every broker can find out about a topic, even if it does not own the topic's
    bundle.

    Implements TopicDirectory and TopicPolicies.
    """

    def __init__(self, store: MetadataStore, config: ConfigHolder) -> None:
        self.store = store
        self._config = config
        self._loaded_topics: Callable[[], Iterable[TopicName]] = tuple
        self._own: OwnPolicySource = NoOwnPolicies()
        self._shared_rules: Recent[NamespaceName, tuple[Policies, BrokerConfig, GroupRate, TopicRules]] = Recent(
            SHARED_RULES
        )
        """The rules of a namespace's topics without policies of their own, with what they were made of."""
        age_s = config.current.metadata_store_cache_expiry_seconds
        self.clusters = Records(store, ClusterData, CLUSTERS_ROOT, age_s)
        self.cluster_policies = Records(store, ClusterPolicies, CLUSTERS_ROOT, age_s)
        self.isolation_policies: Records[dict[str, Any]] = Records(store, dict[str, Any], CLUSTERS_ROOT, age_s)
        self.failure_domains = Records(store, FailureDomain, CLUSTERS_ROOT, age_s)
        self.resource_quotas = Records(store, ResourceQuota, "/loadbalance/resource-quota", age_s)
        self.resource_groups = Records(store, ResourceGroup, RESOURCE_GROUPS, age_s)
        self.tenants = Records(store, TenantInfo, "/admin/policies", age_s)
        self.namespaces = Records(store, Policies, "/admin/policies", age_s)
        self.local_policies = Records(store, LocalPolicies, "/admin/local-policies", age_s)
        self.partitioned_topics = Records(store, PartitionedTopicMetadata, "/admin/partitioned-topics", age_s)

    def attach_loaded_topics(self, loaded_topics: Callable[[], Iterable[TopicName]]) -> None:
        """Set the function that returns the loaded topics: non-persistent topics exist only in memory."""
        self._loaded_topics = loaded_topics

    def attach_own_policies(self, source: OwnPolicySource) -> None:
        """Set the object that has the policies of single topics; a topic's own policy replaces that of its
        namespace.
        """
        self._own = source

    def close(self) -> None:
        self.isolation_policies.close()
        self.cluster_policies.close()
        self.failure_domains.close()
        self.resource_quotas.close()
        self.resource_groups.close()
        for records in (self.clusters, self.tenants, self.namespaces, self.local_policies, self.partitioned_topics):
            records.close()

    # ---- namespaces ----

    async def namespaces_of(self, tenant: str) -> list[NamespaceName]:
        """Return the namespaces of a tenant. Keys whose value is not a valid policies record are skipped."""
        found = []
        for name in await self.namespaces.names(tenant):
            try:
                namespace = NamespaceName.of(tenant, name)
                if await self.namespaces.get(str(namespace)) is not None:
                    found.append(namespace)
            except (InvalidNameError, InvalidValueError):
                continue
        return found

    async def policies_are_read_only(self) -> bool:
        return await self.store.exists(POLICIES_READ_ONLY)

    # ---- topics ----

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        """Return the names of a namespace's topics, sorted. Each partition is listed as a topic.

        `mode`: "PERSISTENT" (all that exist), "NON_PERSISTENT" (those in this broker's memory) or "ALL".
        """
        names: list[str] = []
        if mode != "NON_PERSISTENT":
            names += [str(topic) for topic in await self.persistent_topics(namespace)]
        if mode != "PERSISTENT":
            loaded = self._loaded_topics()
            names += [str(topic) for topic in loaded if not topic.is_persistent and topic.namespace == namespace]
        return sorted(names)

    async def persistent_topics(self, namespace: NamespaceName) -> list[TopicName]:
        """Return the persistent topics of a namespace, in the store's order. Each partition is listed as a topic."""
        topics = []
        for encoded in await self.store.children(f"{MANAGED_LEDGERS}/{namespace}/persistent"):
            try:
                topics.append(TopicName.of("persistent", namespace, decode_local_name(encoded)))
            except InvalidNameError:
                continue  # not written by a broker
        return topics

    async def topic_exists(self, topic: TopicName) -> bool:
        """Return whether a persistent topic has a ledger, or a non-persistent one is in this broker's memory."""
        if topic.is_persistent:
            return await self.store.exists(f"{MANAGED_LEDGERS}/{topic.persistence_name}")
        return topic in set(self._loaded_topics())

    async def partitioned_topics_of(self, namespace: NamespaceName, domain: str | None = None) -> list[TopicName]:
        """Return the partitioned topics of a namespace, of one domain or of both. Partitions are not listed."""
        topics: list[TopicName] = []
        for of_domain in DOMAINS if domain is None else (domain,):
            encoded = await self.partitioned_topics.names(f"{namespace}/{of_domain}")
            for name in encoded:
                with suppress(InvalidNameError):  # not written by a broker
                    topics.append(TopicName.of(of_domain, namespace, decode_local_name(name)))
        return topics

    async def partitioned_metadata(self, topic: TopicName, *, fresh: bool = False) -> PartitionedTopicMetadata | None:
        """Return the record of a partitioned topic, None if the topic is not partitioned. `fresh`: read it from the
        store, not from the cache.

        If the stored number of partitions is out of range, the result has the nearest allowed number, so that the topic
        can still be deleted.
        """
        name = partitioned_topic_name(topic)
        found = await (self.partitioned_topics.get_fresh(name) if fresh else self.partitioned_topics.get(name))
        if found is None or 0 <= found.partitions <= MAX_PARTITIONS:
            return found
        log.warning("partitions_out_of_range", topic=str(topic), stored=found.partitions, limit=MAX_PARTITIONS)
        return replace(found, partitions=min(max(0, found.partitions), MAX_PARTITIONS))

    async def pending_change(self, partition: TopicName) -> PartitionedChange | None:
        """Return the change of a partitioned topic that is in progress and concerns `partition`, read from the store;
        None if there is none.

        Also None for a topic that is not a partition, and if the topic's record cannot be decoded, so that its
        partitions are still served.

        Raises:
            MetadataError: the store did not answer.
        """
        if not partition.is_partition:
            return None
        try:
            found = await self.partitioned_metadata(partition.partitioned_name, fresh=True)
        except InvalidValueError as error:
            log.warning("partitioned_topic_not_read", topic=str(partition), reason=str(error))
            return None
        return None if found is None else found.pending

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        """Return the number of partitions of a topic, 0 if it is not partitioned.

        With `auto_create`, a topic that does not exist is created as a partitioned topic, if its policies say that
        topics which clients create by using them are partitioned.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
        """
        if topic.is_partition or needs_no_record(topic.namespace):
            return 0
        found = await self.partitioned_metadata(topic)
        if found is not None:
            return found.partitions
        policies = await self.namespaces.get(str(topic.namespace))
        if policies is None:
            raise NamespaceNotFoundError(topic.namespace)
        count = self._partitions_to_create(policies)
        if not (auto_create and count and await self._may_create_new(topic, policies)):
            return 0
        if await self.topic_exists(topic):
            return 0
        try:
            await self.partitioned_topics.create(partitioned_topic_name(topic), PartitionedTopicMetadata(count))
        except AlreadyExistsError:
            found = await self.partitioned_metadata(topic, fresh=True)
            return 0 if found is None else found.partitions
        return count

    # ---- rules of creation by use ----

    async def may_create(self, topic: TopicName) -> bool:
        """Return whether `topic`, which does not exist, is created when a client uses it. A partition is created if its
        partitioned topic exists and has it. A topic that exists as a partitioned topic is not created again without
        partitions.
        """
        if needs_no_record(topic.namespace):
            return True
        policies = await self.namespaces.get(str(topic.namespace))
        if policies is None or policies.deleted:
            return False
        if topic.is_partition:
            base = await self.partitioned_metadata(topic.partitioned_name)
            return base is not None and not base.deleted and topic.partition_index < base.partitions
        if await self.partitioned_metadata(topic) is not None:
            return False
        return await self._may_create_new(topic, policies)

    async def may_subscribe(self, topic: TopicName) -> bool:
        """Return whether a subscription of `topic` that does not exist is created when a client uses it."""
        if is_system_topic(topic):
            return True
        policies = await self.policies_of(topic)
        override = policies.auto_subscription_creation_override
        if override is not None:
            return override.allow_auto_subscription_creation
        return self._config.current.allow_auto_subscription_creation

    async def known(self, topic: TopicName) -> None:
        if not is_system_topic(topic):
            await self._own.known(topic)

    async def deleted(self, topic: TopicName) -> None:
        await self._own.remove(topic)

    async def policies_of(self, topic: TopicName) -> Policies:
        """Return the policies of a topic. A policy that is set for the topic itself is used; if it is not set, that of
        the namespace; if that is not set, the default.
        """
        policies = None if needs_no_record(topic.namespace) else await self.namespaces.get(str(topic.namespace))
        policies = policies or Policies()
        return policies if is_system_topic(topic) else overlaid(policies, self._own.of(topic))

    async def deduplicates(self, topic: TopicName) -> bool:
        """Return whether a topic uses deduplication. The topic's policies decide; if they do not set this, the
        configuration decides.
        """
        own = (await self.policies_of(topic)).deduplication_enabled
        return self._config.current.broker_deduplication_enabled if own is None else own

    async def compaction_threshold(self, topic: TopicName) -> int:
        """Return the number of uncompacted bytes above which a topic is compacted; 0: never. The topic's policies
        decide; if they do not set this, the configuration decides.
        """
        if is_change_events(topic):
            return CHANGE_EVENTS_THRESHOLD_BYTES
        own = (await self.policies_of(topic)).compaction_threshold
        return self._config.current.broker_service_compaction_threshold_in_bytes if own is None else own

    async def rules(self, topic: TopicName) -> TopicRules:
        """Return the rules for a topic, made from its policies and the configuration, without its limits, which
        `Resources.limits` returns. For a system topic only the configuration counts.
        """
        config = self._config.current
        if is_system_topic(topic) or needs_no_record(topic.namespace):
            return rules_of_system_topic(config)
        policies = await self.namespaces.get(str(topic.namespace)) or NO_POLICIES
        group_rate = await self._group_rate(policies.resource_group_name)
        own = self._own.of(topic)
        if own is not NO_OWN_POLICIES:
            return rules_of(policies, own, config, group_rate)
        shared = self._shared_rules.get(topic.namespace)
        if shared is None or shared[0] is not policies or shared[1] is not config or shared[2] != group_rate:
            shared = policies, config, group_rate, rules_of(policies, NO_OWN_POLICIES, config, group_rate)
            self._shared_rules.put(topic.namespace, shared)
        return shared[3]

    async def _group_rate(self, name: str | None) -> GroupRate:
        """Return the rate of a resource group; no limit for None, a group that does not exist, or a damaged record."""
        if not name:
            return NO_GROUP_RATE
        try:
            group = await self.resource_groups.get(name)
        except InvalidValueError as error:
            log.warning("resource_group_not_read", group=name, reason=str(error))
            return NO_GROUP_RATE
        return NO_GROUP_RATE if group is None else group_rate_of(name, group)

    async def bookies(self, topic: TopicName) -> BookieAffinityGroup:
        """Return the groups of bookies on which the entries of a topic's new ledgers are stored."""
        local = None if needs_no_record(topic.namespace) else await self.local_policies.get(str(topic.namespace))
        return ANY_BOOKIES if local is None else local.bookie_affinity_group or ANY_BOOKIES

    async def _policies_of_clients_topic(self, topic: TopicName) -> Policies | None:
        """Return the policies of a topic that clients use; None for a topic that only brokers use."""
        if is_system_topic(topic) or needs_no_record(topic.namespace):
            return None
        return await self.policies_of(topic)

    async def schema_rules(self, topic: TopicName) -> SchemaRules:
        """Return the rules for the schemas of a topic. The topic's policies decide; what they do not set, the
        configuration decides.

        Source: Pulsar's `AbstractTopic.getSchemaCompatibilityStrategy`, `allowAutoUpdateSchema`.
        """
        config = self._config.current
        if is_system_topic(topic):
            return SchemaRules(effective(Strategy(config.system_topic_schema_compatibility_strategy)))
        policies = await self.policies_of(topic)
        own = policies.is_allow_auto_update_schema
        return SchemaRules(
            effective(
                policies.schema_compatibility_strategy or Strategy.UNDEFINED,
                Strategy(config.schema_compatibility_strategy),
                BY_OLD_NAME.get(policies.schema_auto_update_compatibility_strategy or "", Strategy.UNDEFINED),
            ),
            may_update=config.is_allow_auto_update_schema_enabled if own is None else own,
            are_enforced=policies.schema_validation_enforced or config.is_schema_validation_enforced,
        )

    async def limits(self, topic: TopicName) -> TopicLimits:
        """Return the limits of a topic. The topic's policies decide; what they do not set, the configuration
        decides.
        """
        policies = await self._policies_of_clients_topic(topic)
        return NO_LIMITS if policies is None else limits_of(policies, self._config.current)

    async def lookup_exists(self, topic: TopicName) -> bool:
        """Return whether a look-up of the topic may be answered: the topic exists, or would be created when a client
        uses it.

        True for every non-persistent topic: only its owner knows whether it exists.
        """
        if not topic.is_persistent or self.may_create_if_cached(topic) or await self.may_create(topic):
            return True
        return await self.topic_exists(topic) or await self.partitioned_metadata(topic) is not None

    def may_create_if_cached(self, topic: TopicName) -> bool:
        """Return True if the cached policies show that a client's use of `topic` would create it. Does not wait. False:
        it would not, or the cache does not show it; call `may_create` to find out.
        """
        if topic.is_partition or not topic.is_persistent:
            return not topic.is_persistent
        policies = self.namespaces.get_if_cached(str(topic.namespace))
        if policies is None or policies.deleted:
            return False
        return self._allows(policies) and not self._topic_limit(policies)

    async def has_room_for_topics(self, namespace: NamespaceName, policies: Policies, new: int = 1) -> bool:
        """Return whether a namespace may get `new` more topics without exceeding `maxTopicsPerNamespace`. Persistent
        topics count, each partition as one; system topics do not.
        """
        limit = self._topic_limit(policies)
        if not limit:
            return True
        topics = [topic for topic in await self.persistent_topics(namespace) if not is_system_topic(topic)]
        return len(topics) + new <= limit

    async def _may_create_new(self, topic: TopicName, policies: Policies) -> bool:
        if policies.deleted:
            return False
        if is_system_topic(topic):
            return True
        return self._allows(policies) and await self.has_room_for_topics(topic.namespace, policies)

    def _allows(self, policies: Policies) -> bool:
        override = policies.auto_topic_creation_override
        if override is not None:
            return override.allow_auto_topic_creation
        return self._config.current.allow_auto_topic_creation

    def _topic_limit(self, policies: Policies) -> int:
        limit = policies.max_topics_per_namespace
        return self._config.current.max_topics_per_namespace if limit is None else limit

    def _partitions_to_create(self, policies: Policies) -> int:
        """Return the number of partitions that a topic gets when a client's use creates it; 0: it is not
        partitioned.
        """
        config = self._config.current
        override = policies.auto_topic_creation_override
        kind, count = config.allow_auto_topic_creation_type, config.default_num_partitions
        if override is not None and override.topic_type is not None:
            kind, count = override.topic_type, override.default_num_partitions or count  # type: ignore[assignment]
        if kind != "partitioned":
            return 0
        return max(1, min(count, most_partitions(config)))


def limits_of(policies: Policies, config: BrokerConfig) -> TopicLimits:
    """Return the limits of a namespace's topics. The namespace's policies decide; for a limit that they do not set, or
    set below 0, the configuration decides.
    """
    pairs = (
        (policies.max_producers_per_topic, config.max_producers_per_topic),
        (policies.max_consumers_per_topic, config.max_consumers_per_topic),
        (policies.max_consumers_per_subscription, config.max_consumers_per_subscription),
        (policies.max_subscriptions_per_topic, config.max_subscriptions_per_topic),
    )
    return TopicLimits(*(own if own is not None and own >= 0 else broker for own, broker in pairs))


def most_partitions(config: BrokerConfig) -> int:
    """Return the maximum number of partitions that a topic may have."""
    return min(config.max_num_partitions_per_partitioned_topic or MAX_PARTITIONS, MAX_PARTITIONS)


def partitioned_topic_name(topic: TopicName) -> str:
    """Return the path of a partitioned topic's record below `/admin/partitioned-topics`."""
    return topic.persistence_name
