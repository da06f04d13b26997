"""The output of a start: lines without a terminal, and on a terminal the current phases below them."""

import pytest

from pulsar_barycenter.terminal.progress import StartLines
from support.terminal import run_in_terminal

IN_TERMINAL = """
from pulsar_barycenter.terminal.progress import StartLines
lines = StartLines()
lines.phase("broker-0", "starting")
lines.phase("pipeline", "starting Spark")
lines.event("broker-1 is back")
lines.done("broker-0", "ready after 1.0 s")
print("ready: here", flush=True)
lines.close()
lines.event("stopping the brokers")
"""


def test_without_a_terminal_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StartLines()
    lines.phase("broker-0", "starting")
    lines.done("broker-0", "ready after 1.0 s")
    lines.event("broker-0 is back")
    lines.close()
    assert capsys.readouterr().err.splitlines() == [
        "broker-0: starting",
        "broker-0: ready after 1.0 s",
        "broker-0 is back",
    ]


def test_on_a_terminal_results_stay_and_standard_output_is_left_alone() -> None:
    """Standard output is a program's: nothing of the terminal gets there, and nothing of it to the terminal."""
    output, shown = run_in_terminal(IN_TERMINAL)
    assert output == b"ready: here\n"
    for part in ("pipeline: starting Spark", "broker-1 is back", "broker-0: ready after 1.0 s", "stopping the brokers"):
        assert part in shown
    assert "ready: here" not in shown
