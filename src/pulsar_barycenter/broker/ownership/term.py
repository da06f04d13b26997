"""A term of ownership in which no receipt is sent any more after the process was paused.

A process that was stopped and continues (SIGSTOP, a suspended machine) does not notice the time in between: its session
may have expired, and its bundles may have other owners. It must find this out before it sends a receipt, and cannot
wait until the metadata store reports it.
"""

from collections.abc import Callable

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.naming.bundle import Bundle


class PauseDetector:
    """Detects that this process was paused for longer than `limit_s` seconds, or that its session may have expired
    without this being reported (`is_overdue` returns True).

    A task calls `beat` often. After a pause, the last beat is long ago, and this is found even before that task runs
    again. Both clocks are compared: the event loop's time may be read once per iteration, so it misses a pause within
    an iteration, and the wall clock may be set back.

    A pause stays detected until `begin_anew`, even if the store answers late or a clock is corrected: a receipt may
    have been withheld because of it.
    """

    __slots__ = ("_has_paused", "_is_overdue", "_last_ms", "_last_s", "_limit_s", "_now_ms", "_now_s")

    def __init__(
        self,
        limit_s: float,
        now_s: Callable[[], float],
        now_ms: Callable[[], int],
        is_overdue: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limit_s = limit_s
        self._is_overdue = is_overdue
        self._now_s = now_s
        self._now_ms = now_ms
        self._has_paused = False
        self.beat()

    def has_paused(self) -> bool:
        """Return whether the process was paused, or its session may have expired, so that other brokers may own its
        bundles.
        """
        if not self._has_paused:
            self._has_paused = self._has_stood_still() or self._is_overdue()
        return self._has_paused

    def is_back(self) -> bool:
        """Return whether the process was paused and may begin new terms now. This is False while the session may have
        expired and its end is not reported.
        """
        return self._has_stood_still() or (self._has_paused and not self._is_overdue())

    def _has_stood_still(self) -> bool:
        limit_s = self._limit_s
        return self._now_s() - self._last_s > limit_s or self._now_ms() - self._last_ms > limit_s * 1000

    def begin_anew(self) -> None:
        """Forget the pause, and begin to detect pauses again. Before this call, the caller must have ended
        all terms.
        """
        self._has_paused = False
        self.beat()

    def beat(self) -> None:
        self._last_s = self._now_s()
        self._last_ms = self._now_ms()


class Term(OwnedBundle):
    """A term (`OwnedBundle`) in which receipts may be sent only while the process has not been paused."""

    __slots__ = ("_pauses",)

    def __init__(self, bundle: Bundle, epoch: int, acquired_at_ms: int, pauses: PauseDetector) -> None:
        super().__init__(bundle, epoch, acquired_at_ms, active=False)
        self._pauses = pauses

    @property
    def may_acknowledge(self) -> bool:
        return not self.revoked and not self._pauses.has_paused()
