"""Shortens the reason of a decision for a page."""

from typing import Final

_MAX_LENGTH: Final = 160


def short_reason(reason: str) -> str:
    """Return the cause that a reason names, with only the first comparison; if it names no cause, the reason itself."""
    cause = reason.rpartition("; because ")[2].partition("; ")[0].partition(" [")[0]
    head, opened, rest = cause.partition(" (")
    short = f"{head} ({rest.partition(')')[0].partition(', ')[0]})" if opened else head
    return short if len(short) <= _MAX_LENGTH else short[: _MAX_LENGTH - 1] + "…"
