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
    """The number of entries and messages of one ledger of a topic, and its size in bytes.

    `created_at_ms` is when the ledger was created, in ms since 1970; 0 if the topic's record does not have that time.
    """

    ledger_id: int
    entries: int
    size: int
    messages: int
    is_open: bool
    created_at_ms: int


class ManagedLedgerStats(NamedTuple):
    """The ledgers of a topic, oldest first, and their totals. Sizes are in bytes."""

    entries: int
    size: int
    messages: int
    ledgers: tuple[LedgerStats, ...]

    @classmethod
    def of(cls, segments: Segments) -> Self:
        ledgers = tuple(
            LedgerStats(s.ledger_id, s.entries, s.size, s.messages, not s.closed, s.created_at_ms) for s in segments
        )
        return cls(
            sum(s.entries for s in ledgers), sum(s.size for s in ledgers), sum(s.messages for s in ledgers), ledgers
        )


LATENCY_BOUNDS_MS: Final = (0.5, 1, 5, 10, 20, 50, 100, 200, 1000)
"""The upper bounds of the latency buckets in ms, inclusive. One more bucket counts all higher latencies."""
SIZE_BOUNDS: Final = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""The upper bounds of the size buckets in bytes, inclusive. One more bucket counts all larger entries."""


class Interval(NamedTuple):
    """The entries of a topic that became durable in one statistics interval.

    `entries` is their number, `bytes` their total size, and `rate` their number per second. `sizes` has the number of
    entries in each bucket of sizes. `latencies` has the number of entries in each bucket of write latencies, for the
    entries whose latency was measured; `latency_ms` is the sum of these latencies in ms.
    """

    latencies: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_MS) + 1)
    latency_ms: float = 0.0
    sizes: tuple[int, ...] = (0,) * (len(SIZE_BOUNDS) + 1)
    bytes: int = 0
    entries: int = 0
    rate: float = 0.0


NOTHING_WRITTEN: Final = Interval()


class WriteStats:
    """Counts the entries of one topic that become durable, and measures how long that takes. Times are seconds of the
    event loop's clock.
    """

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
        """Whether the caller has to call `begin_timing` for the next append. False while the latency of an earlier
        append is being measured.
        """
        return self._began_s is None

    def begin_timing(self, now_s: float, ahead: int) -> None:
        """Begin to measure the latency of the next append, at the time `now_s`. `ahead` is the number of entries that
        were appended before it and are not durable yet.
        """
        self._began_s = now_s
        self._ahead = ahead

    def written(self, entries: int, size: int, now_s: float) -> None:
        """Record that `entries` more entries (at least one), of `size` bytes in total, have become durable at the time
        `now_s`.
        """
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
        """Discard the measurement of a latency that is running, because all entries that were not durable
        have failed.
        """
        self._began_s = None
        self._untimed = 0

    def end_interval(self, seconds: float) -> None:
        """End the current interval, which lasted `seconds`, and begin the next one. `last` is then the interval that
        has ended.
        """
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
