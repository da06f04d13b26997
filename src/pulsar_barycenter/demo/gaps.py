"""The interruptions that clients noticed: times without receipts, with overlapping times of several topics combined."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from pulsar_barycenter.demo.plan import TopicResult

MOST_GAPS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Interruption:
    """A time in which `topics` got no receipts: from_s ≤ time < until_s, in seconds since 1970.

    The times are those of the topic with the longest gap, which is the first of `topics`. The gaps of the other topics
    overlap this gap.
    """

    from_s: float
    until_s: float
    topics: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.until_s - self.from_s


def interruptions(topics: Sequence[TopicResult]) -> list[Interruption]:
    """Return the interruptions of a run, the longest first, equal ones by time. Only the `MOST_GAPS` longest gaps are
    used.

    The longest gap and all gaps that overlap it form one interruption; then the longest remaining gap, and so on. So
    every gap belongs to one interruption, and a chain of short gaps does not become one interruption as long as the
    run.
    """
    every = [(start, end, topic.topic) for topic in topics for start, end in topic.gaps]
    gaps = nsmallest(MOST_GAPS, every, key=lambda gap: (gap[0] - gap[1], gap[0], gap[2]))
    found = []
    while gaps:
        start, end, _ = gaps[0]
        together = [gap for gap in gaps if gap[0] < end and start < gap[1]]
        found.append(Interruption(start, end, tuple(dict.fromkeys(topic for _, _, topic in together))))
        gaps = [gap for gap in gaps if not (gap[0] < end and start < gap[1])]
    return found


def seconds_without_receipt(topics: Sequence[TopicResult]) -> float:
    """Return the sum of all gaps of all topics: one second in which three topics wait counts as three."""
    return sum(end - start for topic in topics for start, end in topic.gaps)
