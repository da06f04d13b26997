"""The cursors that the broker keeps for itself are no subscriptions for clients, over any protocol."""

import pytest

from pulsar_barycenter.broker.topics.deduplication import CURSOR_NAME
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.one_broker import OneBroker
from support.rest_cluster import rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent://public/default/t"
P = "/admin/v2/persistent/public/ns/t"


@pytest.mark.parametrize("deduplicates", [True, False])
@pytest.mark.parametrize("name", [CURSOR_NAME, COMPACTION_CURSOR])
async def test_no_client_subscribes_to_a_cursor_of_the_broker(name: str, deduplicates: bool) -> None:
    """Its acknowledgements would move that cursor, and its messages would be trimmed with it."""
    broker = await OneBroker(BrokerConfig(broker_deduplication_enabled=deduplicates)).start()
    client = await WireClient.connect(broker.port)
    refusal = await client.subscribe(TOPIC, name)
    assert (refusal.error, "reserved for a subscription" in refusal.message) == (api.NotAllowedError, True)
    refusal = await client.produce(TOPIC, initial_subscription_name=name)
    assert (refusal.error, "reserved for a subscription" in refusal.message) == (api.NotAllowedError, True)
    await broker.stop()


async def test_no_request_makes_or_describes_a_cursor_of_the_broker() -> None:
    """Of compaction the properties name the compacted ledger, of deduplication the sequence ids."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", P)
        await cluster.expect(204, "PUT", f"{P}p/partitions", 2)
        for path in (P, f"{P}p"):
            for name in (CURSOR_NAME, COMPACTION_CURSOR):
                await cluster.expect(405, "PUT", f"{path}/subscription/{name}", "earliest")
                await cluster.expect(405, "PUT", f"{path}/subscription/{name}/properties", {"x": "y"})
        assert (await cluster.expect(200, "GET", f"{P}/internalStats")).json["cursors"] == {}


async def test_a_compacted_topic_stays_compacted_whatever_properties_are_asked_for() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", P)
        topic = await (await cluster.owner("persistent/public/ns/t")).registry.get_or_create(
            TopicName.parse("persistent://public/ns/t")
        )
        assert isinstance(topic, PersistentTopic)
        await topic.prepare_compaction()
        cursor = topic.ledger.cursors[COMPACTION_CURSOR]
        await cursor.set_properties({"CompactedTopicLedger": "7"})
        await cluster.call("PUT", f"{P}/subscription/{COMPACTION_CURSOR}/properties", {})
        assert cursor.properties == {"CompactedTopicLedger": "7"}


async def test_a_stored_sequence_id_that_is_no_number_is_passed_over() -> None:
    broker = await OneBroker(BrokerConfig(broker_deduplication_enabled=True)).start()
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")
    topic = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    await topic.ledger.cursors[CURSOR_NAME].set_properties({"p": "7", "team": "x", "long": "9" * 5_000})
    await broker.unload()
    assert (await client.produce(TOPIC, 2, producer_name="p")).last_sequence_id == 7
    await broker.stop()
