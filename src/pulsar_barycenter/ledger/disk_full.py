"""Whether the disk was full at a topic's last writes, and when a producer may try again."""

from typing import Final

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.ledger.errors import LedgerFullError

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 60.0


class DiskFullState:
    """Whether the disk was full at a topic's last writes, and when a producer may try again. Times are seconds of a
    monotonic clock.

    `is_full` is True from the first write that failed for lack of space until a write succeeds. From the time
    `retry_at_s` on, a producer may be admitted for a try. The first failed write sets this time: it is one pause later.
    If a write fails after a producer was admitted, the time is set again, one pause later; each pause is twice as long
    as the previous one, up to MAX_PAUSE_S. Other failed writes do not change it.
    """

    __slots__ = ("_pauses", "_was_admitted", "is_full", "retry_at_s")

    def __init__(self) -> None:
        self.is_full = False
        self.retry_at_s = 0.0
        self._pauses = Doubling(FIRST_PAUSE_S, MAX_PAUSE_S)
        self._was_admitted = False

    def write_failed(self, error: Exception, now_s: float) -> None:
        """Record that a write failed with `error` at the time `now_s`. Do nothing if `error` is not a
        LedgerFullError.
        """
        if not isinstance(error, LedgerFullError):
            return
        if self._was_admitted or not self.is_full:
            self.retry_at_s = now_s + self._pauses.next_s()
        self.is_full, self._was_admitted = True, False

    def producer_admitted(self) -> None:
        """Record that a producer is admitted although `is_full` is True, because the disk seems to have space again."""
        self._was_admitted = True

    def write_succeeded(self) -> None:
        """Record that a write succeeded: the disk is not full any more."""
        self.is_full = self._was_admitted = False
        self._pauses.reset()
