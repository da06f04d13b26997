"""Computes how long to wait before the next attempt of an operation that failed."""

import random


class Doubling:
    """Delays in seconds: each is twice the previous one, until the maximum is reached; then all are the maximum."""

    __slots__ = ("_first_s", "_longest_s", "_next_s")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next_s(self) -> float:
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, self._longest_s)
        return wait_s

    def reset(self) -> None:
        self._next_s = self._first_s


class BackOff:
    """Delays in seconds for attempts that are repeated. A base delay doubles with each call of `next_s`, until it
    reaches a maximum; each result is the base delay multiplied by a random number from 0.5 to 1.

    The random factor is for clients that failed at the same time: they must not try again at the same time.
    """

    __slots__ = ("_random", "_waits")

    def __init__(self, source: random.Random, first_s: float, longest_s: float) -> None:
        self._random = source
        self._waits = Doubling(first_s, longest_s)

    def next_s(self) -> float:
        return self._waits.next_s() * (0.5 + 0.5 * self._random.random())

    def reset(self) -> None:
        self._waits.reset()
