"""What a person may have meant by a name that there is not."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

_FEW: Final = 5
_MOST_COMPARED: Final = 10_000
"""Names beyond are not looked at: comparing them takes seconds."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean A or B?" with the names nearest to `word`; if none is near, all of them or nothing if
    many."""
    names = list(islice(known, _MOST_COMPARED))
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6) or (names if len(names) <= _FEW else [])
    return f"; did you mean {one_of(near)}?" if near else ""


def one_of(names: Sequence[str]) -> str:
    """Return names in a row: "A", "A or B", "A, B or C"."""
    return " or ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
