"""Tables on terminals of any width: no value, time or name is truncated."""

import ast
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.terminal.tables import Column, Kind, print_table

ROOT = Path(__file__).parents[3]
RECORDED = str(ROOT / "tests" / "data" / "pipeline" / "cluster")
EXAMPLE = str(ROOT / "docs" / "examples" / "snapshot.json")
BUNDLE = "public/default/0x00000000_0x55555555"

COMMANDS = {
    "_print_verdicts": [
        ["decide", "--snapshot", EXAMPLE],
        ["decide", "--snapshot", EXAMPLE, "--explain"],
        ["explain", "--snapshot", EXAMPLE, "--broker", "broker-2:8080"],
    ],
    "_print_brokers_then": [["plan", EXAMPLE, "--strategy", "ThresholdShedder"]],
    "_print_moves": [["plan", EXAMPLE, "--strategy", "ThresholdShedder"]],
    "_print_as_table": [
        ["history", "top", "--data", RECORDED],
        ["history", "brokers", "--data", RECORDED],
        ["history", "imbalance", "--data", RECORDED],
        ["history", "bundle", BUNDLE, "--data", RECORDED],
    ],
}
"""The functions that print tables, with commands that do."""
TESTED_ELSEWHERE = {
    *(
        "_print_brokers",
        "_show_recorded",
        "_print_settings",
        "print_moves",
        "_print_plan",
        "print_loads",
        "print_board",
        "print_table_of",
        "print_published",
    ),
    *("print_evidence", "print_differences", "print_notches", "print_observed", "_print_verdict"),
}
"""Print tables, too, but of a running cluster, or of what takes longer: `status`, `config`, `move`, `drain`, `roll`,
`verify`, `replay` and `advise`."""


def shown(words: list[str], columns: int) -> list[str]:
    result = CliRunner().invoke(main, words, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def figures(lines: list[str]) -> Counter[str]:
    """Return every word with a digit, except names, which wrap after slashes."""
    return Counter(word for line in lines for word in line.split() if re.search(r"\d", word) and "/" not in word)


def test_a_narrow_terminal_shows_every_figure_of_a_wide_one(subtests: pytest.Subtests) -> None:
    for words in [words for each in COMMANDS.values() for words in each]:
        for columns in (40, 60, 80, 100, 120):
            with subtests.test(words=words, columns=columns):
                wide, narrow = figures(shown(words, 2000)), figures(shown(words, columns))
                assert wide
                assert not wide - narrow


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("words", COMMANDS["_print_as_table"], ids=" ".join)
def test_no_line_of_the_history_is_wider_than_the_terminal(words: list[str], columns: int) -> None:
    assert max(map(len, shown(words, columns))) <= columns


def test_the_verdict_has_room_on_a_narrow_terminal() -> None:
    lines = shown(["decide", "--snapshot", EXAMPLE, "--strategy", "ThresholdShedder"], 60)
    assert "broker-2:8080  keeps all: its smoothed usage does not exceed" in lines


def test_every_function_that_prints_a_table_is_among_these() -> None:
    found = set()
    live_view = ROOT / "src" / "pulsar_barycenter" / "demo" / "live_view.py"  # drawn anew in its place, not printed
    for path in {*(ROOT / "src" / "pulsar_barycenter").rglob("*.py")} - {live_view}:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "rich.table"), path
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(each, ast.Call) and ast.unparse(each.func) == "print_table" for each in ast.walk(node)
            ):
                found.add(node.name)
    assert found == {*COMMANDS, *TESTED_ELSEWHERE}


CELLS = [
    ["tenant/namespace-of-some-length/0x00000000_0x10000000", "1,234,567.25 MiB/s", "2026-01-31 12:00:00", "a [b] c"],
    ["t/n/0x10000000_0x20000000", "7 %", "–", "reached the limit (usage 91 % > limit 85 %) " * 4],
]


def test_any_width_shows_every_figure_time_and_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for columns in range(1, 140):
        with subtests.test(columns=columns):
            monkeypatch.setenv("COLUMNS", str(columns))
            titles = [Column("bundle"), Column("msg throughput max", Kind.FIGURE), Column("at", Kind.TIME)]
            print_table([*titles, Column("sentence", Kind.SENTENCE)], CELLS, plain_width=120)
            text = capsys.readouterr().out
            for row in CELLS:
                assert row[1] in text
                assert row[2] in text
                assert all(part in text for part in row[0].split("/"))
            assert text.count("91 %") + text.count("91\n") >= 4
            assert "[b]" in text


def test_a_column_may_be_without_title_and_a_cell_of_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([Column(""), Column("b", Kind.SENTENCE)], [["a\nb", ""]], plain_width=120)
    print_table([Column("only", Kind.FIGURE)], [], plain_width=120)
    assert capsys.readouterr().out.splitlines() == ["     b", "a b", "only"]


@pytest.mark.parametrize("columns", [80, 100])
def test_a_real_terminal_is_measured(columns: int) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    words = [sys.executable, "-m", "pulsar_barycenter", "history", "imbalance", "--data", RECORDED]
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        text = b""
        try:
            while part := os.read(controller, 65536):
                text += part
        except OSError:  # how a terminal ends whose program has gone
            pass
        os.close(controller)
    assert process.returncode == 0
    lines = text.decode().splitlines()
    assert columns - 20 < max(map(len, lines)) <= columns
    assert not figures(shown(words[3:], 2000)) - figures(lines)
