"""Loaded topics: one load for all, closing by bundle, terms after a split, stats."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.errors import NotAllowedError, TopicBusyError, TopicNotFoundError
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.memory_ledgers import MemoryLedgerStorage
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

TOPIC = TopicName.parse("persistent://public/default/t")
NAMESPACE = NamespaceName.parse("public/default")


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker().start()
    yield running
    await running.stop()


async def test_those_who_ask_at_once_share_one_load(broker: OneBroker) -> None:
    topics = await asyncio.gather(*(broker.registry.get_or_create(TOPIC) for _ in range(20)))
    assert len(set(map(id, topics))) == 1
    assert broker.registry.get_loaded(TOPIC) is topics[0]


async def test_one_who_gives_up_does_not_stop_the_load(broker: OneBroker) -> None:
    first = asyncio.create_task(broker.registry.get_or_create(TOPIC))
    second = asyncio.create_task(broker.registry.get_or_create(TOPIC))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).name == TOPIC


async def test_a_topic_that_must_exist_does_not_keep_others_from_creating_it(broker: OneBroker) -> None:
    answers = await asyncio.gather(
        broker.registry.get_or_create(TOPIC, create=False),
        broker.registry.get_or_create(TOPIC, create=True),
        return_exceptions=True,
    )
    assert isinstance(answers[0], TopicNotFoundError)
    assert isinstance(answers[1], PersistentTopic)


async def test_creation_by_request_does_not_ask_the_policies() -> None:
    running = await OneBroker(BrokerConfig(allow_auto_topic_creation=False)).start()
    with pytest.raises(TopicNotFoundError):
        await running.registry.get_or_create(TOPIC)
    assert (await running.registry.create(TOPIC)).name == TOPIC
    assert (await running.registry.get_or_create(TOPIC)).name == TOPIC
    await running.stop()


async def test_kinds_that_are_switched_off_are_refused() -> None:
    running = await OneBroker(BrokerConfig(enable_persistent_topics=False, enable_non_persistent_topics=False)).start()
    for name in (TOPIC, TopicName.parse("non-persistent://public/default/t")):
        with pytest.raises(NotAllowedError):
            await running.registry.get_or_create(name)
    await running.stop()


async def test_a_load_that_outlasts_its_term_is_undone(broker: OneBroker) -> None:
    """The bundle leaves while the topic is loaded: closing the bundle waits, and nothing stays open."""
    load = asyncio.create_task(broker.registry.get_or_create(TOPIC))
    await asyncio.sleep(0)
    broker.authority.term(TOPIC).active = False
    assert await broker.registry.close_bundle(Bundle.full(NAMESPACE), reason="test") == 0
    with pytest.raises(NotServedError):
        await load
    assert not broker.registry.loaded()


async def test_a_topic_of_a_later_owner_ends_this_term(broker: OneBroker) -> None:
    later = await ManagedLedger.open(
        broker.store, MemoryLedgerStorage(broker.disk), TOPIC, epoch=99, clock=broker.clock
    )
    with pytest.raises(NotServedError):
        await broker.registry.get_or_create(TOPIC)
    assert len(broker.authority.losses) == 1
    await later.close()


async def test_closing_a_bundle_closes_its_topics_and_no_others(broker: OneBroker) -> None:
    here = [TopicName.parse(f"persistent://public/default/t{n}") for n in range(20)]
    elsewhere = TopicName.parse("persistent://public/other/t")
    for name in [*here, elsewhere]:
        await broker.registry.get_or_create(name)
    assert await broker.unload() == 20
    assert [topic.name for topic in broker.registry.loaded()] == [elsewhere]
    assert list(broker.registry.bundle_stats()) == ["public/other/0x00000000_0xffffffff"]


async def test_an_unloaded_topic_is_loaded_again_in_the_same_term(broker: OneBroker) -> None:
    before = await broker.registry.get_or_create(TOPIC)
    assert await broker.registry.close_topic(TOPIC)
    assert not await broker.registry.close_topic(TOPIC)
    after = await broker.registry.get_or_create(TOPIC)
    assert after is not before
    assert after.owned is before.owned
    assert before.state is TopicState.CLOSED


async def test_asking_for_a_topic_that_closes_waits_for_the_next(broker: OneBroker) -> None:
    before = await broker.registry.get_or_create(TOPIC)
    closing = asyncio.create_task(broker.registry.close_topic(TOPIC))
    await asyncio.sleep(0)
    after = await broker.registry.get_or_create(TOPIC)
    await closing
    assert after is not before
    assert after.state is TopicState.OPEN


async def test_a_subscription_without_consumers_goes_with_its_topic(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.subscribe(str(TOPIC))
    with pytest.raises(TopicBusyError):
        await broker.registry.delete_topic(TOPIC, force=False)
    client.close()
    topic = await broker.registry.get_or_create(TOPIC)
    async with asyncio.timeout(30):
        while topic.consumer_count:
            await asyncio.sleep(0)
    with pytest.raises(TopicBusyError):
        await broker.registry.delete_topic(TOPIC, force=False, only_unused=True)
    await broker.registry.delete_topic(TOPIC, force=False)
    assert broker.registry.get_loaded(TOPIC) is None


async def test_deleting_a_topic_in_use_needs_force(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC))
    with pytest.raises(TopicBusyError):
        await broker.registry.delete_topic(TOPIC, force=False)
    assert broker.registry.get_loaded(TOPIC) is not None
    await broker.registry.delete_topic(TOPIC, force=True)
    await client.expect(TYPE.CLOSE_PRODUCER)
    await client.expect(TYPE.CLOSE_CONSUMER)
    with pytest.raises(TopicNotFoundError):
        await broker.registry.get_or_create(TOPIC, create=False)


async def test_only_topics_that_nobody_uses_are_deleted_when_idle(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    used, subscribed, idle = (f"persistent://public/default/{name}" for name in ("used", "subscribed", "idle"))
    await client.produce(used, 1)
    await client.subscribe(subscribed)
    await broker.registry.get_or_create(TopicName.parse(idle))
    now = broker.clock.now_ms()
    assert await TopicUpkeep(broker.registry).delete_inactive(now) == 0
    assert await TopicUpkeep(broker.registry).delete_inactive(now + 120_000) == 1
    assert {str(topic.name) for topic in broker.registry.loaded()} == {used, subscribed}


async def test_after_a_split_open_topics_belong_to_the_terms_of_the_children(
    broker: OneBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients notice nothing; stats are those of the children; what clients send is counted there."""
    client = await WireClient.connect(broker.port)
    names = [TopicName.parse(f"persistent://public/default/t{n}") for n in range(10)]
    for at, name in enumerate(names):
        await client.produce(str(name), at)
    children = NamespaceBundles.equal(NAMESPACE, 2)
    terms = {bundle: OwnedBundle(bundle, 7, 0) for bundle in children.bundles}
    parent = broker.authority.term(TOPIC)
    parent.active = False
    monkeypatch.setattr(broker.authority, "served", lambda topic: terms[children.find(topic)])
    assert broker.registry.refresh_bundles() == 10
    assert broker.registry.refresh_bundles() == 0
    client.send(0, producer_id=3)
    await client.expect(TYPE.SEND_RECEIPT)
    assert terms[children.find(names[3])].acknowledged_entries == 1
    stats = broker.registry.bundle_stats()
    assert sum(bundle.topics for bundle in stats.values()) == 10
    assert {bundle: stats[str(bundle)].topics for bundle in children.bundles} == {
        bundle: sum(children.find(name) == bundle for name in names) for bundle in children.bundles
    }
    assert client.pending(TYPE.CLOSE_PRODUCER) == []


async def test_rates_are_those_of_the_last_interval(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC), permits=100)
    start = broker.clock.now_ms()
    broker.registry.update_rates(start + 1000)
    await client.send_all(20)
    await client.messages(20)
    broker.registry.update_rates(start + 11_000)
    stats = broker.registry.bundle_stats()["public/default/0x00000000_0xffffffff"]
    assert (stats.msg_rate_in, stats.msg_rate_out) == (2.0, 2.0)
    assert stats.msg_throughput_in == stats.msg_throughput_out > 0
    (load,) = broker.registry.topic_loads(Bundle.full(NAMESPACE))
    assert load == TopicLoad(TOPIC.hash32, 4.0, stats.msg_throughput_in + stats.msg_throughput_out)
    assert (stats.topics, stats.producer_count, stats.consumer_count) == (1, 1, 1)
    counters = broker.registry.counters
    assert (counters.messages_in, counters.messages_out) == (20, 20)
    assert counters.bytes_in == counters.bytes_out > 0
    broker.registry.update_rates(start + 21_000)
    assert broker.registry.bundle_stats()["public/default/0x00000000_0xffffffff"].msg_rate_in == 0.0


@pytest.mark.parametrize(("loaded_for_s", "counted_s"), [(120, 60), (30, 30), (2, 10)])
async def test_rates_of_a_topic_that_was_just_loaded_are_over_the_time_since_then(
    broker: OneBroker, loaded_for_s: int, counted_s: int
) -> None:
    """Else a bundle that has just moved would look light. What comes in the first moments counts for ten seconds."""
    client = await WireClient.connect(broker.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC), permits=100)
    await client.send_all(60)
    await client.messages(60)
    topic = broker.registry.get_loaded(TOPIC)
    assert topic is not None
    now_ms = topic.loaded_at_ms + 1000 * loaded_for_s
    broker.registry.rates_at_ms = now_ms - 60_000
    broker.registry.update_rates(now_ms)
    (stats,) = broker.registry.bundle_stats().values()
    assert (stats.msg_rate_in, stats.msg_rate_out) == (60 / counted_s, 60 / counted_s)
    broker.registry.update_rates(now_ms + 60_000)
    (stats,) = broker.registry.bundle_stats().values()
    assert stats.msg_rate_in == 0


async def test_topic_statistics_have_the_fields_of_the_admin_api(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(str(TOPIC), producer_name="mine", properties={"k": "v"})
    await client.subscribe(str(TOPIC), "shared", permits=3, sub_type=api.CommandSubscribe.Shared, consumer_name="c")
    await client.send_all(5)
    await client.messages(3)
    topic = broker.registry.get_loaded(TOPIC)
    assert topic is not None
    stats = broker.registry.topic_stats(topic, owner_broker="b:8080")
    assert (stats["msgInCounter"], stats["msgOutCounter"], stats["ownerBroker"]) == (5, 3, "b:8080")
    assert stats["storageSize"] == stats["bytesInCounter"] == stats["backlogSize"]
    publisher = stats["publishers"][0]
    assert (publisher["producerName"], publisher["metadata"], publisher["accessMode"]) == ("mine", {"k": "v"}, "Shared")
    subscription = stats["subscriptions"]["shared"]
    assert (subscription["type"], subscription["msgBacklog"], subscription["unackedMessages"]) == ("Shared", 5, 3)
    consumer = subscription["consumers"][0]
    assert (consumer["consumerName"], consumer["availablePermits"], consumer["unackedMessages"]) == ("c", 0, 3)
    assert consumer["address"].startswith("/127.0.0.1:")
