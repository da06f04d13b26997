"""All answers of a function that draws at most one random number."""

import random
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class _Scripted(random.Random):
    """Draws the given number, and records the range of the draw."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self.number = number
        self.bound = 1
        self.draws = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        assert stop is None, "only draws below a bound are scripted"
        assert step == 1
        self.bound = start
        self.draws += 1
        return self.number


def every_outcome(answer: Callable[[random.Random], T]) -> list[T]:
    """Return the result of `answer` for each number that `randrange` may return; it may draw once at most."""
    found: list[T] = []
    bound = 1
    while len(found) < bound:
        rng = _Scripted(len(found))
        found.append(answer(rng))
        assert rng.draws <= 1
        bound = rng.bound
    return found
