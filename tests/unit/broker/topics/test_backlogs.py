"""Old messages leave the backlogs, and backlogs stay within their quotas; the time of each check is an argument."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.namespaces.storage_policies import storage_policies_of
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.broker.rest.metrics.topic_metrics import quota_values, subscription_values
from pulsar_barycenter.broker.subscriptions import cursor_moves
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.backlogs import backlog_size, excess, oldest_publish_time_ms
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.stats import subscription_stats
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

START_MS = 1_700_000_000_000
NAME = "persistent://public/default/t"
EARLIEST_ID = api.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
SHARED = api.CommandSubscribe.Shared


class SetClock:
    def __init__(self) -> None:
        self.time_ms = START_MS

    def now_ms(self) -> int:
        return self.time_ms


class Checked:
    """A broker with one topic, whose entry n was published n seconds after the start; `client` has produced them."""

    def __init__(self, broker: OneBroker, client: WireClient, clock: SetClock) -> None:
        self.broker, self.client, self.clock = broker, client, clock
        self.upkeep = TopicUpkeep(broker.registry)
        self.size = 0
        """The bytes of one entry."""

    @property
    def topic(self) -> PersistentTopic:
        found = self.broker.registry.get_loaded(TopicName.parse(NAME))
        assert isinstance(found, PersistentTopic)
        return found

    def subscription(self, name: str) -> PersistentSubscription:
        return self.topic.subscriptions[name]

    def backlog(self, name: str = "s") -> int:
        return self.subscription(name).cursor.backlog_entries

    async def publish(self, count: int, *, first: int = 0) -> None:
        for number in range(first, first + count):
            metadata = api.MessageMetadata(
                producer_name="p", sequence_id=number, publish_time=START_MS + number * 1000
            ).SerializeToString()
            entry = encode_entry(metadata, b"%09d" % number)
            self.size = len(entry)
            self.client.write(client_commands.send(1, number, entry))
        for _ in range(count):
            await self.client.expect(TYPE.SEND_RECEIPT)

    async def settle(self) -> None:
        await self.topic.ledger.settled()


@asynccontextmanager
async def checked(**settings: Any) -> AsyncIterator[Checked]:
    clock = SetClock()
    config = replace(BrokerConfig(), managed_ledger_max_entries_per_ledger=10, **settings)
    broker = await OneBroker(config, clock=clock).start()
    client = await WireClient.connect(broker.port)
    try:
        assert not hasattr(await client.produce(NAME, producer_name="p"), "error")
        yield Checked(broker, client, clock)
    finally:
        client.close()
        await broker.stop()


# ---- expiry ----


async def test_messages_older_than_the_ttl_leave_every_backlog() -> None:
    async with checked(ttl_duration_default_in_seconds=60) as world:
        for number, (name, durable) in enumerate((("s", True), ("other", True), ("reader", False)), 1):
            await world.client.subscribe(NAME, name, number, durable=durable, start_message_id=EARLIEST_ID)
        await world.publish(25)
        world.subscription("other").cursor.ack_cumulative(world.topic.ledger.last_position)
        assert await world.upkeep.expire_messages(START_MS + 60_000) == 0
        assert await world.upkeep.expire_messages(START_MS + 60_001) == 2, "one message of each of two subscriptions"
        assert await world.upkeep.expire_messages(START_MS + 71_000) == 2 * 10
        assert [world.backlog(name) for name in ("s", "other", "reader")] == [14, 0, 14]
        assert await world.upkeep.expire_messages(START_MS + 10**9) == 2 * 14
        await world.settle()
        assert len(world.topic.ledger.stats.ledgers) <= 2, "what expired is trimmed"
        world.topic.update_rates(2)
        stats = subscription_stats(world.subscription("s"))
        assert (stats["totalMsgExpired"], stats["msgRateExpired"], stats["lastExpireTimestamp"]) == (
            25, 12.5, START_MS + 10**9,
        )  # fmt: skip
        assert list(subscription_values(world.subscription("s")))[-3:] == [12.5, 25, START_MS + 10**9]
        assert subscription_stats(world.subscription("other"))["totalMsgExpired"] == 0
        world.client.write(client_requests.consumer_stats(world.client.request_id(), 1))
        assert (await world.client.expect(TYPE.CONSUMER_STATS_RESPONSE)).msgRateExpired == 12.5


async def test_without_a_ttl_and_in_topics_of_the_brokers_nothing_expires() -> None:
    async with checked() as world:
        await world.client.subscribe(NAME)
        await world.publish(3)
        assert await world.upkeep.expire_messages(START_MS + 10**12) == 0
        assert quota_values(world.topic) == ()
    async with checked(ttl_duration_default_in_seconds=60) as world:
        await world.publish(3)
        await world.topic.prepare_compaction()
        assert await world.upkeep.expire_messages(START_MS + 10**12) == 0, "the cursor of compaction stays"


@pytest.mark.parametrize("kind", [api.CommandSubscribe.Exclusive, SHARED, api.CommandSubscribe.Key_Shared])
async def test_consumers_continue_after_what_expired(kind: Any) -> None:
    """One message was delivered, the next 14 were not; its late acknowledgement has no effect."""
    async with checked(ttl_duration_default_in_seconds=60) as world:
        await world.client.subscribe(NAME, permits=1, sub_type=kind)
        await world.publish(20)
        ((first, _),) = await world.client.messages(1)
        await world.upkeep.expire_messages(START_MS + 75_000)
        assert world.backlog() == 5
        assert subscription_stats(world.subscription("s"))["unackedMessages"] == 0
        world.client.write(client_commands.ack(1, [first.message_id]))
        world.client.write(client_commands.flow(1, 5))
        received = [int(entry[-9:]) for _, entry in await world.client.messages(5)]
        assert received == list(range(15, 20))


async def test_a_young_message_that_is_acknowledged_holds_nothing_back() -> None:
    """It has been acknowledged on one subscription only. An operator's request finds nothing more to expire."""
    async with checked(ttl_duration_default_in_seconds=60) as world:
        for number, name in enumerate(("s", "other"), 1):
            await world.client.subscribe(NAME, name, number)
        await world.publish(3)
        await world.publish(1, first=300)
        await world.publish(2, first=3)
        young = await world.topic.ledger.find_by_publish_time(START_MS + 300_000)
        assert young is not None
        world.subscription("s").cursor.ack_individual([young])
        assert await world.upkeep.expire_messages(START_MS + 100_000) == 5 + 3
        assert (world.backlog("s"), world.backlog("other")) == (0, 3)
        for name, expired in (("s", 5), ("other", 3)):
            subscription = world.subscription(name)
            assert not await cursor_moves.expire(subscription, START_MS + 40_000)
            assert subscription.expired_messages == expired


async def test_what_an_operator_expires_is_counted_as_expired() -> None:
    async with checked() as world:
        await world.client.subscribe(NAME)
        await world.publish(5)
        world.clock.time_ms = START_MS + 90_000
        assert await cursor_moves.expire(world.subscription("s"), START_MS + 3_000)
        stats = subscription_stats(world.subscription("s"))
        assert (stats["totalMsgExpired"], stats["lastExpireTimestamp"]) == (3, START_MS + 90_000)
        assert await cursor_moves.expire_through(world.subscription("s"), world.topic.ledger.last_position)
        assert subscription_stats(world.subscription("s"))["totalMsgExpired"] == 5


async def test_expired_messages_stay_expired_after_an_unload() -> None:
    async with checked(ttl_duration_default_in_seconds=60) as world:
        await world.client.subscribe(NAME)
        await world.publish(12)
        await world.upkeep.expire_messages(START_MS + 65_000)
        await world.broker.unload()
        await world.broker.registry.get_or_create(TopicName.parse(NAME))
        assert world.backlog() == 7


# ---- quotas ----


async def test_the_backlog_of_a_topic_is_that_of_its_slowest_durable_subscription() -> None:
    async with checked() as world:
        await world.publish(3)
        assert (backlog_size(world.topic), await oldest_publish_time_ms(world.topic)) == (0, None)
        await world.client.subscribe(NAME, "reader", 3, durable=False, start_message_id=EARLIEST_ID)
        await world.topic.prepare_compaction()
        assert (backlog_size(world.topic), await oldest_publish_time_ms(world.topic)) == (0, None)
        for number, name in enumerate(("slow", "fast"), 1):
            await world.client.subscribe(NAME, name, number, initial_position=api.CommandSubscribe.Earliest)
        await world.publish(9, first=3)
        ledger = world.topic.ledger
        world.subscription("fast").cursor.ack_cumulative(ledger.last_position)
        assert backlog_size(world.topic) == 12 * world.size
        first = ledger.next_valid(EARLIEST)
        world.subscription("slow").cursor.ack_cumulative(Position(first.ledger_id, first.entry_id + 10))
        assert backlog_size(world.topic) == world.size
        assert await oldest_publish_time_ms(world.topic) == START_MS + 11_000


QUOTAS = pytest.mark.parametrize(
    ("quota", "now_ms"),
    [
        ({"backlog_quota_default_limit_bytes": 500}, START_MS),
        ({"backlog_quota_default_limit_second": 100}, START_MS + 100_000),
    ],
    ids=["size", "age"],
)


@QUOTAS
@pytest.mark.parametrize(
    ("policy", "code"),
    [("producer_request_hold", api.ProducerBlockedQuotaExceededError),
     ("producer_exception", api.ProducerBlockedQuotaExceededException)],
)  # fmt: skip
async def test_producers_are_kept_away_until_the_backlog_is_consumed(
    quota: dict[str, Any], now_ms: int, policy: str, code: int
) -> None:
    async with checked(backlog_quota_default_retention_policy=policy, **quota) as world:
        await world.client.subscribe(NAME)
        await world.publish(20)
        assert await world.upkeep.check_backlogs(now_ms) == 1
        await world.client.expect(TYPE.CLOSE_PRODUCER)
        assert not world.topic.producers
        world.clock.time_ms = now_ms
        refused = await world.client.produce(NAME, 2)
        assert (refused.error, NAME in refused.message) == (code, True)
        assert refused.message.startswith("Cannot create producer on topic with backlog quota exceeded")
        assert world.backlog() == 20
        world.subscription("s").cursor.ack_cumulative(world.topic.ledger.last_position)
        assert await world.upkeep.check_backlogs(now_ms) == 0
        assert not hasattr(await world.client.produce(NAME, 3), "error")


@QUOTAS
async def test_the_oldest_messages_are_evicted(quota: dict[str, Any], now_ms: int) -> None:
    """Until nine tenths of the quota are left, in every subscription; producers stay."""
    async with checked(backlog_quota_default_retention_policy="consumer_backlog_eviction", **quota) as world:
        for number, name in enumerate(("s", "other"), 1):
            await world.client.subscribe(NAME, name, number)
        await world.publish(25)
        world.subscription("other").cursor.ack_cumulative(world.topic.ledger.last_position)
        assert await world.upkeep.check_backlogs(now_ms) == 1
        kept = 450 // world.size if "backlog_quota_default_limit_bytes" in quota else 15
        assert [world.backlog(name) for name in ("s", "other")] == [kept, 0]
        assert await world.upkeep.check_backlogs(now_ms) == 0
        world.clock.time_ms = now_ms
        assert not hasattr(await world.client.produce(NAME, 2), "error")
        assert len(world.topic.producers) == 2
        world.client.write(client_commands.flow(1, kept))
        assert [int(entry[-9:]) for _, entry in await world.client.messages(kept)] == list(range(25 - kept, 25))


async def test_an_age_is_exceeded_when_the_oldest_message_has_it() -> None:
    async with checked(backlog_quota_default_limit_second=100) as world:
        await world.client.subscribe(NAME)
        await world.publish(2)
        limits = world.topic.storage.backlog
        assert await excess(world.topic, limits, START_MS + 99_999) is None
        exceeded = await excess(world.topic, limits, START_MS + 100_000)
        assert str(exceeded) == "has an unacknowledged message that is 100 s old, and its quota is 100 s"
        assert quota_values(world.topic) == (-1, 100)
        world.subscription("s").cursor.ack_cumulative(world.topic.ledger.next_valid(EARLIEST))
        assert await excess(world.topic, limits, START_MS + 100_999) is None


async def test_the_size_is_compared_first_and_a_limit_of_nothing_is_always_exceeded() -> None:
    both = {"backlog_quota_default_limit_bytes": 0, "backlog_quota_default_limit_second": 1}
    async with checked() as world:
        await world.client.subscribe(NAME)
        await world.publish(1)
        world.topic.follow(TopicRules(storage_policies_of(Policies(), replace(BrokerConfig(), **both))))
        exceeded = await excess(world.topic, world.topic.storage.backlog, START_MS)
        assert exceeded is not None
        assert str(exceeded) == f"has a backlog of {world.size} bytes, and its quota is 0 bytes"
        world.client.write(commands.close_producer(1, world.client.request_id()))
        await world.client.expect(TYPE.SUCCESS)
        world.subscription("s").cursor.ack_cumulative(world.topic.ledger.last_position)
        assert (await world.client.produce(NAME, 2)).error == api.ProducerBlockedQuotaExceededError


# ---- unused topics ----


async def test_an_unused_topic_is_kept_for_the_time_of_its_retention() -> None:
    async with checked(default_retention_time_in_minutes=10, default_retention_size_in_mb=-1) as world:
        await world.client.ask(commands.close_producer(1, world.client.request_id()), TYPE.SUCCESS)
        assert await world.upkeep.delete_inactive(START_MS + 599_999) == 0
        assert await world.upkeep.delete_inactive(START_MS + 600_000) == 1
