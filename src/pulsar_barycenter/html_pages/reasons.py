"""What a page shows of a reason at a glance."""

from typing import Final

_LONGEST: Final = 160


def short_reason(reason: str) -> str:
    """Return what a glance takes in: the cause if the reason names one, and its first comparison."""
    cause = reason.rpartition("; because ")[2].partition("; ")[0].partition(" [")[0]
    head, opened, rest = cause.partition(" (")
    short = f"{head} ({rest.partition(')')[0].partition(', ')[0]})" if opened else head
    return short if len(short) <= _LONGEST else short[: _LONGEST - 1] + "…"
