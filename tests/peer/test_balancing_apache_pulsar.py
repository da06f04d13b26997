"""`barycenter balance` beside Apache Pulsar itself: two brokers, one bookie, once with each version and each of its
load managers."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.config.pulsar_version import VERSIONS
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING
from support.admin_tool import tool_class_path
from support.apache_pulsar import EXTENSIBLE, MODULAR, ApachePulsar, apache_pulsar, soon
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.numbered_flow import flowing
from support.running_cluster import lookup_path

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

BUNDLES, TOPICS = 8, 12
CONFIGURATION = {
    "statsUpdateFrequencyInSecs": "2",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerSheddingIntervalMinutes": "600",
    "loadBalancerReportUpdateMaxIntervalMinutes": "1",
    "loadBalancerReportUpdateThresholdPercentage": "1",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
}
AT_ONCE = (
    *("--strategy", "UniformLoadShedder", "--set", "minUnloadMessage=1", "--set", "minUnloadMessageThroughput=1"),
    *("--interval", "2", "--per-minute", "600", "--quiet", "2"),
)


def _name_of(version_and_manager: tuple[str, str]) -> str:
    line, manager = version_and_manager
    return f"{line}-{'modular' if manager == MODULAR else 'extensible'}"


@pytest.fixture(
    scope="module", params=[(line, manager) for line in VERSIONS for manager in (MODULAR, EXTENSIBLE)], ids=_name_of
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    line, manager = request.param
    if request.config.getoption("--peer-version") not in ("newest", "both", line):
        pytest.skip("another version is asked for; --peer-version both asks this one, too")
    java_and_jars = tool_class_path(VERSION_5) if line == "5.x" else None
    keys = {"loadManagerClassName": manager, **CONFIGURATION}
    folder = tmp_path_factory.mktemp("balanced")
    with apache_pulsar(folder, configuration=keys, java_and_jars=java_and_jars) as started:
        yield started
        print(started.logs())


class Balancer:
    """A running `barycenter balance`, its records, and what it tells on standard error."""

    def __init__(self, cluster: ApachePulsar, state: Path, *words: str) -> None:
        self.records: list[dict[str, Any]] = []
        self.told: list[str] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pulsar_barycenter", "balance", "--url", cluster.brokers[0].web_url),
                *("--state", str(state), "--json", "--service-url", cluster.service_url, *AT_ONCE, *words),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "400"},
        )
        self._readers = [threading.Thread(target=self._records), threading.Thread(target=self._tells)]
        for reader in self._readers:
            reader.start()

    def _records(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.records.append(json.loads(line))

    def _tells(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told.append(line.strip())

    def end(self, number: int = signal.SIGTERM, status: int = 0) -> None:
        self.process.send_signal(number)
        assert self.process.wait(120) == status, self.told

    def close(self) -> None:
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def balancing(cluster: ApachePulsar, state: Path, *words: str) -> Iterator[Balancer]:
    balancer = Balancer(cluster, state, *words)
    try:
        yield balancer
    finally:
        if balancer.process.poll() is None:
            balancer.process.kill()
            balancer.process.wait()
        balancer.close()
        print("\n".join(line[:200] for line in balancer.told))
        for record in balancer.records[-3:]:
            print({key: str(value)[:150] for key, value in record.items()})


def topics_on_one_broker(cluster: ApachePulsar, name: str) -> list[str]:
    """Make a namespace with topics, all on one broker."""
    cluster.expect(204, "PUT", f"/admin/v2/namespaces/public/{name}", json={"bundles": {"numBundles": BUNDLES}})
    topics = [f"persistent://public/{name}/orders-{number}" for number in range(TOPICS)]
    first = cluster.owner(topics[0]).broker_id
    for topic in topics:
        path = cluster.bundle_path(topic)

        def is_there(topic: str = topic, path: str = path) -> bool:
            if owner(cluster, topic) not in ("", first):
                cluster.call("PUT", f"{path}/unload?destinationBroker={first}")
            return owner(cluster, topic) == first

        soon(is_there, what=f"{topic} is on {first}")
    return topics


def owner(cluster: ApachePulsar, topic: str) -> str:
    """The broker that serves a topic; blank while its bundle moves."""
    status, answer = cluster.call("GET", lookup_path(topic))
    urls = {broker.service_url: broker.broker_id for broker in cluster.brokers}
    return urls[answer["brokerUrl"]] if status == 200 else ""


def owners(cluster: ApachePulsar, topics: list[str]) -> set[str]:
    return {owner(cluster, topic) for topic in topics} - {""}


def shedding(cluster: ApachePulsar, key: str = SHEDDING) -> tuple[set[str], str | None]:
    path = "/admin/v2/brokers/configuration"
    numbers = range(len(cluster.brokers))
    values = {cluster.expect(200, "GET", f"{path}/runtime", broker=number)[key] for number in numbers}
    return values, (cluster.expect(200, "GET", f"{path}/values") or {}).get(key)


def test_observing_changes_nothing_and_acting_moves_and_gives_back(cluster: ApachePulsar, tmp_path: Path) -> None:
    topics = topics_on_one_broker(cluster, "balanced")
    before = shedding(cluster)
    with flowing(cluster.service_url, topics) as flow:
        flow.wait_for_more(20)
        with balancing(cluster, tmp_path / "seen") as balancer:
            soon(lambda: any(record.get("decided") for record in balancer.records), within_s=180, what="a decision")
            balancer.end()
        assert len(owners(cluster, topics)) == 1
        assert shedding(cluster) == before

        with balancing(cluster, tmp_path / "state", "--mode", "act") as balancer:
            soon(lambda: len(owners(cluster, topics)) > 1, within_s=180, what="bundles move")
            assert shedding(cluster) == ({"false"}, "false")
            flow.wait_for_more(20)
            balancer.end()
        assert shedding(cluster) == before == ({"true"}, None)
        flow.wait_for_more(20)


def test_errors_of_clients_after_its_moves_pause_it_until_they_end(cluster: ApachePulsar, tmp_path: Path) -> None:
    topics = topics_on_one_broker(cluster, "judged")
    with (
        flowing(cluster.service_url, topics) as flow,
        balancing(cluster, tmp_path / "state", "--mode", "act", "--set", "minUnloadMessage=1") as balancer,
    ):
        flow.wait_for_more(20)
        soon(
            lambda: any("clientErrors" in record for record in balancer.records), within_s=180, what="moves are judged"
        )
        wrong = f"{lookup_path(topics[0])}?listenerName=nowhere"

        def is_paused() -> bool:
            status, _ = cluster.call("GET", wrong)
            assert status >= 400
            return "clients get more errors after moves" in balancer.records[-1].get("heldUp", "")

        soon(is_paused, within_s=60, what="errors of clients pause it")
        soon(lambda: balancer.records[-1]["state"] == "acting", within_s=60, what="it goes on")
        assert not any("errors of clients" in line for line in balancer.told)
        balancer.end()


def test_transfer_shedder_judges_brokers_of_any_load_manager(cluster: ApachePulsar, tmp_path: Path) -> None:
    """All brokers report the CPU of the machine that they share, so there is seldom anything to move."""
    topics = topics_on_one_broker(cluster, "transferred")
    at_once = ("--strategy", "TransferShedder", "--set", "loadBalancerSheddingConditionHitCountThreshold=0")
    with flowing(cluster.service_url, topics) as flow:
        flow.wait_for_more(20)
        with balancing(cluster, tmp_path / "state", "--mode", "act", *at_once) as balancer:

            def is_seen() -> bool:
                """Return whether a round saw that the throughput of one broker is far below that of the other."""
                reasons = [record.get("why", "") for record in balancer.records]
                return any("[TransferShedder]" in why and "throughput of" in why for why in reasons)

            soon(is_seen, within_s=180, what="the imbalance is seen")
            balancer.end()
        flow.wait_for_more(20)


def test_bundles_that_are_too_large_are_split_and_splitting_is_given_back(
    cluster: ApachePulsar, tmp_path: Path
) -> None:
    topics = topics_on_one_broker(cluster, "split")
    path = "/admin/v2/namespaces/public/split/bundles"
    boundaries = set(cluster.expect(200, "GET", path)["boundaries"])
    before = shedding(cluster, SPLITTING)
    # the topics of other tests are split, too
    limit = ("--split", "always", "--set", "loadBalancerNamespaceBundleMaxTopics=1", "--splits-per-hour", "1000")
    with flowing(cluster.service_url, topics) as flow:
        flow.wait_for_more(20)
        with balancing(cluster, tmp_path / "state", "--mode", "act", *limit) as balancer:

            def is_split() -> bool:
                return any("split of public/split/" in line and ": split:" in line for line in balancer.told)

            soon(is_split, within_s=180, what="a bundle is split")
            assert shedding(cluster, SPLITTING)[0] == {"false"}
            balancer.end()
        assert set(cluster.expect(200, "GET", path)["boundaries"]) > boundaries
        assert shedding(cluster, SPLITTING) == before
        assert not any("failed" in line for line in balancer.told if line.startswith("split of ")), balancer.told
        flow.wait_for_more(20)


def test_a_killed_balancer_is_followed_by_its_standby_which_gives_back(cluster: ApachePulsar, tmp_path: Path) -> None:
    before = shedding(cluster)
    with balancing(cluster, tmp_path / "first", "--mode", "act") as first:
        soon(lambda: any("shedding is off" in line for line in first.told), what="the first takes over")
        with balancing(cluster, tmp_path / "second", "--mode", "act") as second:
            soon(lambda: any("standby" in line for line in second.told), what="the second waits")
            first.process.kill()
            soon(lambda: any("shedding is off" in line for line in second.told), within_s=120, what="it takes over")
            second.end()
    assert shedding(cluster) == before
