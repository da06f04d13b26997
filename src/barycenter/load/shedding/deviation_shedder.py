"""DeviationShedder: unload from brokers that lie too many standard deviations above the mean of some metric.

It is a family: a member says what a broker and a bundle weigh, and how many deviations are tolerated. The one member
that can be configured weighs throughput and tolerates one deviation.

Worked example (one deviation): brokers of 90, 30 and 30 MB/s have the mean 50 and the deviation 28.3; the first lies
1.41 deviations above. A bundle of 20 MB/s moves, for 20 + 30 < 90. At 70, 50 and 30 the deviation is 16.3 and the first
lies 1.22 above; another moves to the last, and 50, 50, 50 is balanced.

When to use it: few brokers far above many alike. When not: a small cluster, where a broker can hardly lie more than one
deviation above the mean, or one that is alike, where the smallest difference is many deviations. It has no limit, too:
a cluster of a million bundles whose brokers are very unlike moves hundreds of thousands, a few microseconds each.

Source: Pulsar's `DeviationShedder` (2.9; removed since, an abstract class of which no release had a member). Where we
differ: the receiver gains what it is given. Pulsar subtracts that from the receiver, too, so that its
figures are soon wrong; `receiver_gains=False` does the same.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush, heapreplace
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.decisions import Unload
from barycenter.load.reasons import Code, Compared, Reason
from barycenter.load.shedding.deviation_runs import reported_twice, run
from barycenter.load.shedding.fitting import rows_by_owner
from barycenter.load.shedding.ordering import heaviest_first
from barycenter.load.shedding.plan import ShedPlan, sequential_mean, sequential_sum
from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "DeviationShedder"

_MANY: Final = 300
"""So many bundles of one broker are worth to be tried at once."""

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
        squares = sequential_sum(metric * metric)
    moves = _moves(snapshot, member, metric, mean, squares)
    sheds = np.zeros(len(metric), bool)
    sheds[snapshot.bundles.owner[moves.rows]] = True
    verdicts = DeviationVerdicts(member, metric, mean, _deviation(squares, len(metric), mean), sheds, moves)
    return DeviationPlan(NAME, snapshot, verdicts, moves.rows, moves.greatest)


@dataclass(frozen=True, slots=True)
class Moves:
    """Columns over what moves: rows of the bundles and what they weigh, the least broker's row then, its metric and the
    greatest broker's before."""

    rows: Integers
    weights: Floats
    receivers: Integers
    least: Floats
    greatest: Floats


def _deviation(squares: float, count: int, mean: float) -> float:
    """Return the standard deviation; 0 where rounding leaves none."""
    return sqrt(max(0.0, squares / count - mean * mean)) if count else 0.0


def _moves(snapshot: LoadSnapshot, member: DeviationMember, metric: Floats, mean: float, squares: float) -> Moves:
    values: list[float | None] = list(metric.tolist())
    most = [(-value, -row) for row, value in enumerate(metric.tolist())]
    least = [(value, row) for row, value in enumerate(metric.tolist())]
    heapify(most)
    heapify(least)
    bundles = _Bundles(snapshot, member)
    kept: list[Moves] = []
    rows, weights, receivers, lows, highs = list[int](), list[float](), list[int](), list[float](), list[float]()
    count, threshold, gains = len(values), member.threshold, member.receiver_gains
    while True:
        while most and values[-most[0][1]] != -most[0][0]:
            heappop(most)
        while least and values[least[0][1]] != least[0][0]:
            heappop(least)
        if not most or not least or most[0][1] == -least[0][1]:
            break
        source, greatest, receiver, smallest = -most[0][1], -most[0][0], least[0][1], least[0][0]
        variance = squares / count - mean * mean  # below zero only where rounding left nothing
        if variance <= 0 or not (greatest - mean) / sqrt(variance) > threshold:
            break
        if gains and bundles.last_long(source, greatest + min(most[1:3], default=(0.0, 0))[0]):
            left_out = np.array([value is None for value in values], bool)
            figures = np.array([0.0 if value is None else value for value in values])
            falling = bundles.falling(source)
            done = run(figures, left_out, source, falling, squares, mean, threshold)
            if len(done.receivers):
                kept.append(_as_moves(rows, weights, receivers, lows, highs))
                rows, weights, receivers, lows, highs = [], [], [], [], []
                leaving = bundles.leave(source, len(done.receivers))
                weight_of = falling[: len(leaving)]
                kept.append(Moves(leaving, weight_of, done.receivers, done.least, done.greatest))
                squares = done.squares
                values = [None if out else value for value, out in zip(done.values.tolist(), left_out, strict=True)]
                there = [(value, row) for row, value in enumerate(values) if value is not None]
                most, least = [(-value, -row) for value, row in there], there
                heapify(most)
                heapify(least)
                continue
        found = bundles.take(source, smallest, greatest)
        if found is None:
            values[source] = None
            continue
        row, weight = found
        rows.append(row)
        weights.append(weight)
        receivers.append(receiver)
        lows.append(smallest)
        highs.append(greatest)
        left = greatest - weight
        gained = smallest + weight if gains else smallest - weight
        squares += left * left + gained * gained - (greatest * greatest + smallest * smallest)
        values[source], values[receiver] = left, gained
        heapreplace(most, (-left, -source))
        heapreplace(least, (gained, receiver))
        heappush(most, (-gained, -receiver))
        heappush(least, (left, source))
    kept.append(_as_moves(rows, weights, receivers, lows, highs))
    return Moves(*(np.concatenate([getattr(moves, column.name) for moves in kept]) for column in fields(Moves)))


def _as_moves(
    rows: list[int], weights: list[float], receivers: list[int], least: list[float], greatest: list[float]
) -> Moves:
    return Moves(
        np.array(rows, np.int64),
        np.array(weights, float),
        np.array(receivers, np.int64),
        np.array(least, float),
        np.array(greatest, float),
    )


class _Bundles:
    """The bundles of each broker that were not chosen yet, sorted when its turn comes."""

    def __init__(self, snapshot: LoadSnapshot, member: DeviationMember) -> None:
        self._snapshot = snapshot
        self._names = snapshot.bundles.names
        self._member = member
        self._rows: list[Integers] = []
        self._weights = np.zeros(0)
        self._arrays: dict[int, tuple[Integers, Floats]] = {}
        self._lists: dict[int, tuple[list[int], list[float]]] = {}
        self._taken: set[str] = set()
        self._refused: set[int] = set()

    def last_long(self, broker: int, lead: float) -> bool:
        """Tell whether a broker that leads the second greatest by so much will stay ahead while many bundles leave.

        Asked in vain or where a bundle is reported twice it says no from then on.
        """
        if broker in self._refused or broker in self._lists or lead <= 0:
            return False
        rows, rising = self._of(broker)
        if len(rows) >= _MANY and lead > _MANY // 10 * rising[-1] and not reported_twice(self._snapshot, rows):
            return True
        self._refused.add(broker)
        return False

    def falling(self, broker: int) -> Floats:
        """Return the weights of its bundles, the heaviest first."""
        return self._of(broker)[1][::-1]

    def leave(self, broker: int, count: int) -> Integers:
        """Take its `count` heaviest bundles and return their rows, the heaviest first."""
        rows, rising = self._of(broker)
        stay = len(rows) - count
        self._arrays[broker] = rows[:stay], rising[:stay]
        return rows[stay:][::-1]

    def take(self, broker: int, least: float, greatest: float) -> tuple[int, float] | None:
        """Return the heaviest row w with `w + least < greatest`, and w; None if there is none."""
        if broker not in self._lists:
            arrays = self._of(broker)
            self._lists[broker] = arrays[0].tolist(), arrays[1].tolist()
        rows, rising = self._lists[broker]
        position = len(rising)
        if position and not rising[-1] + least < greatest:
            position = bisect_left(rising, greatest - least)
            # the difference is rounded otherwise than the sum that counts
            while position < len(rising) and rising[position] + least < greatest:
                position += 1
            while position > 0 and not rising[position - 1] + least < greatest:
                position -= 1
        while position > 0:
            position -= 1
            row, weight = rows.pop(position), rising.pop(position)
            name = self._names[row]
            if name not in self._taken:  # one that is moving already is reported twice
                self._taken.add(name)
                return row, weight
        return None

    def _of(self, broker: int) -> tuple[Integers, Floats]:
        """Return its rows, the heaviest and last by name at the end, and their weights."""
        found = self._arrays.get(broker)
        if found is None:
            if not self._rows:
                self._rows = rows_by_owner(self._snapshot, np.arange(len(self._snapshot.brokers)))
                self._weights = self._member.bundle_metric(self._snapshot)
            rows = self._rows[broker][::-1]
            weights = self._weights[rows]
            order = heaviest_first(weights)[::-1]
            found = self._arrays[broker] = (rows[order], weights[order])
        return found


@dataclass(frozen=True, slots=True)
class DeviationVerdicts:
    """The metric of each broker before anything moves, its mean and deviation, who sheds, and what moves."""

    member: DeviationMember
    metric: Floats
    mean: float
    deviation: float
    sheds: Flags
    moves: Moves

    @property
    def need(self) -> Floats:
        """How far each broker lies above what is tolerated."""
        return self.metric - (self.mean + self.member.threshold * self.deviation)

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if not len(self.metric):
            return Reason(code=Code.BALANCED, strategy=NAME)
        if len(self.moves.rows):
            return self.broker(snapshot, int(snapshot.bundles.owner[self.moves.rows[0]]))
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

    def _unload(self, position: int, cause: Reason) -> Unload:
        moves, bundles, row = self.verdicts.moves, self.snapshot.bundles, int(self.rows[position])
        owner, receiver = int(bundles.owner[row]), self.snapshot.brokers.names[moves.receivers[position]]
        together = float(moves.weights[position] + moves.least[position])
        what, greatest, unit = (
            f"its metric and that of {receiver}",
            float(self.before[position]),
            self.verdicts.member.unit,
        )
        reason = Reason(
            code=Code.FITTING_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[row],
            compared=(Compared(what, together, "<", "that of its broker", greatest, unit),),
            flags=("the bundle's figures are no numbers",) if bundles.suspect[row] else (),
            cause=cause,
        )
        return Unload(bundles.names[row], self.snapshot.brokers.names[owner], reason)
