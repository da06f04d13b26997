"""What a placement strategy answers."""

from dataclasses import dataclass
from typing import TypeAlias

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


PlacementMemory: TypeAlias = object
"""What a strategy remembers from one choice to the next: a value, opaque to all others; None at first."""


def no_choice(strategy: str) -> PlacementChoice:
    return PlacementChoice(None, strategy, Code.NO_CANDIDATE)
