"""`barycenter roll` on Apache Pulsar itself, under traffic, beside a plain restart of its brokers one by one.

Three brokers, one bookie, persistent topics; once with each of Pulsar's load managers. It prints the figures of
benchmarks/results/rolls.md.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.apache_pulsar import EXTENSIBLE, MODULAR, ApacheBroker, ApachePulsar, apache_pulsar, soon
from support.numbered_flow import flowing

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

BUNDLES, TOPICS = 24, 8
NAMESPACE = "public/rolled"
KEYS = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
HOOK = """\
echo {broker} >> restarts
touch asked-{port}
while [ ! -e done-{port} ]; do sleep 0.1; done
rm done-{port}
"""


@pytest.fixture(scope="module", params=[MODULAR, EXTENSIBLE], ids=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    keys = {"loadManagerClassName": request.param, "loadBalancerSheddingEnabled": "true"}
    with apache_pulsar(tmp_path_factory.mktemp("rolled"), brokers=3, configuration=keys) as started:
        make_namespace(started)
        yield started
        print(started.logs())


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
        path = f"/admin/v2/brokers/c1/{broker.broker_id}/ownedNamespaces"
        owned = cluster.expect(200, "GET", path, broker=number)
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith(f"{NAMESPACE}/")}
    return found


def end(broker: ApacheBroker) -> None:
    """End a broker as an operator does."""
    assert broker.process is not None
    broker.process.terminate()
    broker.process.wait(120)


@contextmanager
def restarting(cluster: ApachePulsar, folder: Path) -> Iterator[None]:
    """Restart the brokers that the hook asks for, in a thread."""
    ended = threading.Event()

    def supervise() -> None:
        while not ended.wait(0.05):
            for broker in cluster.brokers:
                port = broker.broker_id.rpartition(":")[2]
                asked = folder / f"asked-{port}"
                if asked.exists():
                    asked.unlink()
                    end(broker)
                    cluster.restart(broker)
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
    with flowing(cluster.service_url, topics) as flow, restarting(cluster, tmp_path):
        words = ("--url", url, "--service-url", cluster.service_url, "--restart-with", HOOK)
        began = time.monotonic()
        told = barycenter(tmp_path, *words, "--yes", "--json", "--per-minute", "6000", "--at-once", "4")
        took_s = time.monotonic() - began
        flow.wait_for_more(20)
        rolled_gap_s = flow.gap_s
    report = told[-1]
    order = (tmp_path / "restarts").read_text().split()
    assert sorted(order) == sorted(broker.broker_id for broker in cluster.brokers)
    assert order[-1] == json.loads((tmp_path / "roll.journal").read_text().splitlines()[0])["order"]["batches"][-1][0]
    assert report["state"] == "finished"
    served = Counter(
        json.loads(line)["bundle"]
        for line in (tmp_path / "roll.moves.journal").read_text().splitlines()
        if json.loads(line)["state"] == "served"
    )
    assert max(served.values()) <= 3
    assert cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values") == before
    for number in range(len(cluster.brokers)):
        in_force = cluster.expect(200, "GET", "/admin/v2/brokers/configuration/runtime", broker=number)
        assert in_force["loadBalancerSheddingEnabled"] == "true"
    with flowing(cluster.service_url, topics) as flow:
        began = time.monotonic()
        moves, was = 0, owners(cluster)
        for broker in cluster.brokers:
            end(broker)
            cluster.restart(broker)
            soon(lambda: len(owners_of_topics(cluster, topics)) == TOPICS, what="all topics have owners")
            now = owners(cluster)
            moves += sum(was.get(bundle, "") != owner for bundle, owner in now.items())
            was = now
        flow.wait_for_more(20)
        print(
            f"roll: {served.total()} moves of {len(served)} bundles, longest gap {rolled_gap_s:.2f} s, {took_s:.0f} s; "
            f"plain restart: at least {moves} moves of the bundles in use, longest gap {flow.gap_s:.2f} s, "
            f"{time.monotonic() - began:.0f} s"
        )


def owners_of_topics(cluster: ApachePulsar, topics: list[str]) -> dict[str, str]:
    return {topic: cluster.owner(topic).broker_id for topic in topics}
