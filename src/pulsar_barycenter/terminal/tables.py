"""Prints tables and texts on standard output, in the width of the terminal, or a fixed width if it is not a terminal.

No number and no name is cut, however narrow the terminal is. Titles are wrapped first, then sentences between words,
then names after a slash. Columns that still do not fit are printed below, and each row there starts with its first cell
again.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import click

from pulsar_barycenter.terminal.cells import cell_len, chop_cells

_GAP: Final = 2
_NARROW_NAME: Final = 24
_NARROW_SENTENCE: Final = 32
_LINE_BREAK: Final = re.compile(r"\s*[\r\n]+\s*")
_WORDS: Final = re.compile(r"\S+\s*|\s+")
_PARTS: Final = re.compile(r"[^/,=]*[/,=]+|[^/,=]+")
"""The parts between which a name may be broken: a bundle's range and a broker's address are not broken."""


class Kind(Enum):
    """The kind of the cells in a column of a table: numbers are right-aligned; numbers and times are never wrapped."""

    FIGURE = auto()
    TIME = auto()
    NAME = auto()
    SENTENCE = auto()


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    kind: Kind = Kind.NAME


@dataclass(frozen=True, slots=True)
class _Laid:
    """A column with its cells. It has three widths: `natural` if nothing is wrapped, `plain` if only the title is
    wrapped, and `least` if the title and the cells are wrapped as far as possible.
    """

    column: Column
    cells: Sequence[str]

    @property
    def plain(self) -> int:
        return max((cell_len(text) for text in (*self.column.title.split(), *self.cells)), default=0)

    @property
    def natural(self) -> int:
        return max(self.plain, cell_len(self.column.title))

    @property
    def least(self) -> int:
        if self.column.kind is Kind.NAME:
            parts = (part for cell in self.cells for part in _PARTS.findall(cell))
            return min(self.plain, max(_NARROW_NAME, 0, *map(cell_len, (*parts, *self.column.title.split()))))
        if self.column.kind is Kind.SENTENCE:
            return min(self.plain, max(_NARROW_SENTENCE, 0, *map(cell_len, self.column.title.split())))
        return self.plain


def output_width(plain_width: int) -> int:
    """Return the width of the terminal. If the output is not a terminal, return the value of the environment variable
    COLUMNS, or `plain_width` if the variable is not set to a number.
    """
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if re.fullmatch(r"[1-9]\d{0,4}", columns) else plain_width


def printable(text: str) -> str:
    """Return a text with control characters replaced, so that texts from outside cannot act on the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def print_text(text: str, *, plain_width: int) -> None:
    """Print a printable text, wrapped between words; every line has the indentation of the first one. `plain_width` is
    the width if the output is not a terminal. However long the indentation is, at least half of the width is used for
    the text.
    """
    words = printable(text.strip())
    indent = text[: len(text) - len(text.lstrip())]
    width = output_width(plain_width)
    for line in _wrapped(words, max(width - len(indent), width // 2, 1)):
        click.echo(f"{indent}{line}")


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, plain_width: int) -> None:
    """Print a table: rows of texts under titles, without trailing blanks. `plain_width` is the width of the table if
    the output is not a terminal.

    `columns` must not be empty.
    """
    width = output_width(plain_width)
    texts = [[_LINE_BREAK.sub(" ", cell) for cell in row] for row in rows]
    laid = [_Laid(column, [row[place] for row in texts]) for place, column in enumerate(columns)]
    for number, group in enumerate(_groups(laid, width)):
        if number:
            click.echo()
        widths = _widths(group, width)
        _print_row([laid_column.column.title for laid_column in group], group, widths)
        for row in range(len(rows)):
            _print_row([laid_column.cells[row] for laid_column in group], group, widths)


def _groups(laid: Sequence[_Laid], width: int) -> list[list[_Laid]]:
    """Return groups of columns, such that the columns of a group fit next to each other in `width`; each group is
    printed as a table of its own. The first column is in every group.
    """
    first, groups, taken = laid[0], [[laid[0]]], laid[0].least
    for laid_column in laid[1:]:
        least = _GAP + laid_column.least
        if taken + least > width and len(groups[-1]) > 1:
            groups.append([first])
            taken = first.least
        groups[-1].append(laid_column)
        taken += least
    return groups


def _widths(group: Sequence[_Laid], width: int) -> list[int]:
    """Return the widths of the columns of a group. With the gaps between the columns, they take at most `width` in
    total, unless the columns cannot be that narrow.
    """
    widths = [laid_column.natural for laid_column in group]
    excess = sum(widths) + _GAP * (len(group) - 1) - width
    titled = [(index, laid_column.plain) for index, laid_column in enumerate(group)]
    sentences = [(index, item.least) for index, item in enumerate(group) if item.column.kind is Kind.SENTENCE]
    names = [(index, item.least) for index, item in enumerate(group) if item.column.kind is Kind.NAME]
    for shrinkable in (titled, sentences, names):
        while excess > 0:
            wide = [place for place, least in shrinkable if widths[place] > least]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _print_row(cells: Sequence[str], group: Sequence[_Laid], widths: Sequence[int]) -> None:
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in range(max(map(len, wrapped))):
        shown = []
        for lines, laid_column, width in zip(wrapped, group, widths, strict=True):
            text = lines[line] if line < len(lines) else ""
            blanks = " " * (width - cell_len(text))
            shown.append(blanks + text if laid_column.column.kind is Kind.FIGURE else text + blanks)
        click.echo((" " * _GAP).join(shown).rstrip())


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken between words; a word that is longer than `width` is broken inside, preferably
    after a separator in a name.
    """
    if cell_len(text) <= width:
        return [text]
    pieces: list[str] = []
    for word in _WORDS.findall(text):
        parts = [word] if cell_len(word.rstrip()) <= width else _PARTS.findall(word)
        for part in parts:
            pieces += [part] if cell_len(part.rstrip()) <= width else chop_cells(part, width)
    lines = [""]
    for piece in pieces:
        if cell_len((lines[-1] + piece).rstrip()) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [line.rstrip() for line in lines]
