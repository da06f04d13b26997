"""Counters of messages and bytes, and the rates computed from them over the last interval of the statistics.

A message only increases the counters. The statistics task computes the rates: once an interval it calls `update` for
each topic, subscription, consumer and producer.
"""


class Rates:
    """Counts messages and bytes in one direction. `rate` is in messages/s, `throughput` in bytes/s."""

    __slots__ = ("_bytes_before", "_messages_before", "bytes", "messages", "rate", "throughput")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.rate = 0.0
        self.throughput = 0.0
        self._messages_before = 0
        self._bytes_before = 0

    def update(self, seconds: float) -> None:
        """Compute `rate` and `throughput` from what was counted since the previous call of this method; that call was
        `seconds` ago.
        """
        self.rate = (self.messages - self._messages_before) / seconds
        self.throughput = (self.bytes - self._bytes_before) / seconds
        self._messages_before = self.messages
        self._bytes_before = self.bytes

    @property
    def average_size(self) -> float:
        """The mean size of a message, in bytes, in the time between the last two calls of `update`."""
        return self.throughput / self.rate if self.rate else 0.0
