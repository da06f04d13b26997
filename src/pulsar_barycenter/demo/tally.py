"""Counts the messages of one topic (sent, acknowledged, received), and records the gaps between receipts."""

from dataclasses import dataclass, field
from heapq import nlargest


@dataclass(slots=True)
class TopicTally:
    """Counts the numbered messages of one topic, 0, 1, 2, …; times are seconds of one clock.

    A message is lost if its receipt arrived but the message did not. For the order, the first arrival of a number
    counts: the number must be greater than all numbers before it. Later arrivals of the number are duplicates.
    """

    topic: str
    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    received: set[int] = field(default_factory=set)
    duplicated: int = 0
    out_of_order: int = 0
    failed: int = 0
    highest_received: int = -1
    last_acknowledged_at_s: float | None = None
    longest_gap_s: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)

    def next_number(self) -> int:
        number = self.sent
        self.sent += 1
        return number

    def on_acknowledged(self, number: int, sent_at_s: float, now_s: float, *, gap_from_s: float) -> None:
        """Count a receipt. The time without service began when the message was sent, or at the previous receipt if
        that was later; it is recorded as a gap if it lasted at least `gap_from_s`."""
        self.acknowledged.add(number)
        since = max(sent_at_s, self.last_acknowledged_at_s or sent_at_s)
        gap_s = now_s - since
        self.longest_gap_s = max(self.longest_gap_s, gap_s)
        if gap_s >= gap_from_s:
            self.gaps.append((since, now_s))
        self.last_acknowledged_at_s = now_s

    def on_received(self, number: int) -> None:
        if number in self.received:
            self.duplicated += 1
            return
        self.received.add(number)
        if number < self.highest_received:
            self.out_of_order += 1
        self.highest_received = max(self.highest_received, number)

    def longest_gaps(self, most: int) -> list[tuple[float, float]]:
        """Return the `most` longest gaps, or all gaps if there are fewer, in the order of their times."""
        return sorted(nlargest(most, self.gaps, key=lambda gap: gap[1] - gap[0]))

    @property
    def missing(self) -> int:
        """The number of acknowledged messages that have not arrived (yet)."""
        return len(self.acknowledged - self.received)
