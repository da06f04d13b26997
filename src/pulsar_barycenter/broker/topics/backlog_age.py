"""Finds out how old the oldest message is that the slowest subscription of a topic has not acknowledged.

The publish time of an entry is exact while the index of its ledger is in memory. Otherwise `oldest_in_backlog` takes
the newest publish time of the ledger, so that statistics never open a file: the message is at least that old.
`exact_publish_time` reads the ledger. Only durable subscriptions of clients are taken into account.

Source: `estimatedTimeBasedBacklogQuotaCheck` of Pulsar's `PersistentTopic`, and the method
`getEarliestMessagePublishTimeInBacklog` of its `ManagedLedger`.
"""

from typing import Final, NamedTuple

from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.limits import BROKERS_CURSORS
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic

NO_BACKLOG: Final = -1
"""The value instead of an age if there is no backlog, as in Pulsar."""


class OldestInBacklog(NamedTuple):
    """The name of the slowest subscription of a topic, and the age in seconds of the oldest message that it has not
    acknowledged. Without a backlog they are "" and NO_BACKLOG.
    """

    subscription: str
    age_s: int


def oldest_in_backlog(topic: PersistentTopic) -> OldestInBacklog:
    """Return which durable subscription of clients has the oldest unacknowledged message, and the age of that message.
    If the index of the message's ledger is not in memory, the message may be older than this age. The call takes time
    in proportion to the number of subscriptions.
    """
    behind = [
        subscription
        for subscription in topic.subscriptions.values()
        if subscription.is_durable and subscription.name not in BROKERS_CURSORS and subscription.cursor.backlog_entries
    ]
    if not behind:
        return OldestInBacklog("", NO_BACKLOG)
    slowest = min(behind, key=lambda subscription: subscription.cursor.first_unacked)
    found = topic.ledger.segments.at_or_after(slowest.cursor.first_unacked)
    if found is None:
        return OldestInBacklog("", NO_BACKLOG)
    segment, entry_id = found
    index = segment.index
    time_ms = segment.max_publish_time_ms if index is None else index.info(entry_id).publish_time_ms
    return OldestInBacklog(slowest.name, max(topic.clock.now_ms() - time_ms, 0) // 1000)


async def exact_publish_time(subscription: PersistentSubscription) -> int:
    """Return when the oldest message in the backlog of a subscription was published, in ms since 1970; 0 if the backlog
    is empty.

    Raises:
        LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: the ledger of the message cannot be opened.
    """
    cursor = subscription.cursor
    info = await subscription.ledger.info(cursor.first_unacked) if cursor.backlog_entries else None
    return 0 if info is None else info.publish_time_ms
