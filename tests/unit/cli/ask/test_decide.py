"""`barycenter decide` on the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import (
    RESOURCES,
    NamespaceBundleStats,
    ResourceUsage,
    SystemResourceUsage,
    encode_without_none,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.strategies import APART
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.snapshots.snapshot_file import write_snapshot
from support.load_cases import Cluster, bundle_name, equal_bundles
from support.snapshot_cases import document_of

THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A busy broker and two that are not."""
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8, rate=4000))
    cluster.add("b:1", cpu=40, bundles=equal_bundles(1, throughput=1e8, first=8)).add("c:1", cpu=30)
    write_snapshot(tmp_path / "s.json", document_of(cluster, taken_at=1_790_000_000_000))
    return str(tmp_path / "s.json")


def decide(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["decide", *words])
    assert result.exit_code == code, result.output
    return result


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in decide(*words, "--json").stdout.splitlines()]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in found if line["kind"] == kind]


def test_a_round_is_told_as_json_lines(file: str) -> None:
    found = lines("--snapshot", file, "--strategy", "ThresholdShedder")
    assert [(line["broker"], line.get("unloads", 0)) for line in of_kind(found, "verdict")] == [
        ("a:1", 1),
        ("b:1", 0),
        ("c:1", 0),
    ]
    (move,) = of_kind(found, "unload")
    assert (move["bundle"], move["source"], move["destination"]) == (bundle_name(0), "a:1", "c:1")
    assert move["reason"]["code"] == "heaviest_bundle"
    assert move["reason"]["cause"]["code"] == "above_average"
    assert move["placement"]["code"] == "least_long_term_rate"
    assert move["figures"]["msgThroughput"] == 1e8
    (outcome,) = of_kind(found, "shed")
    assert outcome["reason"]["code"] == "above_average"


def test_a_full_round_says_that_more_wait(file: str) -> None:
    eager = ("--snapshot", file, "--strategy", "OverloadShedder")
    keys = ("--set", "loadBalancerBrokerOverloadedThresholdPercentage=30", "--set", "barycenterMaxBundlesPerRound=1")
    found = lines(*eager, *keys)
    assert sum(line.get("unloads", 0) for line in of_kind(found, "verdict")) == 1
    (outcome,) = of_kind(found, "shed")
    assert outcome["reason"]["code"] == "round_full"
    shown = decide(*eager, *keys).stdout
    assert "this round already unloads the maximum number of bundles, so more wait for the next round" in shown
    assert "settings: barycenterMaxBundlesPerRound" in shown


def test_a_key_changes_the_answer(file: str) -> None:
    found = lines("--snapshot", file, "--strategy", "ThresholdShedder", "--set", f"{THRESHOLD}=40")
    assert not of_kind(found, "unload")
    assert of_kind(found, "shed")[0]["reason"]["code"] == "balanced"
    assert of_kind(found, "verdict")[0]["reason"]["settings"] == [THRESHOLD]


def test_the_tables_say_the_same(file: str) -> None:
    shown = decide("--snapshot", file, "--strategy", "ThresholdShedder").stdout
    assert "3 brokers, 5 bundles, as of 2026-09-21 14:13:20 UTC; ThresholdShedder sheds" in shown
    assert f"{bundle_name(0)}  a:1 → c:1  1,000 msg/s and 95.37 MiB/s" in shown
    assert "keeps all: its smoothed usage does not exceed the mean by the threshold" in shown
    assert f"a:1 sheds; settings: {THRESHOLD}" in shown
    explained = decide("--snapshot", file, "--strategy", "ThresholdShedder", "--explain").stdout
    assert "usage now 80 %, smoothed 80 %, mean 50 %" in explained


@pytest.mark.parametrize(
    ("cpu", "usages"), [((2.448, 2.25, 30), ["2.4 %", "2.2 %", "30.0 %"]), ((80, 9, 30.01), ["80 %", "9 %", "30 %"])]
)
def test_usages_have_the_same_number_of_decimals(tmp_path: Path, cpu: tuple[float, ...], usages: list[str]) -> None:
    cluster = Cluster()
    for number, percent in enumerate(cpu):
        cluster.add(f"b{number}:1", cpu=percent, bundles=equal_bundles(2, throughput=1e6, first=10 * number))
    write_snapshot(tmp_path / "s.json", document_of(cluster))
    told = decide("--snapshot", str(tmp_path / "s.json"), "--strategy", "OverloadShedder").stdout
    assert re.findall(r"^b\d:1 +([\d.]+ %)", told, re.MULTILINE) == usages


def test_configuration_comes_from_the_snapshot_then_the_file_then_the_command(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    of_snapshot = {THRESHOLD: "41", "keyOfAnotherVersion": "x", "loadBalancerLoadSheddingStrategy": "OverloadShedder"}
    write_snapshot(tmp_path / "s.json", document_of(cluster, configuration=of_snapshot))
    (tmp_path / "broker.conf").write_text(f"{THRESHOLD}=5\n")
    base = ["--snapshot", str(tmp_path / "s.json")]
    assert of_kind(lines(*base), "verdict")[0]["reason"]["strategy"] == "OverloadShedder"
    threshold = [*base, "--strategy", "ThresholdShedder"]
    assert not of_kind(lines(*threshold), "unload")
    with_file = [*threshold, "--config", str(tmp_path / "broker.conf")]
    assert of_kind(lines(*with_file), "unload")
    assert not of_kind(lines(*with_file, "--set", f"{THRESHOLD}=60"), "unload")


def test_rounds_follow_one_another_and_what_is_remembered_can_be_kept(file: str, tmp_path: Path) -> None:
    avg = ["--snapshot", file, "--strategy", "AvgShedder", "--set", "maxUnloadPercentage=0.5"]
    found = lines(*avg, "--cycles", "2", "--save-history", str(tmp_path / "h.json"))
    assert [line["reason"]["code"] for line in of_kind(found, "shed")] == ["balanced", "gap_lasted"]
    assert {line["cycle"] for line in found} == {1, 2}
    lines(*avg, "--cycles", "1", "--save-history", str(tmp_path / "h.json"))
    again = lines(*avg, "--history", str(tmp_path / "h.json"))
    assert [line["reason"]["code"] for line in of_kind(again, "shed")] == ["gap_lasted"]


def test_what_the_leader_remembered_comes_with_the_snapshot(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    memory = MemoryDocument(usage={"a:1": 0.3, "b:1": 0.3})
    write_snapshot(tmp_path / "s.json", document_of(cluster, memory=memory))
    found = lines("--snapshot", str(tmp_path / "s.json"), "--strategy", "ThresholdShedder")
    assert "smoothed 35 %" in of_kind(found, "verdict")[0]["sentence"]


def test_bundles_are_placed(file: str) -> None:
    bundles = [bundle_name(50), bundle_name(51)]
    found = lines(
        "--snapshot", file, "--place", bundles[0], "--place", bundles[1], "--placement", "LeastLongTermMessageRate"
    )
    assert [(line["kind"], line["bundle"], line["destination"]) for line in found] == [
        ("assign", bundles[0], "c:1"),
        ("assign", bundles[1], "b:1"),
    ]
    assert (
        lines("--snapshot", file, "--place", bundles[0], "--strategy", "RoundRobinBrokerSelector")[0]["reason"][
            "strategy"
        ]
        == "RoundRobinBrokerSelector"
    )


@pytest.mark.parametrize("name", ["s.json", "s.parquet"])
def test_a_snapshot_comes_as_an_argument_or_through_a_pipe(file: str, tmp_path: Path, name: str) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    write_snapshot(tmp_path / name, document_of(cluster))
    expected = decide("--snapshot", str(tmp_path / name)).stdout
    assert decide(str(tmp_path / name)).stdout == expected
    piped = CliRunner().invoke(main, ["decide", "-"], input=(tmp_path / name).read_bytes())
    assert (piped.exit_code, piped.stdout) == (0, expected)
    asked = ["explain", "--snapshot", "-", "--broker", "a:1"]
    assert CliRunner().invoke(main, asked, input=(tmp_path / name).read_bytes()).exit_code == 0
    assert "standard input: is empty; give" in CliRunner().invoke(main, ["decide", "-"], input=b"").stderr
    assert "give one snapshot: " in decide(file, "--snapshot", file, code=2).stderr
    assert "this input has the load of one time only" in decide("-", "--at", "2h", code=1).stderr


def test_large_bundles_are_found(file: str) -> None:
    for words in (["--split"], ["--strategy", "BundleSplitterTask"]):
        found = lines("--snapshot", file, *words, "--set", "loadBalancerNamespaceBundleMaxBandwidthMbytes=95")
        assert {line["kind"] for line in found} == {"split"}
        assert len(found) == 5
    assert "nothing to do" in decide("--snapshot", file, "--split").stdout


def test_the_exit_code_tells_whether_something_would_be_done(file: str) -> None:
    decide("--snapshot", file, "--strategy", "ThresholdShedder", "--exit-code", code=3)
    decide("--snapshot", file, "--strategy", "ThresholdShedder", "--exit-code", "--set", f"{THRESHOLD}=40")


FORMER = ["--set", "barycenterPulsarCompatibility=4.x"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--strategy", "ThreshldShedder"], 2, "did you mean ThresholdShedder?"),
        (["--strategy", "RoundRobinBrokerSelector"], 2, "name the bundles to assign with --place BUNDLE"),
        (["--set", f"{THRESHOLD[:-1]}=5"], 2, f"did you mean {THRESHOLD}"),
        (["--set", "zzz=5"], 2, "docs/configuration.md lists the keys"),
        (["--set", THRESHOLD], 2, "give key=value"),
        (["--set", f"{THRESHOLD}=500"], 1, "must be a whole number from 0 to 100"),
        (["--placement", "ThresholdShedder"], 1, "is a strategy for shedding, not for placement"),
        ([*FORMER, "--strategy", "AvgShedder", "--placement", APART], 1, "both sheds and places"),
        (["--place", "nonsense"], 2, "--place nonsense:"),
        (["--history", "HISTORY"], 1, "give a file of --save-history"),
        (["--cycles", "0"], 2, "--cycles"),
        (["--url", "http://127.0.0.1:1"], 2, "give SNAPSHOT, or --url for the present state of a cluster"),
        (["--at", "yesterday"], 2, "give a span like 90s"),
        (["--at", "2h"], 1, "this input has the load of one time only"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(
    file: str, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    history = tmp_path / "h.json"
    history.write_text('{"usage": {}}')
    words = [str(history) if word == "HISTORY" else word for word in words]
    assert said in decide("--snapshot", file, *words, code=code).stderr.replace("\n", " ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    said = decide("--snapshot", str(tmp_path / "none.json"), code=1).stderr
    assert said == f"barycenter: {tmp_path / 'none.json'}: No such file or directory\n"


def test_a_warning_about_the_data_goes_to_standard_error(tmp_path: Path) -> None:
    content = (
        '{"brokers": {"b:1": {"cpu": {"usage": "NaN", "limit": 100}}, "c:1": {"cpu": {"usage": 1, "limit": 100}}}}'
    )
    (tmp_path / "s.json").write_text(content)
    result = decide("--snapshot", str(tmp_path / "s.json"), "--json")
    assert "warning: b:1: values that are not numbers, which count as 0" in result.stderr
    assert all(json.loads(line) for line in result.stdout.splitlines())


def test_the_example_of_the_documentation_sheds() -> None:
    example = Path(__file__).parents[4] / "docs" / "examples" / "snapshot.json"
    assert len(of_kind(lines("--snapshot", str(example), "--strategy", "ThresholdShedder"), "unload")) == 1
    assert of_kind(lines("--snapshot", str(example), "--cycles", "8"), "unload")


@pytest.fixture
def simple(tmp_path: Path) -> str:
    """Load reports of the simple load manager: a busy broker, one that is comfortable, one between."""
    bundles = {
        bundle_name(number): NamespaceBundleStats(msg_rate_in=1000.0 * (number + 1), topics=2) for number in range(3)
    }
    folder = tmp_path / "simple"
    folder.mkdir()
    for name, cpu, stats in (("a:1", 95.0, bundles), ("b:1", 20.0, {}), ("c:1", 70.0, {})):
        usage = SystemResourceUsage(**{each: ResourceUsage(cpu, 100) for each in RESOURCES})
        report = LoadReport(
            name=name,
            timestamp=1_790_000_000_000,
            system_resource_usage=usage,
            bundle_stats=stats,
            load_manager_class_name="SimpleLoadManagerImpl",
        )
        (folder / f"{name}.json").write_bytes(encode_without_none(report))
    return str(folder)


def test_the_simple_load_manager_sheds_one_bundle_a_broker_and_placement_is_its_own(simple: str) -> None:
    found = lines("--snapshot", simple, "--cycles", "2")
    assert [(line["cycle"], line["bundle"], line["source"]) for line in of_kind(found, "unload")] == [
        (1, bundle_name(2), "a:1")
    ]
    assert of_kind(found, "shed")[1]["reason"]["code"] == "recently_unloaded"
    shown = decide("--snapshot", simple).stdout
    assert "SimpleLoadManagerImpl sheds, leastLoadedServer places" in shown
    excluded = lines("--snapshot", simple, "--set", "loadBalancerSheddingExcludedNamespaces=t/ns")
    assert [line["reason"]["code"] for line in of_kind(excluded, "refuse")] == ["excluded_namespace"]


def test_the_simple_load_manager_places_and_splits(simple: str) -> None:
    (placed,) = lines("--snapshot", simple, "--place", bundle_name(9))
    assert placed["destination"] in ("b:1", "c:1")
    assert placed["reason"]["strategy"] == "leastLoadedServer"
    split = lines("--snapshot", simple, "--split", "--set", "loadBalancerNamespaceBundleMaxMsgRate=2500")
    assert [(line["kind"], line["bundle"]) for line in split] == [("split", bundle_name(2))]


def test_another_load_managers_strategies_can_be_tried_on_its_snapshot(simple: str, file: str) -> None:
    found = lines("--snapshot", simple, "--strategy", "OverloadShedder")
    assert {line["reason"]["strategy"] for line in of_kind(found, "verdict")} == {"OverloadShedder"}
    overloaded = ["--set", "loadBalancerBrokerOverloadedThresholdPercentage=70"]
    found = lines("--snapshot", file, "--strategy", "SimpleLoadManagerImpl", *overloaded)
    assert {line["reason"]["strategy"] for line in of_kind(found, "verdict")} == {"SimpleLoadManagerImpl"}
    assert of_kind(found, "unload")


def test_the_tutorial_shows_what_the_commands_print() -> None:
    root = Path(__file__).parents[4]
    text = (root / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"```\n\.venv/bin/barycenter ((?:decide|explain) [^\n]*)\n```\n\n```\n(.*?)\n```", text, re.S)
    assert len(blocks) == 2
    for words, shown in blocks:
        asked = [str(root / word) if word.startswith("docs/") else word for word in words.split()]
        result = CliRunner().invoke(main, asked)
        assert result.stdout.strip() == shown.strip()
