"""Rates: how many messages and bytes may pass, as token buckets. Pure: the time is an argument.

A bucket gets tokens at its rate, up to those of one period, and starts full. What passes takes its tokens, also more
than there are: then the balance is negative, and nothing more may pass before it is positive again. So the mean rate
holds whatever the sizes are, and at most one period's tokens pass at once after a pause.

An `Allotment` has tokens that were taken out of throttles in advance. What passes takes them from there, which needs no
time. Those that are out reduce the room of their bucket, so at most one period's tokens pass at once nevertheless.

Source: Pulsar's `AsyncTokenBucket`, `PublishRateLimiterImpl`, `DispatchRateLimiter`. Its buckets add up tokens that
were taken, and subtract them later, too.
"""

import sys
from collections.abc import Sequence
from typing import Final

NO_LIMIT: Final = sys.maxsize
LENT_PART: Final = 64
"""A bucket lends at most its capacity divided by this number at a time, so it always keeps more than it lent last. A
bucket whose capacity is below this number lends nothing.
"""


class TokenBucket:
    """A token bucket of one kind (messages or bytes). It gets `amount` tokens in each `period_s` seconds, evenly over
    time, and has at most `amount` tokens. At `now_s`, when it is created, it is full.
    """

    __slots__ = ("_at_s", "_balance", "_capacity", "_rate")

    _capacity: float
    """The most tokens that it may have: those of a period without those that are lent."""

    def __init__(self, amount: float, period_s: float, now_s: float) -> None:
        self._rate = amount / period_s
        self._capacity = amount
        self._balance = amount
        self._at_s = now_s

    def balance(self, now_s: float) -> float:
        """Return the number of tokens at `now_s`, in seconds. If `now_s` is earlier than in the last call, no tokens
        are added.
        """
        if now_s > self._at_s:
            self._balance = min(self._capacity, self._balance + (now_s - self._at_s) * self._rate)
            self._at_s = now_s
        return self._balance

    def take(self, amount: float, now_s: float) -> float:
        """Take `amount` tokens out of the bucket, and return the number that is left, which may be negative."""
        self._balance = left = self.balance(now_s) - amount
        return left

    def wait_s(self, now_s: float, least: float) -> float:
        """Return the seconds from `now_s` until the bucket has `least` tokens; 0.0 if it has them at `now_s`."""
        missing = least - self.balance(now_s)
        return missing / self._rate if missing > 0 else 0.0

    def lendable(self, now_s: float) -> int:
        """Return how many tokens the bucket can lend at `now_s`; 0 or less: none."""
        return int(min(self.balance(now_s), self._capacity / LENT_PART))

    def lend(self, amount: int) -> None:
        """Take `amount` tokens out of the bucket, to be returned with `give_back`. Until then, the greatest number of
        tokens that the bucket can have is lower by `amount`, so that new tokens do not take the place of the lent ones.
        """
        self._balance -= amount
        self._capacity -= amount

    def give_back(self, amount: int, left: int, now_s: float) -> None:
        """End the loan of `amount` tokens. `left` of them were not used and go back to the bucket; if more than
        `amount` were used, `left` is negative, and the bucket loses the difference.
        """
        self.balance(now_s)  # first, so that tokens that were used a moment ago have not come back yet
        self._capacity += amount
        self._balance += left


class Throttle:
    """Limits the number of messages and the number of bytes in each `period_s` seconds. A limit of 0 or less means no
    limit.
    """

    __slots__ = ("_messages", "_size")

    _messages: TokenBucket | None
    _size: TokenBucket | None

    def __init__(self, messages: int, size: int, period_s: float, now_s: float) -> None:
        self.limit_to(messages, size, period_s, now_s)

    def limit_to(self, messages: int, size: int, period_s: float, now_s: float) -> None:
        """Apply these limits from now on to all users of this throttle: `messages`, and `size` in bytes, in each
        `period_s` seconds. A limit of 0 or less means no limit.
        """
        self._messages = TokenBucket(messages, period_s, now_s) if messages > 0 else None
        self._size = TokenBucket(size, period_s, now_s) if size > 0 else None

    def allowance(self, now_s: float) -> int:
        """Return how many messages may pass at `now_s`: 0 if messages have to wait for the limit of messages or of
        bytes, NO_LIMIT if only bytes are limited, or nothing is.
        """
        if self._size is not None and self._size.balance(now_s) < 1:
            return 0
        return NO_LIMIT if self._messages is None else max(int(self._messages.balance(now_s)), 0)

    def take(self, messages: int, size: int, now_s: float) -> bool:
        """Count `messages` that passed, `size` bytes in total. Return whether another message may pass after these."""
        left = size_left = 1.0
        if self._messages is not None:
            left = self._messages.take(messages, now_s)
        if self._size is not None:
            size_left = self._size.take(size, now_s)
        return left >= 1 and size_left >= 1

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until a message may pass, 0.0 if one may pass now."""
        return max(0.0 if bucket is None else bucket.wait_s(now_s, 1) for bucket in (self._messages, self._size))

    def lift(self) -> None:
        """Remove both limits (messages and bytes). The caller does this when another throttle replaces this one."""
        self._messages = self._size = None

    def lendable(self, now_s: float) -> tuple[int, int]:
        """Return how many messages and bytes can be lent at `now_s`; 0 or less: none. NO_LIMIT if their number is not
        limited.
        """
        return (
            NO_LIMIT if self._messages is None else self._messages.lendable(now_s),
            NO_LIMIT if self._size is None else self._size.lendable(now_s),
        )

    def lend(self, allotment: "Allotment", messages: int, size: int) -> None:
        """Take tokens for `messages` messages and `size` bytes out of this throttle, and lend them to `allotment` until
        `give_back`. The limits must not change until then.
        """
        if self._messages is not None:
            self._messages.lend(messages)
        if self._size is not None:
            self._size.lend(size)

    def give_back(self, allotment: "Allotment", lent: tuple[int, int], left: tuple[int, int], now_s: float) -> None:
        """End a loan to `allotment`: `lent` is what was lent, and `left` what was not used of it, both as (messages,
        bytes). See `TokenBucket.give_back`.
        """
        if self._messages is not None:
            self._messages.give_back(lent[0], left[0], now_s)
        if self._size is not None:
            self._size.give_back(lent[1], left[1], now_s)


class SharedThrottle(Throttle):
    """A throttle whose limits may change while its tokens are lent: before a change, each allotment that borrowed gives
    the tokens back that it has left.
    """

    __slots__ = ("_borrowers",)

    def __init__(self, messages: int, size: int, period_s: float, now_s: float) -> None:
        self._borrowers: dict[Allotment, None] = {}
        super().__init__(messages, size, period_s, now_s)

    def limit_to(self, messages: int, size: int, period_s: float, now_s: float) -> None:
        for allotment in list(self._borrowers):
            allotment.give_back(now_s)
        super().limit_to(messages, size, period_s, now_s)

    def lend(self, allotment: "Allotment", messages: int, size: int) -> None:
        super().lend(allotment, messages, size)
        self._borrowers[allotment] = None

    def give_back(self, allotment: "Allotment", lent: tuple[int, int], left: tuple[int, int], now_s: float) -> None:
        super().give_back(allotment, lent, left, now_s)
        self._borrowers.pop(allotment, None)


class Allotment:
    """Tokens of one user of `throttles`. They are taken out of all these throttles in advance, so that most calls of
    `take` only count here, and do not have to know the time.

    `messages` is the number of messages that may pass; while it is above 0, there are also tokens for bytes. The limits
    of a throttle that is no `SharedThrottle` must not change until `give_back`.
    """

    __slots__ = ("_lent", "_size", "messages", "throttles")

    def __init__(self, throttles: Sequence[Throttle]) -> None:
        self.throttles = throttles
        self.messages = 0
        self._size = 0
        self._lent = (0, 0)

    def take(self, messages: int, size: int) -> bool:
        """Count `messages` that passed, `size` bytes in total. They count also if the tokens were too few. Return
        whether tokens are left; if not, the caller has to call `give_back`.
        """
        self.messages = left = self.messages - messages
        self._size = size_left = self._size - size
        return left > 0 and size_left > 0

    def give_back(self, now_s: float) -> None:
        """Give the tokens that are left back to the throttles. If more tokens were used than were lent, take the
        difference out of the throttles.
        """
        for throttle in self.throttles:
            throttle.give_back(self, self._lent, (self.messages, self._size), now_s)
        self._lent = (0, 0)
        self.messages = self._size = 0

    def allowance(self, now_s: float) -> int:
        """Give the tokens back, then return how many messages may pass at `now_s`: 0 if they have to wait, NO_LIMIT if
        their number is not limited. If they need not wait, new tokens for them are taken in advance.
        """
        self.give_back(now_s)
        allowed = NO_LIMIT
        messages = size = NO_LIMIT
        for throttle in self.throttles:
            allowed = min(allowed, throttle.allowance(now_s))
            of_messages, of_size = throttle.lendable(now_s)
            messages, size = min(messages, of_messages), min(size, of_size)
        if messages > 0 and size > 0:
            for throttle in self.throttles:
                throttle.lend(self, messages, size)
            self._lent = (messages, size)
            self.messages, self._size = messages, size
        return allowed

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until a message may pass, 0.0 if one may pass now."""
        return max((throttle.wait_s(now_s) for throttle in self.throttles), default=0.0)


class Unlimited(Allotment):
    """The allotment of a user without throttles. Nothing is counted, so all such users may share it."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())
        self.messages = NO_LIMIT

    def take(self, messages: int, size: int) -> bool:
        return True

    def give_back(self, now_s: float) -> None: ...


UNLIMITED: Final = Unlimited()
