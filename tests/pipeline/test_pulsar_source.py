"""`format("pulsar")` in batch: what was sent is read, once, from and to where it was asked."""

import json
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.pulsar_source import PulsarDataSource
from pulsar_barycenter.pipeline.pulsar_source.options import PulsarSourceError
from pulsar_barycenter.pipeline.pulsar_source.rows import MESSAGES
from support.one_broker import BrokerThread, OneBroker

pytestmark = [pytest.mark.pipeline, pytest.mark.integration, pytest.mark.usefixtures("pulsar_format")]

TOPIC = "persistent://public/default/numbers"


def read(spark: SparkSession, broker: BrokerThread, topic: str = TOPIC, **options: str) -> DataFrame:
    reader = spark.read.format("pulsar").option("service.url", broker.url).option("topic", topic)
    return reader.options(**options).load()


def values(frame: DataFrame) -> list[int]:
    """The numbers of a topic in the order of its messages."""
    return [int(row.value) for row in frame.orderBy("message_id").select("value").collect()]


def send(client: pulsar.Client, first: int, stop: int, topic: str = TOPIC, **options: Any) -> None:
    """Send numbers, in batches of five if batching is among the options; return when all are stored."""
    producer = client.create_producer(topic, batching_max_messages=5, block_if_queue_full=True, **options)
    for number in range(first, stop):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


def test_a_row_says_everything_of_its_message(spark: SparkSession, broker: BrokerThread, client: pulsar.Client) -> None:
    producer = client.create_producer(TOPIC, producer_name="shop")
    producer.send(b"\x00\xff", partition_key="k", properties={"a": "1", "b": "ü"}, event_timestamp=1_700_000_000_123)
    producer.send(b"")
    frame = read(spark, broker)
    assert frame.schema == MESSAGES
    full, bare = frame.selectExpr("*", "unix_millis(event_time) as event_ms").orderBy("message_id").collect()
    assert (full.key, bytes(full.value), full.properties) == ("k", b"\x00\xff", {"a": "1", "b": "ü"})
    assert (full.topic, full.producer_name, full.event_ms) == (TOPIC, "shop", 1_700_000_000_123)
    assert full.message_id == Row(ledger=full.message_id.ledger, entry=0, partition=-1, batch_index=-1)
    assert full.publish_time is not None
    assert (bare.key, bytes(bare.value), bare.properties, bare.event_time) == (None, b"", {}, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batching_enabled": True},
        {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD},
        {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
    ],
    ids=["single", "batched", "compressed", "key-batches"],
)
def test_every_message_is_read_once_and_in_order(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, options: dict[str, Any]
) -> None:
    send(client, 0, 2_003, **options)
    assert values(read(spark, broker)) == list(range(2_003))


def test_any_message_may_be_where_reading_begins_or_ends(broker: BrokerThread, client: pulsar.Client) -> None:
    """Single messages, then batches: for each id, the messages after it and the ones up to it are all there are."""
    send(client, 0, 2)
    send(client, 2, 12, batching_enabled=True)
    rows = rows_between(broker)
    assert [number for number, _ in rows] == list(range(12))
    for number, message_id in rows:
        at = json.dumps({TOPIC: dict(zip(("ledger", "entry", "batch_index"), message_id, strict=True))})
        assert [n for n, _ in rows_between(broker, startingOffsets=at)] == list(range(number + 1, 12))
        assert [n for n, _ in rows_between(broker, endingOffsets=at)] == list(range(number + 1))
    entry = json.dumps({TOPIC: {"ledger": rows[-1][1][0], "entry": 2}})
    assert [n for n, _ in rows_between(broker, startingOffsets=entry)] == list(range(7, 12))
    assert [n for n, _ in rows_between(broker, endingOffsets=entry)] == list(range(7))


def rows_between(broker: BrokerThread, topic: str = TOPIC, **options: str) -> list[tuple[int, tuple[int, ...]]]:
    """Each number with the (ledger, entry, batch index) of its message, read without Spark's processes."""
    source = PulsarDataSource({"service.url": broker.url, "topic": topic, **options})
    reader = source.reader(source.schema())
    ids = ("ledger", "entry", "batch_index")
    return [
        (int(row["value"]), tuple(row["message_id"][name] for name in ids))
        for part in reader.partitions()
        for row in rows_of(reader, part)
    ]


def rows_of(reader: DataSourceReader, part: InputPartition) -> list[dict[str, Any]]:
    """The rows that a task reads."""
    batches: Iterator[Any] = reader.read(part)
    return [row for batch in batches for row in batch.to_pylist()]


def test_what_is_sent_after_planning_is_not_read(broker: BrokerThread, client: pulsar.Client) -> None:
    """The end is fixed in the plan, in the middle of a batch's worth of entries if need be."""
    send(client, 0, 8, batching_enabled=True)
    source = PulsarDataSource({"service.url": broker.url, "topic": TOPIC})
    reader = source.reader(MESSAGES)
    (part,) = reader.partitions()
    send(client, 8, 30, batching_enabled=True)
    for _ in range(2):  # a task that is run again reads the same
        assert [int(row["value"]) for row in rows_of(reader, part)] == list(range(8))


def test_a_topic_without_messages_is_an_empty_table(spark: SparkSession, broker: BrokerThread) -> None:
    frame = read(spark, broker)
    assert frame.schema == MESSAGES
    assert frame.collect() == []


def test_latest_to_latest_reads_nothing(broker: BrokerThread, client: pulsar.Client) -> None:
    send(client, 0, 7, batching_enabled=True)
    assert rows_between(broker, startingOffsets="latest") == []


def test_reading_from_a_time_begins_with_the_first_message_of_that_time(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    """Also where the messages of that time are in a batch; after the newest message there is nothing."""
    for first in range(0, 15, 5):
        send(client, first, first + 5, batching_enabled=first > 0)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    published = [reader.read_next(20_000).publish_timestamp() for _ in range(15)]
    for time_ms in sorted({published[0] - 10_000, *published, published[-1] + 1}):
        expected = [number for number, time in enumerate(published) if time >= time_ms]
        assert [number for number, _ in rows_between(broker, startingOffsets=str(time_ms))] == expected


def test_a_message_of_many_chunks_is_one_row_wherever_it_lies(broker: BrokerThread, client: pulsar.Client) -> None:
    """As the last message it cannot be found by looking at the end alone."""
    producer = client.create_producer(TOPIC, chunking_enabled=True)
    large = b"7".ljust(12 << 20)
    for payload in (b"1", large):
        producer.send(payload)
    assert [number for number, _ in rows_between(broker)] == [1, 7]
    producer.send(b"3")
    rows = rows_between(broker)
    assert [number for number, _ in rows] == [1, 7, 3]
    ledger, entry, _ = rows[1][1]
    after_large = json.dumps({TOPIC: {"ledger": ledger, "entry": entry}})
    assert [number for number, _ in rows_between(broker, startingOffsets=after_large)] == [3]


def test_each_partition_of_a_topic_is_a_partition_of_the_table(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client
) -> None:
    broker.broker.lookup.partitioned[TOPIC] = 3
    round_robin = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    send(client, 0, 90, message_routing_mode=round_robin)
    frame = read(spark, broker)
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.collect()
    assert sorted(int(row.value) for row in rows) == list(range(90))
    assert {(row.topic, row.message_id.partition) for row in rows} == {(f"{TOPIC}-partition-{n}", n) for n in range(3)}
    one = f"{TOPIC}-partition-1"
    of_one = [int(row.value) for row in rows if row.topic == one]
    assert [number for number, _ in rows_between(broker, topic=one)] == of_one
    nothing_of_others = json.dumps({TOPIC: "latest", one: "earliest"})
    assert [number for number, _ in rows_between(broker, startingOffsets=nothing_of_others)] == of_one


def test_several_topics_are_one_table(broker: BrokerThread, client: pulsar.Client) -> None:
    send(client, 0, 3)
    send(client, 3, 5, topic="other")
    source = PulsarDataSource({"service.url": broker.url, "topics": f"{TOPIC}, other"})
    reader = source.reader(MESSAGES)
    rows = [
        (row["topic"].rpartition("/")[2], int(row["value"]))
        for part in reader.partitions()
        for row in rows_of(reader, part)
    ]
    assert rows == [("numbers", 0), ("numbers", 1), ("numbers", 2), ("other", 3), ("other", 4)]


def test_messages_that_went_between_planning_and_reading_are_told_or_passed_over(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    """The topic is deleted and begins anew: its former end never comes."""
    send(client, 0, 5)
    readers = [
        PulsarDataSource({"service.url": broker.url, "topic": TOPIC, "failOnDataLoss": fail}).reader(MESSAGES)
        for fail in ("true", "false")
    ]
    parts = [reader.partitions()[0] for reader in readers]

    async def delete() -> None:
        await broker.broker.registry.delete_topic(TopicName.parse(TOPIC), force=True)

    broker.run(delete())
    with pytest.raises(PulsarSourceError, match="retention removed messages, or the topic was deleted"):
        list(readers[0].read(parts[0]))
    assert list(readers[1].read(parts[1])) == []


def test_an_absent_topic_and_an_absent_service_are_told_in_a_sentence(spark: SparkSession) -> None:
    absent = pytest.raises(PySparkException, match=f"there is no topic {TOPIC}; check its name, or create it")
    with BrokerThread(lambda: OneBroker(BrokerConfig(allow_auto_topic_creation=False))) as strict, absent:
        read(spark, strict).collect()
    options = {"service.url": strict.url, "topic": TOPIC, "pulsar.client.operationTimeoutMs": "1000"}
    with pytest.raises(PulsarSourceError, match=r"check service\.url and that the broker runs"):
        PulsarDataSource(options).reader(MESSAGES).partitions()


def test_a_bad_option_is_told_by_spark_in_its_words(spark: SparkSession) -> None:
    reader = spark.read.format("pulsar").option("service.url", "localhost:6650").option("topic", TOPIC)
    with pytest.raises(PySparkException, match=r"option service\.url: the URL must begin with pulsar://"):
        reader.load()
