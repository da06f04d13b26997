"""Writes a count as a number with its noun, such as "3 bundles"."""

from collections.abc import Collection
from typing import Final

from pulsar_barycenter.naming.bundle import is_of_a_broker_itself

_VOWELS: Final = frozenset("aeiou")


def count_of(count: int, noun: str) -> str:
    """Return a number and its noun: "1 bundle", "1,234 bundles", "2 batches", "3 entries"."""
    return f"{count:,} {noun if count == 1 else _plural(noun)}"


def bundles_in_words(names: Collection[str]) -> str:
    """Return the number of the bundles with these names as text, and in addition how many of them are heartbeat
    bundles. A heartbeat bundle belongs to one broker, and `barycenter status` does not count it.
    """
    own = sum(map(is_of_a_broker_itself, names))
    return count_of(len(names), "bundle") + (f", {own:,} of them heartbeat bundles" if own else "")


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
