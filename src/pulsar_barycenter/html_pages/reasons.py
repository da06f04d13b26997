"""Shortens the reason of a decision for a page."""

from typing import Final

_MAX_LENGTH: Final = 160


def short_reason(reason: str) -> str:
    """Return the cause in `reason` for a page: the text after "; because ", or the whole reason if it has none, up to
    the next "; " or " [". Of values in brackets only the first is kept. A long result is cut and ends with "…".
    """
    cause = reason.rpartition("; because ")[2].partition("; ")[0].partition(" [")[0]
    head, opened, rest = cause.partition(" (")
    short = f"{head} ({rest.partition(')')[0].partition(', ')[0]})" if opened else head
    return short if len(short) <= _MAX_LENGTH else short[: _MAX_LENGTH - 1] + "…"
