"""How reports reach the leader: at once, late, not at all, or twice.

A broker whose report failed sees that, and reports again at its next measurement, as brokers do when a write to the
metadata store fails. A broker whose report was lost does not know it: it reports when its load has changed enough since
that report. The leader takes reports as they arrive, but no report that is older than the one it has.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.errors import ReplayInputError

MOST_LATE_MS: Final = 3_600_000
_STREAM: Final = 0xDE11
"""Makes the draws of deliveries differ from other draws of a seed."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The shares (0 to 1) of reports that are not delivered as they should be. `late` ones arrive late. `lost` ones
    never arrive, and their broker does not notice it; `failed` ones never arrive, and their broker notices it.
    `doubled` ones arrive twice.

    A report has at most one of these faults. A late report, and the second copy of a doubled one, arrive 1 to
    `longest_ms` ms late (at most MOST_LATE_MS); each delay is equally likely.
    """

    late: float = 0.0
    lost: float = 0.0
    failed: float = 0.0
    doubled: float = 0.0
    longest_ms: int = 5 * 60_000

    def __post_init__(self) -> None:
        shares = (self.late, self.lost, self.failed, self.doubled)
        if not (all(share >= 0 for share in shares) and sum(shares) <= 1):
            raise ReplayInputError(
                f"late {self.late:g}, lost {self.lost:g}, failed {self.failed:g} and doubled {self.doubled:g} must be"
                " shares of all reports: none below 0, together at most 1"
            )
        if not 1 <= self.longest_ms <= MOST_LATE_MS:
            raise ReplayInputError(
                f"reports cannot be {count_of(self.longest_ms, 'millisecond')} late; give 1 to {MOST_LATE_MS}"
            )

    @property
    def is_perfect(self) -> bool:
        return self.late + self.lost + self.failed + self.doubled == 0


PERFECT: Final = Delivery()


class Fates(NamedTuple):
    """What happens to the reports that brokers send in one step. Each array has one item for each broker: whether its
    report arrives at once, whether sending failed, and by how many ms a copy arrives late (0: no copy arrives late).
    """

    at_once: Flags
    failed: Flags
    late_ms: Integers


class Deliveries:
    """Draws at random which reports arrive at once, arrive late, are lost, fail or are doubled. The same seed gives the
    same draws.
    """

    def __init__(self, delivery: Delivery, seed: int) -> None:
        self._delivery = delivery
        self._rng = np.random.default_rng([seed, _STREAM])

    def of(self, sent: Flags) -> Fates:
        """Return what happens to the reports of the brokers that `sent` flags.

        Random numbers are drawn for all brokers, even for those that send no report. So one report more does not change
        what happens to other reports.
        """
        delivery, count = self._delivery, len(sent)
        if delivery.is_perfect:
            return Fates(sent, np.zeros(count, bool), np.zeros(count, np.int64))
        drawn, delay = self._rng.random(count), self._rng.integers(1, delivery.longest_ms + 1, count)
        edges = np.cumsum([delivery.late, delivery.lost, delivery.failed, delivery.doubled])
        late, lost, failed, doubled = (sent & (np.searchsorted(edges, drawn, "right") == fate) for fate in range(4))
        return Fates(sent & ~late & ~lost & ~failed, failed, np.where(late | doubled, delay, 0))
