"""What the date of an answer tells of the clock of whoever answered."""

from email.utils import parsedate_to_datetime
from typing import Final

_SECOND_MS: Final = 1000


def clock_offset(date: str, sent_ms: int, received_ms: int) -> tuple[int, int] | None:
    """Return the least and the greatest (ms) by which the other clock may be ahead of ours; None if there is no date.

    `date` is the header's text, whole seconds, rounded down; it was written between sending and receiving. Asked at
    10,000 and answered at 10,200 with second 12, it is ahead by 1,800 to 3,000: 12,000 − 10,200 and 13,000 − 10,000.
    """
    try:
        told_ms = round(parsedate_to_datetime(date).timestamp() * 1000)
    except (ValueError, OverflowError, TypeError):
        return None
    return told_ms - received_ms, told_ms + _SECOND_MS - sent_ms
