"""`barycenter demo` on the command line, with a run that ends at once."""

import html
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.run import demo
from pulsar_barycenter.demo.contenders import OURS, PULSARS_DEFAULT
from pulsar_barycenter.demo.record import Record
from pulsar_barycenter.demo.report.comparison import SeenRun
from pulsar_barycenter.demo.scenario import DemoSettings

CSV = "timestamp,value\n2026-01-01T00:00:00,1\n2026-01-01T00:05:00,2\n"
COUNTS = (
    "messages_produced messages_consumed messages_duplicated out_of_order assignments unloads splits failovers "
    "moves moved_back bundles_moved_back moved_back_after_split pipeline_batches interruptions topics_of_longest_gap"
)
SUMMARY: dict[str, Any] = {
    **dict.fromkeys(COUNTS.split(), 1),
    "messages_lost": 0,
    "killed_broker": None,
    "imbalance_before": None,
    "imbalance_after": 1.25,
    "imbalance_mean": 1.5,
    "longest_gap_seconds": 0.5,
    "topic_seconds_without_receipt": 1.0,
    "recovery_seconds": None,
    "duration_seconds": 1.0,
    "brokers": 3,
    "load": "a mix",
    "pipeline_lag_seconds_p99": 0.5,
    "pipeline_batches_failed": 0,
    "pipeline_last_failure": None,
}


class Run:
    """Instead of a demo: keeps the settings, those of all runs in `all_settings`, and ends with `outcome`."""

    outcome: dict[str, Any] | Exception = SUMMARY
    settings: DemoSettings
    all_settings: ClassVar[list[DemoSettings]] = []

    def __init__(self, settings: DemoSettings) -> None:
        Run.settings = settings
        Run.all_settings.append(settings)

    async def run(self) -> SeenRun:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        out = self.settings.out
        (out / "summary.json").write_text("{}\n")
        return SeenRun(self.settings.balancing, Record(0.0), [], self.outcome, out / "report.html")


@pytest.fixture(autouse=True)
def run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "Demo", Run)
    monkeypatch.setattr(Run, "outcome", SUMMARY)
    Run.all_settings.clear()


def invoke(out: Path, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["demo", "--out", str(out / "out"), *words])
    assert result.exit_code == code, result.output
    return result


def test_the_figures_are_told_in_sentences_or_as_they_stand_in_the_file(tmp_path: Path) -> None:
    assert "busiest/mean – before, 1.25 after" in invoke(tmp_path).stdout
    assert "synthetic mix (seed 7)" in (invoke(tmp_path, "--json", "--seed", "7").stdout and Run.settings.load)
    assert Run.settings.seed == 7
    assert invoke(tmp_path, "--json").stdout == "{}\n"


def test_a_comparison_runs_the_same_load_by_two_strategies_and_reports_both(tmp_path: Path) -> None:
    answer = invoke(tmp_path, "--compare", "--seed", "7")
    ours, theirs = Run.all_settings
    assert (ours.balancing, theirs.balancing) == (OURS, PULSARS_DEFAULT)
    assert (ours.traces, ours.duration_s, ours.seed) == (theirs.traces, theirs.duration_s, 7)
    assert (ours.out, theirs.out) == (tmp_path / "out" / "LeastDisturbance", tmp_path / "out" / "AvgShedder")
    assert OURS.title in answer.stdout.splitlines()[0]
    assert PULSARS_DEFAULT.title in answer.stdout.splitlines()[0]
    assert PULSARS_DEFAULT.title in html.unescape((tmp_path / "out" / "report.html").read_text())
    assert set(json.loads(invoke(tmp_path, "--compare", "--json").stdout)) == {"LeastDisturbance", "AvgShedder"}


def test_ports_of_0_are_free_ones(tmp_path: Path) -> None:
    invoke(tmp_path, "--web-port", "0", "--broker-port", "0", "--brokers", "3")
    settings = Run.settings
    assert settings.web_port > 0
    assert abs(settings.web_port - settings.broker_port) >= 3


def test_every_csv_file_is_a_topic(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text(CSV)
    invoke(tmp_path, "--trace", str(tmp_path))
    assert [trace.name for trace in Run.settings.traces] == ["a", "b"]
    assert Run.settings.load == "2 traces"
    assert (Run.settings.trace_paths, Run.settings.seed) == ((tmp_path,), None)


def test_traces_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    assert f"{folder}: the folder has no .csv files" in invoke(tmp_path, "--trace", str(folder), code=1).stderr
    file = tmp_path / "a.csv"
    file.write_text("time,count\n")
    assert f"{file}: line 1 must name the columns" in invoke(tmp_path, "--trace", str(file), code=1).stderr
    file.write_text(CSV)
    (folder / "a.csv").write_text(CSV)
    words = ["--trace", str(file), "--trace", str(folder)]
    assert "two traces are named a" in invoke(tmp_path, *words, code=1).stderr


def test_lost_messages_and_a_broker_that_refuses_end_with_1_and_say_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "outcome", {**SUMMARY, "messages_lost": 3})
    assert f"3 acknowledged messages did not arrive; logs are in {tmp_path}" in invoke(tmp_path, code=1).stderr
    monkeypatch.setattr(Run, "outcome", AdminRequestError("PUT", "http://b", 500, "no disk"))
    assert "barycenter: PUT http://b: 500: no disk\n" in invoke(tmp_path, code=1).stderr


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    assert str(tmp_path / "out") in invoke(tmp_path, code=2).stderr


def test_settings_of_the_demo_are_changed_by_key(tmp_path: Path) -> None:
    invoke(tmp_path, "--set", "loadBalancerSheddingIntervalMinutes=0.5")
    assert Run.settings.changes == {"loadBalancerSheddingIntervalMinutes": "0.5"}
    assert "did you mean" in invoke(tmp_path, "--set", "loadBalancerSheddingInterval=1", code=2).stderr
    assert "loadBalancerSheddingIntervalMinutes" in invoke(
        tmp_path, "--set", "loadBalancerSheddingIntervalMinutes=soon", code=1
    ).stderr.replace("\n", " ")
