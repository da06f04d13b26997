"""Lines at the bottom of a terminal, and the width of texts, with a small terminal and rich as oracles."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.terminal.cells import cell_len, chop_cells, cut_to
from pulsar_barycenter.terminal.live_lines import LiveLines, clock, is_redrawable

rich_cells = pytest.importorskip("rich.cells", reason="rich is not installed")

WIDTH = 40
_PIECES = re.compile(r"\x1b\[(\??\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")
plain = st.text(st.characters(max_codepoint=0x2FF, exclude_categories=["Cc", "Cf", "Mn", "Me"]))


class Terminal(io.StringIO):
    """Keeps what a terminal would show: it knows the codes that are used here."""

    encoding = "utf-8"  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.rows = [""]
        self.row = self.column = 0
        self.hides_cursor = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for piece in _PIECES.finditer(text):
            self._take(piece)
        return len(text)

    def _take(self, piece: re.Match[str]) -> None:
        match piece[0], piece[2]:
            case "\r", _:
                self.column = 0
            case "\n", _:
                self.row, self.column = self.row + 1, 0
                self.rows += [""] * (self.row + 1 - len(self.rows))
            case _, "K":
                self.rows[self.row] = ""
            case _, "A":
                self.row -= 1
            case _, "l" | "h":
                self.hides_cursor = piece[2] == "l"
            case written, _:
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + written + line[self.column + len(written) :]
                self.column += len(written)

    def shown(self) -> list[str]:
        return [row for row in self.rows if row]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return Terminal()


def test_lines_change_in_place_and_others_are_printed_above(terminal: Terminal) -> None:
    lines = LiveLines(terminal)
    lines.show("a", lambda: "a: starting")
    lines.show("b", lambda: "b: starting")
    lines.print("b is slow")
    lines.show("b", lambda: "b: " + "x" * 100)
    shown = terminal.shown()
    assert shown[0] == "b is slow"
    assert [line[2:].split(" ")[0] for line in shown[1:]] == ["a:", "b:"]
    assert max(map(len, shown)) < WIDTH
    assert terminal.hides_cursor
    lines.remove("a")
    assert len(terminal.shown()) == 2
    lines.close()
    assert terminal.shown() == ["b is slow"]
    assert not terminal.hides_cursor


def test_the_last_line_that_is_removed_ends_the_drawing_and_the_next_begins_it(terminal: Terminal) -> None:
    lines = LiveLines(terminal)
    for _ in range(2):
        lines.show("a", lambda: "a: starting")
        lines.remove("a")
        assert terminal.shown() == []
        assert not terminal.hides_cursor
    lines.close()


def test_a_terminal_that_is_gone_is_no_error() -> None:
    terminal = Terminal()
    terminal.close()
    terminal.write = lambda text: io.StringIO.write(terminal, text)  # type: ignore[method-assign]
    lines = LiveLines(terminal)
    lines.show("a", lambda: "a: starting")
    lines.close()


def test_a_terminal_without_a_cursor_is_not_redrawn(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert is_redrawable(terminal)
    assert not is_redrawable(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_redrawable(terminal)


def test_a_time_is_shown_in_hours_minutes_and_seconds() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3_661.2)] == ["0:00:00", "0:00:59", "0:01:01", "1:01:01"]


@given(plain | st.text("aä寿司🐍ー０ｱ", max_size=20))
def test_widths_are_those_of_rich(text: str) -> None:
    assert cell_len(text) == rich_cells.cell_len(text)


@given(st.text("abä寿司🐍"), st.integers(2, 10))
def test_pieces_are_whole_and_fit(text: str, width: int) -> None:
    pieces = chop_cells(text, width)
    assert "".join(pieces) == text
    assert all(cell_len(piece) <= width for piece in pieces)
    assert text.startswith(cut_to(text, width))
    assert cell_len(cut_to(text, width)) <= width
