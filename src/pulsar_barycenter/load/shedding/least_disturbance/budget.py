"""How many bundles rounds may move: a budget that grows with time, for moves that answer ordinary changes of load.

Load of ordinary days changes all the time, and every round could move something. The budget spreads moves over time, so
that a round makes the best ones, sees what they did, and goes on. It grows by `Settings.moves_an_hour` an hour, up to
the moves of three rounds, at least one.

Moves are free, which means that they neither need nor use the budget, and have no price, for ten rounds after a broker
joined or left, or a bundle was split: what is then uneven does not go by itself. They are also free in the first round
of a leader, which knows the load of a longer time from the brokers' reports; but a leader that changes does not change
the cluster, so after that round moves have a price. For ten rounds they do not need the budget. A broker that is not
known by enough reports takes no bundles, and one with steady load may report only every 15 minutes. Until all brokers
are known, and for the patience after that, moves do not need the budget either.

No key sets these two times: they count rounds, because a round is what makes moves and sees what they did. So they are
ten and three minutes by default, and follow `loadBalancerSheddingIntervalMinutes`.

Worked example (30 moves an hour): a round that finds five moves makes one. The next one follows two minutes later, by
the load of that time.
"""

from dataclasses import dataclass, replace

from pulsar_barycenter.load.decisions import NO_LIMIT
from pulsar_barycenter.load.shedding.least_disturbance.assignment import RETURNED, RowMove
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings


@dataclass(frozen=True, slots=True)
class Budget:
    """How many moves the strategy may still make: `left`, which may be negative after an exchange, because an exchange
    is two moves and may use one move more than is left.

    Before `free_until_ms` (epoch ms, exclusive) moves are free: they have no price and do not use the budget. Before
    `unlimited_until_ms`, which is not earlier, they do not use the budget, but have a price.
    """

    left: float = 0.0
    free_until_ms: int = 0
    unlimited_until_ms: int = 0

    def grown(self, an_hour: float, minutes: float, settings: Settings) -> "Budget":
        """Return the budget after `minutes` more: it grows by `an_hour` moves per hour, up to a maximum, which is what
        it gains in three rounds, but at least one move.
        """
        most = max(1.0, an_hour * settings.saved_min / 60)
        return replace(self, left=min(most, self.left + an_hour * minutes / 60))

    def freed(self, now_ms: int, settings: Settings) -> "Budget":
        """Return the budget after brokers joined or left, or bundles were split, at `now_ms` (epoch ms): moves are free
        for `Settings.free_ms` from then on.
        """
        until_ms = now_ms + settings.free_ms
        return replace(self, free_until_ms=until_ms, unlimited_until_ms=max(until_ms, self.unlimited_until_ms))

    def begun(self, now_ms: int, settings: Settings) -> "Budget":
        """Return the budget at the first round of a leader, at `now_ms` (epoch ms): moves of this round are free, and
        moves of the next rounds do not use the budget for `Settings.free_ms`.
        """
        return replace(self, free_until_ms=now_ms + 1, unlimited_until_ms=now_ms + settings.free_ms)

    def still_unlimited(self, now_ms: int, settings: Settings) -> "Budget":
        """Return the budget with a longer time in which moves do not use it: at least until `Settings.patience_min`
        minutes after `now_ms` (epoch ms).
        """
        return replace(self, unlimited_until_ms=max(self.unlimited_until_ms, now_ms + settings.soon_ms + 1))

    def is_free(self, now_ms: int) -> bool:
        """Return whether a move at `now_ms` is free: it has no price, and does not use the budget."""
        return now_ms < self.free_until_ms

    def is_unlimited(self, now_ms: int) -> bool:
        """Return whether a move at `now_ms` does not use the budget. It may still have a price (see `is_free`)."""
        return now_ms < self.unlimited_until_ms

    def moves(self, now_ms: int) -> int:
        """Return how many moves a round at `now_ms` (epoch ms) may make by the budget; NO_LIMIT if moves do not use it
        at that time.
        """
        # sums of fractions of a move may be a little below the whole number
        return NO_LIMIT if self.is_unlimited(now_ms) else max(0, int(self.left + 1e-6))

    def spent(self, moves: int, now_ms: int) -> "Budget":
        """Return the budget after a round at `now_ms` that made `moves` moves; unchanged if moves do not use the budget
        at that time.
        """
        return self if self.is_unlimited(now_ms) else replace(self, left=self.left - moves)


def is_new_structure(before: BundleLoads, after: BundleLoads) -> bool:
    """Return whether brokers joined or left, or bundles were split, between the two rounds in which `before` and
    `after` were computed.
    """
    if before.brokers != after.brokers:
        return True
    return any(name not in before.new and before.was_split_into(name) for name in after.new)


def made(moves: tuple[RowMove, ...], budget: int, settings: Settings) -> int:
    """Return how many of `moves` a round may make, from the first on, within `budget` and the maximum of a round.

    The two moves of an exchange are both made, or neither: for this, a round may make one move more than `budget`, but
    not more than the maximum of a round.
    """
    count = min(len(moves), budget, settings.most)
    if count and moves[count - 1].why == RETURNED:
        return count + 1 if count < settings.most else count - 1
    return count
