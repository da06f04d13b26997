"""Keeps the sizes, message counts and publish times of a ledger's entries in arrays, which take 24 bytes an entry."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import sub

from pulsar_barycenter.ledger.position import EntryInfo


class EntryIndex:
    """The size, message count and publish time of each of the entries 0, 1, … of one ledger, in memory.

    Sizes and counts are stored as running sums. So the sum over a range of entries is one subtraction, and a binary
    search finds the entry at which a limit is reached.
    """

    __slots__ = ("_bytes", "_messages", "_times")

    def __init__(self) -> None:
        self._bytes = array("Q", [0])
        self._messages = array("Q", [0])
        self._times = array("Q")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def total_bytes(self) -> int:
        return self._bytes[-1]

    @property
    def largest_bytes(self) -> int:
        """The size of the largest entry, in bytes; 0 if there are no entries."""
        return max(map(sub, self._bytes[1:], self._bytes), default=0)

    @property
    def memory_bytes(self) -> int:
        return 24 * len(self._times)

    def extend(self, sizes: Sequence[int], num_messages: Sequence[int], publish_times_ms: Sequence[int]) -> None:
        """Append entries to the index. Each argument has one value for each new entry, in the order of the entries."""
        self._extend_sum(self._bytes, sizes)
        self._extend_sum(self._messages, num_messages)
        self._times.extend(publish_times_ms)

    @staticmethod
    def _extend_sum(sums: "array[int]", values: Sequence[int]) -> None:
        running = accumulate(values, initial=sums[-1])
        next(running)
        sums.extend(running)

    def bytes_before(self, entry_id: int) -> int:
        return self._bytes[entry_id]

    def bytes_between(self, first: int, stop: int) -> int:
        """Return the total size of the entries `first` (inclusive) to `stop` (exclusive)."""
        return self._bytes[stop] - self._bytes[first]

    def messages_between(self, first: int, stop: int) -> int:
        """Return the number of messages in the entries `first` (inclusive) to `stop` (exclusive)."""
        return self._messages[stop] - self._messages[first]

    def info(self, entry_id: int) -> EntryInfo:
        if not 0 <= entry_id < len(self._times):
            raise IndexError(entry_id)
        return EntryInfo(
            self._bytes[entry_id + 1] - self._bytes[entry_id],
            self._messages[entry_id + 1] - self._messages[entry_id],
            self._times[entry_id],
        )

    def message_counts(self, first: int, stop: int) -> list[int]:
        return list(map(sub, self._messages[first + 1 : stop + 1], self._messages[first:stop]))

    def publish_times(self, first: int, stop: int) -> "array[int]":
        return self._times[first:stop]

    def max_publish_time(self, first: int, stop: int) -> int:
        return max(self._times[first:stop])

    def first_published_at_or_after(self, time_ms: int, first: int = 0) -> int | None:
        """Return the id of the first entry, from `first` (inclusive) on, whose publish time is `time_ms` or later; None
        if there is none. All entries are compared, because publish times are not always in order.
        """
        times = self._times[first:] if first else self._times
        return next((i for i, t in enumerate(times, first) if t >= time_ms), None)

    def stop_within(self, first: int, stop: int, max_bytes: int, max_messages: int | None) -> int:
        """Return the end (exclusive, at most `stop`) of a read that begins with the entry `first` and is within the
        limits.

        The read has at least one entry, even if this entry exceeds `max_bytes`. It ends before the first entry with
        which the total would exceed `max_bytes`. It ends after the entry with which it reaches `max_messages` messages,
        so it may have more messages than that. With `max_messages` None or 0 the messages are not limited.
        """
        if max_messages is not None and max_messages > 0:
            stop = bisect_left(self._messages, self._messages[first] + max_messages, first, stop)
        stop = min(stop, bisect_right(self._bytes, self._bytes[first] + max_bytes, first, stop + 1) - 1)
        return max(stop, first + 1)
