"""What operators do with the cursor of a subscription: skip entries, clear the backlog, expire old entries.

Each request finds the last entry to acknowledge, and passes over everything up to it. A batch is one entry: it is
skipped or expired as a whole, and counts as one. Source: Pulsar's `PersistentSubscription` and
`PersistentMessageExpiryMonitor`.
"""

from typing import Final

from pulsar_barycenter.broker.errors import SubscriptionBusyError
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.ledger.managed.unacked import nth_entry
from pulsar_barycenter.ledger.position import EARLIEST, Position

NEARLY_NO_BACKLOG: Final = 1_000
"""With connected consumers and fewer entries than this, nothing is expired unless the oldest entry is old enough."""


async def skip(subscription: PersistentSubscription, entries: int) -> None:
    """Acknowledge the first `entries` entries that are not acknowledged; if there are fewer, all of them. Raises the
    errors of `PersistentSubscription.pass_over`.
    """
    await subscription.wait_open()
    if entries > 0:
        found = nth_entry(subscription.cursor.unacked(), entries)
        await subscription.pass_over(subscription.ledger.last_position if found == EARLIEST else found)


async def clear_backlog(subscription: PersistentSubscription) -> None:
    """Acknowledge every entry that the topic has now. Raises the errors of `PersistentSubscription.pass_over`."""
    await subscription.wait_open()
    await subscription.pass_over(subscription.ledger.last_position)


async def expire(subscription: PersistentSubscription, published_before_ms: int) -> bool:
    """Acknowledge all entries before the first one that is not acknowledged and was published at `published_before_ms`
    (ms since 1970) or later.

    An entry that is not old enough is never acknowledged, whatever the clocks of producers did: entries after it stay,
    too. Returns False in the cases in which Pulsar refuses the request: there is no backlog; or no entry is old enough,
    while consumers are connected and the backlog is almost empty.

    Raises:
        SubscriptionBusyError: the cursor was reset meanwhile.
        LedgerError: entries could not be read, or as of `PersistentSubscription.pass_over`.
    """
    await subscription.wait_open()
    cursor = subscription.cursor
    before, first = cursor.mark_delete, cursor.first_unacked
    backlog = cursor.backlog_entries
    last = await _last_older(subscription, published_before_ms)
    if cursor.mark_delete < before:
        raise SubscriptionBusyError(
            subscription.topic.name, subscription.name, "the cursor was reset meanwhile. Try again."
        )
    if last < first:
        return backlog > 0 and not (subscription.consumers and backlog < NEARLY_NO_BACKLOG)
    await subscription.pass_over(last)
    return backlog > 0


async def _last_older(subscription: PersistentSubscription, published_before_ms: int) -> Position:
    """Return the position before the first entry that is not acknowledged and not older, or the last position."""
    cursor, ledger = subscription.cursor, subscription.ledger
    last = ledger.last_position
    start = cursor.first_unacked
    while (found := await ledger.find_by_publish_time(published_before_ms, start)) is not None:
        if not cursor.is_acked(found):
            return min(last, Position(found.ledger_id, found.entry_id - 1))
        start = Position(found.ledger_id, found.entry_id + 1)
    return last


async def expire_through(subscription: PersistentSubscription, position: Position) -> bool:
    """Acknowledge everything up to `position` (inclusive).

    Returns False and does nothing if there is no backlog, or `position` is after the last entry. Raises the errors of
    `PersistentSubscription.pass_over`.
    """
    await subscription.wait_open()
    if not subscription.cursor.backlog_entries or position > subscription.ledger.last_position:
        return False
    await subscription.pass_over(position)
    return True
