"""Access modes of producers over the wire: which one gets the topic, waits or is fenced, and the answers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.memory_ledgers import MemoryLedgerStorage
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
VOLATILE = "non-persistent://public/default/t"


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker(BrokerConfig(connection_liveness_check_timeout_millis=100)).start()
    yield running
    await running.stop()


def topic_of(broker: OneBroker, name: str = TOPIC) -> Topic:
    found = broker.registry.get_loaded(TopicName.parse(name))
    assert found is not None
    return found


def waiting_in_stats(broker: OneBroker) -> int:
    waiting: int = broker.registry.topic_stats(topic_of(broker))["waitingPublishers"]
    return waiting


async def wait_in_line(broker: OneBroker, name: str, producer_id: int = 1, client: WireClient | None = None) -> Any:
    """Let a producer wait for exclusive access; return its client and the answer."""
    client = client or await WireClient.connect(broker.port)
    told = await client.produce(TOPIC, producer_id, producer_name=name, access_mode=api.WaitForExclusive)
    assert told.producer_ready is False
    return client, told


async def closed(broker: OneBroker, count: int) -> None:
    """Wait until the broker has only `count` connections."""
    probe = await WireClient.connect(broker.port)
    while len(broker.server.connections) > count + 1:
        await probe.settled()
    probe.close()


# ---- turns ----


@pytest.mark.parametrize("waiters", [1, 2, 3])
async def test_the_next_waiter_gets_the_topic_when_the_holder_and_waiters_leave_together(
    broker: OneBroker, waiters: int
) -> None:
    """One connection has the holder and the first waiters; it is closed; the next waiter is ready."""
    leaving, other = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await leaving.produce(TOPIC, 1, producer_name="holder", access_mode=api.Exclusive)
    for number in range(waiters):
        await wait_in_line(broker, f"waiter-{number}", 2 + number, leaving)
    _, told = await wait_in_line(broker, "next", client=other)
    assert waiting_in_stats(broker) == waiters + 1
    leaving.close()
    ready = await other.expect(TYPE.PRODUCER_SUCCESS)
    assert (ready.producer_ready, ready.request_id, ready.topic_epoch) == (True, told.request_id, 1)
    assert waiting_in_stats(broker) == 0
    assert list(topic_of(broker).producers) == ["next"]


async def test_a_waiter_that_withdraws_is_passed_over(broker: OneBroker) -> None:
    """CLOSE_PRODUCER withdraws a request that waits; the one behind it gets the topic."""
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, producer_name="holder", access_mode=api.Exclusive)
    first, _ = await wait_in_line(broker, "first")
    second, _ = await wait_in_line(broker, "second")
    await first.ask(commands.close_producer(1, first.request_id()), TYPE.SUCCESS)
    await holder.ask(commands.close_producer(1, holder.request_id()), TYPE.SUCCESS)
    assert (await second.expect(TYPE.PRODUCER_SUCCESS)).producer_ready
    assert first.pending(TYPE.PRODUCER_SUCCESS) == []


async def test_waiters_get_the_topic_in_the_order_in_which_they_came(broker: OneBroker) -> None:
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, producer_name="holder", access_mode=api.Exclusive)
    waiting = [(await wait_in_line(broker, f"w{number}"))[0] for number in range(3)]
    epochs = []
    for client in (holder, *waiting[:2]):
        await client.ask(commands.close_producer(1, client.request_id()), TYPE.SUCCESS)
        epoch = (await waiting[len(epochs)].expect(TYPE.PRODUCER_SUCCESS)).topic_epoch
        (successor,) = topic_of(broker).producers
        epochs.append((successor, epoch))
    assert epochs == [("w0", 1), ("w1", 2), ("w2", 3)]


async def test_a_holder_that_reconnects_does_not_lose_the_topic_to_a_waiter(broker: OneBroker) -> None:
    """Its new connection comes before its old one is found dead: it keeps its epoch, and the waiter its place."""
    old, new = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    told = await old.produce(TOPIC, access_mode=api.Exclusive)
    waiting, _ = await wait_in_line(broker, "waiter")
    again = await new.produce(
        TOPIC,
        producer_name=told.producer_name,
        user_provided_name=False,
        epoch=1,
        access_mode=api.Exclusive,
        topic_epoch=told.topic_epoch,
    )
    assert again.topic_epoch == told.topic_epoch
    await waiting.settled()
    assert (waiting_in_stats(broker), waiting.pending(TYPE.PRODUCER_SUCCESS)) == (1, [])
    new.close()
    assert (await waiting.expect(TYPE.PRODUCER_SUCCESS)).producer_ready


async def test_a_waiter_may_have_the_name_of_the_holder(broker: OneBroker) -> None:
    """Two instances of one application, as Pulsar lets them; the name is free when the turn comes."""
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, producer_name="app", access_mode=api.WaitForExclusive)
    standby, _ = await wait_in_line(broker, "app")
    holder.close()
    assert (await standby.expect(TYPE.PRODUCER_SUCCESS)).producer_ready


async def test_an_unload_sends_waiters_to_look_the_topic_up(broker: OneBroker) -> None:
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, access_mode=api.Exclusive)
    waiting, told = await wait_in_line(broker, "waiter")
    await broker.unload()
    error = await waiting.expect(TYPE.ERROR)
    assert (error.error, error.request_id) == (api.ServiceNotReady, told.request_id)
    assert waiting.pending(TYPE.PRODUCER_SUCCESS) == []


# ---- fencing ----


@pytest.mark.parametrize("holders_mode", [api.Exclusive, api.Shared])
async def test_fencing_closes_those_attached_and_refuses_those_that_wait(broker: OneBroker, holders_mode: Any) -> None:
    """PIP-161: none that waited takes over later."""
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, producer_name="holder", access_mode=holders_mode)
    waiting = [await wait_in_line(broker, f"w{number}") for number in range(2)]
    fencing = await WireClient.connect(broker.port)
    ready = await fencing.produce(TOPIC, producer_name="f", access_mode=api.ExclusiveWithFencing)
    assert ready.producer_ready
    await holder.expect(TYPE.CLOSE_PRODUCER)
    for client, told in waiting:
        error = await client.expect(TYPE.ERROR)
        assert (error.error, error.request_id) == (api.ProducerFenced, told.request_id)
        assert "'f'" in error.message
    fencing.close()
    await closed(broker, 3)
    assert not topic_of(broker).producers
    assert waiting_in_stats(broker) == 0


async def test_a_fencing_producer_that_was_itself_displaced_disturbs_nobody(broker: OneBroker) -> None:
    holder = await WireClient.connect(broker.port)
    for epoch in range(2):
        await holder.produce(TOPIC, 1, producer_name="h", epoch=epoch, access_mode=api.ExclusiveWithFencing)
    assert topic_of(broker).producer_epoch == 1
    waiting, _ = await wait_in_line(broker, "waiter")
    late = await WireClient.connect(broker.port)
    refused = await late.produce(TOPIC, producer_name="l", access_mode=api.ExclusiveWithFencing, topic_epoch=0)
    assert refused.error == api.ProducerFenced
    await waiting.settled()
    assert (list(topic_of(broker).producers), waiting_in_stats(broker)) == (["h"], 1)


# ---- what the refused are told ----


async def test_a_shared_producer_is_told_which_exclusive_one_has_the_topic(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, 1, producer_name="e1", access_mode=api.Exclusive)
    refused = await client.produce(TOPIC, 2, producer_name="e2")
    assert refused.error == api.ProducerBusy
    assert "exclusive producer 'e1'" in refused.message
    assert "e2" not in refused.message
    assert "already connected" not in refused.message


async def test_a_shared_producer_is_told_who_waits_for_the_topic(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, 1, producer_name="s1")
    await wait_in_line(broker, "w1")
    refused = await client.produce(TOPIC, 2, producer_name="s2")
    assert refused.error == api.ProducerBusy
    assert "'w1' waits for exclusive access" in refused.message


@pytest.mark.parametrize(
    ("mode", "told"), [(api.Exclusive, "exclusive producer 'first'"), (api.Shared, "1 shared producer")]
)
async def test_an_exclusive_producer_is_told_who_is_there(broker: OneBroker, mode: Any, told: str) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, 1, producer_name="first", access_mode=mode)
    refused = await client.produce(TOPIC, 2, producer_name="second", access_mode=api.Exclusive)
    assert refused.error == api.ProducerFenced
    assert told in refused.message


# ---- epochs ----


async def displaced(broker: OneBroker, topic: str = TOPIC) -> WireClient:
    """A is exclusive under epoch 0; B fences it under epoch 1. Return B's client."""
    a, b = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    first = await a.produce(topic, producer_name="a", access_mode=api.Exclusive)
    second = await b.produce(topic, producer_name="b", access_mode=api.ExclusiveWithFencing)
    assert (first.topic_epoch, second.topic_epoch) == (0, 1)
    return b


async def come_back(broker: OneBroker, name: str, topic_epoch: int, topic: str = TOPIC) -> Any:
    client = await WireClient.connect(broker.port)
    return await client.produce(topic, producer_name=name, epoch=1, access_mode=api.Exclusive, topic_epoch=topic_epoch)


async def test_a_displaced_producer_is_fenced_after_an_unload(broker: OneBroker) -> None:
    await displaced(broker)
    await broker.unload()
    refused = await come_back(broker, "a", 0)
    assert refused.error == api.ProducerFenced
    assert (await come_back(broker, "b", 1)).topic_epoch == 1


async def test_a_displaced_producer_is_fenced_after_a_crash(broker: OneBroker) -> None:
    """The broker is killed: only what was stored before B was admitted is left."""
    await displaced(broker)
    crashed = broker.ledgers
    assert isinstance(crashed, MemoryLedgerStorage)
    crashed.crash()
    other = await OneBroker(backend=broker.backend, disk=broker.disk, first_epoch=50).start()
    assert (await come_back(other, "a", 0)).error == api.ProducerFenced
    assert (await come_back(other, "b", 1)).topic_epoch == 1
    third = await WireClient.connect(other.port)
    later = await third.produce(TOPIC, producer_name="c", access_mode=api.ExclusiveWithFencing)
    assert later.topic_epoch == 2
    await other.stop()


async def test_statistics_show_the_epoch_of_a_topic_that_was_loaded_anew(broker: OneBroker) -> None:
    await displaced(broker)
    await broker.unload()
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="shared")
    assert broker.registry.topic_stats(topic_of(broker))["topicEpoch"] == 1


async def test_an_epoch_that_cannot_be_stored_admits_nobody_and_does_not_displace_the_one_before(
    broker: OneBroker,
) -> None:
    """The store refuses: the new producer gets an error; the previous one comes back; no two ever have the same
    epoch."""
    client = await WireClient.connect(broker.port)
    first = await client.produce(TOPIC, 1, producer_name="a", access_mode=api.Exclusive)
    await client.ask(commands.close_producer(1, client.request_id()), TYPE.SUCCESS)
    broker.backend.read_only = True
    refused = await client.produce(TOPIC, 2, producer_name="b", access_mode=api.ExclusiveWithFencing)
    assert refused.error == api.PersistenceError
    assert not topic_of(broker).producers
    broker.backend.read_only = False
    back = await come_back(broker, "a", first.topic_epoch)
    assert back.topic_epoch == 2


async def test_the_epoch_is_stored_before_the_producer_is_told(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    told = await client.produce(TOPIC, access_mode=api.Exclusive)
    stored = await broker.store.get(managed_ledger_path(TopicName.parse(TOPIC)))
    assert stored is not None
    assert b'"pulsar.topic.epoch":"%d"' % told.topic_epoch in stored.value


async def test_the_epoch_of_a_non_persistent_topic_lives_as_long_as_it_is_loaded(broker: OneBroker) -> None:
    """As Pulsar's: nothing of such a topic is stored."""
    await displaced(broker, VOLATILE)
    assert (await come_back(broker, "a", 0, VOLATILE)).error == api.ProducerFenced
    await broker.unload()
    assert (await come_back(broker, "a", 0, VOLATILE)).topic_epoch == 0


async def test_properties_of_a_topic_keep_its_epoch(broker: OneBroker) -> None:
    await displaced(broker)
    ledger = topic_of(broker).ledger  # type: ignore[attr-defined]
    await ledger.update_properties({"team": "x"})
    await broker.unload()
    assert (await come_back(broker, "a", 0)).error == api.ProducerFenced


async def test_a_made_up_epoch_neither_locks_others_out_nor_ends_the_numbers(broker: OneBroker) -> None:
    """A topic that has an epoch goes on counting; one that has none takes over no more than it can count on from."""
    assert (await come_back(broker, "liar", 2**62 + 1)).error == api.NotAllowedError
    await displaced(broker)
    assert (await come_back(broker, "b", 1)).error == api.ProducerBusy  # it is attached
    await broker.unload()
    assert (await come_back(broker, "liar", 2**63)).topic_epoch == 2
    await broker.unload()
    assert (await come_back(broker, "b", 1)).error == api.ProducerFenced


async def test_an_epoch_taken_over_from_a_client_is_counted_on_from(broker: OneBroker) -> None:
    assert (await come_back(broker, "a", 2**62)).topic_epoch == 2**62
    for expected in (1, 2):
        await broker.unload()
        client = await WireClient.connect(broker.port)
        told = await client.produce(TOPIC, producer_name="b", access_mode=api.ExclusiveWithFencing)
        assert told.topic_epoch == 2**62 + expected


@pytest.mark.parametrize("text", ["x", "", "-1", "1_0", "\u0663", str(2**63 - 1), pytest.param("9" * 5_000, id="long")])
async def test_a_stored_epoch_that_is_no_number_refuses_exclusive_producers_alone(broker: OneBroker, text: str) -> None:
    """Nor is one from which no epoch can follow. Python reads no more than 4,300 digits."""
    topic = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    await topic.ledger.update_properties({"pulsar.topic.epoch": text})  # type: ignore[attr-defined]
    client = await WireClient.connect(broker.port)
    refused = await client.produce(TOPIC, 1, access_mode=api.Exclusive)
    assert refused.error == api.NotAllowedError
    assert f"pulsar.topic.epoch is {text[:40]!r}" in refused.message
    assert (await client.produce(TOPIC, 2, producer_name="s")).producer_name == "s"
    assert broker.registry.topic_stats(topic)["topicEpoch"] is None
