"""`format("pulsar")` and the topic of load reports on a real cluster of broker processes."""

import asyncio
import json
import signal
from collections.abc import Iterable
from pathlib import Path

import pulsar
import pytest
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.report_lines import LOAD_REPORT_TOPIC, read_report_log, report_lines
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.schemas import DECISIONS
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support import stock_client
from support.pipeline_runs import assert_same, rows_of
from support.running_cluster import QUICK, Admin, eventually, running_cluster

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.integration,
    pytest.mark.usefixtures("pulsar_format"),
    pytest.mark.drawn_tests(2),
]

REPORTING = QUICK | {
    "loadReportLogEnabled": "true",
    "barycenterLoadReportTopicEnabled": "true",
    "loadBalancerReportUpdateMinIntervalMillis": "200",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0.01",
}


def read(spark: SparkSession, cluster: StandaloneCluster, **options: str) -> DataFrame:
    reader = spark.read.format("pulsar").option("service.url", cluster.brokers[0].service_url)
    return reader.options(**options).load()


def connect(cluster: StandaloneCluster, broker: int = 0) -> pulsar.Client:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return stock_client.connect(cluster.brokers[broker].service_url, logger=logger)


async def unload(cluster: StandaloneCluster, admin: Admin, topic: str) -> None:
    """Unload a topic's bundle to the broker after its owner."""
    owner = await admin.owner(topic)
    target = cluster.brokers[(owner.index + 1) % len(cluster.brokers)]
    bundle = await admin.bundle_range(topic)
    path = f"/admin/v2/namespaces/{TopicName.parse(topic).namespace}/{bundle}/unload"
    await admin.expect(204, "PUT", f"{path}?destinationBroker={target.broker_id}")

    async def is_there() -> bool:
        return await admin.owner(topic) is target

    await eventually(is_there, within_s=30, what=f"{topic} at {target.broker_id}")


async def test_the_topics_of_a_pattern_are_read_wherever_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """A partitioned topic and a plain one of a namespace on two brokers; one is moved between two reads."""
    base = "persistent://public/shop"
    async with running_cluster(tmp_path, brokers=2, configuration=QUICK) as (cluster, admin):
        await admin.create_namespace("public/shop", 4)
        await admin.expect(204, "PUT", "/admin/v2/persistent/public/shop/orders/partitions", json=4)
        client = connect(cluster, 1)
        for topic, numbers in (("orders", range(40)), ("orders-old", range(40, 50)), ("bills", range(50, 60))):
            producer = client.create_producer(
                f"{base}/{topic}", message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
            )
            for number in numbers:
                producer.send(b"%d" % number)
        client.close()
        options = {"topicsPattern": f"{base}/orders.*", "admin.url": cluster.brokers[0].web_url}
        for _ in range(2):
            rows = read(spark, cluster, **options).collect()
            assert sorted(int(row.value) for row in rows) == list(range(50))
            names = {f"{base}/orders-partition-{number}" for number in range(4)} | {f"{base}/orders-old"}
            assert {row.topic for row in rows} == names
            await unload(cluster, admin, f"{base}/orders-partition-0")


async def test_a_stream_with_a_subscription_loses_and_doubles_nothing_when_a_broker_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The owner of a partition dies while the stream is behind. Without the subscription what it left would be gone."""
    topic = "persistent://public/shop/orders"
    batches: dict[int, list[int]] = {}

    def take(batch: DataFrame, batch_id: int) -> None:
        numbers = sorted(int(row.value) for row in batch.select("value").collect())
        assert batches.setdefault(batch_id, numbers) == numbers

    async with running_cluster(tmp_path / "cluster", configuration=QUICK) as (cluster, admin):
        await admin.create_namespace("public/shop", 4)
        await admin.expect(204, "PUT", "/admin/v2/persistent/public/shop/orders/partitions", json=4)
        urls = "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in cluster.brokers)
        options = {"service.url": urls, "topic": topic, "startingOffsets": "earliest", "subscription": "shop"}
        stream = spark.readStream.format("pulsar").options(**options, maxMessagesPerTrigger="100").load()
        checkpoint = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = checkpoint.foreachBatch(take).trigger(processingTime="0 seconds").start()
        client = stock_client.connect(urls)
        producer = client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_messages=7,
            send_timeout_millis=60_000,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )

        async def have_come(count: int) -> bool:
            failure = query.exception()
            assert failure is None, failure
            return sum(map(len, batches.values())) >= count

        for number in range(600):
            producer.send_async(b"%d" % number, None)
        await asyncio.to_thread(producer.flush)  # or the producer would send again what had no receipt yet
        await eventually(lambda: have_come(100), within_s=120, what="a first batch")
        (await admin.owner(f"{topic}-partition-0")).signal(signal.SIGKILL)
        for number in range(600, 900):
            producer.send_async(b"%d" % number, None)
        await asyncio.to_thread(producer.flush)
        client.close()
        await eventually(lambda: have_come(900), within_s=120, what="all messages")
        query.stop()
    assert sorted(number for batch in batches.values() for number in batch) == list(range(900))


@pytest.mark.full_form
async def test_the_topic_of_load_reports_folds_to_the_same_tables_as_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Three brokers report, and the topic moves in the midst of it; what the log had by then the topic has too."""
    async with running_cluster(tmp_path, configuration=REPORTING) as (cluster, admin):
        client = connect(cluster)
        producers = [client.create_producer(f"persistent://public/default/load-{number}") for number in range(6)]
        earliest = pulsar.InitialPosition.Earliest
        client.subscribe(LOAD_REPORT_TOPIC, "keeps", initial_position=earliest)  # else a move removes what came before
        reader = client.create_reader(LOAD_REPORT_TOPIC, pulsar.MessageId.earliest)
        published: dict[tuple[str, str], set[int]] = {}

        async def have_reported(count: int) -> bool:
            for producer in producers:
                producer.send(b"x" * 1000)
            take_published(reader, published)
            return len(published) == 3 and min(map(len, published.values())) >= count

        await eventually(lambda: have_reported(3), within_s=60, what="3 reports of each broker on the topic")
        await unload(cluster, admin, LOAD_REPORT_TOPIC)
        await eventually(lambda: have_reported(7), within_s=60, what="7 reports of each broker on the topic")

        layout = PipelineLayout.of(tmp_path)
        logged = read_report_log(spark, layout).persist()
        newest = newest_sequences(logged)
        assert newest.keys() == published.keys()

        async def is_all_published() -> bool:
            take_published(reader, published)
            return all(set(range(1, newest[broker] + 1)) <= published[broker] for broker in newest)

        await eventually(is_all_published, within_s=60, what="every report of the log on the topic")
        client.close()
        lines = report_lines(read(spark, cluster, topic=LOAD_REPORT_TOPIC)).persist()
        found, expected = fold(spark, up_to(lines, newest)), fold(spark, logged)
        for table in ("load_reports", "bundle_samples", "bundle_data"):
            rows = rows_of(getattr(expected, table))
            assert rows
            assert_same(rows_of(getattr(found, table)), rows)


def take_published(reader: pulsar.Reader, published: dict[tuple[str, str], set[int]]) -> None:
    """Note the reports that came to the topic: each broker's sequences, by the broker and its incarnation."""
    while True:
        try:
            message = reader.read_next(100)
        except pulsar.Timeout:
            return
        report = json.loads(message.data())
        assert message.partition_key() == report["brokerId"]
        assert message.event_timestamp() == report["lastUpdate"]
        published.setdefault((report["brokerId"], report["incarnation"]), set()).add(report["sequence"])


def newest_sequences(lines: DataFrame) -> dict[tuple[str, str], int]:
    rows = lines.groupBy("brokerId", "incarnation").max("sequence").collect()
    return {(row.brokerId, row.incarnation): row["max(sequence)"] for row in rows}


def up_to(lines: DataFrame, newest: dict[tuple[str, str], int]) -> DataFrame:
    """The reports that the log had when it was read."""
    each: Iterable[str] = (
        f"(brokerId = '{broker}' and incarnation = '{incarnation}' and sequence <= {sequence})"
        for (broker, incarnation), sequence in newest.items()
    )
    return lines.where(" or ".join(each))


def fold(spark: SparkSession, lines: DataFrame) -> HistoryTables:
    return fold_history(lines, spark.createDataFrame([], struct_type(DECISIONS)))


def test_a_message_that_is_no_report_is_a_corrupt_line(spark: SparkSession) -> None:
    """As in the log; a message without a value is a line of nothing."""
    values = [b'{"brokerId":"b:1","sequence":3}', b"no report", None]
    messages = spark.createDataFrame([(value,) for value in values], "value binary")
    rows = report_lines(messages).select("brokerId", "sequence", "corrupt").collect()
    assert [tuple(row) for row in rows] == [("b:1", 3, None), (None, None, "no report"), (None, None, None)]
