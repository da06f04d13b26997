"""What a placement strategy answers."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from barycenter.load.reasons import Alternative, Code, Compared


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """`broker` is a row, None if there was no candidate.

    `rejected` are the other candidates, best first, at most 16 of `rejected_count`.
    """

    broker: int | None
    strategy: str
    code: Code
    compared: tuple[Compared, ...] = ()
    rejected: tuple[Alternative, ...] = ()
    rejected_count: int = 0
    settings: tuple[str, ...] = ()


_Memory = TypeVar("_Memory")

PlacementMemory: TypeAlias = object
"""What a strategy remembers from one choice to the next: a value, opaque to all others; None at first."""


def no_choice(strategy: str) -> PlacementChoice:
    return PlacementChoice(None, strategy, Code.NO_CANDIDATE)


def remembered(memory: PlacementMemory, kind: type[_Memory]) -> _Memory:
    """Return what a strategy remembers; a new one of its `kind` if another strategy, or none, left it."""
    return memory if isinstance(memory, kind) else kind()
