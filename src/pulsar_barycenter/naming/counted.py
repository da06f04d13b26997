"""Writes a count as a number with its noun, such as "3 bundles"."""

from typing import Final

_VOWELS: Final = frozenset("aeiou")


def count_of(count: int, noun: str) -> str:
    """Return a number and its noun: "1 bundle", "1,234 bundles", "2 batches", "3 entries"."""
    return f"{count:,} {noun if count == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
