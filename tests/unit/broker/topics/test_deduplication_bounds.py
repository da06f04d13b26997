"""The data that deduplication keeps of producers, whose names clients choose, is bounded and expires."""

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.clients.producer import ProducerOptions
from pulsar_barycenter.broker.topics.deduplication import (
    CURSOR_NAME,
    SNAPSHOT_BYTES,
    Deduplication,
    DeduplicationSettings,
    DuplicateStatus,
    SequenceIds,
)
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import DEADLINE_S, OneBroker
from support.recording_link import RecordingLink
from support.wire_client import entry_of

TOPIC = TopicName.parse("persistent://public/default/t")
MINUTE_MS = 60_000


@dataclass
class HandClock:
    ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms


async def topic_of(broker: OneBroker) -> tuple[PersistentTopic, Deduplication]:
    topic = await broker.registry.get_or_create(TOPIC)
    assert isinstance(topic, PersistentTopic)
    assert topic.deduplication is not None
    return topic, topic.deduplication


async def come_and_go(topic: PersistentTopic, name: str, sequence_id: int = 0) -> None:
    """A producer attaches, has one message stored and leaves."""
    producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions(name))
    entry = entry_of(b"x", sequence_id=sequence_id, producer=name)
    topic.publish([(producer, sequence_id, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    await topic.wait_drained()
    topic.forget_producer(producer)


def stored_names(topic: PersistentTopic) -> set[str]:
    return set(topic.ledger.cursors[CURSOR_NAME].properties)


async def started(clock: HandClock | None = None, **config: object) -> OneBroker:
    settings = BrokerConfig(broker_deduplication_enabled=True, **config)  # type: ignore[arg-type]
    return await OneBroker(settings, clock=clock).start()


# ---- how many ----


async def test_the_record_has_no_more_names_than_configured() -> None:
    """1,500 producers that live short: the 100 that left last are remembered, also after an unload."""
    broker = await started(broker_deduplication_max_number_of_producers=100, broker_deduplication_entries_interval=50)
    topic, memory = await topic_of(broker)
    for number in range(1_500):
        await come_and_go(topic, f"p{number}")
    await memory.snapshot()
    expected = {f"p{number}" for number in range(1_400, 1_500)}
    assert stored_names(topic) == expected
    assert len(memory._stored) == 100
    assert memory._pushed == {}
    await broker.unload()
    topic, memory = await topic_of(broker)
    assert {name for name in (f"p{number}" for number in range(1_500)) if topic.last_sequence_id(name) == 0} == expected
    await broker.stop()


async def test_a_producer_that_stays_is_remembered_however_many_come_and_go() -> None:
    broker = await started(broker_deduplication_max_number_of_producers=10)
    topic, memory = await topic_of(broker)
    stays = await topic.add_producer(RecordingLink(), 1, ProducerOptions("stays"))
    entry = entry_of(b"x", sequence_id=7, producer="stays")
    topic.publish([(stays, 7, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    await topic.wait_drained()
    for number in range(50):
        await come_and_go(topic, f"p{number}")
    await memory.snapshot()
    assert topic.last_sequence_id("stays") == 7
    assert stored_names(topic) == {"stays", *(f"p{number}" for number in range(41, 50))}
    await broker.stop()


async def test_the_record_stays_below_what_a_store_takes_of_one_key() -> None:
    """Long names, each character six bytes of JSON: fewer are stored, those of producers that left last."""
    broker = await started()
    topic, memory = await topic_of(broker)
    names = [f"{number:04}" + "\x01" * 200 for number in range(1_000)]
    for name in names:
        memory._stored.record(name, 1, 0)
    memory._since_snapshot = 1
    await memory.snapshot()
    properties = topic.ledger.cursors[CURSOR_NAME].properties
    assert SNAPSHOT_BYTES * 0.9 < len(msgspec.json.encode(properties)) <= SNAPSHOT_BYTES
    assert set(properties) == set(names[-len(properties) :])
    await broker.stop()


# ---- how long ----


async def test_a_producer_that_left_is_forgotten_after_the_time_out_and_the_record_shrinks() -> None:
    clock = HandClock()
    broker = await started(clock)
    topic, memory = await topic_of(broker)
    upkeep = TopicUpkeep(broker.registry)
    stays = await topic.add_producer(RecordingLink(), 2, ProducerOptions("stays"))
    entry = entry_of(b"x", producer="stays")
    topic.publish([(stays, 0, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    await come_and_go(topic, "early")
    clock.ms += 200 * MINUTE_MS
    await come_and_go(topic, "late")
    await memory.snapshot()
    assert await upkeep.forget_producers() == 0
    clock.ms += 161 * MINUTE_MS
    assert await upkeep.forget_producers() == 1
    assert stored_names(topic) == {"stays", "late"}
    assert topic.last_sequence_id("early") == -1
    assert topic.last_sequence_id("late") == 0
    assert await upkeep.forget_producers() == 0
    await broker.stop()


async def test_a_message_that_becomes_durable_after_its_producer_left_is_forgotten_in_time() -> None:
    clock = HandClock()
    broker = await started(clock)
    topic, memory = await topic_of(broker)
    producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions("p"))
    entry = entry_of(b"x", producer="p")
    topic.publish([(producer, 0, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    topic.forget_producer(producer)
    await topic.wait_drained()
    assert topic.last_sequence_id("p") == 0
    clock.ms += 361 * MINUTE_MS
    assert memory.forget_inactive(clock.now_ms())
    assert topic.last_sequence_id("p") == -1
    await broker.stop()


async def test_names_that_were_loaded_are_forgotten_if_their_producers_do_not_come_back() -> None:
    clock = HandClock()
    broker = await started(clock)
    topic, _ = await topic_of(broker)
    await come_and_go(topic, "a")
    await come_and_go(topic, "b")
    await broker.unload()
    topic, memory = await topic_of(broker)
    await topic.add_producer(RecordingLink(), 1, ProducerOptions("b"))
    clock.ms += 361 * MINUTE_MS
    assert memory.forget_inactive(clock.now_ms())
    assert (topic.last_sequence_id("a"), topic.last_sequence_id("b")) == (-1, 0)
    await broker.stop()


# ---- when snapshots are taken ----


async def test_a_snapshot_is_due_after_so_many_messages() -> None:
    broker = await started(broker_deduplication_entries_interval=3)
    topic, _ = await topic_of(broker)
    await come_and_go(topic, "a")
    await come_and_go(topic, "b")
    assert stored_names(topic) == set()
    await come_and_go(topic, "c")
    async with asyncio.timeout(DEADLINE_S):
        while stored_names(topic) != {"a", "b", "c"}:
            await asyncio.sleep(0)
    await broker.stop()


async def test_a_snapshot_is_due_after_the_interval_if_there_is_anything_new() -> None:
    clock = HandClock()
    broker = await started(clock)
    topic, _ = await topic_of(broker)
    upkeep = TopicUpkeep(broker.registry)
    clock.ms += 121_000
    assert await upkeep.snapshot_deduplication() == 0
    await come_and_go(topic, "a")
    assert await upkeep.snapshot_deduplication() == 1
    assert stored_names(topic) == {"a"}
    await come_and_go(topic, "a", 1)
    clock.ms += 119_000
    assert await upkeep.snapshot_deduplication() == 0
    clock.ms += 2_000
    assert await upkeep.snapshot_deduplication() == 1
    await broker.stop()


async def test_without_an_interval_the_number_of_messages_alone_counts() -> None:
    clock = HandClock()
    broker = await started(clock, broker_deduplication_snapshot_interval_seconds=0.0)
    topic, _ = await topic_of(broker)
    await come_and_go(topic, "a")
    clock.ms += 10_000_000
    assert await TopicUpkeep(broker.registry).snapshot_deduplication() == 0
    await broker.stop()


async def test_a_snapshot_that_fails_is_taken_again() -> None:
    clock = HandClock()
    broker = await started(clock)
    topic, _ = await topic_of(broker)
    upkeep = TopicUpkeep(broker.registry)
    await come_and_go(topic, "a")
    clock.ms += 121_000
    broker.backend.read_only = True
    assert await upkeep.snapshot_deduplication() == 0
    broker.backend.read_only = False
    clock.ms += 121_000
    assert await upkeep.snapshot_deduplication() == 1
    await broker.stop()


# ---- the memory alone ----

events = st.lists(
    st.tuples(st.sampled_from(["record", "attach", "detach", "forget", "pass"]), st.integers(0, 12)), max_size=80
)


@given(events=events, most=st.integers(1, 6))
def test_what_is_remembered_is_bounded_and_the_rest_is_what_left_first(
    events: list[tuple[str, int]], most: int
) -> None:
    """Compared with a model: a name is known if its producer is attached, or among those that left last."""
    ids = SequenceIds(most)
    highest: dict[str, int] = {}
    attached: set[str] = set()
    absent: dict[str, int] = {}
    now_ms = 0
    for at, (event, number) in enumerate(events):
        name = f"p{number}"
        match event:
            case "record":
                ids.record(name, at, now_ms)
                highest[name] = at
                if name not in attached:
                    absent.pop(name, None)
                    absent[name] = now_ms
            case "attach":
                ids.attached(name)
                attached.add(name)
                absent.pop(name, None)
            case "detach":
                ids.detached(name, now_ms)
                attached.discard(name)
                if name in highest:
                    absent.pop(name, None)
                    absent[name] = now_ms
            case "forget":
                ids.forget_absent(now_ms - 20)
                for gone in [each for each, since in absent.items() if since < now_ms - 20]:
                    del absent[gone], highest[gone]
            case "pass":
                now_ms += number
        if event in ("record", "detach"):
            while len(highest) > most and absent:
                longest = next(iter(absent))
                del absent[longest], highest[longest]
        assert {each: ids.get(each) for each in map("p{}".format, range(13)) if ids.get(each) >= 0} == highest
        assert len(ids) <= max(most, len(attached))
        shown = ids.snapshot(1 << 20)
        assert len(shown) == min(most, len(highest))
        assert attached.isdisjoint(highest.keys() - shown.keys()) or set(shown) <= attached


sends = st.lists(
    st.tuples(
        st.sampled_from(["p0", "p1", "p2", "p3"]),
        st.integers(0, 40),
        st.integers(1, 12),
        st.sampled_from([0, 0, 3]),
        st.integers(0, 40),
    ),
    max_size=25,
)
"""The producer, the first sequence id, the number of messages, the step (0: in order), how many are stored then."""


@given(sends=sends, attached=st.sets(st.sampled_from(["p0", "p1"])), most=st.integers(1, 4))
def test_messages_that_are_recorded_together_are_as_if_recorded_one_by_one(
    sends: list[tuple[str, int, int, int, int]], attached: set[str], most: int
) -> None:
    settings = DeduplicationSettings(max_producers=most)
    unused: Any = SimpleNamespace(name="t")
    together, alone = (Deduplication(unused, unused, settings, HandClock()) for _ in range(2))
    for name in sorted(attached):
        together.producer_attached(name)
        alone.producer_attached(name)
    pending = 0
    for name, first, count, step, stored in sends:
        ids = [first + (number * step) % 5 if step else first + number for number in range(count)]
        new = [number for number in ids if pushed_if_new(alone, name, number)]
        found = together.ids_of_new(name, ids, [0] * count)
        if found:
            assert found == new == ids
            together.pushed_new(name, found)
        else:
            assert new == [number for number in ids if pushed_if_new(together, name, number)]
        pending += len(new)
        stored = min(stored, pending)
        pending -= stored
        together.persisted(stored)
        for _ in range(stored):
            alone.persisted(1)
        assert together._pushed == alone._pushed
        assert together._stored._highest == alone._stored._highest
        assert list(together._stored._absent) == list(alone._stored._absent)


def pushed_if_new(memory: Deduplication, name: str, number: int) -> bool:
    if memory.check(name, number, 0) is not DuplicateStatus.NEW:
        return False
    memory.pushed(name, number, 0, b"", is_chunk=False)
    return True
