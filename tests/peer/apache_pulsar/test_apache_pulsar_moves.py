"""`status`, `move` and `execute` on clusters of Apache Pulsar of each load manager."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.apache_pulsar import ApachePulsar
from support.apache_pulsar_clients import barycenter, make_topic

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),  # none here, but in the other files that share these clusters
]


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
    with subprocess.Popen(
        [sys.executable, "-m", "pulsar_barycenter", *words], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert any("2/7" in line for line in killed.stdout)
        killed.kill()
    assert "done already" in barycenter(*words)
    assert owners(cluster, space) == moves
