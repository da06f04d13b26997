"""The limits of a topic, and the rules how long its messages are kept, as values."""

import enum
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.ledger.ledger_settings import NO_RETENTION, Retention


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a topic; 0 means no limit."""

    producers: int = 0
    consumers: int = 0
    consumers_per_subscription: int = 0
    subscriptions: int = 0


NO_LIMITS: Final = TopicLimits()


class QuotaPolicy(enum.Enum):
    """What happens when a backlog exceeds its quota. The values are Pulsar's names (`BacklogQuota.RetentionPolicy`).

    HOLD: producers are disconnected with an error after which clients try again. REFUSE: producers are disconnected
    with an error after which clients fail. EVICT: the oldest messages leave the backlog.
    """

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """The backlog quotas of a topic: `size` in bytes, below 0 no limit; `age_s` in seconds, 0 no limit."""

    size: int = -1
    size_policy: QuotaPolicy = QuotaPolicy.HOLD
    age_s: int = 0
    age_policy: QuotaPolicy = QuotaPolicy.HOLD


NO_BACKLOG_LIMITS: Final = BacklogLimits()


@dataclass(frozen=True, slots=True)
class StoragePolicies:
    """The rules that decide for how long the stored messages of a topic are kept.

    `retention` applies to acknowledged messages. Messages that are not acknowledged leave every backlog at an age of
    `ttl_s` seconds (0: never). `backlog` has the quotas of the backlog.
    """

    retention: Retention = NO_RETENTION
    ttl_s: int = 0
    backlog: BacklogLimits = NO_BACKLOG_LIMITS


NO_STORAGE_POLICIES: Final = StoragePolicies()
