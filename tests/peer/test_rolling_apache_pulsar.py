"""`barycenter roll` on Apache Pulsar itself, under traffic, beside a plain restart of its brokers one by one.

Three brokers, one bookie, persistent topics; once with each of Pulsar's load managers, and once with Pulsar 5.0. A
second pool of two brokers takes over from the first, and each bundle moves exactly once. It prints the figures of
benchmarks/results/rolls.md.
"""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.admin_tool import VERSION_5, tool_class_path
from support.apache_pulsar import EXTENSIBLE, MODULAR, ApacheBroker, ApachePulsar, apache_pulsar, soon
from support.numbered_flow import flowing

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

BUNDLES, TOPICS = 24, 8
NAMESPACE = "public/rolled"
KEYS = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
ASK = """\
echo {{broker}} >> {log}
touch {word}-{{port}}
while [ ! -e done-{{port}} ]; do sleep 0.1; done
rm done-{{port}}
"""
HOOK = ASK.format(log="restarts", word="asked")
START, END = ASK.format(log="starts", word="start"), ASK.format(log="ends", word="end")
VERSIONS: dict[str, tuple[str, Callable[[], tuple[str, Sequence[str]]] | None]] = {
    "modular": (MODULAR, None),
    "extensible": (EXTENSIBLE, None),
    "5.0": (EXTENSIBLE, lambda: tool_class_path(VERSION_5)),
}
"""The load manager, and the version if it is not the newest 4.x."""


@contextmanager
def started(request: pytest.FixtureRequest, folder: Path, brokers: int) -> Iterator[ApachePulsar]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    manager, version = VERSIONS[request.param]
    keys = {"loadManagerClassName": manager, "loadBalancerSheddingEnabled": "true"}
    java_and_jars = None if version is None else version()
    with apache_pulsar(folder, brokers=brokers, configuration=keys, java_and_jars=java_and_jars) as cluster:
        yield cluster
        print(cluster.logs())


@pytest.fixture(scope="module", params=list(VERSIONS))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    with started(request, tmp_path_factory.mktemp("rolled"), 3) as cluster:
        make_namespace(cluster)
        yield cluster


@pytest.fixture(scope="module", params=["modular", "extensible"])
def two_pools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    """Four brokers, of which the last two do not run yet."""
    with started(request, tmp_path_factory.mktemp("pools"), 4) as cluster:
        for broker in cluster.brokers[2:]:
            cluster.stop(broker)
        make_namespace(cluster)
        yield cluster


def make_namespace(cluster: ApachePulsar) -> None:
    """Make one whose bundles all have owners."""
    cluster.expect(204, "PUT", f"/admin/v2/namespaces/{NAMESPACE}", json={"bundles": {"numBundles": BUNDLES}})
    number = 0
    while len(owners(cluster)) < BUNDLES:
        for _ in range(BUNDLES):
            cluster.owner(f"persistent://{NAMESPACE}/any-{number}")
            number += 1


def owners(cluster: ApachePulsar) -> dict[str, str]:
    found = {}
    for number, broker in enumerate(cluster.brokers):
        if broker.process is None or broker.process.poll() is not None:
            continue
        path = f"/admin/v2/brokers/c1/{broker.broker_id}/ownedNamespaces"
        owned = cluster.expect(200, "GET", path, broker=number)
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith(f"{NAMESPACE}/")}
    return found


@contextmanager
def obeying(cluster: ApachePulsar, folder: Path) -> Iterator[None]:
    """Restart, start and end the brokers that the hooks ask for, in a thread."""
    ended = threading.Event()

    def restart(broker: ApacheBroker) -> None:
        cluster.stop(broker)
        cluster.restart(broker)

    words: dict[str, Callable[[ApacheBroker], None]] = {"asked": restart, "start": cluster.restart, "end": cluster.stop}

    def supervise() -> None:
        while not ended.wait(0.05):
            for broker, (word, act) in itertools.product(cluster.brokers, words.items()):
                port = broker.broker_id.rpartition(":")[2]
                asked = folder / f"{word}-{port}"
                if asked.exists():
                    asked.unlink()
                    act(broker)
                    (folder / f"done-{port}").touch()

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def barycenter(folder: Path, *words: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "pulsar_barycenter", "roll", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=dict(os.environ),
        timeout=900,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_roll_moves_each_bundle_seldom_and_loses_nothing_beside_a_plain_restart(
    cluster: ApachePulsar, tmp_path: Path
) -> None:
    url = ",".join([cluster.brokers[0].web_url, *(broker.broker_id for broker in cluster.brokers[1:])])
    topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
    before = cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values")
    with flowing(cluster.service_url, topics) as flow, obeying(cluster, tmp_path):
        words = ("--url", url, "--service-url", cluster.service_url, "--restart-with", HOOK)
        began = time.monotonic()
        told = barycenter(tmp_path, *words, "--yes", "--json", "--per-minute", "6000", "--at-once", "4")
        took_s = time.monotonic() - began
        flow.wait_for_more(20)
        rolled_gap_s, rolled_latency_s = flow.gap_s, flow.latency_s(0.999)
    report = told[-1]
    order = (tmp_path / "restarts").read_text().split()
    assert sorted(order) == sorted(broker.broker_id for broker in cluster.brokers)
    assert order[-1] == json.loads((tmp_path / "roll.journal").read_text().splitlines()[0])["order"]["batches"][-1][0]
    assert report["state"] == "finished"
    served = moves_of(tmp_path)
    assert max(served.values()) <= 3
    assert cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values") == before
    for number in range(len(cluster.brokers)):
        in_force = cluster.expect(200, "GET", "/admin/v2/brokers/configuration/runtime", broker=number)
        assert in_force["loadBalancerSheddingEnabled"] == "true"
    with flowing(cluster.service_url, topics) as flow:
        began = time.monotonic()
        moves, was = 0, owners(cluster)
        for broker in cluster.brokers:
            cluster.stop(broker)
            cluster.restart(broker)
            soon(lambda: len(owners_of_topics(cluster, topics)) == TOPICS, what="all topics have owners")
            now = owners(cluster)
            moves += sum(was.get(bundle, "") != owner for bundle, owner in now.items())
            was = now
        flow.wait_for_more(20)
        print(
            f"roll: {served.total()} moves of {len(served)} bundles, longest gap {rolled_gap_s:.2f} s, "
            f"p99.9 of publish latency {rolled_latency_s:.3f} s, {took_s:.0f} s; "
            f"plain restart: at least {moves} moves of the bundles in use, longest gap {flow.gap_s:.2f} s, "
            f"p99.9 {flow.latency_s(0.999):.3f} s, {time.monotonic() - began:.0f} s"
        )


def moves_of(folder: Path) -> Counter[str]:
    """Return how often each bundle moved."""
    lines = map(json.loads, (folder / "roll.moves.journal").read_text().splitlines())
    return Counter(line["bundle"] for line in lines if line["state"] == "served")


def test_a_second_pool_takes_over_with_one_move_of_each_bundle(two_pools: ApachePulsar, tmp_path: Path) -> None:
    cluster = two_pools
    old, new = cluster.brokers[:2], cluster.brokers[2:]
    url = ",".join([old[0].web_url, old[1].broker_id])
    topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
    with flowing(cluster.service_url, topics) as flow, obeying(cluster, tmp_path):
        before = set(owners(cluster))
        told = barycenter(
            tmp_path,
            *("--url", url, "--service-url", cluster.service_url, "--yes", "--json"),
            *("--second-pool", ",".join(broker.broker_id for broker in new)),
            *("--start-with", START, "--restart-with", END, "--per-minute", "6000", "--at-once", "4"),
            *("--room", "2"),  # one broker may have many more bundles than the other
        )
        flow.wait_for_more(20)
        print(f"second pool: gap {flow.gap_s:.2f} s, p99.9 of publish latency {flow.latency_s(0.999):.3f} s")
    assert told[-1]["state"] == "finished"
    assert (tmp_path / "starts").read_text().split() == [broker.broker_id for broker in new]
    assert sorted((tmp_path / "ends").read_text().split()) == sorted(broker.broker_id for broker in old)
    served = {bundle: count for bundle, count in moves_of(tmp_path).items() if bundle in before}
    assert served == dict.fromkeys(before, 1)
    assert set(owners(cluster).values()) <= {broker.broker_id for broker in new}


def owners_of_topics(cluster: ApachePulsar, topics: list[str]) -> dict[str, str]:
    return {topic: cluster.owner(topic).broker_id for topic in topics}
