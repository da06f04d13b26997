"""Whether a topic's messages found no room on the disk, and when a producer may try again."""

from typing import Final

from pulsar_barycenter.ledger.errors import LedgerFullError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


class WriteRoom:
    """What became of a topic's last writes. Times are seconds of any monotonic clock.

    The pause doubles with each write that finds no room. `try_at_s` is when it ends.
    """

    __slots__ = ("failures", "try_at_s")

    def __init__(self) -> None:
        self.failures = 0
        """Writes that found no room since the last one that did."""
        self.try_at_s = 0.0

    def failed(self, error: Exception, now_s: float) -> None:
        """Take note of a write that failed; only the lack of room counts."""
        if isinstance(error, LedgerFullError):
            self.failures += 1
            self.try_at_s = now_s + min(FIRST_PAUSE_S * 2 ** min(self.failures - 1, 10), LONGEST_PAUSE_S)
