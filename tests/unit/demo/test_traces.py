"""Traces: files of counts become rates, and bad files say which line to mend."""

from pathlib import Path

import pytest

from pulsar_barycenter.demo.traces import Trace, TraceError, read_trace, synthetic_traces, unique_names


def test_a_file_becomes_rates_of_its_usual_step(tmp_path: Path) -> None:
    file = tmp_path / "AAPL.csv"
    file.write_text("timestamp,value\n2015-02-26 21:42:53,104\n2015-02-26 21:47:53,100\n2015-02-26 21:52:53,0\n")
    trace = read_trace(file)
    assert trace == Trace("AAPL", 300.0, (104.0, 100.0, 0.0))
    assert trace.rate_at(299.9) == pytest.approx(104 / 300)
    assert trace.rate_at(300.0) == pytest.approx(100 / 300)
    assert trace.rate_at(900.0) == trace.rate_at(0.0)


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
    with pytest.raises(TraceError, match=line):
        read_trace(file)


def test_the_synthetic_mix_is_skewed_and_repeats_with_its_seed() -> None:
    mix = synthetic_traces(7)
    assert mix == synthetic_traces(7)
    assert mix != synthetic_traces(8)
    totals = [sum(trace.values) for trace in mix]
    assert totals[0] > 3 * totals[-1]


def test_two_traces_of_one_name_are_refused() -> None:
    trace = Trace("a", 1.0, (1.0, 1.0))
    with pytest.raises(TraceError, match="two traces are named a"):
        unique_names([trace, trace])
