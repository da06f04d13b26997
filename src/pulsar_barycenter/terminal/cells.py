"""How many columns of a terminal a text takes: most characters one, wide ones of East Asia two, combining ones none.

By the Unicode data of Python, so that the core needs no library for terminals. A sequence of characters that a terminal
joins to one picture counts as their sum, so a table may be wider than needed, and never cuts.
"""

import unicodedata
from functools import lru_cache

_WIDE = frozenset("WF")
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cell_len(text: str) -> int:
    """Return the number of columns of a terminal that a text without control characters takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def chop_cells(text: str, width: int) -> list[str]:
    """Split a text into pieces that are at most `width` columns of a terminal wide; a wider character is a piece of its
    own.
    """
    pieces, taken = [""], 0
    for character in text:
        cells = _width(character)
        if taken + cells > width and pieces[-1]:
            pieces.append("")
            taken = 0
        pieces[-1] += character
        taken += cells
    return pieces


def cut_to(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits into `width` columns of a terminal, but at least its first
    character.
    """
    return text if cell_len(text) <= width else chop_cells(text, max(1, width))[0]
