"""Computes from a namespace's policies, else from the configuration, the rules for stored messages: retention, expiry,
backlog quotas.

Source: Pulsar's `AdminResource.checkBacklogQuota` and `validateRetentionPolicies`, and `BacklogQuotaManager`.
"""

from typing import Final

from pulsar_barycenter.admin.routes.namespace_storage import QUOTA_TYPES, SIZE_QUOTA
from pulsar_barycenter.broker.namespaces.policies import BacklogQuota, Policies, RetentionPolicies
from pulsar_barycenter.broker.namespaces.topic_limits import BacklogLimits, QuotaPolicy, StoragePolicies
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.ledger_settings import Retention

LONGEST_TIME: Final = 2**31 - 1
"""The largest number of a time policy, in the policy's own unit: Pulsar stores it as an int."""
LARGEST_RETENTION_MB: Final = 2**43 - 1
"""The largest size of a retention policy in MiB: in bytes it must fit into 64 bits."""


def storage_policies_of(policies: Policies, config: BrokerConfig) -> StoragePolicies:
    """Return the rules that decide for how long the stored messages of topics with these policies are kept."""
    return StoragePolicies(
        retention_of(policies, config), message_ttl_of(policies, config), backlog_limits_of(policies, config)
    )


def applied_retention(policies: Policies, config: BrokerConfig) -> RetentionPolicies:
    """Return the retention that applies to topics with these policies, in minutes and MB as in the policies."""
    return policies.retention_policies or RetentionPolicies(
        config.default_retention_time_in_minutes, config.default_retention_size_in_mb
    )


def applied_quotas(policies: Policies, config: BrokerConfig) -> dict[str, BacklogQuota]:
    """Return the backlog quotas that apply to topics with these policies. The keys are the types of quotas, by size and
    by age.
    """
    policy = config.backlog_quota_default_retention_policy
    by_size = BacklogQuota(limit_size=_default_size(config), limit_time=-1, policy=policy)
    by_age = BacklogQuota(limit_size=-1, limit_time=config.backlog_quota_default_limit_second, policy=policy)
    return {**dict(zip(QUOTA_TYPES, (by_size, by_age), strict=True)), **policies.backlog_quota_map}


def retention_of(policies: Policies, config: BrokerConfig) -> Retention:
    """Return the retention that applies to topics with these policies."""
    applied = applied_retention(policies, config)
    minutes, size_mb = applied.time_in_minutes, applied.size_in_mb
    return Retention(minutes * 60_000 if minutes >= 0 else -1, size_mb << 20 if size_mb >= 0 else -1)


def message_ttl_of(policies: Policies, config: BrokerConfig) -> int:
    """Return the time to live in seconds of messages in topics with these policies: at this age a message leaves every
    backlog, even if it is not acknowledged; 0: never.
    """
    own = policies.message_ttl_in_seconds
    return max(config.ttl_duration_default_in_seconds if own is None else own, 0)


def backlog_limits_of(policies: Policies, config: BrokerConfig) -> BacklogLimits:
    """Return the backlog quotas of a namespace's topics. If the policy of a quota (what happens at the limit) is
    unknown, that of the configuration is used.
    """
    by_size, by_age = (policies.backlog_quota_map.get(kind) for kind in QUOTA_TYPES)
    default = QuotaPolicy(config.backlog_quota_default_retention_policy)
    age_s = config.backlog_quota_default_limit_second if by_age is None else by_age.limit_time or 0
    return BacklogLimits(
        size=_default_size(config) if by_size is None else size_limit(by_size),
        size_policy=default if by_size is None else _policy(by_size, default),
        age_s=max(age_s, 0),
        age_policy=default if by_age is None else _policy(by_age, default),
    )


def size_limit(quota: BacklogQuota) -> int:
    """Return the limit of a quota in bytes; below 0: no limit."""
    limit = quota.limit if quota.limit_size is None else quota.limit_size
    return -1 if limit is None else limit


def _default_size(config: BrokerConfig) -> int:
    gibibytes = config.backlog_quota_default_limit_gb
    return int(gibibytes * (1 << 30)) if gibibytes > 0 else config.backlog_quota_default_limit_bytes


def _policy(quota: BacklogQuota, default: QuotaPolicy) -> QuotaPolicy:
    try:
        return QuotaPolicy(quota.policy)
    except ValueError:
        return default


def retention_fault(retention: RetentionPolicies) -> str | None:
    """Return why a retention policy is not allowed, None if it is valid."""
    time, size = retention.time_in_minutes, retention.size_in_mb
    if not -1 <= size <= LARGEST_RETENTION_MB:
        return f"size limit must be >= -1 and <= {LARGEST_RETENTION_MB}, not {size}"
    if not -1 <= time <= LONGEST_TIME:
        return f"time limit must be >= -1 and <= {LONGEST_TIME}, not {time}"
    if (time == 0) != (size == 0):
        return (
            "Setting a single time or size limit to 0 is invalid when one of the limits has a non-zero value. Use the "
            "value of -1 instead of 0 to ignore a specific limit. To disable retention both limits must be set to 0."
        )
    return None


def quota_exceeds_retention(policies: Policies, config: BrokerConfig) -> bool:
    """Return whether the backlog quota of a namespace is not below its retention, in size or in time. Pulsar does not
    allow this.

    Both limits (size and time) of the quota of the type for size are compared with the retention. If the namespace has
    only a quota of another type, the limits of the configured default quota are compared instead. If the namespace has
    no quota of its own, nothing is compared, and the result is False. A limit of the retention that is 0 or negative is
    not compared.
    """
    retention = policies.retention_policies
    if retention is None or not policies.backlog_quota_map:
        return False
    quota = policies.backlog_quota_map.get(SIZE_QUOTA)
    size = _default_size(config) if quota is None else size_limit(quota)
    seconds = config.backlog_quota_default_limit_second if quota is None else quota.limit_time or 0
    return (retention.size_in_mb > 0 and size >= retention.size_in_mb << 20) or (
        retention.time_in_minutes > 0 and seconds >= retention.time_in_minutes * 60
    )
