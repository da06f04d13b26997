"""DeviationShedder: unload from brokers that lie too many standard deviations above the mean of some metric.

It is a family: a member says what a broker and a bundle weigh, and how many deviations are tolerated. The one member
that can be configured weighs throughput and tolerates one deviation.

Worked example (one deviation): brokers of 90, 30 and 30 MB/s have the mean 50 and the deviation 28.3; the first lies
1.41 deviations above. A bundle of 20 MB/s moves, for 20 + 30 < 90. At 70, 50 and 30 the deviation is 16.3 and the first
lies 1.22 above; another moves to the last, and 50, 50, 50 is balanced.

When to use it: few brokers far above many alike. When not: a small cluster, where a broker can hardly lie more than one
deviation above the mean, or one that is alike, where the smallest difference is many deviations. It has no limit either
and chooses one by one: a very uneven cluster of a million bundles moves hundreds of thousands, in seconds.

Source: Pulsar's `DeviationShedder` (2.9; removed since, an abstract class of which no release had a member). Where we
differ: the receiver gains what it is given. Pulsar subtracts that from the receiver, too, so that its
figures are soon wrong; `receiver_gains=False` does the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from barycenter.load.decisions import Unload
from barycenter.load.reasons import Code, Compared, Reason
from barycenter.load.shedding.fitting import rows_by_owner
from barycenter.load.shedding.plan import ShedPlan, sequential_mean
from barycenter.load.snapshot import Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "DeviationShedder"

Metric = Callable[[LoadSnapshot], Floats]
"""One figure for each broker, or for each bundle."""


@dataclass(frozen=True, slots=True)
class DeviationMember:
    """What a member of the family weighs, in `unit`, and the deviations above the mean that it tolerates."""

    broker_metric: Metric
    bundle_metric: Metric
    unit: str = ""
    threshold: float = 1.0
    receiver_gains: bool = True


def throughput_deviation(_config: "BrokerConfig") -> DeviationMember:
    """Return the member by throughput in + out, a bundle's of the short term. No key of a configuration is for it."""
    return DeviationMember(_broker_throughput, _bundle_throughput, "bytes/s")


def _broker_throughput(snapshot: LoadSnapshot) -> Floats:
    return snapshot.brokers.latest.throughput


def _bundle_throughput(snapshot: LoadSnapshot) -> Floats:
    return snapshot.bundles.short.throughput


def deviation_shedder(snapshot: LoadSnapshot, member: DeviationMember) -> "DeviationPlan":
    """Return what to unload, in the order of choice.

    While the greatest broker lies more than the threshold above the mean: of its bundles the heaviest b with
    `b + least < greatest` goes, both brokers and the deviation change; a broker of which none fits is left out from
    then on. Of equal ones the last by name is the greatest broker, or the heaviest bundle, the first the least broker.
    """
    metric = member.broker_metric(snapshot)
    mean = sequential_mean(metric)
    with np.errstate(over="ignore"):
        squares = float(sum((metric * metric).tolist()))
    moves = _moves(snapshot, member, metric, mean, squares)
    rows = np.array([move.row for move in moves], np.int64)
    sheds = np.zeros(len(metric), bool)
    sheds[snapshot.bundles.owner[rows]] = True
    verdicts = DeviationVerdicts(member, metric, mean, _deviation(squares, len(metric), mean), sheds, tuple(moves))
    return DeviationPlan(NAME, snapshot, verdicts, rows, np.array([move.greatest for move in moves], float))


class Move(NamedTuple):
    """A row of the bundles, the least broker's row then, its metric and the greatest broker's before."""

    row: int
    receiver: int
    least: float
    greatest: float


def _deviation(squares: float, count: int, mean: float) -> float:
    """Return the standard deviation; 0 where rounding leaves none."""
    return sqrt(max(0.0, squares / count - mean * mean)) if count else 0.0


def _moves(snapshot: LoadSnapshot, member: DeviationMember, metric: Floats, mean: float, squares: float) -> list[Move]:
    values: list[float | None] = list(metric.tolist())
    most = [(-value, -row) for row, value in enumerate(metric.tolist())]
    least = [(value, row) for row, value in enumerate(metric.tolist())]
    heapify(most)
    heapify(least)
    bundles = _Bundles(snapshot, member.bundle_metric(snapshot))
    moves: list[Move] = []
    while True:
        while most and values[-most[0][1]] != -most[0][0]:
            heappop(most)
        while least and values[least[0][1]] != least[0][0]:
            heappop(least)
        if not most or not least or most[0][1] == -least[0][1]:
            return moves
        source, greatest, receiver, smallest = -most[0][1], -most[0][0], least[0][1], least[0][0]
        deviation = _deviation(squares, len(values), mean)
        if not (deviation > 0 and (greatest - mean) / deviation > member.threshold):
            return moves
        found = bundles.take(source, smallest, greatest)
        if found is None:
            values[source] = None
            continue
        row, weight = found
        moves.append(Move(row, receiver, smallest, greatest))
        left = greatest - weight
        gained = smallest + weight if member.receiver_gains else smallest - weight
        squares += left * left + gained * gained - (greatest * greatest + smallest * smallest)
        values[source], values[receiver] = left, gained
        for changed, value in ((source, left), (receiver, gained)):
            heappush(most, (-value, -changed))
            heappush(least, (value, changed))


class _Bundles:
    """The bundles of each broker that were not chosen yet, sorted when its turn comes."""

    def __init__(self, snapshot: LoadSnapshot, weights: Floats) -> None:
        self._snapshot = snapshot
        self._weights = weights
        self._rows: list[Integers] = []
        self._sorted: dict[int, tuple[list[int], list[float]]] = {}
        self._taken: set[str] = set()

    def take(self, broker: int, least: float, greatest: float) -> tuple[int, float] | None:
        """Return the heaviest row w with `w + least < greatest`, and w; None if there is none."""
        rows, rising = self._of(broker)
        position = bisect_left(rising, least - greatest)
        # the difference is rounded otherwise than the sum that counts
        while position > 0 and least - rising[position - 1] < greatest:
            position -= 1
        while position < len(rows) and not least - rising[position] < greatest:
            position += 1
        while position < len(rows):
            row, weight = rows.pop(position), -rising.pop(position)
            name = self._snapshot.bundles.names[row]
            if name not in self._taken:  # one that is moving already is reported twice
                self._taken.add(name)
                return row, weight
        return None

    def _of(self, broker: int) -> tuple[list[int], list[float]]:
        """Return its rows, the heaviest first, and the negative of their weights."""
        found = self._sorted.get(broker)
        if found is None:
            if not self._rows:
                self._rows = rows_by_owner(self._snapshot, np.arange(len(self._snapshot.brokers)))
            rows = self._rows[broker]
            rows = rows[np.lexsort((-rows, -self._weights[rows]))]
            found = self._sorted[broker] = (rows.tolist(), (-self._weights[rows]).tolist())
        return found


@dataclass(frozen=True, slots=True)
class DeviationVerdicts:
    """The metric of each broker before anything moves, its mean and deviation, who sheds, and each move."""

    member: DeviationMember
    metric: Floats
    mean: float
    deviation: float
    sheds: Flags
    moves: tuple[Move, ...]

    @property
    def need(self) -> Floats:
        """How far each broker lies above what is tolerated."""
        return self.metric - (self.mean + self.member.threshold * self.deviation)

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if not len(self.metric):
            return Reason(code=Code.BALANCED, strategy=NAME)
        if self.moves:
            return self.broker(snapshot, int(snapshot.bundles.owner[self.moves[0].row]))
        highest = self.broker(snapshot, int(np.argmax(self.metric)))
        return Reason(code=Code.BALANCED, strategy=NAME, cause=highest)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        value, line = float(self.metric[broker]), self.mean + self.member.threshold * self.deviation
        above = value > line
        code = Code.NO_SHEDDABLE_BUNDLE if above else Code.DEVIATION_TOLERATED
        return Reason(
            code=Code.FAR_ABOVE_DEVIATION if self.sheds[broker] else code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=(
                Compared("metric", value, ">" if above else "<=", "mean + tolerated deviation", line, self.member.unit),
            ),
            flags=snapshot.flags_of_broker(broker),
        )


@dataclass(frozen=True, slots=True)
class DeviationPlan(ShedPlan):
    """`rows` in the order of choice over all brokers; `before` is the greatest broker's metric then."""

    verdicts: DeviationVerdicts

    def unload(self, position: int) -> Unload:
        """Return the decision at `position`, with its reason; placement decides who gets the bundle."""
        move, bundles = self.verdicts.moves[position], self.snapshot.bundles
        weight = float(self.verdicts.member.bundle_metric(self.snapshot)[move.row])
        owner, receiver = int(bundles.owner[move.row]), self.snapshot.brokers.names[move.receiver]
        what, unit = f"its metric and that of {receiver}", self.verdicts.member.unit
        reason = Reason(
            code=Code.FITTING_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[move.row],
            compared=(Compared(what, weight + move.least, "<", "that of its broker", move.greatest, unit),),
            flags=("the bundle's figures are no numbers",) if bundles.suspect[move.row] else (),
            cause=self.verdicts.broker(self.snapshot, owner),
        )
        return Unload(bundles.names[move.row], self.snapshot.brokers.names[owner], reason)

    def __iter__(self) -> Iterator[Unload]:
        return (self.unload(position) for position in range(len(self)))
