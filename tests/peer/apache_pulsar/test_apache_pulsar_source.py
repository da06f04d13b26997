"""`format("pulsar")` on clusters of Apache Pulsar: batches, streams, load reports in its topics."""

import datetime
import hashlib
import json
import threading
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.broker.load_manager.reporting.load_report_topic import ClientReportSender
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.pipeline.parsing.report_lines import LOAD_REPORT_TOPIC, report_lines
from pulsar_barycenter.pipeline.pulsar_source import PulsarDataSource
from pulsar_barycenter.pipeline.pulsar_source.options import PulsarSourceError
from support.apache_pulsar import ApachePulsar, soon
from support.apache_pulsar_clients import connected, make_topic, token

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.pipeline,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("pulsar_format"),
]


def read(spark: SparkSession, cluster: ApachePulsar, **options: str) -> DataFrame:
    return spark.read.format("pulsar").option("service.url", cluster.service_url).options(**options).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def send(client: pulsar.Client, topic: str, first: int, stop: int, **options: Any) -> None:
    producer = client.create_producer(topic, batching_max_messages=5, **options)
    for number in range(first, stop):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


def test_a_batch_has_what_the_stock_client_produced(spark: SparkSession, cluster: ApachePulsar) -> None:
    """Single messages, batches, each compression and chunks, over three partitions; every column is compared."""
    topic = make_topic(cluster, "columns", partitions=3)
    kinds: list[dict[str, Any]] = [
        {"batching_enabled": False},
        {"batching_enabled": True},
        {"batching_enabled": True, "compression_type": pulsar.CompressionType.LZ4},
        {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD},
        {"batching_enabled": False, "compression_type": pulsar.CompressionType.SNAPPY},
        {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZLib},
        {"batching_enabled": False, "chunking_enabled": True},
    ]
    sent: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def stored(_: Any, message_id: pulsar.MessageId, expected: tuple[Any, ...]) -> None:
        place = (message_id.ledger_id(), message_id.entry_id(), message_id.partition(), message_id.batch_index())
        sent[place] = expected

    with connected(cluster) as client:
        for kind, options in enumerate(kinds):
            producer = client.create_producer(
                topic,
                producer_name=f"shop-{kind}",
                batching_max_messages=4,
                message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
                **options,
            )
            for number in range(10):
                key = f"k{number % 4}" if number % 2 else None
                value = b"%d" % number * (6_000_000 if "chunking_enabled" in options and number == 7 else 1)
                properties, event_ms = {"kind": str(kind), "größe": "ü"}, 1_700_000_000_000 + number if number else None
                expected = (key, hashlib.sha256(value).hexdigest(), properties, event_ms, f"shop-{kind}")
                producer.send_async(
                    value,
                    lambda result, message_id, expected=expected: stored(result, message_id, expected),
                    partition_key=key,
                    properties=properties,
                    event_timestamp=event_ms,
                )
            producer.flush()
            producer.close()
    frame = read(spark, cluster, topic=topic).selectExpr("*", "unix_millis(event_time) as event_ms")
    rows = frame.collect()
    found = {
        tuple(row.message_id): (
            *(row.key, hashlib.sha256(row.value).hexdigest(), row.properties, row.event_ms, row.producer_name),
        )
        for row in rows
    }
    assert len(rows) == len(found) == 10 * len(kinds)
    assert found == sent
    assert {row.topic for row in rows} == {f"{topic}-partition-{row.message_id.partition}" for row in rows}


def test_ranges_begin_and_end_where_they_are_asked_to(spark: SparkSession, modular: ApachePulsar) -> None:
    """By place, by time and by message id, inside batches of messages too."""
    topic = make_topic(modular, "ranges")
    with connected(modular) as client:
        send(client, topic, 0, 12, batching_enabled=True)
        soon(lambda: time.time_ns() // 1_000_000 > newest_ms(spark, modular, topic), what="a later millisecond")
        moment = time.time_ns() // 1_000_000
        send(client, topic, 12, 20)
    ids = {int(row.value): row.message_id for row in read(spark, modular, topic=topic).collect()}
    assert sorted(ids) == list(range(20))

    def at(number: int) -> str:
        found = ids[number]
        position = {"ledger": found.ledger, "entry": found.entry, "batch_index": found.batch_index}
        return json.dumps({topic: position})

    def between(**options: str) -> list[int]:
        return numbers(read(spark, modular, topic=topic, **options))

    assert between(startingOffsets="latest") == []
    assert between(startingOffsets=str(moment)) == list(range(12, 20))
    said = datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC).isoformat()
    assert between(startingOffsets=said) == list(range(12, 20))
    assert between(startingOffsets=at(6)) == list(range(7, 20))
    assert between(endingOffsets=at(6)) == list(range(7))
    assert between(startingOffsets=at(3), endingOffsets=at(13)) == list(range(4, 14))


def newest_ms(spark: SparkSession, cluster: ApachePulsar, topic: str) -> int:
    frame = read(spark, cluster, topic=topic).selectExpr("unix_millis(max(publish_time)) as newest")
    return int(frame.collect()[0].newest)


def test_a_pattern_finds_the_topics_of_a_namespace(spark: SparkSession, cluster: ApachePulsar) -> None:
    """Partitioned and not, with and without TLS; the others are left out."""
    topic = make_topic(cluster, "pattern", partitions=2)
    with connected(cluster) as client:
        send(client, topic, 0, 10)
        send(client, f"{topic}-old", 10, 15)
        send(client, "persistent://public/pattern/bills", 15, 20)
    pattern = {"topicsPattern": "persistent://public/pattern/orders.*", "admin.url": cluster.brokers[1].web_url}
    assert numbers(read(spark, cluster, **pattern)) == list(range(15))
    tls = {"service.url": cluster.brokers[0].tls_service_url, "admin.url": cluster.brokers[1].tls_web_url}
    trusted = {"pulsar.client.tlsTrustCertsFilePath": str(cluster.certificate)}
    frame = spark.read.format("pulsar").options(**pattern).options(**tls, **trusted).load()
    assert numbers(frame) == list(range(15))


def test_a_cluster_that_refuses_is_told_with_what_to_check(modular: ApachePulsar) -> None:
    """The client only says that nobody answers, also where a broker hung up on it."""
    first = modular.brokers[0]

    def told(**options: str) -> str:
        subject = {"service.url": modular.service_url} | ({} if "topicsPattern" in options else {"topic": "none"})
        soon_over = {"pulsar.client.operationTimeoutMs": "2000"}
        source = PulsarDataSource(
            {**subject, **soon_over, **{name.replace("_", "."): options[name] for name in options}}
        )
        with pytest.raises(PulsarSourceError) as refused:
            source.reader(source.schema()).partitions()
        return str(refused.value)

    guest = {"pulsar.client.authPluginClassName": "token", "pulsar.client.authParams": f"token:{token('guest')}"}
    unknown = guest | {"pulsar.client.authParams": "token:unknown"}
    assert "does not allow these credentials to read" in told(**guest)
    assert "that it accepts the credentials in pulsar.client.authParams" in told(**unknown)
    assert "pulsar.client.tlsTrustCertsFilePath" in told(service_url=first.tls_service_url)
    pattern = {"topicsPattern": "persistent://public/default/.*"}
    assert "check the option pulsar.client.tlsTrustCertsFilePath" in told(**pattern, admin_url=first.tls_web_url)
    assert "404: Not Found; check the option admin.url" in told(**pattern, admin_url=f"{first.web_url}/elsewhere")
    assert "403: Unauthorized to" in told(**pattern, **guest, admin_url=first.web_url)


def test_a_stream_goes_on_through_restarts_unloads_and_splits(
    spark: SparkSession, cluster: ApachePulsar, tmp_path: Path
) -> None:
    """From its checkpoint, each message once, while its topics close and move; a subscription keeps what it has not."""
    topic = make_topic(cluster, "stream", partitions=2, bundles=1)
    batches: dict[int, list[int]] = {}
    arrived = threading.Condition()

    def take(batch: DataFrame, batch_id: int) -> None:
        found = numbers(batch)
        with arrived:
            assert batches.setdefault(batch_id, found) == found
            arrived.notify_all()

    options = {"service.url": cluster.service_url, "topic": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("pulsar").options(**options, subscription="copy", maxMessagesPerTrigger="40")
    writer = stream.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    with connected(cluster) as client:
        send(client, topic, 0, 50, batching_enabled=True)
        for _ in range(2):  # the second time there is nothing new
            assert writer.trigger(availableNow=True).start().awaitTermination(60)
            assert sorted(chain.from_iterable(batches.values())) == list(range(50))
        cluster.expect(204, "PUT", "/admin/v2/namespaces/public/stream/unload")
        query = writer.trigger(processingTime="0 seconds").start()
        for first in (50, 100, 150):
            send(client, topic, first, first + 50, batching_enabled=True)
            with arrived:
                assert arrived.wait_for(lambda: sum(map(len, batches.values())) >= first + 50, 60)  # noqa: B023
            partition = f"{topic}-partition-{first % 2}"
            verb = "unload" if first == 100 else "split?unload=true"
            cluster.expect(204, "PUT", f"{cluster.bundle_path(partition)}/{verb}")
        query.stop()
    assert sorted(chain.from_iterable(batches.values())) == list(range(200))
    assert max(map(len, batches.values())) <= 40
    bundles = cluster.expect(200, "GET", "/admin/v2/namespaces/public/stream/bundles")
    assert bundles["numBundles"] > 1


def test_what_retention_removed_is_passed_over_and_a_range_that_ends_there_fails(
    spark: SparkSession, modular: ApachePulsar
) -> None:
    topic = make_topic(modular, "trimmed")
    with connected(modular) as client:
        send(client, topic, 0, 10)
        last = read(spark, modular, topic=topic).selectExpr("max(message_id) as last").collect()[0].last
        modular.expect(204, "PUT", f"{modular.bundle_path(topic)}/unload")
        send(client, topic, 10, 20)

    def left() -> list[int]:
        modular.expect(200, "POST", "/admin/v2/persistent/public/trimmed/orders/trim")
        return numbers(read(spark, modular, topic=topic))

    soon(lambda: left() == list(range(10, 20)), what="the first ledger trimmed")
    gone = json.dumps({topic: {"ledger": last.ledger, "entry": last.entry}})
    assert numbers(read(spark, modular, topic=topic, endingOffsets=gone)) == []
    assert numbers(read(spark, modular, topic=topic, startingOffsets=gone)) == list(range(10, 20))


def test_load_reports_that_barycenter_publishes_come_back_as_they_were(
    spark: SparkSession, modular: ApachePulsar
) -> None:
    """To Pulsar's brokers; also one that is larger than they let a message be."""
    few, many = (
        {
            f"public/default/0x{number:08x}_0x{number + 1:08x}": NamespaceBundleStats(msg_rate_in=1.5)
            for number in numbers
        }
        for numbers in (range(2), range(40_000))
    )
    sent = [
        LocalBrokerData(
            broker_id="b:1", incarnation="first", sequence=number, last_update=1_000 + number, last_stats=stats
        )
        for number, stats in enumerate((few, many, few), 1)
    ]
    sender = ClientReportSender(modular.service_url)
    for report in sent:
        sender.send(report)
    sender.close()
    messages = read(spark, modular, topic=LOAD_REPORT_TOPIC)
    assert {(row.key, row.at) for row in messages.selectExpr("key", "unix_millis(event_time) at").collect()} == {
        ("b:1", report.last_update) for report in sent
    }
    found = report_lines(messages).selectExpr("sequence", "corrupt", "size(lastStats) as bundles").collect()
    assert sorted(tuple(row) for row in found) == [(1, None, 2), (2, None, 40_000), (3, None, 2)]
