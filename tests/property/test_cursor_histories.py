"""Skips, resets, expiries and acknowledgements in any order, and reopened topics: a cursor is a set of entries."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.subscriptions import cursor_moves
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.unacked import nth_entry
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.ledger_world import TOPIC, FixedClock, LedgerWorld, Owner
from support.short_forms import examples

SMALL = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0)

TIMES = st.lists(st.integers(0, 9), min_size=1, max_size=5)
PLACES = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), TIMES),
        st.tuples(st.just("ack"), st.lists(PLACES, min_size=1, max_size=4)),
        st.tuples(st.just("ack through"), PLACES),
        st.tuples(st.just("skip"), st.integers(0, 6)),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 10)),
        st.tuples(st.just("expire through"), PLACES),
        st.tuples(st.just("reset"), PLACES),
        st.tuples(st.just("reset to start"), st.none()),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=14,
)


@dataclass
class Host:
    """The topic, as a subscription sees it."""

    ledger: Any
    name: Any = TOPIC
    clock: Any = field(default_factory=FixedClock)
    settings: DispatchSettings = field(default_factory=DispatchSettings)

    def consumer_left(self, subscription: PersistentSubscription) -> None: ...


class Model:
    """The entries with their publish times, and which are not acknowledged."""

    def __init__(self) -> None:
        self.times: dict[Position, int] = {}
        self.unacked: set[Position] = set()

    @property
    def backlog(self) -> list[Position]:
        return sorted(self.unacked)

    def at(self, number: int) -> Position:
        """Return one of the entries, or a position after the last one."""
        known = sorted(self.times)
        return known[number % len(known)] if known else Position(0, number)

    def through(self, position: Position) -> None:
        self.unacked = {known for known in self.unacked if known > position}

    def expire(self, before: int) -> None:
        for position in self.backlog:
            if self.times[position] >= before:
                break
            self.unacked.discard(position)

    def reset(self, position: Position) -> None:
        self.unacked = {known for known in self.times if known >= position}


async def opened(world: LedgerWorld, epoch: int) -> tuple[Owner, PersistentSubscription]:
    owner = await world.open(epoch, settings=SMALL)
    await owner.ledger.open_cursor("keep", "earliest")  # so that nothing is trimmed
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    return owner, PersistentSubscription(Host(owner.ledger), "sub", cursor, is_durable=True)  # type: ignore[arg-type]


async def play(steps: list[tuple[str, Any]]) -> None:
    world, model, epoch = LedgerWorld(), Model(), 1
    owner, subscription = await opened(world, epoch)
    for step, value in steps:
        cursor = subscription.cursor
        match step:
            case "append":
                for time_ms in value:
                    (position,) = await owner.append("x", time_ms=time_ms)
                    model.times[position] = time_ms
                    model.unacked.add(position)
                await owner.settle()
            case "ack":
                positions = [model.at(number) for number in value]
                cursor.ack_individual(positions)
                model.unacked -= set(positions)
            case "ack through":
                cursor.ack_cumulative(model.at(value))
                model.through(model.at(value))
            case "skip":
                await cursor_moves.skip(subscription, value)
                model.unacked -= set(model.backlog[:value])
            case "clear":
                await cursor_moves.clear_backlog(subscription)
                model.unacked.clear()
            case "expire":
                had = bool(model.unacked)
                assert await cursor_moves.expire(subscription, value) is had
                model.expire(value)
            case "expire through":
                had = bool(model.unacked)
                assert await cursor_moves.expire_through(subscription, model.at(value)) is had
                model.through(model.at(value))
            case "reset" if model.times:
                await subscription.seek(model.at(value))
                model.reset(model.at(value))
            case "reset to start":
                await subscription.seek(EARLIEST)
                model.reset(EARLIEST)
            case "reopen":
                await owner.settle()
                if value:
                    await owner.ledger.close()  # otherwise the owner is gone without a word
                epoch += 1
                owner, subscription = await opened(world, epoch)
        check(subscription, model)
    await world.close()


def check(subscription: PersistentSubscription, model: Model) -> None:
    cursor, backlog = subscription.cursor, model.backlog
    stretches = list(cursor.unacked())
    found = [Position(segment.ledger_id, entry) for segment, first, stop in stretches for entry in range(first, stop)]
    assert found == backlog
    assert cursor.backlog_entries == len(backlog)
    assert all(cursor.is_acked(position) == (position not in model.unacked) for position in model.times)
    if backlog:
        assert cursor.first_unacked == backlog[0]
    assert [nth_entry(stretches, number) for number in range(1, len(backlog) + 2)] == [*backlog, EARLIEST]


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
@example([("append", [1, 9, 1]), ("ack", [1]), ("expire", 5)])  # a new entry is acknowledged, an old one behind it not
@example([("append", [1, 2, 3, 9, 9]), ("ack", [1, 3]), ("reopen", False), ("expire", 5), ("reset to start", None)])
def test_a_cursor_is_the_set_of_entries_that_are_not_acknowledged(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(play(steps))
