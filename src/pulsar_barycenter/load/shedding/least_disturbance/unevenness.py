"""What a single move gains, and when it is worth its price.

The unevenness of the brokers is

    scale × log(sum over brokers of exp(excess / scale))

where the excess of a broker is how far it is above its reachable usage by the recent estimate, and the scale is half of
the band. It is nearly the highest excess, but a move away from one of several equally full brokers counts as well. The
gain of a move is by how much it lowers the unevenness. What counts is the gain above the least gain that any move must
have (`Settings.least_gain`, for a bundle with many sessions more).

A gain may be gone in the next minute, and a move disturbs clients at once. So a broker waits until its best move has
missed as much as it costs: the sum of the gain over the minutes in which there was one. That is the price
(`Settings.price`). A gain that follows from a doubtful report (`usage_lines`) counts as less: `1 - doubt` of it. A
minute without a gain begins anew. So a large gain is taken in the next round, a small one if it lasts, and load that
comes and goes from minute to minute never adds up to the price.

A broker may be far above its reachable usage, by more than two bands by both estimates. Such an excess has lasted for
the patience, or the settled estimate would be lower. So, in a round of few moves (`assignment`), the best move of this
broker has missed its present gain for the patience, in addition to the sum. Only a small gain has to wait.

Worked example (band 6 points, patience 3 minutes: the price is 2 points × minutes): a broker is 8 points above its
reachable usage, and its best move gains 3.3 points, of which 2.9 count. It is made in the next round. If the best move
gains 0.9 points, 0.5 of them count, and it is made after four minutes; of a broker that is 13 points above, after one.

Source: our own; to pay once the loss equals the price is the rule of the ski-rental problem.
"""

from typing import Final, NamedTuple

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers

_MOST_STEPS: Final = 50.0
_MOST_SOURCES: Final = 8


class Offer(NamedTuple):
    """The best single move of a broker: `gain` is its whole gain, `net` the part above the gain that it must exceed
    (both fractions). `at` is the position of the bundle in the `Giver` of the broker, `taker` the row of the
    destination.
    """

    net: float
    gain: float
    at: int
    taker: int


class Price(NamedTuple):
    """Why a single move was made: its gain (a fraction), and the gain × minutes that its broker had missed before,
    because its best move was not made (see `Settings.price`). `others` are the best moves of other brokers at that
    time, as pairs of the bundle's row and the gain.
    """

    gain: float
    missed: float
    others: tuple[tuple[int, float], ...] = ()


class Unevenness:
    """The unevenness of the brokers: a measure of how far they are above their reachable usage, close to the highest
    excess of all. Computes how moves change it. Only the brokers that `counted` flags count. `excess` (usage above
    reachable usage) and `scale` are fractions.
    """

    def __init__(self, excess: Floats, counted: Flags, scale: float) -> None:
        self._scale = max(scale, 1e-9)
        top = float(excess[counted].max(initial=-np.inf))
        self._weight: Floats = np.where(counted, np.exp(np.minimum((excess - top) / self._scale, 0.0)), 0.0)
        self._total = max(float(self._weight.sum()), 1e-300)

    def promising(self, least_gain: float) -> Integers:
        """Return the rows of the brokers that would lower the unevenness by more than half of `least_gain` if each of
        them gave away all its bundles.

        At most _MOST_SOURCES are returned: those that would lower it the most, these first.
        """
        share = np.minimum(self._weight / self._total, 1 - 1e-12)
        bound = -self._scale * np.log1p(-share)
        rows = np.flatnonzero(bound > least_gain / 2)
        return rows[np.argsort(-bound[rows], kind="stable")][:_MOST_SOURCES]

    def gains(self, source: int, taker: int, slope: Floats, work: Floats) -> Floats:
        """Return by how much the move of each bundle from `source` to `taker` (rows of brokers) lowers the unevenness;
        negative: the move raises it. `work` is the load of each bundle as one number, `slope` is for each broker the
        usage that one unit of work takes.
        """
        less = self._weight[source] * -np.expm1(-slope[source] * work / self._scale)
        more = self._weight[taker] * np.expm1(np.minimum(slope[taker] * work / self._scale, _MOST_STEPS))
        after = np.maximum((self._total - less + more) / self._total, 1e-12)
        found: Floats = -self._scale * np.log(after)
        return found
