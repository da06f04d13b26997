"""Moves that an operator requests are stored before they are answered, and dispatch goes on behind them."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from pulsar_barycenter.broker.clients.consumer import ConsumerOptions
from pulsar_barycenter.broker.subscriptions import cursor_moves
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.broker.subscriptions.types import SubscriptionType
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.ledger_world import TOPIC, FixedClock, LedgerWorld, Owner
from support.recording_link import RecordingLink
from support.wire_client import entry_of

SELDOM = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0.001)
"""Acknowledgements are written once, and then not for a quarter of an hour."""


@dataclass
class Host:
    """The topic, as a subscription sees it."""

    ledger: Any
    name: Any = TOPIC
    clock: Any = field(default_factory=FixedClock)
    settings: DispatchSettings = field(default_factory=DispatchSettings)

    def dispatched(self, messages: int, size: int) -> None: ...
    def consumer_left(self, subscription: PersistentSubscription) -> None: ...


async def opened(world: LedgerWorld, epoch: int) -> tuple[Owner, PersistentSubscription]:
    owner = await world.open(epoch, settings=SELDOM)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    return owner, PersistentSubscription(Host(owner.ledger), "sub", cursor, is_durable=True)  # type: ignore[arg-type]


async def test_a_skip_outlives_a_crash_though_acknowledgements_are_written_seldom() -> None:
    world = LedgerWorld()
    owner, subscription = await opened(world, 1)
    places = await owner.append_numbers(10)
    for number in (1, 3, 5):
        await cursor_moves.skip(subscription, 2)
        await owner.append("more")  # now what is written in the background is written
        await owner.settle()
        assert subscription.cursor.mark_delete == places[number]
    _, later = await opened(world, 2)
    assert later.cursor.mark_delete == places[5]
    await world.close()


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_dispatch_does_not_read_what_was_skipped(kind: SubscriptionType) -> None:
    world = LedgerWorld()
    owner, subscription = await opened(world, 1)
    for number in range(12):
        owner.ledger.append(entry_of(b"x"), 1, 0, number)
    await owner.until(lambda: len(owner.durable) == 12)
    places = owner.positions
    link = RecordingLink()
    consumer = subscription.attach(link, 1, kind, ConsumerOptions())  # type: ignore[arg-type]
    subscription.attached(consumer)
    await cursor_moves.skip(subscription, 10)
    assert subscription.dispatcher is not None
    assert subscription.dispatcher.read_position == places[10]
    before = owner.ledger.last_interval
    consumer.flow(10)
    assert [position for _, position, _ in link.delivered] == places[10:]
    owner.ledger.end_interval(1.0)
    assert (before[1], owner.ledger.last_interval[1]) == (0.0, 2.0)  # entries read
    await world.close()


SHARED = [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED]


@pytest.mark.parametrize("kind", SHARED)
async def test_a_consumer_that_is_blocked_goes_on_behind_what_was_skipped(kind: SubscriptionType) -> None:
    """What it holds without an acknowledgement counts no more, nor does what waits for the order of a key."""
    world = LedgerWorld()
    owner, subscription = await opened(world, 1)
    subscription.topic.settings = DispatchSettings(max_unacked_per_consumer=3)  # type: ignore[misc]
    for number in range(12):
        owner.ledger.append(entry_of(b"x", key=f"k{number % 2}"), 1, 0, number)
    await owner.until(lambda: len(owner.durable) == 12)
    places = owner.positions
    link = RecordingLink()
    consumers = []
    for id_ in (1, 2):
        consumers.append(subscription.attach(link, id_, kind, ConsumerOptions()))  # type: ignore[arg-type]
        subscription.attached(consumers[-1])
    for consumer in consumers:
        consumer.flow(100)
    stuck = len(link.delivered)
    assert 4 <= stuck < 12
    await cursor_moves.skip(subscription, 9)
    later = [position for _, position, _ in link.delivered[stuck:]]
    assert set(later) <= set(places[9:])
    await cursor_moves.clear_backlog(subscription)
    assert [consumer.unacked for consumer in consumers] == [0, 0]
    assert not any(consumer.is_blocked for consumer in consumers)
    (place,) = await appended(owner, entry_of(b"y", key="k0"))
    subscription.dispatcher.dispatch()  # type: ignore[union-attr]
    assert link.delivered[-1][1] == place
    assert len({position for _, position, _ in link.delivered}) == len(link.delivered)
    await world.close()


async def appended(owner: Owner, *entries: bytes) -> list[Position]:
    before = len(owner.durable)
    for entry in entries:
        owner.ledger.append(entry, 1, 0, entry)
    await owner.until(lambda: len(owner.durable) == before + len(entries))
    return owner.positions[before:]


async def test_a_reset_during_an_expiry_comes_first() -> None:
    """What the cursor is reset to is old, too, up to an entry that is young and was acknowledged before."""
    world = LedgerWorld()
    owner, subscription = await opened(world, 1)
    places = [(await owner.append("x", time_ms=time_ms))[0] for time_ms in (5, 10, 5, 5)]
    subscription.cursor.ack_cumulative(places[1])
    find = owner.ledger.find_by_publish_time

    async def found_late(*arguments: Any) -> Any:
        if len(arguments) > 1 and subscription.cursor.mark_delete == places[1]:
            await subscription.seek(EARLIEST)
        return await find(*arguments)

    subscription.topic.ledger = LateLedger(owner.ledger, found_late)  # type: ignore[assignment,misc]
    assert await cursor_moves.expire(subscription, 9)
    assert subscription.cursor.mark_delete == places[0]
    assert subscription.cursor.backlog_entries == 3
    await world.close()


class LateLedger:
    """A managed ledger whose search by time takes long enough for others to act."""

    def __init__(self, ledger: Any, find: Any) -> None:
        self._ledger = ledger
        self.find_by_publish_time = find

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)
