"""Suggests existing names for a name that does not exist."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

_FEW: Final = 5
_MAX_COMPARED: Final = 10_000
"""The maximum number of names to compare; more would take seconds."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean A or B?" with the names most similar to `word`.

    If no name is similar, the question has all names in `known`; if these are too many for a sentence, return "".
    """
    names = list(islice(known, _MAX_COMPARED))
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6) or (names if len(names) <= _FEW else [])
    return f"; did you mean {one_of(near)}?" if near else ""


def one_of(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "A", "A or B", "A, B or C"."""
    return " or ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
