"""Entries that wait for a slow consumer of a Key_Shared subscription cost nothing while others continue."""

import pytest

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.subscriptions.key_shared_dispatch import KeySharedDispatcher
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import SubscribeRequest
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.wire_client import entry_of

KEYS = 400


class Waiting:
    """A slow consumer, for which messages of some two hundred keys wait, and a fast one that was sent the others."""

    async def open(self) -> "Waiting":
        self.broker = await OneBroker().start()
        topic = await self.broker.registry.get_or_create(TopicName.parse("persistent://public/default/t"))
        assert isinstance(topic, PersistentTopic)
        self.topic = topic
        self.link = RecordingLink()
        self.fast, self.slow = await self.join("fast"), await self.join("slow")
        self.fast.flow(10 * KEYS)
        self.producer: Producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions("p"))
        for number in range(KEYS):
            await self.publish(number)
        return self

    async def join(self, name: str) -> Consumer:
        kind, mode = SubscriptionType.KEY_SHARED, KeySharedMode.AUTO_SPLIT
        request = SubscribeRequest(1, "s", kind, ConsumerOptions(name), mode, from_earliest=True)
        consumer = await self.topic.subscribe(self.link, request)
        consumer.subscription.attached(consumer)
        return consumer

    async def publish(self, number: int) -> None:
        entry = entry_of(b"x", sequence_id=number, key=f"k{number % KEYS}")
        self.topic.publish([(self.producer, number, 0, 1, len(entry), 0)], [(entry, 1, 0)])
        await self.topic.wait_drained()

    @property
    def delivered(self) -> list[Position]:
        return [position for _, position, _ in self.link.delivered]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The slots of which it was asked whether an entry can be sent, one after the other."""
    slots: list[int] = []
    available_owner = KeySharedDispatcher._available_owner

    def noted(self: KeySharedDispatcher, slot: int) -> Consumer | None:
        slots.append(slot)
        return available_owner(self, slot)

    monkeypatch.setattr(KeySharedDispatcher, "_available_owner", noted)
    return slots


async def test_an_acknowledgement_looks_at_nothing_that_waits_for_another_consumer(looked_at: list[int]) -> None:
    world = await Waiting().open()
    sent = world.delivered
    assert KEYS / 4 < len(sent) < KEYS * 3 / 4
    looked_at.clear()
    for position in sent:
        world.fast.subscription.ack_individual(world.fast, [position])
    assert looked_at == []
    await world.broker.stop()


async def test_a_message_looks_at_its_own_slot_alone(looked_at: list[int]) -> None:
    world = await Waiting().open()
    looked_at.clear()
    for number in range(KEYS, 2 * KEYS):
        await world.publish(number)
    assert len(looked_at) <= 2 * KEYS
    await world.broker.stop()


async def test_permits_one_by_one_look_at_as_many_as_they_send(looked_at: list[int]) -> None:
    world = await Waiting().open()
    looked_at.clear()
    before = len(world.delivered)
    waiting = KEYS - before
    for _ in range(waiting):
        world.slow.flow(1)
    assert len(world.delivered) == KEYS
    assert world.delivered[before:] == sorted(world.delivered[before:])
    assert len(looked_at) <= 2 * waiting
    await world.broker.stop()
