"""`barycenter import prometheus` on a real Prometheus that scrapes Apache Pulsar, beside `barycenter collect`."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from urllib.request import urlopen

import msgspec
import pulsar
import pytest

from pulsar_barycenter.cluster_logs.load_report_log import write_report
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.replay.advice.document import Advice
from pulsar_barycenter.standalone.cluster import free_ports
from support.apache_pulsar import MODULAR, ApachePulsar, apache_pulsar, soon
from support.apache_pulsar_clients import barycenter

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

TOPICS = 6
INTERVAL_S = 5
ROUNDS = 14
CONFIGURATION = {
    "loadManagerClassName": MODULAR,
    "statsUpdateFrequencyInSecs": "5",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
}
ERROR = 0.05
"""How far the means of a bundle's rate may differ: the two look at other moments of a rate that is a mean of 5 s."""


@contextmanager
def prometheus(folder: Path, targets: list[str]) -> Iterator[str]:
    program = shutil.which("prometheus")
    assert program, "install it: apt-get install --no-install-recommends prometheus"
    folder.mkdir()
    scrape = {"job_name": "pulsar", "metrics_path": "/metrics/", "static_configs": [{"targets": targets}]}
    (folder / "prometheus.yml").write_text(
        json.dumps({"global": {"scrape_interval": f"{INTERVAL_S}s"}, "scrape_configs": [scrape]})
    )
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            *(program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_ready() -> bool:
        try:
            with urlopen(f"{url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        soon(is_ready, what="Prometheus serves")
        yield url
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def traffic(cluster: ApachePulsar, topics: list[str]) -> Iterator[None]:
    stop = threading.Event()
    client = pulsar.Client(cluster.service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
    producers = [client.create_producer(topic) for topic in topics]

    def send() -> None:
        due = time.monotonic()
        while not stop.is_set():
            for number, producer in enumerate(producers, 1):
                for _ in range(number):
                    producer.send_async(bytes(200), None)
            due += 0.1
            stop.wait(max(0.0, due - time.monotonic()))

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        stop.set()
        sending.join()
        client.close()


def is_near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 0.15 * expected


def in_metrics(metrics: str, topics: list[str]) -> bool:
    """Whether Prometheus has for each topic about the rate at which `traffic` sends to it."""
    with urlopen(f"{metrics}/api/v1/query?query=pulsar_rate_in", timeout=10) as answer:
        result = json.load(answer)["data"]["result"]
    rates = {one["metric"].get("topic", ""): float(one["value"][1]) for one in result}
    return all(is_near(rates.get(topic, 0.0), 10.0 * number) for number, topic in enumerate(topics, 1))


def in_reports(cluster: ApachePulsar, topics: list[str]) -> bool:
    """Whether the load reports of all brokers have about the rate at which `traffic` sends to all topics."""
    path = "/admin/v2/broker-stats/load-report"
    reports = [cluster.expect(200, "GET", path, broker=number) for number in range(len(cluster.brokers))]
    loads = {name: load for report in reports for name, load in report["lastStats"].items()}
    rate = sum(load["msgRateIn"] for name, load in loads.items() if name.startswith("public/imported/"))
    return is_near(rate, 10.0 * sum(range(1, len(topics) + 1)))


def means(folder: Path, begin_ms: int = 0, end_ms: int = 1 << 60) -> dict[tuple[str, str], float]:
    """The mean rates of bundles by broker, and the times of the reports in `folder`."""
    found: dict[tuple[str, str], list[float]] = {}
    for file in (folder / "load-reports").rglob("*.json"):
        report = msgspec.json.decode(file.read_bytes(), type=LocalBrokerData)
        if begin_ms <= report.last_update <= end_ms:
            for bundle, stats in report.last_stats.items():
                if bundle.startswith("public/imported/"):
                    found.setdefault((str(report.broker_id), bundle), []).append(stats.msg_rate_in)
    return {key: fmean(rates) for key, rates in found.items()}


def advice(reports: Path, folder: Path, begin_ms: int, end_ms: int) -> Advice:
    """The advice from the reports of this time, with every second of it made a minute: advice needs an hour."""
    for file in sorted((reports / "load-reports").rglob("*.json")):
        report = msgspec.json.decode(file.read_bytes(), type=LocalBrokerData)
        if begin_ms <= report.last_update <= end_ms:
            at_ms = begin_ms - 2 * 3_600_000 + 60 * (report.last_update - begin_ms)
            write_report(folder / "load-reports", msgspec.structs.replace(report, last_update=at_ms))
    barycenter("pipeline", "run", "--once", "--data", str(folder))
    of_pulsar = ("--strategy", "ThresholdShedder", "--strategy", "UniformLoadShedder")
    told = barycenter("advise", "--input", str(folder), "--seeds", "1-2", "--json", *of_pulsar)
    return msgspec.json.decode(told, type=Advice)


def test_imported_reports_are_those_that_collect_records(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    (tmp_path / "pulsar").mkdir()
    with apache_pulsar(tmp_path / "pulsar", configuration=CONFIGURATION) as cluster:
        cluster.expect(204, "PUT", "/admin/v2/namespaces/public/imported", json={"bundles": {"numBundles": 4}})
        topics = [f"persistent://public/imported/orders-{number}" for number in range(TOPICS)]
        targets = [broker.web_url.removeprefix("http://") for broker in cluster.brokers]
        url = cluster.brokers[0].web_url
        collected, imported = tmp_path / "collected", tmp_path / "imported"
        with prometheus(tmp_path / "prometheus", targets) as metrics, traffic(cluster, topics):
            soon(lambda: in_metrics(metrics, topics), within_s=180, what="Prometheus has rates of whole intervals")
            soon(lambda: in_reports(cluster, topics), within_s=180, what="so have the load reports")
            begin_ms = time.time_ns() // 1_000_000
            rounds = ("--interval", f"{INTERVAL_S}s", "--rounds", str(ROUNDS))
            barycenter("collect", "--admin-url", url, "--out", str(collected), *rounds)
            end_ms = time.time_ns() // 1_000_000
            told = barycenter(
                *("import", "prometheus", "--url", metrics, "--admin-url", url, "--out", str(imported)),
                *("--since", "1h", "--step", f"{INTERVAL_S}s", "--json"),
            )
    print(told)
    outcome = json.loads(told.splitlines()[-1])
    assert outcome["brokers"] == len(targets)
    known, found = means(collected), means(imported, begin_ms, end_ms)
    print(known, found)
    assert len(known) >= 3
    assert found.keys() == known.keys()
    for key, rate in known.items():
        assert found[key] == pytest.approx(rate, rel=ERROR), key
    one, other = (
        advice(reports, tmp_path / f"{reports.name} for an hour", begin_ms, end_ms) for reports in (collected, imported)
    )
    print(one.sentence, other.sentence)
    assert (one.verdict, one.changes) == (other.verdict, other.changes)
