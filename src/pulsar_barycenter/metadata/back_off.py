"""The delay before the next attempt, with jitter, so that clients that failed together do not try again together."""

import random


class BackOff:
    """Delays in seconds: they double from `first_s` up to `longest_s`; each is drawn from 50 % to 100 % of that."""

    __slots__ = ("_first_s", "_longest_s", "_next_s", "_random")

    def __init__(self, source: random.Random, first_s: float, longest_s: float) -> None:
        self._random = source
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next_s(self) -> float:
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, self._longest_s)
        return wait_s * (0.5 + 0.5 * self._random.random())

    def reset(self) -> None:
        self._next_s = self._first_s
