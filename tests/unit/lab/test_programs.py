"""Replays for programs: loads from every source, the results of the command, pictures, advice, errors."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.replay.advise import command as advise
from pulsar_barycenter.cli.replay.command import command
from pulsar_barycenter.history import NoHistoryError, WrongFolderError
from pulsar_barycenter.lab.programs.line_picture import Line, line_picture
from pulsar_barycenter.replay import (
    GridError,
    Load,
    ReplayInputError,
    recorded_load,
    scenario_load,
    scenario_names,
    snapshot_load,
    synthetic_load,
    trace_load,
    workload_load,
)
from pulsar_barycenter.strategies import ConfigError, StrategyError, read_snapshot

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "history"
SNAPSHOT = DOCS / "examples" / "snapshot.json"


def small_load() -> Load:
    return synthetic_load(brokers=3, bundles=12, steps=15)


def test_results_are_those_of_the_command(tmp_path: Path) -> None:
    arguments = ["--input", str(EXAMPLE), "--strategy", "no-op", "--strategy", "AvgShedder", "--seeds", "1-2"]
    key = "loadBalancerAvgShedderLowThreshold"
    found = CliRunner().invoke(
        command, [*arguments, "--set", f"{key}=10,20", "--processes", "1", "--out", str(tmp_path)]
    )
    assert found.exit_code == 0, found.output
    results = recorded_load(EXAMPLE).replay(["no-op", "AvgShedder"], settings={key: [10, 20]}, seeds=[1, 2])
    assert results.write(tmp_path / "api").name == "report.html"
    assert (tmp_path / "api" / "results.json").read_bytes() == (tmp_path / "results.json").read_bytes()
    assert results.moves().equals(pq.read_table(tmp_path / "moves.parquet"))
    assert results.splits().equals(pq.read_table(tmp_path / "splits.parquet"))
    assert results.balance().equals(pq.read_table(tmp_path / "series.parquet"))
    assert results.brokers().equals(pq.read_table(tmp_path / "brokers.parquet"))
    of_file = {run["name"]: run["measures"] for run in json.loads((tmp_path / "results.json").read_text())}
    rows = results.measures().to_pylist()
    assert {row["run"]: row["regret"] for row in rows} == {name: run["regret"] for name, run in of_file.items()}
    assert len(results) == len(rows) == 8
    regrets = results.medians()["regret"].to_pylist()
    assert regrets == sorted(regrets)


def test_advice_is_that_of_the_command(tmp_path: Path) -> None:
    key = "barycenterLeastDisturbanceMovesPerHour"
    arguments = ["--strategy", "LeastDisturbance", "--set", f"{key}=0,30", "--seeds", "1-2", "--processes", "1"]
    found = CliRunner().invoke(advise, ["--input", str(EXAMPLE), *arguments, "--format", "json"])
    assert found.exit_code == 0, found.output
    advice = recorded_load(EXAMPLE).advise(["LeastDisturbance"], settings={key: [0, 30]}, seeds=[1, 2])
    document = json.loads(found.stdout)
    assert json.loads(advice.json()) == document
    assert (advice.verdict, advice.sentence) == (document["verdict"], document["sentence"])
    assert len(advice.configurations()) == len(document["configurations"])
    assert advice.changes()["key"].to_pylist() == [change["key"] for change in document["changes"]]
    assert advice.findings()["remedy"].to_pylist() == [finding["mend"] for finding in document["findings"]]
    assert escape(advice.sentence) in advice._repr_html_()
    advice.write(tmp_path)
    assert (tmp_path / "broker.conf.fragment").read_text() == advice.broker_conf
    assert (tmp_path / "commands.sh").read_text() == advice.commands


def test_processes_give_the_same_results() -> None:
    load = small_load()
    one, two = (load.replay("AvgShedder", seeds=[1, 2], processes=count) for count in (1, 2))
    assert one.measures().equals(two.measures())


def test_a_load_says_what_it_is(tmp_path: Path) -> None:
    recorded = recorded_load(EXAMPLE, since=datetime(2026, 1, 1, 10, tzinfo=UTC), step=timedelta(minutes=2))
    assert (recorded.brokers, len(recorded.bundles)) == (("broker-0:8080", "broker-1:8080", "broker-2:8080"), 24)
    assert (recorded.start, recorded.step, recorded.steps) == (
        datetime(2026, 1, 1, 10, tzinfo=UTC),
        timedelta(minutes=2),
        30,
    )
    trace = tmp_path / "a.csv"
    trace.write_text(
        "timestamp,value\n" + "".join(f"2026-01-01 00:{minute:02d}:00,{minute % 7}\n" for minute in range(30))
    )
    assert len(trace_load(trace, brokers=2, bundles=4).brokers) == 2
    workload = tmp_path / "a.yaml"
    workload.write_text(
        "name: a\ntopics: 4\npartitionsPerTopic: 1\nmessageSize: 1024\nsubscriptionsPerTopic: 1\n"
        "consumerPerSubscription: 1\nproducersPerTopic: 1\nproducerRate: 1000\ntestDurationMinutes: 5\n"
    )
    assert len(workload_load(workload, brokers=2).brokers) == 2
    assert scenario_load("broker-added").replay("no-op").measures()["unloads"].to_pylist() == [0]
    assert set(scenario_names()) >= {"broker-added", "two-of-five-stop"}


def test_a_snapshot_is_replayed_with_the_change_that_is_asked_for() -> None:
    load = snapshot_load(SNAPSHOT, add_brokers=1, minutes=10)
    assert (load.steps, load.settings["loadManagerClassName"].rpartition(".")[2]) == (12, "ModularLoadManagerImpl")
    assert snapshot_load(read_snapshot(SNAPSHOT), minutes=10).settings == {}
    brokers = load.replay("LeastDisturbance").brokers()
    assert set(brokers["broker"].to_pylist()) == {*load.brokers, "added-0001:8080"}
    grown = snapshot_load(SNAPSHOT, scale_load=2, minutes=10).replay("no-op").balance()["usage_mean"].to_pylist()
    assert grown[-1] > 1.5 * grown[0]


def test_settings_may_have_commas_and_be_switches() -> None:
    settings = {
        "loadBalancerDistributeBundlesEvenlyEnabled": [True, False],
        "barycenterStrategySettings": '{"Other": {"a": 1, "b": 2}}',
    }
    rows = small_load().replay("no-op", settings=settings).medians()["settings"].to_pylist()
    assert sorted(row.rpartition("=")[2] for row in rows) == ["false", "true"]
    assert all('{"Other": {"a": 1, "b": 2}}' in row for row in rows)


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    load = small_load()
    with pytest.raises(ReplayInputError, match="there is no key loadBalancerAvgShedderLowTreshold; did you mean"):
        load.replay("AvgShedder", settings={"loadBalancerAvgShedderLowTreshold": 10})
    with pytest.raises(StrategyError):
        load.replay("NoSuchShedder")
    with pytest.raises(ConfigError):
        load.replay("AvgShedder", settings={"loadBalancerAvgShedderLowThreshold": "much"})
    with pytest.raises(ReplayInputError, match="divided into 16 periods"):
        load.replay(parts=16)
    with pytest.raises(ReplayInputError, match="brokers"):
        synthetic_load(brokers=-1)
    with pytest.raises(ReplayInputError, match="there is no scenario 'broker-add'"):
        scenario_load("broker-add")
    with pytest.raises(WrongFolderError):
        recorded_load(tmp_path / "missing")
    with pytest.raises(NoHistoryError):
        recorded_load(EXAMPLE, since=datetime(2027, 1, 1, tzinfo=UTC))
    with pytest.raises(ReplayInputError, match="give a positive length"):
        synthetic_load(step=timedelta(0))
    with pytest.raises(ReplayInputError, match="too short to advise"):
        snapshot_load(SNAPSHOT).advise()
    with pytest.raises(ValueError, match="give 2 or more"):
        load.advise(seeds=[1])
    with pytest.raises(ValueError, match="prefer=rest"):
        load.advise(prefer="rest")


def test_a_run_that_fails_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ReplayInputError("no luck")

    monkeypatch.setattr("pulsar_barycenter.lab.running.run_scenario", failing)
    with pytest.raises(GridError, match="no-op, seed 3, steps 0 to 15 failed: no luck"):
        small_load().replay("no-op", seeds=[3])


def test_a_notebook_shows_a_table_and_a_picture_without_scripts() -> None:
    html = small_load().replay(["no-op", "AvgShedder"], seeds=[1, 2])._repr_html_()
    root = ElementTree.fromstring(f"<div>{html}</div>")
    assert [len(row) for row in root.iter("tr")] == [12, 12, 12]
    svg = root.find("{http://www.w3.org/2000/svg}svg")
    assert svg is not None
    assert svg.get("role") == "img"
    texts = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("usage of the fullest broker" in text for text in texts) == 2
    assert "<script" not in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_a_line_has_gaps_and_stays_within_the_picture() -> None:
    values = np.array([0.0, 0.5, np.nan, 3.0, 1.0])
    svg = ElementTree.fromstring(line_picture([Line("<a & b>", values)], title="usage", hours=2, most=1.0))
    paths = [path.get("d") or "" for path in svg.iter("{http://www.w3.org/2000/svg}path")]
    line = next(path for path in paths if path.count("M") == 2)
    points = [point.split() for point in line.replace("M", "\n").replace("L", "\n").split("\n") if point]
    assert [float(y) for _, y in points] == [212.0, 112.0, 12.0, 12.0], "0, one half, and all that is full or more"
    assert "<a & b>" in [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("use", ["import pulsar_barycenter.history", "from pulsar_barycenter.replay import Load"])
def test_without_the_extra_the_error_names_it(use: str) -> None:
    code = f"import sys\nsys.modules['pyarrow'] = None\n{use}\n"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs pyarrow: pip install 'pulsar-barycenter[history]'" in found.stderr.splitlines()[-1]


def test_the_public_names_cost_nothing_until_they_are_used() -> None:
    """The package is imported by brokers and commands that replay nothing."""
    code = (
        "import sys, pulsar_barycenter.replay as replay\n"
        "assert 'synthetic_load' in dir(replay)\n"
        "assert not {'numpy', 'pyarrow', 'pulsar_barycenter.lab'} & set(sys.modules)\n"
        "assert not hasattr(replay, 'no_such_name')\n"
        "replay.synthetic_load\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
