"""The settings of topics, their dispatchers and their ledgers, from the broker's configuration."""

from dataclasses import dataclass, field, replace
from functools import partial

from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.broker.subscriptions.sticky_keys import AutoSplit, HalvedRanges, HashRing
from pulsar_barycenter.broker.topics.deduplication import DeduplicationSettings
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings


@dataclass(frozen=True, slots=True)
class TopicSettings(DispatchSettings):
    """The settings of topics and their dispatchers."""

    deduplication: DeduplicationSettings = field(default_factory=DeduplicationSettings)

    @staticmethod
    def of(config: BrokerConfig) -> "TopicSettings":
        return TopicSettings(
            failover_delay_s=config.active_consumer_failover_delay_time_millis / 1000,
            max_unacked_per_consumer=config.max_unacked_messages_per_consumer,
            max_unacked_per_subscription=config.max_unacked_messages_per_subscription,
            max_read_entries=config.dispatcher_max_read_batch_size,
            auto_split=auto_split_of(config),
            deduplication=DeduplicationSettings.of(config),
        )

    def under(self, rules: TopicRules) -> "TopicSettings":
        """Return a copy of these settings. The values that the rules of a topic set replace the broker's values."""
        interval_ms = round(rules.deduplication_interval_s * 1000)
        return replace(
            self,
            max_unacked_per_consumer=rules.max_unacked_per_consumer,
            max_unacked_per_subscription=rules.max_unacked_per_subscription,
            delays=rules.delayed.active,
            deduplication=replace(self.deduplication, snapshot_interval_ms=interval_ms),
        )


def auto_split_of(config: BrokerConfig) -> AutoSplit:
    """Return the function that creates the selector for Key_Shared subscriptions, which divides the slots of keys among
    consumers: a hash ring or halved ranges, as the configuration says.
    """
    if config.subscription_key_shared_use_consistent_hashing:
        return partial(HashRing, config.subscription_key_shared_consistent_hashing_replica_points)
    return HalvedRanges


def ledger_settings(config: BrokerConfig) -> LedgerSettings:
    """Return the settings to open ledgers with, from the configuration of the broker."""
    partly_acked = config.managed_ledger_max_batch_deleted_index_to_persist
    return LedgerSettings(
        max_entries_per_ledger=config.managed_ledger_max_entries_per_ledger,
        max_bytes_per_ledger=config.managed_ledger_max_size_per_ledger_mbytes << 20,
        max_ledger_age_ms=round(config.managed_ledger_max_ledger_rollover_time_minutes * 60_000),
        mark_delete_per_second=config.managed_ledger_default_mark_delete_rate_limit,
        max_partly_acked_entries=partly_acked if config.acknowledgment_at_batch_index_level_enabled else 0,
        skip_non_recoverable=config.auto_skip_non_recoverable_data,
    )
