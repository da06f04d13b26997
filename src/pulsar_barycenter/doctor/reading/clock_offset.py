"""Estimates how far a broker's clock is ahead of ours, from the date of its answer."""

from email.utils import parsedate_to_datetime
from typing import Final

_SECOND_MS: Final = 1000


def clock_offset(date: str, sent_ms: int, received_ms: int) -> tuple[int, int] | None:
    """Return the least and the greatest time (ms) by which the other clock may be ahead; None if there is no date.

    `date` is the text of the header, in whole seconds, rounded down; it was written between sending and receiving.
    Example: sent at 10,000, received at 10,200, and the date has second 12. The clock is ahead by 1,800 to 3,000 ms:
    12,000 − 10,200 and 13,000 − 10,000.
    """
    try:
        told_ms = round(parsedate_to_datetime(date).timestamp() * 1000)
    except (ValueError, OverflowError, TypeError):
        return None
    return told_ms - received_ms, told_ms + _SECOND_MS - sent_ms
