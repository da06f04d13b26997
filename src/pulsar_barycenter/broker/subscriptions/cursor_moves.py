"""Moves the cursor of a subscription for operators and for the time to live (TTL): skips entries, clears the backlog,
expires old entries.

Each request finds the last entry to acknowledge, and acknowledges everything up to it. A batch is one entry: it is
skipped or expired as a whole, and counts as one. `last_old` is the rule of expiry for both, requests of operators and
the time to live.

Source: Pulsar's `PersistentSubscription` and `PersistentMessageExpiryMonitor`.
"""

from typing import Any, Final, NamedTuple

import structlog

from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.unacked import nth_entry
from pulsar_barycenter.ledger.position import EARLIEST, Position

log = structlog.get_logger(__name__)

NEARLY_NO_BACKLOG: Final = 1_000
"""If consumers are connected and the backlog has fewer entries than this number, a request of an operator to expire
entries is refused when no entry is old enough.
"""


class Ages(NamedTuple):
    """The result of `ages`: which entries of a topic are old, that is, published before `before_ms` (ms since 1970).

    `end` is the position of the topic's last entry when the search began. `young` is the first entry that is not old;
    None if the search found none.
    """

    before_ms: int
    end: Position
    young: Position | None

    @property
    def last_old(self) -> Position:
        """The position before `young`; if `young` is None, or is after `end`, this is `end`."""
        return self.end if self.young is None else min(self.end, _before(self.young))


async def ages(ledger: ManagedLedger[Any], before_ms: int) -> Ages:
    """Search the first entry of a topic that was published at `before_ms` (ms since 1970) or later. Return the result,
    from which follows which entries are old.

    Raises:
        LedgerError: entries could not be read.
    """
    end = ledger.last_position  # read first: what is appended during the search is not looked at
    return Ages(before_ms, end, await ledger.find_by_publish_time(before_ms))


async def last_old(subscription: PersistentSubscription, found: Ages) -> Position:
    """Return the position up to which (inclusive) the messages of the subscription may expire: the position before the
    first entry that is neither old nor acknowledged. If there is no such entry, return the last entry that the topic
    had when `found` was computed. `found` is the result of `ages` for this topic.

    Entries after an unacknowledged entry that is not old do not expire, even if they seem older because the clocks of
    producers are wrong. If a seek moves the cursor back during this call, the search is repeated.

    Raises:
        LedgerError: entries could not be read.
    """
    cursor, ledger = subscription.cursor, subscription.ledger
    while True:
        await subscription.wait_open()
        mark, young = cursor.mark_delete, found.young
        while young is not None and cursor.is_acked(young):
            start = max(Position(young.ledger_id, young.entry_id + 1), cursor.first_unacked)
            young = await ledger.find_by_publish_time(found.before_ms, start)
        if cursor.mark_delete >= mark:
            return found._replace(young=young).last_old


def _before(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id - 1)


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
    """Find the first entry that is not acknowledged and was published at `published_before_ms` (ms since 1970) or
    later, and acknowledge all entries before it. If there is no such entry, acknowledge all entries.

    Returns False and changes nothing where Pulsar refuses the request: if there is no backlog; or if no entry is old
    enough, consumers are connected, and the backlog has fewer than NEARLY_NO_BACKLOG entries. Otherwise returns True,
    even if no entry was old enough.

    Raises:
        LedgerError: entries could not be read, or the cursor could not be stored.
    """
    await subscription.wait_open()
    backlog = subscription.cursor.backlog_entries
    last = await last_old(subscription, await ages(subscription.ledger, published_before_ms))
    if last < subscription.cursor.first_unacked:
        return backlog > 0 and not (subscription.consumers and backlog < NEARLY_NO_BACKLOG)
    await _expire(subscription, last)
    return backlog > 0


async def expire_through(subscription: PersistentSubscription, position: Position) -> bool:
    """Acknowledge everything up to `position` (inclusive).

    Returns False and does nothing if there is no backlog, or `position` is after the last entry. Raises the errors of
    `_expire`.
    """
    await subscription.wait_open()
    if not subscription.cursor.backlog_entries or position > subscription.ledger.last_position:
        return False
    await _expire(subscription, position)
    return True


async def _expire(subscription: PersistentSubscription, position: Position) -> None:
    """Remove everything up to `position` (inclusive) from the backlog as expired, and store the cursor. Raises the
    errors of `PersistentSubscription.pass_over`.
    """
    messages = subscription.expire(position, subscription.now_ms())
    await subscription.cursor.store()
    log.info("messages_expired", subscription=str(subscription), messages=messages, position=str(position))
