"""Two runs of the same load side by side: which value is better, and the page that shows both."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.run.demo import command, last_lines
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.demo.contenders import OURS, PLACEMENT_KEY, PULSARS_DEFAULT, SHEDDING_KEY
from pulsar_barycenter.demo.report.comparison import lines, render_comparison, table
from pulsar_barycenter.demo.scenario import DemoSettings, demo_configuration
from support.demo_run import compared_runs


def test_the_better_figure_of_each_line_is_marked_and_none_where_they_are_equal() -> None:
    runs = compared_runs(Path("out"))
    found = {line.name: line for line in lines([run.summary for run in runs])}
    assert (found["moved back"].texts, found["moved back"].best) == (("2", "0"), 1)
    assert (found["messages lost"].texts, found["messages lost"].best) == (("0", "0"), None)


def test_a_figure_that_no_run_has_is_left_out_and_one_that_one_run_has_is_nobodys_best() -> None:
    first, second = (dict(run.summary) for run in compared_runs(Path("out")))
    first["recovery_seconds"] = None
    assert "all topics back after the kill" in {line.name for line in lines([first, second])}
    assert {line.name: line.best for line in lines([first, second])}["all topics back after the kill"] is None
    second["recovery_seconds"] = None
    assert "all topics back after the kill" not in {line.name for line in lines([first, second])}


def test_the_last_lines_have_both_runs_side_by_side() -> None:
    runs = compared_runs(Path("out"))
    shown = last_lines(runs, Path("out"))
    assert shown.startswith(table(runs))
    head, *rest = shown.splitlines()
    assert head.split("  ")[-1].strip() == PULSARS_DEFAULT.title
    assert OURS.title in head
    moved = next(line for line in rest if line.startswith("moved back"))
    assert moved.split() == ["moved", "back", "2", "0", "*"]
    assert "out/report.html" in rest[-1]
    assert "out/LeastDisturbance/report.html" in rest[-1]


def test_the_page_has_both_runs_and_leads_to_the_report_of_each() -> None:
    page = render_comparison(compared_runs(Path("out")), "barycenter demo --compare", Path("out"))
    for part in (OURS.title, 'href="LeastDisturbance/report.html"', 'href="AvgShedder/report.html"', "--compare"):
        assert part.replace("'", "&#39;") in page
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert len(data["runs"]) == 2
    assert data["end"] >= 60


def test_a_demo_balances_by_our_strategy_and_a_comparison_by_pulsars_default_too() -> None:
    settings = DemoSettings(Path("out"), [], "a mix", seed=1)
    ours = demo_configuration(settings)
    assert (ours[SHEDDING_KEY], ours[PLACEMENT_KEY]) == ("LeastDisturbance", "LeastDisturbance")
    theirs = demo_configuration(settings.beside(PULSARS_DEFAULT))
    assert BrokerConfig().load_balancer_load_shedding_strategy.endswith(f".{theirs[SHEDDING_KEY]}")
    assert BrokerConfig().load_balancer_load_placement_strategy.endswith(f".{theirs[PLACEMENT_KEY]}")
    differ = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
    assert differ == {
        SHEDDING_KEY,
        PLACEMENT_KEY,
        "loadBalancerAutoUnloadSplitBundlesEnabled",
        "barycenterLeastDisturbancePatienceMinutes",
        "barycenterLeastDisturbanceMovesPerHour",
    }
    assert theirs["loadBalancerAutoUnloadSplitBundlesEnabled"] == "true"


def test_the_command_of_either_run_repeats_the_comparison() -> None:
    settings = replace(DemoSettings(Path("out"), [], "a mix", seed=1), chaos=False)
    commands = {settings.beside(each).command() for each in (OURS, PULSARS_DEFAULT)}
    assert len(commands) == 1
    (words,) = (each.split() for each in commands)
    assert "--compare" in words
    assert words[words.index("--out") + 1] == "out"


@pytest.mark.parametrize("key", [SHEDDING_KEY, PLACEMENT_KEY])
def test_a_comparison_of_a_strategy_with_itself_is_refused(tmp_path: Path, key: str) -> None:
    words: list[Any] = ["--compare", "--set", f"{key}=ThresholdShedder", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert f"leave out --set {key}=" in result.output
    assert not (tmp_path / "out").exists()
