"""A compacted topic is a table: whatever is published, and whenever it is compacted, its readers end with the newest
value of each key, in order; other subscriptions get everything."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.position import Entry, Position
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.compaction_cases import (
    Message,
    Place,
    batch,
    compacted_places,
    messages_in,
    newest_of,
    publish_entry,
    single,
    table_of,
)
from support.ledger_world import LedgerWorld, Owner


class Publish(NamedTuple):
    messages: list[Message]
    compression: int
    is_batch: bool


COMPACT, COMPACT_BESIDE, MOVE, TRIM = "compact", "compact while publishing", "move", "acknowledge everything"

MESSAGES = st.builds(
    Message,
    st.sampled_from(["a", "b", "c", "d", None]),
    st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=200, max_size=200)),
)
KINDS = st.sampled_from([api.NONE, api.NONE, api.LZ4, api.ZLIB, api.ZSTD, api.SNAPPY])
STEPS = st.lists(
    st.one_of(
        st.builds(Publish, st.lists(MESSAGES, min_size=1, max_size=1), KINDS, st.booleans()),
        st.builds(Publish, st.lists(MESSAGES, min_size=1, max_size=5), KINDS, st.just(True)),
        st.sampled_from([COMPACT, COMPACT_BESIDE, MOVE, TRIM]),
    ),
    max_size=25,
)


class Topic:
    """A topic that moves from owner to owner, and a plain list of everything that was published."""

    def __init__(self, *, entries_per_ledger: int) -> None:
        self.world = LedgerWorld()
        self.settings = LedgerSettings(max_entries_per_ledger=entries_per_ledger, mark_delete_per_second=0)
        self.published: list[Place] = []
        self.unread: list[Position] = []
        self.epoch = 0
        self.owner: Owner
        self.everything: Cursor

    async def move(self) -> None:
        if self.epoch:
            await self.owner.ledger.close()
        self.epoch += 1
        self.owner = await self.world.open(self.epoch, settings=self.settings)
        self.everything = await self.owner.ledger.open_cursor("everything", "earliest")
        await self.owner.ledger.compacted.open_cursor()

    async def publish(self, what: Publish) -> None:
        message = what.messages[0]
        entry = batch(what.messages, what.compression) if what.is_batch else single(message, what.compression)
        position = await publish_entry(self.owner, entry, len(what.messages))
        for index, message in enumerate(what.messages):
            value = message.value or (None if not what.is_batch and message.value is None else b"")
            self.published.append(Place(position, index if what.is_batch else -1, message.key, value))
        self.unread.append(position)

    async def compact(self, *meanwhile: Coroutine[Any, Any, None]) -> None:
        await asyncio.gather(Compactor(self.owner.ledger).run(), *meanwhile)
        await self.owner.settle()

    async def read_everything(self) -> None:
        """The other subscription gets what was published since its last read, and acknowledges it."""
        entries: list[Entry] = []
        position = self.everything.first_unacked
        while group := await self.owner.ledger.read(position, 7, 1 << 20):
            entries += group
            position = Position(group[-1].position.ledger_id, group[-1].position.entry_id + 1)
        places = [place for entry in entries for place in await messages_in(entry)]
        assert [entry.position for entry in entries] == self.unread
        since = self.unread[0] if self.unread else None
        assert places == [place for place in self.published if since is not None and place.position >= since]
        if entries:
            self.everything.ack_cumulative(entries[-1].position)
        self.unread.clear()
        await self.owner.settle()

    async def check(self, *, is_compacted: bool) -> None:
        places = await compacted_places(self.owner.ledger)
        assert table_of(places) == table_of(self.published)
        assert [(p.position, p.place) for p in places] == sorted((p.position, p.place) for p in places)
        if is_compacted:
            assert places == newest_of(self.published)
        horizon = self.owner.ledger.compacted.horizon
        assert [p for p in places if p.position > horizon] == [p for p in self.published if p.position > horizon]


@given(STEPS, st.integers(1, 5))
def test_readers_of_a_compacted_topic_end_with_the_newest_value_of_each_key(steps: list[Any], per_ledger: int) -> None:
    asyncio.run(play(steps, per_ledger))


async def play(steps: list[Any], per_ledger: int) -> None:
    topic = Topic(entries_per_ledger=per_ledger)
    await topic.move()
    for step in steps:
        if isinstance(step, Publish):
            await topic.publish(step)
        elif step == COMPACT:
            await topic.compact()
        elif step == COMPACT_BESIDE:
            more = [Publish([Message(key, b"beside")], api.NONE, False) for key in ("a", "b", "e")]
            await topic.compact(publish_all(topic, more))
        elif step == MOVE:
            await topic.move()
        else:
            await topic.read_everything()
        await topic.check(is_compacted=step == COMPACT)
    await topic.compact()
    await topic.check(is_compacted=True)
    await topic.read_everything()
    await topic.world.close()


async def publish_all(topic: Topic, what: list[Publish]) -> None:
    for one in what:
        await topic.publish(one)
