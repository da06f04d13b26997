"""Parses times and spans in options: a span before now (15m), or a time (2026-01-31T12:00)."""

import re
import time
from datetime import UTC, datetime
from typing import Any, Final

import click

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment_ms(option: str, text: str) -> int:
    """Return the epoch ms of a span before now, like 90s, 15m, 2h or 3d, or of a time in ISO 8601; 0 if blank.

    A time without offset is UTC.

    Raises:
        click.UsageError: the text is neither; the message names the option.
    """
    if not text:
        return 0
    span = _span_ms(text)
    if span is not None:
        return max(0, round(time.time() * 1000) - span)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        known = "a span like 90s, 15m, 2h or 3d, or a time like 2026-01-31T12:00 (UTC unless it has an offset)"
        raise click.UsageError(f"{option} {text}: give {known}") from None
    return max(0, round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000))


def span_ms(option: str, text: str) -> int:
    """Return the milliseconds of a span like 90s, 15m, 2h or 3d, or of a bare number of seconds.

    Raises:
        click.UsageError: the text is not a span, or is 0; the message names the option.
    """
    span = _span_ms(f"{text}s" if text.isdecimal() else text)
    if not span:
        raise click.UsageError(f"{option} {text}: give a span like 90s, 15m, 2h or 3d")
    return span


class Seconds(click.ParamType[float]):
    """The type of an option whose value is a time span like 90s, 15m, 2h or 3d, or a number of seconds; the result is
    in seconds, at least `least`.
    """

    name = "span"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the span in seconds.

        Raises:
            click.BadParameter: the text is neither a span nor a number, or the value is less than `least`.
        """
        text = str(value)
        span = _span_ms(text)
        if span is None and not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            self.fail(f"{text}: give a span like 90s, 15m, 2h or 3d, or seconds", param, ctx)
        seconds = float(text) if span is None else span / 1000
        if seconds < self._least:
            self.fail(f"{text} is less than {self._least:g} s", param, ctx)
        return seconds


def _span_ms(text: str) -> int | None:
    span = re.fullmatch(r"(\d{1,9})([smhd])", text)
    return None if span is None else int(span[1]) * _UNITS_S[span[2]] * 1000
