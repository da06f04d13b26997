"""`format("pulsar")` as a stream: each message in one batch, whatever stops and goes on in between."""

import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.pulsar_source import PulsarDataSource
from support.one_broker import BrokerThread

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.integration,
    pytest.mark.usefixtures("pulsar_format"),
    pytest.mark.drawn_tests(4),
]

TOPIC = "persistent://public/default/numbers"
WAIT_S = 120


def send(client: pulsar.Client, first: int, stop: int, topic: str = TOPIC, **options: Any) -> None:
    producer = client.create_producer(topic, batching_max_messages=5, block_if_queue_full=True, **options)
    for number in range(first, stop):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


class Query:
    """Collects the numbers of each batch, in the order of the messages; a batch run again has the same ones."""

    def __init__(self, spark: SparkSession, broker: BrokerThread, checkpoint: Path, **options: str) -> None:
        options = {"service.url": broker.url, "topic": TOPIC, "startingOffsets": "earliest"} | options
        self.batches: dict[int, list[int]] = {}
        self._arrived = threading.Condition()
        stream = spark.readStream.format("pulsar").options(**options).load()
        self.writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(self._take)

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.orderBy("topic", "message_id").select("value").collect()
        numbers = [int(row.value) for row in rows]
        with self._arrived:
            assert self.batches.setdefault(batch_id, numbers) == numbers
            self._arrived.notify_all()

    def numbers(self) -> list[int]:
        """All numbers, batch by batch."""
        return list(chain.from_iterable(self.batches.values()))

    def run_available(self) -> list[list[int]]:
        """Read what is there, and end; return the batches."""
        query = self.writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)
        return list(self.batches.values())

    def wait_for(self, count: int) -> list[int]:
        """Wait until `count` numbers came in all."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.numbers()) >= count, WAIT_S)
            return sorted(self.numbers())


def test_a_query_goes_on_from_its_checkpoint_without_loss_or_doubling(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    """Three queries, one after the other: single messages, then batches, then nothing new, then more."""
    seen = []
    for first, stop, batching in ((0, 7, False), (7, 40, True), (40, 40, False), (40, 43, True)):
        send(client, first, stop, batching_enabled=batching)
        query = Query(spark, broker, tmp_path)
        query.run_available()
        assert query.numbers() == list(range(first, stop))
        seen += list(query.batches)
    assert seen == [0, 1, 2]


def test_a_batch_that_failed_is_run_again_with_the_same_messages(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    """What was sent after the failure waits for the next batch."""
    send(client, 0, 8, batching_enabled=True)
    failing = Query(spark, broker, tmp_path)
    failing.writer.foreachBatch(fail)
    with pytest.raises(StreamingQueryException, match="no room"):
        failing.run_available()
    send(client, 8, 10)
    assert Query(spark, broker, tmp_path).run_available() == [list(range(8)), [8, 9]]


def fail(_: DataFrame, __: int) -> None:
    raise OSError("no room")


def test_a_limit_holds_for_each_batch_and_ends_inside_batches_of_messages(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    send(client, 0, 20, batching_enabled=True)
    batches = Query(spark, broker, tmp_path, maxMessagesPerTrigger="7").run_available()
    assert batches == [list(range(7)), list(range(7, 14)), list(range(14, 20))]


def test_a_limit_is_shared_by_the_partitions_that_have_messages(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    """Also one smaller than the number of partitions: none waits for ever."""
    broker.broker.lookup.partitioned[TOPIC] = 3
    for partition, (first, stop) in enumerate(((0, 5), (5, 6), (6, 10))):
        send(client, first, stop, topic=f"{TOPIC}-partition-{partition}", batching_enabled=True)
    batches = Query(spark, broker, tmp_path, maxMessagesPerTrigger="2").run_available()
    assert sorted(chain.from_iterable(batches)) == list(range(10))
    assert max(map(len, batches)) == 2
    assert {0, 5, 6} <= set(chain.from_iterable(batches[:3]))


def test_the_end_of_a_batch_does_not_depend_on_how_often_it_was_asked_for(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    """As Spark may ask again for a batch whose record it lost."""
    send(client, 0, 12, batching_enabled=True)
    source = PulsarDataSource({"service.url": broker.url, "topic": TOPIC, "startingOffsets": "earliest"})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    ends = [reader.latestOffset(start, ReadMaxRows(count)) for count in (3, 3, 1, 7)]
    assert [count_between(reader, start, end) for end in ends] == [3, 3, 1, 7]
    assert count_between(reader, ends[0], reader.latestOffset(ends[0], ReadAllAvailable())) == 9
    reader.stop()


def count_between(reader: DataSourceStreamReader, start: dict[str, Any], end: dict[str, Any]) -> int:
    parts = reader.partitions(start, end)
    batches: Iterator[Any] = chain.from_iterable(reader.read(part) for part in parts)
    return sum(batch.num_rows for batch in batches)


def test_a_subscription_keeps_what_was_not_read_yet_and_lets_go_of_the_rest(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    """A topic that nobody subscribes to loses its messages when it moves; one read without the option shows it."""
    other = "persistent://public/default/not-kept"

    def take(topic: str, **options: str) -> list[int]:
        query = Query(spark, broker, tmp_path / topic[-4:], topic=topic, **options)
        query.run_available()
        return query.numbers()

    for stop in (12, 24, 36):
        for topic in (TOPIC, other):
            send(client, stop - 12, stop, topic=topic, batching_enabled=True)
        if stop > 12:  # from then on the subscription is there
            assert broker.run(broker.broker.unload()) == 2
        assert take(TOPIC, subscription="keeps", maxMessagesPerTrigger="5") == list(range(stop - 12, stop))
    assert 0 not in take(other)

    async def kept() -> int:
        topic = broker.broker.registry.get_loaded(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        return topic.subscriptions["keeps"].cursor.backlog.messages

    assert 0 < broker.run(kept()) < 12


def test_a_running_query_sees_what_is_sent_and_partitions_that_are_added(
    spark: SparkSession, broker: BrokerThread, client: pulsar.Client, tmp_path: Path
) -> None:
    """Beginning at the latest message; the broker lets its topics go once in between."""
    broker.broker.lookup.partitioned[TOPIC] = 1
    send(client, 0, 5, topic=f"{TOPIC}-partition-0")
    running = Query(spark, broker, tmp_path, startingOffsets="latest")
    query = running.writer.trigger(processingTime="0 seconds").start()
    try:
        wait_until_planned(query)
        send(client, 5, 9, topic=f"{TOPIC}-partition-0", batching_enabled=True)
        assert running.wait_for(4) == list(range(5, 9))
        assert broker.run(broker.broker.unload()) == 1
        send(client, 9, 12, topic=f"{TOPIC}-partition-0")
        assert running.wait_for(7) == list(range(5, 12))
        send(client, 12, 15, topic=f"{TOPIC}-partition-1")
        broker.broker.lookup.partitioned[TOPIC] = 2
        assert running.wait_for(10) == list(range(5, 15))
        assert query.exception() is None
    finally:
        query.stop()
    after = Query(spark, broker, tmp_path)
    after.batches |= running.batches
    after.run_available()
    assert sorted(after.numbers()) == list(range(5, 15))


def wait_until_planned(query: Any) -> None:
    """Wait until a query knows where it begins."""
    deadline = threading.Event()
    for _ in range(WAIT_S * 20):
        if query.recentProgress or query.exception() is not None:
            break
        deadline.wait(0.05)
    assert query.exception() is None
