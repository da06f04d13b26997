"""How much a topic's ledgers hold; what was written to it and how quickly.

Writes are counted since the topic was opened, and of each statistics interval. A group of entries costs a few
additions, and no entry any. So a group counts with the mean size of its entries, and of the appends one at a time is
timed: the first one after the last that was, which is among the first of its group to wait. All that becomes durable
with it, or became so since the one before, counts with its time. Where all wait alike, and entries are of one size,
that is exact.

Source of the bounds: Pulsar's `ManagedLedgerMBeanImpl`, whose buckets are of the last interval, too, and each apart
from the ones below it.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, Self

from pulsar_barycenter.ledger.managed.segments import Segments


class LedgerFigures(NamedTuple):
    ledger_id: int
    entries: int
    size: int
    messages: int
    is_open: bool


class ManagedLedgerStats(NamedTuple):
    """Sizes in bytes; the ledgers oldest first."""

    entries: int
    size: int
    messages: int
    ledgers: tuple[LedgerFigures, ...]

    @classmethod
    def of(cls, segments: Segments) -> Self:
        ledgers = tuple(LedgerFigures(s.ledger_id, s.entries, s.size, s.messages, not s.closed) for s in segments)
        return cls(
            sum(s.entries for s in ledgers), sum(s.size for s in ledgers), sum(s.messages for s in ledgers), ledgers
        )


LATENCY_BOUNDS_MS: Final = (0.5, 1, 5, 10, 20, 50, 100, 200, 1000)
"""Inclusive upper ends; one bucket more is for all above."""
SIZE_BOUNDS: Final = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""Likewise, bytes."""


class Interval(NamedTuple):
    """What was written in one interval. `latencies` and `sizes` count entries by bucket; `latency_ms` is the sum over
    the entries in `latencies`, `bytes` that over those in `sizes`, which are `entries`; `rate` is entries a second."""

    latencies: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_MS) + 1)
    latency_ms: float = 0.0
    sizes: tuple[int, ...] = (0,) * (len(SIZE_BOUNDS) + 1)
    bytes: int = 0
    entries: int = 0
    rate: float = 0.0


NOTHING_WRITTEN: Final = Interval()


class WriteStats:
    __slots__ = ("_ahead", "_began_s", "_bytes", "_entries", "_latencies", "_latency_ms", "_sizes", "_untimed", "last")

    def __init__(self) -> None:
        self.last = NOTHING_WRITTEN
        """The last interval that is over."""
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
        """Whether the next append is to be timed: ask before each."""
        return self._began_s is None

    def begin_timing(self, now_s: float, ahead: int) -> None:
        """Time an append that is made now, behind so many entries that are not durable yet."""
        self._began_s = now_s
        self._ahead = ahead

    def written(self, entries: int, size: int, now_s: float) -> None:
        """Entries are durable, at least one, of `size` bytes together."""
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
        """All that was not durable failed."""
        self._began_s = None
        self._untimed = 0

    def end_interval(self, seconds: float) -> None:
        """Let the interval of so many seconds be the last one, and begin another."""
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
