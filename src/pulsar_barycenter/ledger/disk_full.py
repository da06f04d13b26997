"""Whether a topic's messages found no room on the disk, and when a producer may try again."""

from typing import Final

from pulsar_barycenter.ledger.errors import LedgerFullError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


class WriteRoom:
    """What became of a topic's last writes. Times are seconds of any monotonic clock.

    `is_lacking` from a write that found no room until one that did. `try_at_s` is when a producer may try again. The
    pause before that doubles only when a producer was let in, as there seemed to be room, and its write failed.
    """

    __slots__ = ("_pause_s", "_was_let_in", "is_lacking", "try_at_s")

    def __init__(self) -> None:
        self.is_lacking = False
        self.try_at_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._was_let_in = False

    def failed(self, error: Exception, now_s: float) -> None:
        """Take note of a write that failed; only the lack of room counts."""
        if not isinstance(error, LedgerFullError):
            return
        if self._was_let_in:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        if self._was_let_in or not self.is_lacking:
            self.try_at_s = now_s + self._pause_s
        self.is_lacking, self._was_let_in = True, False

    def let_in(self) -> None:
        """Take note that a producer may try, as there seems to be room."""
        self._was_let_in = True

    def found(self) -> None:
        """Take note of a write that found room."""
        self.is_lacking = self._was_let_in = False
        self._pause_s = FIRST_PAUSE_S
