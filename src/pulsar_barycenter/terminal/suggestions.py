"""What a person may have meant by a name that there is not."""

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

_FEW: Final = 5
_MOST_COMPARED: Final = 10_000
"""Names beyond are not looked at: comparing them takes seconds."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the names nearest to `word`; if none is near, all of them or nothing if many."""
    names = list(islice(known, _MOST_COMPARED))
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there is {', '.join(names)}" if 0 < len(names) <= _FEW else ""
