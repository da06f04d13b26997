"""`format("pulsar")`, `collect`, `status` and moves on clusters of Apache Pulsar, one for each of its load managers."""

import asyncio
import base64
import datetime
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import pulsar
import pytest
from pyspark.sql import DataFrame, SparkSession

from barycenter.admin.client import AdminClient
from barycenter.attach.collector import Collector, Round
from barycenter.attach.report_numbers import ReportNumbers
from barycenter.broker.load_manager.reporting.load_report_topic import ClientReportSender
from barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from barycenter.pipeline.parsing.report_lines import LOAD_REPORT_TOPIC, report_lines
from barycenter.pipeline.pulsar_source import PulsarDataSource
from barycenter.pipeline.pulsar_source.options import PulsarSourceError
from support.apache_pulsar import EXTENSIBLE, MODULAR, ApachePulsar, apache_pulsar, soon
from support.maven import PeerUnavailableError
from support.report_log import MemoryReportLog

pytestmark = [
    pytest.mark.peer,
    pytest.mark.pipeline,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("pulsar_format"),
]

_ROUNDS = 90
_KEY = b"barycenter barycenter barycenter"
_SECURED = {
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": f"data:;base64,{base64.b64encode(_KEY).decode()}",
    "authorizationEnabled": "true",
    "superUserRoles": "operator",
    "anonymousUserRole": "operator",  # who sends no token may do all, so that only tests of tokens need one
}


@contextmanager
def started(request: pytest.FixtureRequest, folder: Path, configuration: Mapping[str, str]) -> Iterator[ApachePulsar]:
    try:
        cluster = apache_pulsar(folder, configuration=configuration)
        with cluster as running:
            yield running
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def modular(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    keys = _SECURED | {"loadManagerClassName": MODULAR}
    with started(request, tmp_path_factory.mktemp("modular"), keys) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def extensible(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    with started(request, tmp_path_factory.mktemp("extensible"), {"loadManagerClassName": EXTENSIBLE}) as cluster:
        yield cluster


@pytest.fixture(params=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ApachePulsar]:
    """Each of both; what its processes print is shown with a failure."""
    found: ApachePulsar = request.getfixturevalue(request.param)
    yield found
    print(found.logs())


@contextmanager
def connected(cluster: ApachePulsar) -> Iterator[pulsar.Client]:
    client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


def make_topic(cluster: ApachePulsar, name: str, *, partitions: int = 0, bundles: int = 4) -> str:
    """Return a topic in a namespace of its own, of this name."""
    cluster.expect(204, "PUT", f"/admin/v2/namespaces/public/{name}", json={"bundles": {"numBundles": bundles}})
    if partitions:
        cluster.expect(204, "PUT", f"/admin/v2/persistent/public/{name}/orders/partitions", json=partitions)
    return f"persistent://public/{name}/orders"


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


class Load:
    """Keeps producing to some topics, and consuming from them, until closed."""

    def __init__(self, cluster: ApachePulsar, topics: list[str]) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(cluster, topics))
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self, cluster: ApachePulsar, topics: list[str]) -> None:
        with connected(cluster) as client:
            for topic in topics:
                client.subscribe(
                    topic, "bills", message_listener=lambda consumer, message: consumer.acknowledge(message)
                )
            producers = [client.create_producer(topic) for topic in topics]
            while not self._ended.wait(0.02):
                for producer in producers:
                    producer.send_async(b"x" * 500, None)


@contextmanager
def loaded(cluster: ApachePulsar, name: str) -> Iterator[list[str]]:
    topic = make_topic(cluster, name)
    topics = [f"{topic}-{number}" for number in range(8)]
    load = Load(cluster, topics)
    try:
        yield topics
    finally:
        load.close()


def collected(cluster: ApachePulsar, folder: Path) -> tuple[dict[str, LocalBrokerData], Round]:
    """Collect once; return the reports by broker, and what the round found."""

    async def collect() -> tuple[dict[str, LocalBrokerData], Round]:
        log, client = MemoryReportLog(), AdminClient(timeout_s=20)
        numbers = ReportNumbers(folder / "collect.json", now_ms=1)
        urls = [cluster.brokers[0].web_url]
        collector = Collector(urls, client, log, numbers, clock_ms=lambda: time.time_ns() // 1_000_000)
        try:
            found = await collector.collect()
        finally:
            await client.close()
        return {str(report.broker_id): report for report in log.reports}, found

    return asyncio.run(collect())


def test_the_figures_collected_are_those_that_the_brokers_tell(modular: ApachePulsar, tmp_path: Path) -> None:
    """Asked before and after: what both times was the same, the collector has, too."""

    def told() -> dict[str, dict[str, Any]]:
        path = "/admin/v2/broker-stats/load-report"
        return {each.broker_id: modular.expect(200, "GET", path, broker=at) for at, each in enumerate(modular.brokers)}

    with loaded(modular, "figures") as topics:

        def agrees() -> bool:
            before = told()
            reports, found = collected(modular, tmp_path)
            after = told()
            stats = {broker: report["lastStats"] for broker, report in before.items()}
            of_topics = [
                each for each in chain.from_iterable(map(dict.items, stats.values())) if "/figures/" in each[0]
            ]
            if stats != {broker: report["lastStats"] for broker, report in after.items()}:
                return False
            if sum(each["topics"] for _, each in of_topics) < len(topics) or not all(
                each["msgRateIn"] > 0 and each["msgRateOut"] > 0 for _, each in of_topics
            ):
                return False
            assert found.failed == {}
            assert reports.keys() == before.keys()
            assert found.bundles == sum(map(len, stats.values()))
            for broker, report in before.items():
                written = msgspec.to_builtins(reports[broker])
                assert sorted(reports[broker].bundles) == sorted(report["bundles"])
                constant = ("startTimestamp", "brokerVersionString", "loadManagerClassName", "numTopics")
                assert {key: written[key] for key in constant} == {key: report[key] for key in constant}
                for bundle, figures in report["lastStats"].items():
                    assert {key: written["lastStats"][bundle][key] for key in figures} == figures
            return True

        soon(agrees, what="a round between two updates of the brokers' figures")


def test_recordings_of_both_managers_become_tables_and_decisions(
    modular: ApachePulsar, extensible: ApachePulsar, tmp_path: Path
) -> None:
    """By the commands that the README names: figures of every bundle with traffic, at the broker that has it."""
    for cluster, name in ((modular, "kept-modular"), (extensible, "kept-extensible")):
        asked = ["--admin-url", cluster.brokers[0].web_url, "--service-url", cluster.service_url, "--interval", "1"]
        with loaded(cluster, name) as topics, collecting(*asked, "--out", str(tmp_path)) as rounds:
            next(each for each in rounds if not each.failed and is_busy(traffic(tmp_path, name), topics))
    reports = newest_reports(tmp_path)
    assert reports.keys() == {broker.broker_id for broker in (*modular.brokers, *extensible.brokers)}

    barycenter("pipeline", "run", "--data", str(tmp_path), "--once")
    lines = barycenter("decide", "--snapshot", str(tmp_path), "--strategy", "ThresholdShedder", "--json").splitlines()
    verdicts = [told for told in map(json.loads, lines) if told["kind"] == "verdict"]
    found = {told["broker"]: told["figures"]["bundles"] for told in verdicts}
    assert found == {broker: len(report.last_stats) for broker, report in reports.items()}


@contextmanager
def collecting(*arguments: str) -> Iterator[Iterator[Round]]:
    """Run `barycenter collect` and give its rounds; it is to end with 0 when it is told to."""
    command = [sys.executable, "-m", "barycenter", "collect", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (msgspec.json.decode(line, type=Round) for line in islice(process.stdout, _ROUNDS))
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0


def newest_reports(folder: Path) -> dict[str, LocalBrokerData]:
    files = (folder / "load-reports").rglob("*.json")
    reports = sorted(
        (msgspec.json.decode(file.read_bytes(), type=LocalBrokerData) for file in files),
        key=lambda report: (report.last_update, report.sequence),
    )
    return {str(report.broker_id): report for report in reports}


def traffic(folder: Path, namespace: str) -> dict[str, NamespaceBundleStats]:
    """The newest figures of a namespace's bundles."""
    stats = chain.from_iterable(report.last_stats.items() for report in newest_reports(folder).values())
    return {bundle: each for bundle, each in stats if f"/{namespace}/" in bundle}


def is_busy(bundles: Mapping[str, NamespaceBundleStats], topics: list[str]) -> bool:
    return sum(each.topics for each in bundles.values()) >= len(topics) and all(
        each.msg_rate_in > 0 and each.msg_rate_out > 0 for each in bundles.values()
    )


def test_a_broker_that_is_killed_is_named_and_the_others_go_on(modular: ApachePulsar, tmp_path: Path) -> None:
    """Also where it is the one that was asked for the brokers."""
    killed, other = modular.brokers[1], modular.brokers[0]
    with collecting("--admin-url", killed.web_url, "--out", str(tmp_path), "--interval", "1") as rounds:
        assert next(rounds).failed == {}
        killed.kill()
        try:
            failed = next(each.failed for each in rounds if each.failed)
            assert failed.keys() == {killed.broker_id}
            assert "no answer" in failed[killed.broker_id]
            assert next(each for each in rounds if not each.failed).brokers == 1  # its session has ended
        finally:
            modular.restart(killed)
    assert newest_reports(tmp_path)[other.broker_id].sequence > 2


def test_who_may_not_ask_reads_what_to_do_about_it(modular: ApachePulsar, tmp_path: Path) -> None:
    """Tokens, certificates and addresses that do not fit; then those that do."""
    first = modular.brokers[0]

    def told(url: str, **environment: str) -> str:
        return barycenter(
            "collect", "--admin-url", url, "--out", str(tmp_path), "--rounds", "1", status=1, **environment
        )

    assert "set BARYCENTER_TOKEN to the token of a superuser" in told(first.web_url, BARYCENTER_TOKEN=token("guest"))
    assert "SSL_CERT_FILE" in told(first.tls_web_url)
    assert "is it http://?" in told(first.web_url.replace("http:", "https:"))
    assert "is it https://?" in told(first.tls_web_url.replace("https:", "http:"))
    assert "no web address" in told(first.service_url.replace("pulsar:", "http:"))
    (line,) = told(f"{first.web_url}/elsewhere").splitlines()
    assert "404" in line
    out = barycenter(
        *("collect", "--admin-url", first.tls_web_url, "--out", str(tmp_path), "--rounds", "1"),
        SSL_CERT_FILE=str(modular.certificate),
        BARYCENTER_TOKEN=token("operator"),
    )
    assert "2 brokers" in out


def owners(cluster: ApachePulsar, namespace: str) -> dict[str, str]:
    """The broker that serves each bundle of a namespace, by what brokers own."""
    found = {}
    (name,) = cluster.expect(200, "GET", "/admin/v2/clusters")
    for number, broker in enumerate(cluster.brokers):
        path = f"/admin/v2/brokers/{name}/{broker.broker_id}/ownedNamespaces"
        owned = cluster.expect(200, "GET", path, broker=number)
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith(f"{namespace}/")}
    return found


def test_its_status_is_told_and_bundles_are_moved(cluster: ApachePulsar, tmp_path: Path) -> None:
    """A plan whose tool is killed half-way is gone on with; every bundle is served where it was to go in the end."""
    topic, space, url = make_topic(cluster, "moved", bundles=8), "public/moved", cluster.brokers[0].web_url
    for number in range(60):
        cluster.owner(f"{topic}-{number}")
    before = owners(cluster, space)
    assert len(before) == 8

    told = json.loads(barycenter("status", "--url", url, "--json", status=None))
    assert told["isApachePulsar"]
    assert {each["broker"] for each in told["brokers"]} == {broker.broker_id for broker in cluster.brokers}
    assert all(each["version"] for each in told["brokers"])

    ids = {broker.broker_id for broker in cluster.brokers}
    moves = {bundle: (ids - {source}).pop() for bundle, source in before.items()}
    first, *rest = moves
    kept = ("--journal", str(tmp_path / "move.journal"))
    barycenter("move", first, "--to", moves[first], "--url", url, "--yes", *kept)
    assert owners(cluster, space)[first] == moves[first]

    plan = tmp_path / "plan.jsonl"
    lines = [{"kind": "unload", "bundle": each, "source": before[each], "destination": moves[each]} for each in rest]
    plan.write_text("\n".join(map(json.dumps, lines)))
    words = ("execute", str(plan), "--url", url, "--yes", "--per-minute", "6000")
    with subprocess.Popen([sys.executable, "-m", "barycenter", *words], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any("2/7" in line for line in killed.stdout)
        killed.kill()
    assert "done already" in barycenter(*words)
    assert owners(cluster, space) == moves


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


def token(role: str) -> str:
    def text(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    signed = f"{text(json.dumps({'alg': 'HS256'}).encode())}.{text(json.dumps({'sub': role}).encode())}"
    return f"{signed}.{text(hmac.new(_KEY, signed.encode(), hashlib.sha256).digest())}"


def barycenter(*arguments: str, status: int | None = 0, **environment: str) -> str:
    """Run the command, which may end anyhow if `status` is None; return what it printed, or its complaints if it is to
    fail."""
    done = subprocess.run(
        [sys.executable, "-m", "barycenter", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert status in (done.returncode, None), f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout
