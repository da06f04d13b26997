"""`move`, `execute`, `cancel`, `verify`, `drain` and what tells of a cluster, on Apache Pulsar itself.

Two brokers, one bookie, persistent topics; once with each of Pulsar's load managers.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.apache_pulsar import EXTENSIBLE, MODULAR, ApachePulsar, apache_pulsar, soon
from support.numbered_flow import flowing

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

BUNDLES, MOVES = 24, 20


@pytest.fixture(scope="module", params=[MODULAR, EXTENSIBLE], ids=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    keys = {"loadManagerClassName": request.param}
    # a host each, since isolation policies know brokers by their hosts
    with apache_pulsar(
        tmp_path_factory.mktemp("operated"), configuration=keys, hosts=("localhost", "127.0.0.1")
    ) as started:
        yield started
        print(started.logs())


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of moves are where a command is typed."""
    monkeypatch.chdir(tmp_path)


def barycenter(*words: str, status: int | None = 0) -> str:
    """Run the command; return all that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pulsar_barycenter", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "400"},
        timeout=180,
        check=False,
    )
    assert status in (done.returncode, None), f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


def namespace(cluster: ApachePulsar, name: str) -> str:
    """Make one whose bundles all have owners."""
    path = f"/admin/v2/namespaces/public/{name}"
    cluster.expect(204, "PUT", path, json={"bundles": {"numBundles": BUNDLES}})
    number = 0
    while len(owners(cluster, f"public/{name}")) < BUNDLES:
        for _ in range(BUNDLES):
            cluster.owner(f"persistent://public/{name}/orders-{number}")
            number += 1
    return f"public/{name}"


def owners(cluster: ApachePulsar, of: str) -> dict[str, str]:
    found = {}
    for number, broker in enumerate(cluster.brokers):
        path = f"/admin/v2/brokers/c1/{broker.broker_id}/ownedNamespaces"
        owned = cluster.expect(200, "GET", path, broker=number)
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith(f"{of}/")}
    return found


def elsewhere(cluster: ApachePulsar, broker: str) -> str:
    return next(other.broker_id for other in cluster.brokers if other.broker_id != broker)


def plan_of(cluster: ApachePulsar, file: Path, before: dict[str, str]) -> dict[str, str]:
    """Write a plan that moves bundles to the other broker; return where each goes."""
    moves = {bundle: elsewhere(cluster, source) for bundle, source in sorted(before.items())[:MOVES]}
    lines = [
        json.dumps({"kind": "unload", "bundle": each, "source": before[each], "destination": moves[each]})
        for each in moves
    ]
    file.write_text("\n".join(lines))
    return moves


def states(plan: Path) -> list[str]:
    journal = plan.with_name(f"{plan.name}.journal")
    return [json.loads(line)["state"] for line in journal.read_text().splitlines()] if journal.exists() else []


def test_a_preview_of_a_move_gives_a_bundle_that_nobody_serves_no_owner(cluster: ApachePulsar) -> None:
    """Asked of each broker; then it is moved, and a preview names its owner."""
    cluster.expect(204, "PUT", "/admin/v2/namespaces/public/free", json={"bundles": {"numBundles": 2}})
    bundle = "public/free/0x00000000_0x80000000"
    for broker, other in ((0, 1), (1, 0)):
        words = ("move", bundle, "--to", cluster.brokers[other].broker_id, "--url", cluster.brokers[broker].web_url)
        for _ in range(2):
            assert "nobody" in next(line for line in barycenter(*words).splitlines() if line.startswith(bundle))
        assert owners(cluster, "public/free") == {}
    barycenter(*words, "--yes")
    served = cluster.brokers[0].broker_id
    assert owners(cluster, "public/free") == {bundle: served}
    for broker in cluster.brokers:
        back = ("move", bundle, "--to", elsewhere(cluster, served), "--url", broker.web_url)
        assert served in next(line for line in barycenter(*back).splitlines() if line.startswith(bundle))


def test_twenty_moves_are_cancelled_killed_gone_on_with_and_undone(cluster: ApachePulsar, tmp_path: Path) -> None:
    before = owners(cluster, namespace(cluster, "planned"))
    url, plan = cluster.brokers[0].web_url, tmp_path / "plan.jsonl"
    moves = plan_of(cluster, plan, before)
    words = ("execute", str(plan), "--url", url)

    assert "nothing is done without --yes" in barycenter(*words)
    assert owners(cluster, "public/planned") == before
    assert f"0 of {MOVES} bundles" in barycenter("verify", str(plan), "--url", url, status=1)

    command = [sys.executable, "-m", "pulsar_barycenter", *words, "--yes", "--per-minute", "120"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any(line.startswith("3/") for line in running.stdout)
        assert "stopped; state of the moves that had begun" in barycenter("cancel", str(plan), "--why", "a look at it")
        running.communicate()
        assert running.returncode == 1
    assert "cancelled" in states(plan)
    assert (
        len({bundle for bundle, owner in owners(cluster, "public/planned").items() if owner != before[bundle]}) < MOVES
    )

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any(line.startswith("3/") for line in killed.stdout)
        killed.kill()
    assert "done already" in barycenter(*words, "--yes", "--per-minute", "6000", "--at-once", "4")
    assert owners(cluster, "public/planned") == before | moves
    assert f"{MOVES} of {MOVES} bundles" in barycenter("verify", str(plan), "--url", url)

    back = tmp_path / "back.jsonl"
    back.write_text(barycenter("undo", f"{plan}.journal"))
    barycenter("execute", str(back), "--url", url, "--yes", "--per-minute", "6000", "--at-once", "4")
    assert owners(cluster, "public/planned") == before


def test_a_foreign_move_stops_a_plan_and_one_that_was_made_already_counts(
    cluster: ApachePulsar, tmp_path: Path
) -> None:
    """Two bundles were moved by hand, one of them where the plan wants it; of a third the plan errs about the owner."""
    before = owners(cluster, namespace(cluster, "foreign"))
    url, plan = cluster.brokers[0].web_url, tmp_path / "plan.jsonl"
    made, *others = sorted(before)
    barycenter("move", made, "--to", elsewhere(cluster, before[made]), "--url", url, "--yes")
    strange = others[0]
    lines = [
        {"bundle": made, "source": before[made], "destination": elsewhere(cluster, before[made])},
        {"bundle": strange, "source": "gone:8080", "destination": elsewhere(cluster, before[strange])},
        {"bundle": others[1], "source": before[others[1]], "destination": elsewhere(cluster, before[others[1]])},
    ]
    plan.write_text("\n".join(json.dumps({"kind": "unload", **line}) for line in lines))
    told = barycenter("execute", str(plan), "--url", url, "--yes", "--per-minute", "60", "--timeout", "20", status=1)
    assert "stopped; 1 move was not begun" in told
    assert owners(cluster, "public/foreign")[others[1]] == before[others[1]]


def test_a_broker_is_drained_under_traffic_and_nothing_is_lost(cluster: ApachePulsar, tmp_path: Path) -> None:
    """A bundle is moved to and fro first, then its broker is emptied."""
    name = namespace(cluster, "busy")
    url = cluster.brokers[0].web_url
    topics = [f"persistent://{name}/orders-{number}" for number in range(6)]
    journal = str(tmp_path / "drain.journal")
    drained, other = (broker.broker_id for broker in cluster.brokers)
    with flowing(cluster.service_url, topics) as flow:
        bundle = cluster.bundle_path(topics[0]).removeprefix("/admin/v2/namespaces/")
        for destination in (other, drained):
            barycenter("move", bundle, "--to", destination, "--url", url, "--yes")
            flow.wait_for_more(20)
        moved_s = flow.gap_s

        asked = ("drain", drained, "--url", url)
        assert "nothing is done without --yes" in barycenter(*asked)
        told = barycenter(*asked, "--yes", "--per-minute", "6000", "--at-once", "4", "--journal", journal, status=None)
        print(told)
        assert f"{drained} serves no bundle" in told
        flow.wait_for_more(20)
        assert set(owners(cluster, name).values()) == {other}
    print(
        f"gap: moves {moved_s:.2f} s, with the drain {flow.gap_s:.2f} s, {sum(map(len, flow.arrived.values()))} arrived"
    )


def test_what_tells_of_a_cluster_tells_of_this_one(cluster: ApachePulsar, tmp_path: Path) -> None:
    url = cluster.brokers[0].web_url
    ids = {broker.broker_id for broker in cluster.brokers}
    status = json.loads(barycenter("status", "--url", url, "--json", status=None))
    assert {each["broker"] for each in status["brokers"]} == ids

    (told,) = map(
        json.loads, barycenter("config", "get", "loadBalancerSheddingEnabled", "--url", url, "--json").splitlines()
    )
    assert list(told["values"]) == ["false"]
    apart = {json.loads(line)["key"] for line in barycenter("config", "diff", "--url", url, "--json").splitlines()}
    assert "webServicePort" in apart
    assert "loadBalancerSheddingEnabled" not in apart

    for words in (("snapshot", "--out", str(tmp_path / "now.json")), ("plan",), ("decide",)):
        assert "`barycenter collect`" in barycenter(*words, "--url", url, status=1)
    told_why = barycenter("explain", "--broker", cluster.brokers[0].broker_id, "--url", url, status=None)
    assert "Apache Pulsar's brokers do not return any" in told_why
    assert "<html>" not in told_why + barycenter("doctor", "--url", url, status=None)

    data = str(tmp_path / "data")
    asked = ("--admin-url", url, "--service-url", cluster.service_url, "--rounds", "2", "--interval", "1")

    def is_foreseen() -> bool:
        barycenter("collect", *asked, "--out", data)
        foreseen = barycenter("plan", data, status=None)
        return "bundles move;" in foreseen and all(broker in foreseen for broker in ids)

    # of the extensible load manager only brokers with traffic are recorded
    name = namespace(cluster, "told")
    with flowing(cluster.service_url, [f"persistent://{name}/orders-{number}" for number in range(12)]):
        soon(is_foreseen, what="reports of both brokers")


def test_an_isolation_policy_keeps_a_drained_broker_empty(cluster: ApachePulsar) -> None:
    """By the command that `drain` advises; its host then is for nobody, and what has no owner goes elsewhere."""
    drained, other = (broker.broker_id for broker in cluster.brokers)
    url = cluster.brokers[1].web_url
    told = barycenter("drain", drained, "--url", url)
    (line,) = [line.strip() for line in told.splitlines() if "ns-isolation-policy set" in line]
    words = shlex.split(line)[2:]
    barycenter("admin", "--admin-url", url, *words)
    try:
        barycenter("drain", drained, "--url", url, "--yes", "--per-minute", "6000", status=None)

        def is_known() -> bool:
            cluster.call("PUT", "/admin/v2/namespaces/public/late/unload", broker=1)
            cluster.call("PUT", "/admin/v2/namespaces/public/late", broker=1, json={"bundles": {"numBundles": BUNDLES}})
            for number in range(2 * BUNDLES):
                cluster.owner(f"persistent://public/late/orders-{number}")
            return set(owners(cluster, "public/late").values()) == {other}

        soon(is_known, what="the leader goes by the policy")
    finally:
        barycenter("undrain", drained, "--url", url, status=None)
        policy = words[3]
        barycenter("admin", "--admin-url", url, "ns-isolation-policy", "delete", "c1", policy)
