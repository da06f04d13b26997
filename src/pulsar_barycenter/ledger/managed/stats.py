"""The size of a topic's ledgers, and what was written to the topic in each statistics interval and how quickly.

To be fast, counting takes a few additions for each group of entries, and none for a single entry. This has two
consequences. The size histogram counts all entries of a group with the group's mean size. And only one append at a time
is measured: the first one after the measurement before it has ended. Its latency is counted for all entries that became
durable since the last measurement. If all entries have one size and wait equally long, the result is exact.

Source of the bounds: Pulsar's `ManagedLedgerMBeanImpl`. As there, buckets are of the last interval and not cumulative.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, Self

from pulsar_barycenter.ledger.managed.segments import Segments


class LedgerStats(NamedTuple):
    """The size and content of one ledger of a topic; `size` is in bytes."""

    ledger_id: int
    entries: int
    size: int
    messages: int
    is_open: bool


class ManagedLedgerStats(NamedTuple):
    """The ledgers of a topic, oldest first, and their totals. Sizes are in bytes."""

    entries: int
    size: int
    messages: int
    ledgers: tuple[LedgerStats, ...]

    @classmethod
    def of(cls, segments: Segments) -> Self:
        ledgers = tuple(LedgerStats(s.ledger_id, s.entries, s.size, s.messages, not s.closed) for s in segments)
        return cls(
            sum(s.entries for s in ledgers), sum(s.size for s in ledgers), sum(s.messages for s in ledgers), ledgers
        )


LATENCY_BOUNDS_MS: Final = (0.5, 1, 5, 10, 20, 50, 100, 200, 1000)
"""The upper bounds of the latency buckets in ms, inclusive. One more bucket counts all higher latencies."""
SIZE_BOUNDS: Final = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""The upper bounds of the size buckets in bytes, inclusive. One more bucket counts all larger entries."""


class Interval(NamedTuple):
    """The entries that were written in one statistics interval.

    `latencies` and `sizes` are the numbers of entries in each bucket. `latency_ms` is the sum over the entries in
    `latencies`; `bytes` is the sum over the entries in `sizes`, of which there are `entries`. `rate` is in entries per
    second.
    """

    latencies: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_MS) + 1)
    latency_ms: float = 0.0
    sizes: tuple[int, ...] = (0,) * (len(SIZE_BOUNDS) + 1)
    bytes: int = 0
    entries: int = 0
    rate: float = 0.0


NOTHING_WRITTEN: Final = Interval()


class WriteStats:
    """Counts the writes of one topic. Times are seconds of the event loop's clock."""

    __slots__ = ("_ahead", "_began_s", "_bytes", "_entries", "_latencies", "_latency_ms", "_sizes", "_untimed", "last")

    def __init__(self) -> None:
        self.last = NOTHING_WRITTEN
        """The last interval that has ended."""
        self._began_s: float | None = None
        self._ahead = 0
        self._untimed = 0
        self._begin()

    def _begin(self) -> None:
        self._latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._latency_ms = 0.0
        self._sizes = [0] * (len(SIZE_BOUNDS) + 1)
        self._bytes = 0
        self._entries = 0

    @property
    def times_next(self) -> bool:
        """Whether the latency of the next append is to be measured. Ask before each append."""
        return self._began_s is None

    def begin_timing(self, now_s: float, ahead: int) -> None:
        """Begin to measure the latency of an append at `now_s`. `ahead` entries before it are not durable yet."""
        self._began_s = now_s
        self._ahead = ahead

    def written(self, entries: int, size: int, now_s: float) -> None:
        """Count `entries` (at least one) that became durable, of `size` bytes in total."""
        self._entries += entries
        self._bytes += size
        self._sizes[bisect_left(SIZE_BOUNDS, size / entries)] += entries
        self._untimed += entries
        if self._began_s is None:
            return
        if self._ahead >= entries:
            self._ahead -= entries
            return
        took_ms = (now_s - self._began_s) * 1000
        self._latencies[bisect_left(LATENCY_BOUNDS_MS, took_ms)] += self._untimed
        self._latency_ms += took_ms * self._untimed
        self._untimed = 0
        self._began_s = None

    def failed(self) -> None:
        """Stop the measurement that is running, because all entries that were not durable have failed."""
        self._began_s = None
        self._untimed = 0

    def end_interval(self, seconds: float) -> None:
        """End the current interval, which lasted `seconds`, and begin the next one."""
        if not self._entries:
            self.last = NOTHING_WRITTEN
            return
        self.last = Interval(
            tuple(self._latencies),
            self._latency_ms,
            tuple(self._sizes),
            self._bytes,
            self._entries,
            self._entries / seconds,
        )
        self._begin()
