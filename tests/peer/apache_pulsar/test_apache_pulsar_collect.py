"""`collect` on clusters of Apache Pulsar: its figures, what becomes of them, brokers that die or refuse."""

import asyncio
import json
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
import pytest

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.observer.collector import Collector, Round
from pulsar_barycenter.observer.report_numbers import ReportNumbers
from support.apache_pulsar import ApachePulsar, soon
from support.apache_pulsar_clients import barycenter, connected, make_topic, token
from support.report_log import MemoryReportLog

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.pipeline,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("pulsar_format"),
]

_ROUNDS = 90


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
    command = [sys.executable, "-m", "pulsar_barycenter", "collect", "--json", *arguments]
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
    assert "try http://" in told(first.web_url.replace("http:", "https:"))
    assert "try https://" in told(first.tls_web_url.replace("https:", "http:"))
    assert "not a web address" in told(first.service_url.replace("pulsar:", "http:"))
    (line,) = told(f"{first.web_url}/elsewhere").splitlines()
    assert "404" in line
    out = barycenter(
        *("collect", "--admin-url", first.tls_web_url, "--out", str(tmp_path), "--rounds", "1"),
        SSL_CERT_FILE=str(modular.certificate),
        BARYCENTER_TOKEN=token("operator"),
    )
    assert "2 brokers" in out
