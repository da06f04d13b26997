"""What is shown while Spark starts."""

import pytest

from pulsar_barycenter.terminal.progress import spark_start
from support.terminal import run_in_terminal

IN_TERMINAL = """
from pulsar_barycenter.terminal.progress import spark_start
with spark_start(answers_a_program=True) as on_phase:
    on_phase("starting Spark on Java 17")
print('{"answer": 1}')
"""


def test_without_a_terminal_each_phase_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The first one at once."""
    with spark_start() as on_phase:
        assert capsys.readouterr().err == "starting Spark\n"
        on_phase("starting Spark on Java 17")
    assert capsys.readouterr() == ("", "starting Spark on Java 17\n")


def test_a_program_that_is_answered_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with spark_start(answers_a_program=True) as on_phase:
        on_phase("starting Spark on Java 17")
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_time_runs_and_the_answer_stays_whole() -> None:
    """For any kind of standard output."""
    output, shown = run_in_terminal(IN_TERMINAL)
    assert output == b'{"answer": 1}\n'
    assert "starting Spark on Java 17" in shown
    assert "0:00:0" in shown
