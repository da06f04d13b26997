"""Traces: files of counts become rates, and bad files name the line to fix."""

from pathlib import Path

import pytest

from pulsar_barycenter.lab.trace_files import csv_files, trace_in
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.traces import synthetic_traces
from pulsar_barycenter.replay.traces import Trace, read_trace_with_gaps, unique_names


def test_a_file_becomes_rates_of_its_usual_step(tmp_path: Path) -> None:
    file = tmp_path / "AAPL.csv"
    file.write_text("timestamp,value\n2015-02-26 21:42:53,104\n2015-02-26 21:47:53,100\n2015-02-26 21:52:53,0\n")
    trace = trace_in(file, read_trace_with_gaps)
    assert trace == Trace("AAPL", 1_424_986_973_000, 300_000, (104.0, 100.0, 0.0))
    assert trace.rate_at(299.9) == pytest.approx(104 / 300)
    assert trace.rate_at(300.0) == pytest.approx(100 / 300)
    assert trace.rate_at(900.0) == trace.rate_at(0.0)


def test_of_unequal_distances_the_usual_one_is_the_step(tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("timestamp,value\n2026-01-01 00:00,1\n2026-01-01 00:01,2\n2026-01-01 00:05,3\n2026-01-01 00:06,4\n")
    assert trace_in(file, read_trace_with_gaps).step_ms == 60_000
    with pytest.raises(ReplayInputError, match="line 4: 240 s after the row before"):
        trace_in(file)


def test_a_folder_stands_for_its_csv_files(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "notes.txt"):
        (tmp_path / name).touch()
    assert csv_files([tmp_path, tmp_path / "b.csv"]) == [tmp_path / name for name in ("a.csv", "b.csv", "b.csv")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayInputError, match=r"the folder has no \.csv files"):
        csv_files([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("when,value\n", "line 1"),
        ("timestamp,value\n2015-02-26 21:42:53,many\n", "line 2"),
        ("timestamp,value\n2015-02-26 21:42:53,1\n2015-02-26 21:47:53,-1\n", "line 3"),
        ("timestamp,value\nyesterday,1\n", "line 2"),
        ("timestamp,value\n2015-02-26 21:42:53,1\n", "two rows"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(ReplayInputError, match=line):
        trace_in(file, read_trace_with_gaps)


def test_the_synthetic_mix_is_skewed_and_repeats_with_its_seed() -> None:
    mix = synthetic_traces(7)
    assert {type(value) for trace in mix for value in trace.values} == {float}  # the demo's clients get them as JSON
    assert mix == synthetic_traces(7)
    assert mix != synthetic_traces(8)
    totals = [sum(trace.values) for trace in mix]
    assert totals[0] > 3 * totals[-1]


def test_two_traces_of_one_name_are_refused() -> None:
    trace = Trace("a", 0, 1_000, (1.0, 1.0))
    with pytest.raises(ReplayInputError, match="two traces are named a"):
        unique_names([trace, trace])
