"""When a bundle moved again too soon, or went back too soon to a broker that it had left: one definition for all code
that counts such moves.

Such moves gain nothing: the load was hardly measured on the new broker, or was not worth the move. How soon is too soon
is a `Window`; docs/measures.md has the one that the measures use. Times are numbers of one unit.
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Window:
    """Decides whether a move of a bundle is too early: it follows the bundle's last move after less than `again`, or it
    goes to a broker that the bundle left less than `back` ago.

    Both limits are exclusive. Their unit is that of the times that callers pass.
    """

    again: float
    back: float

    def is_again(self, since_last: float | None) -> bool:
        """Return whether a move is less than `again` after the last move of the bundle. `since_last` is the time since
        that move; None: the bundle has not moved before.
        """
        return since_last is not None and since_last < self.again

    def is_back(self, since_left: float | None) -> bool:
        """Return whether a move goes to a broker that the bundle left less than `back` ago. `since_left` is the time
        since it left this broker; None: it never did.
        """
        return since_left is not None and since_left < self.back

    def is_flap(self, since_last: float | None, since_left: float | None) -> bool:
        return self.is_again(since_last) or self.is_back(since_left)


class Whereabouts:
    """Where one bundle has been: when it left each of its former brokers, and when it moved last."""

    __slots__ = ("_left", "_moved_at")

    def __init__(self) -> None:
        self._left: dict[str, float] = {}
        self._moved_at: float | None = None

    def since_last(self, at: float) -> float | None:
        """Return how long before `at` the bundle moved last, None if it never did."""
        return None if self._moved_at is None else at - self._moved_at

    def since_left(self, broker: str, at: float) -> float | None:
        """Return how long before `at` the bundle left a broker, None if it never left that broker."""
        left_at = self._left.get(broker)
        return None if left_at is None else at - left_at

    def lost(self, broker: str, at: float) -> None:
        """Record that the bundle left `broker`, whether or not another broker owns it now."""
        self._left[broker] = at

    def moved(self, source: str, at: float) -> None:
        """Record that the bundle went from `source` to another broker."""
        self.lost(source, at)
        self._moved_at = at

    def copy(self) -> Self:
        """Return a copy, for a part of the bundle after a split. Later changes of the copy and of this object are
        independent.
        """
        other = type(self)()
        other._left, other._moved_at = dict(self._left), self._moved_at
        return other
