"""A topic with a damaged ledger: the broker reports it, and deletes it by force."""

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol.frames import encode_entry
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata
from support.rest_cluster import RestCluster, rest_cluster

PATH = "/admin/v2/persistent/public/ns/t"
NAME = TopicName.parse("persistent://public/ns/t")
ENTRIES = 4


async def loaded(cluster: RestCluster) -> PersistentTopic:
    topic = await cluster.brokers[0].registry.get_or_create(NAME)
    assert isinstance(topic, PersistentTopic)
    return topic


async def written(cluster: RestCluster) -> int:
    """Write a topic with a subscription that has read nothing; return its ledger."""
    await cluster.create_namespace()
    await cluster.expect(204, "PUT", PATH)
    await cluster.expect(204, "PUT", f"{PATH}/subscription/s", {"ledgerId": -1, "entryId": -1})
    topic = await loaded(cluster)
    topic.ledger.on_durable = lambda group: None  # no producer waits for receipts
    for number in range(ENTRIES):
        metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
        topic.ledger.append(encode_entry(metadata, b"%d" % number), 1, 1, None)
    await cluster.brokers[0].registry.close_topic(NAME)  # it waits until all is stored
    ledger_id, entry_id = topic.ledger.last_position
    assert entry_id == ENTRIES - 1
    return int(ledger_id)


async def test_damage_that_was_found_is_shown_and_counted() -> None:
    async with rest_cluster() as cluster:
        ledger_id = await written(cluster)
        cluster.disk.damage(ledger_id, 1)
        assert (await cluster.expect(200, "GET", "/barycenter/v1/damaged-ledgers")).json == []
        assert b"barycenter_damaged_ledgers{" in (await cluster.expect(200, "GET", "/metrics")).body
        await (await loaded(cluster)).ledger.read((ledger_id, 0), 1, 100)
        assert (await cluster.expect(200, "GET", "/barycenter/v1/damaged-ledgers")).json == [
            {
                "topic": str(NAME),
                "ledger": ledger_id,
                "file": f"memory ledger {ledger_id}",
                "positions": [f"{ledger_id}:1"],
            }
        ]
        lines = (await cluster.expect(200, "GET", "/metrics")).body.decode().splitlines()
        assert [line.split()[-1] for line in lines if line.startswith("barycenter_damaged_ledgers{")] == ["1.0"]
        await cluster.expect(204, "DELETE", PATH, force=True)
        assert (await cluster.expect(200, "GET", "/barycenter/v1/damaged-ledgers")).json == []


async def test_a_damaged_topic_can_be_deleted_by_force() -> None:
    """Damaged or absent parts prevent neither the deletion of a topic nor its creation."""
    async with rest_cluster() as cluster:
        ledger_id = await written(cluster)
        cluster.disk.remove(ledger_id)
        await cluster.expect(204, "DELETE", PATH, force=True)
        await cluster.expect(404, "GET", f"{PATH}/stats")
        await cluster.expect(204, "PUT", PATH)


async def test_skipping_is_switched_on_while_the_topic_is_open() -> None:
    async with rest_cluster() as cluster:
        ledger_id = await written(cluster)
        cluster.disk.damage(ledger_id, 0)
        topic = await loaded(cluster)
        await cluster.expect(200, "POST", "/admin/v2/brokers/configuration/autoSkipNonRecoverableData/true")
        entries = await topic.ledger.read((ledger_id, 0), 10, 1000)
        assert [entry.position.entry_id for entry in entries] == [1, 2, 3]


async def test_the_last_message_is_the_last_that_is_there() -> None:
    """What a client asks for when it wants to read to the end."""
    async with rest_cluster(auto_skip_non_recoverable_data=True) as cluster:
        ledger_id = await written(cluster)
        cluster.disk.damage(ledger_id, ENTRIES - 1)
        topic = await loaded(cluster)
        assert await topic.last_message_id() == ((ledger_id, ENTRIES - 2), -1)


async def test_deduplication_goes_on_behind_damage() -> None:
    async with rest_cluster(broker_deduplication_enabled=True) as cluster:
        ledger_id = await written(cluster)
        cluster.disk.damage(ledger_id, 1)
        topic = await loaded(cluster)
        assert topic.deduplication is not None
        assert topic.deduplication.last_sequence_id("p") == ENTRIES - 1
