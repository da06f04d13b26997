"""`barycenter explain` and `barycenter snapshot`: a running cluster, decision logs, a saved snapshot."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, read_decisions
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.snapshot.document import decode_snapshot
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file, write_snapshot
from support.load_cases import Cluster, bundle_name, equal_bundles
from support.rest_cluster import RestCluster
from support.snapshot_cases import document_of

BUNDLE = "public/ns/0x00000000_0xffffffff"


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == code, result.output
    return result


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs of two brokers, of which the second led first."""
    first, second = (DecisionLog(name, tmp_path / "decisions") for name in ("a:1", "b:1"))
    idle = Reason(code=Code.IDLE_BROKER)
    second.record(1_000, "assign", idle, bundle=BUNDLE, destination="a:1", manager="simple")
    second.record(2_000, "shed", Reason(code=Code.BALANCED))
    first.record(3_000, "unload", Reason(code=Code.HEAVIEST_BUNDLE), bundle=BUNDLE, source="a:1", destination="b:1")
    first.record(4_000, "refuse", Reason(code=Code.FAILED), bundle="t/n/0x00000000_0xffffffff", refused="unload")
    with (tmp_path / "decisions" / "a_1.jsonl").open("ab") as file:
        file.write(b'{"at": 5000, "by"')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (["--bundle", BUNDLE], [1_000, 3_000]),
        (["--namespace", "t/n"], [4_000]),
        (["--broker", "b:1"], [2_000, 3_000]),
        (["--broker", "b:1", "--since", "1970-01-01T00:00:02.5"], [3_000]),
        (["--bundle", BUNDLE, "--limit", "1"], [3_000]),
    ],
)
def test_decisions_are_found_by_what_they_are_about(logs: Path, words: list[str], at: list[int]) -> None:
    assert [line["at"] for line in lines(run("explain", "--data", str(logs), *words, "--json"))] == at


def test_decisions_are_printed_with_when_where_and_why(logs: Path) -> None:
    shown = run("explain", "--data", str(logs), "--bundle", BUNDLE).stdout
    assert f"1970-01-01 00:00:01  assign  {BUNDLE}  a:1  by the simple load manager\n" in shown
    assert f"1970-01-01 00:00:03  unload  {BUNDLE}  a:1 → b:1\n" in shown, "its log does not say by which one"
    assert "it is the heaviest remaining bundle of a broker that has to shed load" in shown


def test_a_round_in_which_no_broker_sheds_is_called_kept(tmp_path: Path) -> None:
    log = DecisionLog("a:1", tmp_path / "decisions")
    log.record(1_000, "shed", Reason(code=Code.BALANCED), manager="modular")
    log.record(2_000, "shed", Reason(code=Code.ABOVE_AVERAGE), manager="modular")
    shown = run("explain", "--data", str(tmp_path), "--broker", "a:1").stdout
    assert "00:00:01  kept  by the modular load manager\n" in shown
    assert "00:00:02  shed  by the modular load manager\n" in shown


@pytest.mark.parametrize("columns", [60, 200])
def test_a_long_sentence_is_wrapped_and_indented(tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    reason = Reason(code=Code.HEAVIEST_BUNDLE, detail="word " * 100 + "end")
    DecisionLog("a:1", tmp_path / "decisions").record(1_000, "unload", reason, bundle=BUNDLE, source="a:1")
    _, *told = run("explain", "--data", str(tmp_path), "--bundle", BUNDLE).stdout.splitlines()
    assert all(line.startswith("      ") and not line[6:].startswith(" ") for line in told)
    assert columns - 12 < len(told[0]) <= columns
    assert " ".join(line.strip() for line in told).endswith("word " * 100 + "end")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "one of --bundle, --broker and --namespace"),
        (["--bundle", BUNDLE, "--broker", "a:1"], 2, "one of --bundle, --broker and --namespace"),
        (["--bundle", "nonsense"], 2, "nonsense"),
        (["--bundle", "shop/orders"], 2, "a bundle is TENANT/NAMESPACE/0x…_0x…"),
        (["public/default"], 2, "of a namespace: --namespace public/default"),
        (["--namespace", "a/b/c/d/e"], 2, "a/b/c/d/e"),
        (["--broker", "a:1", "--since", "yesterday"], 2, "give a span like 90s"),
        (["--broker", "a:1", "--snapshot", "x", "--url", "y"], 2, "give one of --url, --data and --snapshot"),
        (["--namespace", "t/other"], 1, "nothing is known of namespace t/other: no broker reports it"),
        (["--bundle", BUNDLE, "--since", "3d"], 1, "nothing is known of"),
    ],
)
def test_what_cannot_be_told_is_refused(logs: Path, words: list[str], code: int, said: str) -> None:
    place = [] if "--url" in words else ["--data", str(logs)]
    assert said in run("explain", *place, *words, code=code).stderr


def test_a_cluster_that_is_not_there() -> None:
    said = run("explain", "--url", "http://127.0.0.1:1", "--broker", "a:1", code=1).stderr
    assert said.startswith("barycenter: no answer from http://127.0.0.1:1: ")
    assert (
        "no snapshot from http://127.0.0.1:1"
        in run("snapshot", "--url", "http://127.0.0.1:1", "--out", "/nowhere", code=1).stderr
    )


def test_a_saved_snapshot_says_why_a_broker_keeps_what_it_has(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    cluster.add("c:1", cpu=30, bundles=equal_bundles(1, throughput=1e6, first=9, rate=500))
    write_snapshot(tmp_path / "s.json", document_of(cluster, configuration={COMPATIBILITY_KEY: "4.x"}))
    base = ["explain", "--snapshot", str(tmp_path / "s.json"), "--json"]
    of_broker = lines(run(*base, "--broker", "c:1"))
    assert [(line["kind"], line["reason"]["code"]) for line in of_broker] == [
        ("verdict", "within_threshold"),
        ("shed", "above_average"),
    ]
    of_bundle = lines(run(*base, "--bundle", bundle_name(0)))
    assert [(line["kind"], line.get("broker")) for line in of_bundle if line["kind"] != "split"] == [
        ("bundle", "a:1"),
        ("verdict", "a:1"),
        ("shed", None),
        ("unload", None),
    ]
    assert (of_bundle[0]["figures"]["msgThroughput"], of_bundle[0]["held"]) == (1e8, "")
    of_namespace = lines(run(*base, "--namespace", "t/ns"))
    assert {line["kind"] for line in of_namespace} == {"shed", "unload"}


def test_why_a_bundle_cannot_be_shed_is_told(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(3, throughput=4e8)).add("b:1", cpu=30)
    cluster.recently_unloaded = {bundle_name(0)}
    del cluster.data[bundle_name(1)]
    write_snapshot(tmp_path / "s.json", document_of(cluster))
    base = ["explain", "--snapshot", str(tmp_path / "s.json"), "--bundle"]
    for number, said in (
        (0, "cannot be shed: it was unloaded a short while ago"),
        (1, "cannot be shed: its load over time is unknown"),
        (2, "may be shed"),
    ):
        assert said in run(*base, bundle_name(number)).stdout
    run(*base, bundle_name(99), code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--broker", "nonsense"], "nothing is known of broker nonsense: "),
        (["--broker", "nonsense"], "; did you mean a:1, b:1 or c:1?"),
        (["--broker", "a:11"], "; did you mean a:1?"),
        (["--namespace", "t/nss"], "; did you mean t/ns?"),
        (["--bundle", "t/ns/0x00000000_0x00010001"], f"; did you mean {bundle_name(0)}"),
    ],
)
def test_a_name_that_nobody_knows_gets_the_nearest_and_no_other_brokers_news(
    tmp_path: Path, words: list[str], said: str
) -> None:
    write_snapshot(tmp_path / "s.json", document_of(two_that_shed()))
    result = run("explain", "--snapshot", str(tmp_path / "s.json"), *words, code=1)
    assert said in result.stderr
    assert not result.stdout


def test_a_broker_that_the_logs_do_not_name(logs: Path) -> None:
    said = run("explain", "--data", str(logs), "--broker", "a:2", code=1).stderr
    assert "nothing is known of broker a:2: no broker reports it, and no decision names it; did you mean a:1?" in said


def two_that_shed() -> Cluster:
    cluster = Cluster().add("a:1", cpu=95, bundles=equal_bundles(4, throughput=4e8))
    return cluster.add("b:1", cpu=92, bundles=equal_bundles(4, throughput=4e8, first=8)).add("c:1", cpu=10)


def test_of_several_that_shed_the_one_whose_bundle_moves_is_named(tmp_path: Path) -> None:
    overload = {"loadBalancerLoadSheddingStrategy": "OverloadShedder"}
    evenly = {"loadBalancerDistributeBundlesEvenlyEnabled": "false"}
    document = document_of(two_that_shed(), configuration={**overload, **evenly})
    write_snapshot(tmp_path / "s.json", document)
    base = ["explain", "--snapshot", str(tmp_path / "s.json")]
    for asked, other in (("a:1", "b:1"), ("b:1", "a:1")):
        told = run(*base, "--broker", asked).stdout
        assert f"\n{asked} sheds\n" in told
        assert f"{other} shed" not in told
    assert "\na:1, b:1 shed\n" in run(*base, "--broker", "c:1").stdout
    assert "\na:1, b:1 shed; settings:" in run("decide", *base[1:]).stdout


async def test_a_running_cluster_explains_itself_through_any_broker(tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(
                load_manager_factory("ModularLoadManagerImpl"),
                broker_shutdown_timeout_ms=0,
                barycenter_data_dir=str(tmp_path / "data"),
            )
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner("persistent/public/ns/t")
        follower = next(broker for broker in cluster.brokers if not broker.leadership.is_leader())
        url = str(follower.urls.web_url)
        told = await asyncio.to_thread(run, "explain", "--url", url, "--bundle", BUNDLE, "--json")
        (assigned,) = [line for line in lines(told) if line["kind"] == "assign"]
        assert (assigned["bundle"], assigned["destination"]) == (BUNDLE, owner.broker_id)
        assert assigned["reason"]["code"] == "drawn"

        told = await asyncio.to_thread(run, "explain", "--url", url, "--broker", follower.broker_id, "--json")
        (verdict,) = [line for line in lines(told) if line["kind"] == "verdict"]
        assert (verdict["broker"], verdict["reason"]["code"]) == (follower.broker_id, "difference_tolerated")

        file = tmp_path / "s.json"
        said = await asyncio.to_thread(run, "snapshot", "--url", url, "--out", str(file))
        assert said.stdout.startswith(f"{file}: 2 brokers, ")
        piped = await asyncio.to_thread(run, "snapshot", "--url", url, "--out", "-")
        assert len(decode_snapshot(piped.stdout.encode()).brokers) == 2
        assert piped.stderr.startswith("2 brokers, ")
        assert set(read_snapshot_file(file).snapshot.brokers.names) == {each.broker_id for each in cluster.brokers}
        own = sum(name.startswith("pulsar/") for name in read_snapshot_file(file).snapshot.bundles.names)
        assert f" bundles, {own} of them heartbeat bundles\n" in said.stdout
        shown = await asyncio.to_thread(run, "decide", "--snapshot", str(file))
        assert f" bundles, {own} of them heartbeat bundles, as of " in shown.stdout
        assert "by the newest report; bundles include heartbeat bundles\n" in shown.stdout
        for place in (["--snapshot", str(file)], ["--url", url]):
            told = await asyncio.to_thread(run, "decide", *place, "--json")
            assert [line["kind"] for line in lines(told)] == ["verdict", "verdict", "shed"]
    finally:
        await cluster.close()


TOPIC = "persistent://public/ns/t"


@pytest.mark.parametrize("name", ["public/ns/t", TOPIC])
def test_a_topic_is_explained_by_the_bundle_that_logs_know_for_it(logs: Path, name: str) -> None:
    told = run("explain", name, "--data", str(logs))
    assert told.stdout.startswith(f"topic {TOPIC} is in {BUNDLE}\n1970-01-01 00:00:01  assign")
    assert [line["at"] for line in lines(run("explain", name, "--data", str(logs), "--json"))] == [1_000, 3_000]
    assert (
        "nothing is known of topic persistent://public/default/t"
        in run("explain", "t", "--data", str(logs), code=1).stderr
    )


def test_a_bundle_and_a_broker_are_explained_as_the_argument_as_by_their_options(logs: Path) -> None:
    for option, name in (("--bundle", BUNDLE), ("--broker", "b:1")):
        place = ["--data", str(logs), "--json"]
        assert run("explain", name, *place).stdout == run("explain", option, name, *place).stdout


def test_a_topic_is_explained_upon_a_snapshot(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    write_snapshot(tmp_path / "s.json", document_of(cluster))
    bundle = Bundle.parse(bundle_name(2))
    topic = next(name for name in map("t/ns/{}".format, range(10_000_000)) if bundle.contains(TopicName.parse(name)))
    base = ["explain", "--snapshot", str(tmp_path / "s.json"), "--json"]
    assert run(*base, topic).stdout == run(*base, "--bundle", bundle_name(2)).stdout


async def test_topics_of_a_running_cluster_are_explained_by_their_names_and_unknown_ones_get_the_nearest() -> None:
    cluster = RestCluster()
    try:
        await cluster.add(load_manager_factory("ModularLoadManagerImpl"), broker_shutdown_timeout_ms=0)
        await cluster.create_namespace(bundles=4)
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/orders")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parts/partitions", 4)
        await cluster.owner("persistent/public/ns/orders")
        for index in range(4):
            await cluster.owner(f"persistent/public/ns/parts-partition-{index}")
        url = str(cluster.brokers[0].urls.web_url)
        path = "/lookup/v2/topic/persistent/public/ns/orders/bundle"
        bundle = f"public/ns/{(await cluster.expect(200, 'GET', path)).body.decode()}"

        told = await asyncio.to_thread(run, "explain", "public/ns/orders", "--url", url)
        assert f"topic persistent://public/ns/orders is in {bundle}" in told.stdout
        assert f"assign  {bundle}" in told.stdout
        told = await asyncio.to_thread(run, "explain", "public/ns/parts-partition-2", "--url", url)
        assert "topic persistent://public/ns/parts-partition-2 is in public/ns/0x" in told.stdout
        told = await asyncio.to_thread(run, "explain", "public/ns/parts", "--url", url)
        named = [line for line in told.stdout.splitlines() if line.startswith("topic")]
        assert sum(line.count("-partition-") for line in named) == 4
        said = (await asyncio.to_thread(run, "explain", "public/ns/order", "--url", url, code=1)).stderr
        assert "there is no topic persistent://public/ns/order; did you mean orders?" in said
    finally:
        await cluster.close()


async def test_a_bundle_that_nobody_serves_is_explained_and_gets_no_owner(tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(
                load_manager_factory("ModularLoadManagerImpl"),
                broker_shutdown_timeout_ms=0,
                barycenter_data_dir=str(tmp_path),
            )
        await cluster.create_namespace(bundles=1)
        url = str(cluster.brokers[0].urls.web_url)
        ids = {broker.broker_id for broker in cluster.brokers}
        path = f"/admin/v2/namespaces/{BUNDLE}/unload"

        async def is_told(*words: str) -> None:
            told = await asyncio.to_thread(run, "explain", *words, "--url", url)
            said = f"no broker serves {BUNDLE}: it gets an owner when a client looks up a topic of it; now the "
            "leader would "
            assert said in told.stdout
            assert "heartbeat" not in told.output
            told = await asyncio.to_thread(run, "explain", *words, "--url", url, "--json")
            assert lines(told)[-1]["kind"] == "assign"
            assert lines(told)[-1]["destination"] in ids

        await is_told(BUNDLE)
        assert not [each for each in read_decisions(tmp_path) if each.bundle == BUNDLE], "asking gave it no owner"
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t")
        served = await asyncio.to_thread(run, "explain", "public/ns/t", "--url", url)
        assert "no broker serves" not in served.stdout
        await cluster.expect(204, "PUT", path)
        count = len(read_decisions(tmp_path))
        await is_told("public/ns/t")
        assert len(read_decisions(tmp_path)) == count
        for other in ("public/ns/0x00000000_0x10000000", "public/none/0x00000000_0xffffffff"):
            said = (await asyncio.to_thread(run, "explain", other, "--url", url, code=1)).stderr
            assert f"nothing is known of bundle {other}" in said
            assert "heartbeat" not in said
            assert "/127.0.0.1" not in said
    finally:
        await cluster.close()
