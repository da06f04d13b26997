"""Estimates how far a broker's clock is ahead of ours, from the date of its answer."""

from email.utils import parsedate_to_datetime
from typing import Final

_SECOND_MS: Final = 1000


def clock_offset(date: str, sent_ms: int, received_ms: int) -> tuple[int, int] | None:
    """Return the least and the greatest time (ms) by which a broker's clock may be ahead of this machine's clock; None
    if the broker's answer has no date.

    `date` is the text of the header Date, in whole seconds, rounded down; the broker wrote it between the times when
    the request was sent and the answer was received. Example: sent at 10,000, received at 10,200, and the date has
    second 12. The clock is ahead by 1,800 to 3,000 ms: 12,000 − 10,200 and 13,000 − 10,000.
    """
    try:
        told_ms = round(parsedate_to_datetime(date).timestamp() * 1000)
    except (ValueError, OverflowError, TypeError):
        return None
    return told_ms - received_ms, told_ms + _SECOND_MS - sent_ms
