"""`barycenter explain NAME --at TIME`: logs of a folder, one log, the pipeline's tables, a running cluster."""

import asyncio
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.cluster_logs.decision_log import read_decisions as logged
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.reports.decision_files import read_decisions
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.questions.past_state import Subject, state_at
from support.load_cases import Cluster, bundle_name, equal_bundles
from support.rest_cluster import RestCluster
from support.table_cases import write_tables

WHOLE = "public/default/0x00000000_0xffffffff"
HALVES = ["public/default/0x00000000_0x80000000", "public/default/0x80000000_0xffffffff"]
TOPIC = "orders"
IDLE, HEAVY, BALANCED = (Reason(code=code) for code in (Code.IDLE_BROKER, Code.HEAVIEST_BUNDLE, Code.BALANCED))


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *words])
    assert result.exit_code == code, result.output
    return result


def asked(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json").stdout.splitlines()[0])
    return found


def half_of(topic: str) -> str:
    return HALVES[TopicName.parse(topic).hash32 >= 0x80000000]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A bundle is assigned, moved, split; one half moves on. Two brokers led one after the other."""
    first, second = (DecisionLog(name, tmp_path / "decisions") for name in ("a:1", "b:1"))
    first.record(1_000, "assign", IDLE, bundle=WHOLE, destination="a:1")
    first.record(2_000, "shed", HEAVY)
    first.record(3_000, "unload", HEAVY, bundle=WHOLE, source="a:1", destination="b:1")
    second.record(4_000, "split", IDLE, bundle=WHOLE, source="b:1")
    second.record(5_000, "shed", BALANCED)
    second.record(6_000, "refuse", HEAVY, bundle=half_of(TOPIC), source="b:1", refused="unload")
    second.record(7_000, "unload", HEAVY, bundle=half_of(TOPIC), source="b:1", destination="c:1")
    return tmp_path


@pytest.fixture(params=["data folder", "folder of logs", "tables"])
def form(request: pytest.FixtureRequest, data: Path) -> str:
    """The same decisions in each form that the command reads."""
    if request.param == "folder of logs":
        return str(data / "decisions")
    if request.param == "tables":
        layout = PipelineLayout.of(data)
        Tables(layout).write("decisions", 0, read_decisions(layout, {}).table)
        shutil.rmtree(data / "decisions")
    return str(data)


@pytest.mark.parametrize(
    ("second", "broker", "bundle", "last", "before", "round_then"),
    [
        (1, "a:1", WHOLE, "assign", None, None),
        (2, "a:1", WHOLE, "assign", None, "heaviest_bundle"),
        (3, "b:1", WHOLE, "unload", "assign", "heaviest_bundle"),
        (5, "b:1", WHOLE, "split", "unload", "balanced"),
        (7, "c:1", half_of(TOPIC), "unload", "split", "balanced"),
    ],
)
def test_where_a_topic_was_and_what_put_it_there(
    form: str, second: int, broker: str, bundle: str, last: str, before: str | None, round_then: str | None
) -> None:
    told = asked(TOPIC, "--data", form, "--at", f"1970-01-01T00:00:0{second}")
    assert (told["kind"], told["at"], told["name"]) == ("then", second * 1000, f"persistent://public/default/{TOPIC}")
    assert (told["broker"], told["bundle"], told["last"]["kind"]) == (broker, bundle, last)
    assert (told["before"] or {}).get("kind") == before
    assert ((told["round"] or {}).get("reason") or {}).get("code") == round_then


def test_a_bundle_was_where_what_it_was_split_from_was(form: str) -> None:
    other = next(half for half in HALVES if half != half_of(TOPIC))
    told = asked(other, "--data", form, "--at", "1970-01-01T00:00:09")
    assert (told["broker"], told["bundle"], told["last"]["kind"]) == ("b:1", WHOLE, "split")


def test_what_was_refused_and_why_is_in_words(form: str) -> None:
    said = run(TOPIC, "--data", form, "--at", "1970-01-01T00:00:06.5").stdout
    assert f"on b:1, a part of {WHOLE}, since 1970-01-01 00:00:04" in " ".join(said.split())
    refused = f"  1970-01-01 00:00:06  refuse unload  {half_of(TOPIC)}  b:1  by b:1\n"
    assert f"considered and not carried out:\n{refused}" in said
    assert "the round at that time:\n  1970-01-01 00:00:05  kept  by b:1\n" in said
    assert "it is the heaviest remaining bundle" in said


def test_what_came_to_a_broker_and_went(form: str) -> None:
    told = asked("b:1", "--data", form, "--at", "1970-01-01T00:00:07")
    assert [(each["kind"], each["at"]) for each in told["recent"]] == [
        ("unload", 3_000),
        ("split", 4_000),
        ("unload", 7_000),
    ]


def test_one_log_is_read_and_tells_what_it_knows(data: Path) -> None:
    told = asked(TOPIC, "--data", str(data / "decisions" / "a_1.jsonl"), "--at", "1970-01-01T00:00:09")
    assert (told["broker"], told["last"]["at"]) == ("b:1", 3_000)


def test_of_a_time_nobody_knows_it_says_which_times_are_known(form: str) -> None:
    said = run(TOPIC, "--data", form, "--at", "1970-01-01T00:00:00", code=1).stderr
    assert "nothing is known of topic persistent://public/default/orders at 1970-01-01 00:00:00 UTC; " in said
    if "tables" not in form and (Path(form) / "a_1.jsonl").exists():
        assert "decisions are known from 1970-01-01 00:00:01 to 1970-01-01 00:00:07 UTC" in said
    said = run("x:1", "--data", form, "--at", "1970-01-01T00:00:03", code=1).stderr
    assert "nothing is known of broker x:1 at 1970-01-01 00:00:03 UTC; " in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "2h"], "give TOPIC, BUNDLE or BROKER with --at TIME"),
        ([TOPIC, "--at", "2h", "--broker", "a:1"], "give TOPIC, BUNDLE or BROKER with --at TIME"),
        ([TOPIC, "--at", "yesterday"], "give a span like 90s"),
        ([TOPIC, "--at", "2h", "--snapshot", "x"], "a snapshot has the state at one time only"),
        (["a/b", "--at", "2h"], "a/b"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], said: str) -> None:
    assert said in run(*words, code=2).stderr


def test_the_loads_of_then_say_what_the_round_would_have_done(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=95, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=10)
    reports = [(name, replace(report, last_update=2_000)) for name, report in cluster.reports.items()]
    write_tables(tmp_path / "tables", [reports])
    said = run("a:1", "--data", str(tmp_path), "--at", "1970-01-01T00:00:03").stdout
    assert "with the load at the time given with --at, by" in said
    assert "a:1" in said.partition("with the load")[2]
    said = run(bundle_name(0), "--data", str(tmp_path), "--at", "1970-01-01T00:00:03", "--json").stdout
    assert '"kind":"verdict"' in said


def test_decisions_made_later_do_not_count(data: Path) -> None:
    records = logged(data)
    by_then = [record for record in records if record.at < 3_500]
    assert state_at(Subject.of(TOPIC), 3_500, records) == state_at(Subject.of(TOPIC), 3_500, by_then)


async def test_a_running_cluster_is_asked_after_its_leader_is_gone(tmp_path: Path) -> None:
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
        gone, other = cluster.brokers
        if not gone.leadership.is_leader():
            gone, other = other, gone
        at = cluster.brokers[0].env.clock.now_ms()
        await gone.stop()
        cluster.brokers.remove(gone)
        text = datetime.fromtimestamp((at + 1) / 1000, UTC).isoformat()
        url = str(other.urls.web_url)
        told = await asyncio.to_thread(asked, "persistent://public/ns/t", "--url", url, "--at", text)
        assert (told["broker"], told["last"]["by"]) == (owner.broker_id, gone.broker_id)
        said = await asyncio.to_thread(
            lambda: run("persistent://public/ns/t", "--url", url, "--at", "1970-01-01", code=1).stderr
        )
        assert "decisions are known from 2" in said
    finally:
        await cluster.close()
