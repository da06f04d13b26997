"""Rates: how many messages and bytes may pass, as token buckets. Pure: the time is an argument.

A bucket gets tokens at its rate, up to those of one period, and starts full. What passes takes its tokens, also more
than there are: then the balance is negative, and nothing more may pass before it is positive again. So the mean rate
holds whatever the sizes are, and at most one period's tokens pass at once after a pause.

Source: Pulsar's `AsyncTokenBucket`, `PublishRateLimiterImpl`, `DispatchRateLimiter`.
"""

import sys
from typing import Final

NO_LIMIT: Final = sys.maxsize


class TokenBucket:
    """A token bucket of one kind (messages or bytes): it gets `amount` tokens in each `period_s` seconds, and is full
    at `now_s`.
    """

    __slots__ = ("_at_s", "_balance", "_capacity", "_rate")

    def __init__(self, amount: float, period_s: float, now_s: float) -> None:
        self._rate = amount / period_s
        self._capacity = amount
        self._balance = amount
        self._at_s = now_s

    def balance(self, now_s: float) -> float:
        """Return the number of tokens at `now_s`, in seconds. A time before that of the last call adds no tokens."""
        if now_s > self._at_s:
            self._balance = min(self._capacity, self._balance + (now_s - self._at_s) * self._rate)
            self._at_s = now_s
        return self._balance

    def take(self, amount: float, now_s: float) -> float:
        """Take `amount` tokens out of the bucket, and return the number that is left, which may be negative."""
        self._balance = left = self.balance(now_s) - amount
        return left

    def wait_s(self, now_s: float, least: float) -> float:
        """Return the seconds until the bucket has `least` tokens, 0.0 if it has them now."""
        missing = least - self.balance(now_s)
        return missing / self._rate if missing > 0 else 0.0


class Throttle:
    """Limits the number of messages and the number of bytes in each `period_s` seconds. A limit of 0 or less means no
    limit.
    """

    __slots__ = ("_messages", "_size")

    def __init__(self, messages: int, size: int, period_s: float, now_s: float) -> None:
        self._messages = TokenBucket(messages, period_s, now_s) if messages > 0 else None
        self._size = TokenBucket(size, period_s, now_s) if size > 0 else None

    def allowance(self, now_s: float) -> int:
        """Return how many messages may pass now: 0 if they have to wait, NO_LIMIT if their number is not limited."""
        if self._size is not None and self._size.balance(now_s) < 1:
            return 0
        return NO_LIMIT if self._messages is None else max(int(self._messages.balance(now_s)), 0)

    def take(self, messages: int, size: int, now_s: float) -> bool:
        """Count `messages` that passed, `size` bytes in total. Return whether another message may pass now."""
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
