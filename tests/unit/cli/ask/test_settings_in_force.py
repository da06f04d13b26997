"""The settings that `decide` and `explain` use, and that they name them."""

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.ask import decide as asked
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.snapshots.settings_in_force import settings_in_words
from pulsar_barycenter.snapshots.snapshot_file import write_snapshot
from support.load_cases import Cluster, equal_bundles
from support.snapshot_cases import document_of
from support.table_cases import write_tables

TAKEN_MS = 1_790_000_000_000
THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"
SHEDDER = "loadBalancerLoadSheddingStrategy"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose brokers were given a threshold and an excluded namespace before the load was recorded."""
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    reports = document_of(cluster).brokers.items()
    batch = [(name, msgspec.structs.replace(report, last_update=TAKEN_MS)) for name, report in reports]
    write_tables(tmp_path / "tables", [batch])
    (tmp_path / "conf").mkdir()
    for number in range(2):
        file = tmp_path / "conf" / f"broker-{number}.conf"
        file.write_text(f"{THRESHOLD}=41\nwebServicePort=808{number}\n{SHEDDER}=OverloadShedder\n")
        os.utime(file, (1, 1))
    return tmp_path


def decide(*words: str, command: str = "decide") -> Result:
    result = CliRunner().invoke(main, [command, *words])
    assert result.exit_code == 0, result.output
    return result


def strategies(data: Path, *words: str) -> set[str]:
    lines = map(json.loads, decide("--snapshot", str(data), "--json", *words).stdout.splitlines())
    return {line["reason"]["strategy"] for line in lines if line["kind"] == "verdict"}


@pytest.mark.parametrize("below", ["", "tables"])
def test_a_data_folder_is_decided_by_what_its_brokers_are_configured_with(data: Path, below: str) -> None:
    assert strategies(data / below) == {"OverloadShedder"}
    shown = decide("--snapshot", str(data / below)).stdout
    assert "; the data folder's settings, as Pulsar 5.x\n" in shown
    assert (
        "now, by the data folder's settings, as Pulsar 5.x\n"
        in decide("--snapshot", str(data / below), "--broker", "a:1", command="explain").stdout
    )


def test_what_was_changed_while_brokers_ran_counts_more_than_their_files(data: Path) -> None:
    async def change() -> None:
        store = await open_store(f"sqlite:{data / 'metadata.sqlite'}")
        value = json.dumps({SHEDDER: "ThresholdShedder"}).encode()
        await store.put("/admin/configuration", value, expected_version=-1)
        await store.close()

    asyncio.run(change())
    before = {file.name: file.stat().st_size for file in data.iterdir()}
    assert strategies(data) == {"ThresholdShedder"}
    assert {file.name: file.stat().st_size for file in data.iterdir()} == before
    (data / "metadata.sqlite").write_text("something else")
    said = decide("--snapshot", str(data)).stderr
    assert "cannot read the dynamic settings" in said


def test_settings_that_were_changed_later_give_a_warning_and_the_logs_name_the_strategy(data: Path) -> None:
    os.utime(data / "conf" / "broker-1.conf", (TAKEN_MS / 1000 + 60, TAKEN_MS / 1000 + 60))
    log = DecisionLog("a:1", data / "decisions")
    log.record(TAKEN_MS - 9_000, "shed", Reason(code=Code.BALANCED, strategy="ThresholdShedder"))
    log.record(TAKEN_MS + 9_000, "shed", Reason(code=Code.BALANCED, strategy="OverloadShedder"))
    assert strategies(data) == {"ThresholdShedder"}
    said = decide("--snapshot", str(data)).stderr
    assert "settings changed at 2026-09-21 14:14:20 UTC, after that time" in said


def test_a_broker_that_was_silent_for_twice_its_longest_pause_is_gone(data: Path) -> None:
    def reported(name: str, at_ms: int) -> list[tuple[str, LocalBrokerData]]:
        cluster = Cluster().add(name, cpu=80, bundles=equal_bundles(4, throughput=4e8))
        return [(name, msgspec.structs.replace(cluster.reports[name], last_update=at_ms))]

    write_tables(data / "tables", [reported("a:1", TAKEN_MS), reported("c:1", TAKEN_MS + 60_000)])
    assert "\na:1 " in decide("--snapshot", str(data)).stdout
    for number in range(2):
        with (data / "conf" / f"broker-{number}.conf").open("a") as file:
            file.write("loadBalancerReportUpdateMaxIntervalMinutes=0.4\n")
    shown = decide("--snapshot", str(data)).stdout
    assert "\nc:1 " in shown
    assert "\na:1 " not in shown


def test_what_was_given_is_named(data: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{SHEDDER}=ThresholdShedder\n")
    words = ["--snapshot", str(data), "--config", str(conf), "--set", f"{THRESHOLD}=5"]
    by = "the data folder's settings, as Pulsar 5.x"
    assert f"; {by}, changed by {conf}, {THRESHOLD}\n" in decide(*words).stdout
    assert f"barycenter: by {by}, changed by {conf}" in decide(*words, "--json").stderr


def test_the_snapshots_own_settings_and_the_defaults_are_said(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    write_snapshot(tmp_path / "own.json", document_of(cluster, configuration={THRESHOLD: "41"}))
    write_snapshot(tmp_path / "none.json", document_of(cluster))
    assert "; the snapshot's settings, as Pulsar 5.x\n" in decide("--snapshot", str(tmp_path / "own.json")).stdout
    assert "; default settings, as Pulsar 5.x\n" in decide("--snapshot", str(tmp_path / "none.json")).stdout


def test_the_version_that_is_followed_is_said_and_decides_the_strategies(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30)
    write_snapshot(tmp_path / "former.json", document_of(cluster, configuration={COMPATIBILITY_KEY: "4.x"}))
    by_4 = "; ThresholdShedder sheds, LeastLongTermMessageRate places; the snapshot's settings, as Pulsar 4.x\n"
    assert by_4 in decide("--snapshot", str(tmp_path / "former.json")).stdout
    changed = decide("--snapshot", str(tmp_path / "former.json"), "--set", f"{COMPATIBILITY_KEY}=5.x").stdout
    told = "; AvgShedder sheds, AvgShedder places; the snapshot's settings, as Pulsar 5.x, changed by "
    assert told + COMPATIBILITY_KEY in changed
    explained = decide("--snapshot", str(tmp_path / "former.json"), "--broker", "a:1", command="explain").stdout
    assert "now, by the snapshot's settings, as Pulsar 4.x\n" in explained


def test_a_snapshot_of_a_running_cluster_has_the_settings_of_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def snapshot_of(_new_client: object, _url: str) -> SnapshotDocument:
        return SnapshotDocument(taken_at=1, brokers={}, configuration={"clusterName": "c"})

    monkeypatch.setattr(asked, "snapshot_of", snapshot_of)
    found = asked.snapshot_given(None, "http://127.0.0.1:1", "")
    assert settings_in_words(found, "5.x") == "the leader's settings, as Pulsar 5.x"
