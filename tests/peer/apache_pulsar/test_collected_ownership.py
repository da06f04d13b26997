"""`barycenter collect` beside Apache Pulsar that runs its extensible load manager: who owns which bundle."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.load.snapshot.document import SnapshotDocument, decode_snapshot
from pulsar_barycenter.observer.collector import Round
from support.apache_pulsar import ApachePulsar
from support.stock_client import connect

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),  # none here, but in the other files that share these clusters
]

TOPICS = tuple(f"persistent://public/owned/orders-{number}" for number in range(8))
ROUNDS = 120


@contextmanager
def busy(cluster: ApachePulsar) -> Iterator[None]:
    """Keep producing to all topics."""
    ended = threading.Event()
    client = connect(cluster.service_url)
    producers = [client.create_producer(topic) for topic in TOPICS]

    def produce() -> None:
        while not ended.wait(0.02):
            for producer in producers:
                producer.send_async(b"x" * 500, None)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        client.close()


def owners_by_lookup(cluster: ApachePulsar) -> dict[str, str]:
    """Return the owner of each bundle that a topic is in."""
    by_url = {broker.service_url: broker.broker_id for broker in cluster.brokers}
    found = {}
    for topic in TOPICS:
        path = f"/lookup/v2/topic/{topic.replace('://', '/')}"
        bundle = str(cluster.expect(200, "GET", f"{path}/bundle")).strip('"')
        found[f"public/owned/{bundle}"] = by_url[cluster.expect(200, "GET", path)["brokerUrl"]]
    return found


def of_namespace(owners: dict[str, str]) -> dict[str, str]:
    return {bundle: owner for bundle, owner in owners.items() if bundle.startswith("public/owned/")}


def is_full(document: SnapshotDocument, brokers: int) -> bool:
    """Tell whether all brokers told their load, and one of them a list with a bundle of ours in it."""
    assert document.extensible is not None
    tops = document.extensible.top_bundles.values()
    listed = (each.bundle_name for top in tops for each in top.top_bundles_load_data)
    return len(document.extensible.loads) == brokers and any(name.startswith("public/owned/") for name in listed)


def barycenter(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pulsar_barycenter", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("cluster", ["extensible"], indirect=True)
def test_the_snapshot_names_pulsars_owners_and_is_decided_upon(cluster: ApachePulsar, tmp_path: Path) -> None:
    cluster.expect(204, "PUT", "/admin/v2/namespaces/public/owned", json={"bundles": {"numBundles": 4}})
    out = tmp_path / "out"
    asked = ["--admin-url", cluster.brokers[0].web_url, "--service-url", cluster.service_url, "--interval", "1"]
    command = [sys.executable, "-m", "pulsar_barycenter", "collect", "--json", *asked, "--out", str(out)]
    with busy(cluster), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            rounds = (msgspec.json.decode(line, type=Round) for line in islice(process.stdout, ROUNDS))
            for found in rounds:
                assert found.ownership == ""
                document = decode_snapshot((out / "snapshot.json").read_bytes())
                if not found.failed and is_full(document, len(cluster.brokers)):
                    break
            assert is_full(document, len(cluster.brokers))
            assert document.extensible is not None
            owners = owners_by_lookup(cluster)
            assert len(owners) > 2
            assert owners.items() <= of_namespace(document.extensible.owners).items()

            # what goes to another broker is seen in a later round
            some = min(owners)
            other = next(each.broker_id for each in cluster.brokers if each.broker_id != owners[some])
            path = f"/admin/v2/namespaces/{some}/unload?destinationBroker={other}"
            cluster.expect(204, "PUT", path)
            for _ in rounds:
                document = decode_snapshot((out / "snapshot.json").read_bytes())
                assert document.extensible is not None
                if document.extensible.owners.get(some) == other:
                    break
            assert document.extensible.owners[some] == other == owners_by_lookup(cluster)[some]
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0
    lines = barycenter("decide", str(out / "snapshot.json"), "--json").splitlines()
    assert "TransferShedder" in {json.loads(line)["reason"].get("strategy") for line in lines}
    told = barycenter("explain", "--broker", other, "--snapshot", str(out / "snapshot.json"), "--json")
    assert other in told
