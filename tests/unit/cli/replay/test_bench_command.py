"""`barycenter balance-bench`: its tables, its page, and its exit codes."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.lab.benches.bench_page import expectation_in_words
from pulsar_barycenter.replay.experiments.experiment import experiments
from pulsar_barycenter.replay.scenario import EVERY, Expected, catalogue

SMALL = ("--scenario", "all-above-threshold", "--strategy", "AvgShedder", "--seeds", "1")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["balance-bench", *words, "--processes", "1"])


def test_a_scenario_is_told_with_what_was_expected(tmp_path: Path) -> None:
    done = run(*SMALL, "--out", str(tmp_path / "page.md"))
    assert done.exit_code == 0, done.output
    assert "all-above-threshold: Five brokers at 92 %" in done.stdout
    assert "as expected: unloads of AvgShedder is 0; expected == 0: all brokers" in done.stdout
    assert "as expected: unloads of LeastDisturbance is not measured; expected == 0: no broker" in done.stdout
    page = (tmp_path / "page.md").read_text()
    assert "| [all-above-threshold](#all-above-threshold) |" in page
    assert "- As expected: unloads of AvgShedder is 0; expected == 0: all brokers" in page


def test_an_expectation_has_the_title_of_the_column_and_the_measured_values() -> None:
    of = {"no-op": {"regret": 0.2, "overloaded_s": 600.0}, "a": {"regret": 0.05, "overloaded_s": 90.0}}
    of["b"] = {"regret": 0.1, "overloaded_s": 180.0}
    for expected, sentence in (
        (Expected("a", "overloaded_s", ">=", 60, "it lags"), "overloaded min of a is 1.5; expected >= 1: it lags"),
        (
            Expected("b", "regret", "<", 0.6, "it gives half", than="no-op"),
            "regret % of b is 10; expected < 0.6 × that of no-op (20): it gives half",
        ),
        (
            Expected("b", "regret", "<=", 1, "it waits", than="no-op"),
            "regret % of b is 10; expected <= that of no-op (20): it waits",
        ),
        (
            Expected(EVERY, "overloaded_s", ">", 0, "it lags"),
            "overloaded min of every strategy is 1.5 to 3; expected > 0: it lags",
        ),
    ):
        assert expectation_in_words(expected, of) == sentence


def test_what_was_not_expected_is_told_by_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    case = catalogue()["all-above-threshold"]
    monkeypatch.setattr("pulsar_barycenter.replay.scenario.Expected.holds", lambda *_: False)
    done = run(*SMALL)
    assert done.exit_code == 3
    assert done.stdout.count("NOT AS EXPECTED") == len(case.expected)


def test_scenarios_are_listed() -> None:
    done = run("--list")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == list(catalogue())


def test_published_experiments_are_told_beside_what_was_published(tmp_path: Path) -> None:
    words = ("--published", "--scenario", "consumers-pause", "--seeds", "1", "--out", str(tmp_path / "page.md"))
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "43 bundles in 59 minutes" in done.stdout
    page = (tmp_path / "page.md").read_text()
    assert "| AvgShedder | unloads | 0 in 46 minutes | 0 | == 0 |" in page


def test_a_replay_that_differs_from_what_was_published_is_told_by_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.replay.scenario.Expected.holds", lambda *_: False)
    done = run("--published", "--scenario", "cpu-spikes-without-traffic", "--seeds", "1")
    assert done.exit_code == 3
    assert "and is NOT" in done.stdout


def test_published_experiments_are_listed() -> None:
    done = run("--published", "--list")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == list(experiments())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--scenario", "broker-aded"), 2, "did you mean broker-added"),
        ((*SMALL, "--strategy", "AvgSheder"), 1, "did you mean AvgShedder"),
        ((*SMALL, "--seeds", "a"), 2, "give a number, or a range"),
    ],
)
def test_words_that_are_wrong_are_answered(words: tuple[str, ...], code: int, text: str) -> None:
    done = run(*words)
    assert done.exit_code == code
    assert text in done.stderr.replace("\n", " ")


def test_traces_make_a_scenario_more_of_days_of_its_own_for_each_seed(tmp_path: Path) -> None:
    """Two traces of four days, one of which is busy by day."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for name, swing in (("calm", 0), ("busy", 80)):
        rows = [
            f"2026-01-{1 + hour // 24:02} {hour % 24:02}:00:00,{100 + swing * (hour % 24 > 11)}" for hour in range(96)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["timestamp,value", *rows]) + "\n")
    words = ("--scenario", "broker-added", "--strategy", "no-op", "--seeds", "1-2", "--trace", str(folder))
    out = tmp_path / "page.md"
    result = run(*words, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "real-traces: 2 traces of real traffic" in result.output
    assert "--seeds 1-2 --trace TRACES" in out.read_text()
    assert "## real-traces" in out.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the folder has no .csv files"),
        ("timestamp,value\n2026-01-01 00:00:00,1\n2026-01-01 01:00:00,1\n", "fewer than 2 days in common"),
        ("time,value\n", "line 1 must name the columns"),
    ],
)
def test_traces_that_make_no_scenario_are_refused(tmp_path: Path, text: str, said: str) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    if text:
        (folder / "a.csv").write_text(text)
    result = run("--scenario", "broker-added", "--strategy", "no-op", "--seeds", "1", "--trace", str(folder))
    assert result.exit_code == 1
    assert said in result.output


SCENARIO = """
about = "Two brokers that stay as they are."
brokers = 2
minutes = 5
[load]
bundles = 4
[expect]
measures = { unloads = 0, regret = 1 }
"""


def test_a_scenario_from_a_file_is_told_with_its_expectations(tmp_path: Path) -> None:
    (tmp_path / "still.toml").write_text(SCENARIO)
    done = run("--file", str(tmp_path / "still.toml"), "--seeds", "1-2")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("as expected: unloads: it is 0; at most 0 is allowed") == 2


def test_an_expectation_of_a_file_that_does_not_hold_ends_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "still.toml"
    path.write_text(SCENARIO.replace("regret = 1", "max_over_mean = 0.5"))
    done = run("--file", str(path), "--seeds", "7", "--strategy", "no-op")
    assert done.exit_code == 1
    assert f"1 expectation not met; the first is of {path} with no-op and seed 7: max_over_mean" in done.stderr


def test_a_file_that_is_no_scenario_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("brokers = 2")
    done = run("--file", str(tmp_path / "bad.toml"))
    assert done.exit_code == 2
    assert "bad.toml is not a scenario: the file has no key about; add it" in done.stderr
    together = run("--file", str(tmp_path / "bad.toml"), "--list")
    assert together.exit_code == 2
    assert "--file can be combined only with --strategy and --seeds; leave out all other options" in together.stderr
