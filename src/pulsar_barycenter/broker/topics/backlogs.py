"""Limits the backlog of a topic: expires old messages, and enforces the backlog quotas.

The backlog of a topic is that of its slowest durable subscription: everything after the first mark-delete position.
Readers and the cursors in BROKERS_CURSORS are not taken into account, and the latter are not moved here. A message that
expires or is evicted leaves a backlog because the mark-delete position is moved past it. It may have been delivered to
a consumer; if the consumer acknowledges it later, this has no effect.

Messages expire from the oldest on, up to the first one that is young enough and that its subscription has not
acknowledged: `subscriptions.cursor_moves` has this rule, for operators too. Publish times are those of the clients.

Source: Pulsar's `PersistentTopic.checkMessageExpiry` and `BacklogQuotaManager`. There the age of a backlog is that of a
ledger, unless `preciseTimeBasedBacklogQuotaCheck` is set; here it is always that of its oldest message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from pulsar_barycenter.broker.namespaces.topic_limits import BacklogLimits, QuotaPolicy
from pulsar_barycenter.broker.subscriptions import cursor_moves
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.limits import BROKERS_CURSORS
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

EVICTED_TO: Final = 0.9
"""The fraction of a quota to which an eviction reduces the backlog."""


class StoredTopic(Protocol):
    """The methods of a persistent topic that this module needs."""

    @property
    def name(self) -> TopicName: ...
    @property
    def ledger(self) -> ManagedLedger[Any]: ...
    @property
    def subscriptions(self) -> Mapping[str, PersistentSubscription]: ...


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that a backlog exceeds. If `is_age` is False, `found` is the size of the backlog and `limit` the quota,
    in bytes. If it is True, `found` is the age of the oldest message and `limit` the quota, in seconds.
    """

    found: float
    limit: int
    policy: QuotaPolicy
    is_age: bool

    def __str__(self) -> str:
        if self.is_age:
            return f"has an unacknowledged message that is {self.found:.0f} s old, and its quota is {self.limit} s"
        return f"has a backlog of {self.found:.0f} bytes, and its quota is {self.limit} bytes"


def clients_subscriptions(topic: StoredTopic) -> list[PersistentSubscription]:
    """Return the subscriptions of a topic that clients created, without those of the broker itself."""
    return [subscription for name, subscription in topic.subscriptions.items() if name not in BROKERS_CURSORS]


def backlog_mark(topic: StoredTopic) -> Position | None:
    """Return the lowest mark-delete position of the durable subscriptions of clients: the topic's backlog begins after
    it. None if there are no such subscriptions.
    """
    durable = (subscription for subscription in clients_subscriptions(topic) if subscription.is_durable)
    return min((subscription.cursor.mark_delete for subscription in durable), default=None)


def backlog_size(topic: StoredTopic) -> int:
    """Return the size in bytes of the topic's backlog: of all entries after the slowest durable subscription of
    clients. It may be an estimate, see `Segments.bytes_between`.
    """
    mark, ledger = backlog_mark(topic), topic.ledger
    return 0 if mark is None else ledger.segments.bytes_between(mark, ledger.last_position)


async def oldest_publish_time_ms(topic: StoredTopic) -> int | None:
    """Return when the oldest message of the topic's backlog was published, None if the backlog is empty.

    Raises:
        LedgerError: the message cannot be read.
    """
    mark, ledger = backlog_mark(topic), topic.ledger
    if mark is None:
        return None
    info = await ledger.info(ledger.next_valid(mark))
    return None if info is None else info.publish_time_ms


async def excess(topic: StoredTopic, limits: BacklogLimits, now_ms: int) -> Excess | None:
    """Return the quota that the topic's backlog exceeds, None if it exceeds none. The quota for the size is checked
    before the quota for the age, so only the first is returned if both are exceeded.

    A backlog that is as large or as old as the limit exceeds it, as in Pulsar; so an empty backlog exceeds a limit of 0
    bytes.

    Raises:
        LedgerError: the oldest message cannot be read.
    """
    if limits.size >= 0 and (size := backlog_size(topic)) >= limits.size:
        return Excess(size, limits.size, limits.size_policy, is_age=False)
    published_ms = await oldest_publish_time_ms(topic) if limits.age_s > 0 else None
    if published_ms is not None and now_ms - published_ms >= limits.age_s * 1000:
        return Excess((now_ms - published_ms) / 1000, limits.age_s, limits.age_policy, is_age=True)
    return None


async def expire(topic: StoredTopic, ttl_s: float, now_ms: int) -> int:
    """Remove the messages that were published more than `ttl_s` seconds ago from the backlog of every subscription of
    clients; return the number of removed messages, summed over the subscriptions.

    Raises:
        LedgerError: an entry cannot be read.
    """
    last = topic.ledger.last_position
    if all(subscription.cursor.mark_delete >= last for subscription in clients_subscriptions(topic)):
        return 0
    found = await cursor_moves.ages(topic.ledger, now_ms - round(ttl_s * 1000))
    left = 0
    for subscription in clients_subscriptions(topic):
        position = await cursor_moves.last_old(subscription, found)
        if topic.subscriptions.get(subscription.name) is subscription:  # it may have been deleted meanwhile
            left += subscription.expire(position, now_ms)
    _log_expired(topic, left, found.last_old)
    return left


async def evict(topic: StoredTopic, exceeded: Excess, now_ms: int) -> int:
    """Remove the oldest messages from the backlog of every subscription of clients, so that the topic's backlog is at
    most the fraction EVICTED_TO of the quota in `exceeded`. Return the number of removed messages, summed over the
    subscriptions.

    Raises:
        LedgerError: an entry cannot be read.
    """
    if exceeded.is_age:
        return await expire(topic, exceeded.limit * EVICTED_TO, now_ms)
    return _leave(topic, topic.ledger.segments.before_last(int(exceeded.limit * EVICTED_TO)), now_ms)


def _leave(topic: StoredTopic, position: Position, now_ms: int) -> int:
    """Acknowledge everything up to `position` (inclusive) for all subscriptions of clients; return the number of
    messages that this removed from their backlogs, summed over the subscriptions.
    """
    left = sum(subscription.expire(position, now_ms) for subscription in clients_subscriptions(topic))
    _log_expired(topic, left, position)
    return left


def _log_expired(topic: StoredTopic, messages: int, position: Position) -> None:
    if messages:
        log.info("messages_expired", topic=str(topic.name), messages=messages, position=str(position))
