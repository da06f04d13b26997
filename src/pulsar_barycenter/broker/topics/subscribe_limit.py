"""Limits how often one consumer may attach to its subscription. Source: Pulsar's `SubscribeRateLimiter`."""

from typing import Final

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.bounds.token_bucket import TokenBucket
from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.namespaces.policies import SubscribeRate

CONSUMERS: Final = 10_000
"""The maximum number of consumers that are counted. If there are more, the count of the consumer that attached first is
removed: it starts again from 0.
"""


class SubscribeLimit:
    """Limits how often each consumer may attach within a period, as `SubscribeRate` says. A consumer is identified by
    its host, name and consumer id.
    """

    __slots__ = ("_rate", "_taken")

    def __init__(self, rate: SubscribeRate) -> None:
        self._rate = rate
        self._taken: Recent[tuple[str, str, int], TokenBucket] = Recent(CONSUMERS)

    @staticmethod
    def of(rate: SubscribeRate) -> "SubscribeLimit | None":
        """Return the limit for a rate, None if the rate sets no limit."""
        limited = rate.subscribe_throttling_rate_per_consumer > 0 and rate.rate_period_in_second > 0
        return SubscribeLimit(rate) if limited else None

    def require(self, host: str, name: str, consumer_id: int, now_s: float) -> None:
        """Count an attempt of a consumer to attach at `now_s`.

        Raises:
            NotAllowedError: the consumer has attached as often as the rate allows, and has to try again later. This
                attempt is not counted.
        """
        most, period_s = self._rate.subscribe_throttling_rate_per_consumer, self._rate.rate_period_in_second
        key = (host, name, consumer_id)
        bucket = self._taken.get(key)
        if bucket is None:
            bucket = TokenBucket(most, period_s, now_s)
            self._taken.put(key, bucket)
        if bucket.balance(now_s) < 1:
            raise NotAllowedError(
                f"Subscribe limited by subscribe rate limit per consumer: {most} in {period_s} s. Try again later"
            )
        bucket.take(1, now_s)
