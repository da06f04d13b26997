"""A term of ownership that can tell by itself that it may be over: after its process stood still.

A process that was stopped and goes on (SIGSTOP, a machine taken out and back) knows nothing of the time between: its
session may be over and its bundles served by others. It must notice before it sends one receipt, and cannot wait for
the store to say so.
"""

from collections.abc import Callable

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.naming.bundle import Bundle


class PauseDetector:
    """Tells whether this process stood still for longer than `limit_s`, or its session is overdue (`is_overdue`).

    `beat` is called often by a task; a process that was stopped finds the last beat long ago before it does
    anything else, even before that task runs again. Both clocks are asked: the loop's may be read once per turn of
    the loop, so it does not see a stop in the middle of a turn, and the wall clock may be set back.

    Once it has said so, it says so until `begin_anew`, even if the store answers late or a clock is put right: somebody
    may have held back a receipt for it.
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
        """Whether others may have taken the place of this process, which does not know of it yet."""
        if not self._has_paused:
            self._has_paused = self._has_stood_still() or self._is_overdue()
        return self._has_paused

    def is_back(self) -> bool:
        """Whether it paused and can begin anew; while the session is overdue, the word of its end is waited for."""
        return self._has_stood_still() or (self._has_paused and not self._is_overdue())

    def _has_stood_still(self) -> bool:
        limit_s = self._limit_s
        return self._now_s() - self._last_s > limit_s or self._now_ms() - self._last_ms > limit_s * 1000

    def begin_anew(self) -> None:
        """Every term of before is over."""
        self._has_paused = False
        self.beat()

    def beat(self) -> None:
        self._last_s = self._now_s()
        self._last_ms = self._now_ms()


class Term(OwnedBundle):
    """An OwnedBundle that may acknowledge only while the process has not paused."""

    __slots__ = ("_pauses",)

    def __init__(self, bundle: Bundle, epoch: int, acquired_at_ms: int, pauses: PauseDetector) -> None:
        super().__init__(bundle, epoch, acquired_at_ms, active=False)
        self._pauses = pauses

    @property
    def may_acknowledge(self) -> bool:
        return not self.revoked and not self._pauses.has_paused()
