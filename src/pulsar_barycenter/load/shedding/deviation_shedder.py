"""DeviationShedder: unload from brokers whose metric is too many standard deviations above the mean.

It is a family of strategies: a member defines the metric of a broker and of a bundle, and how many deviations are
tolerated. The only member that can be configured uses throughput and tolerates one deviation.

Worked example (one deviation): brokers at 90, 30 and 30 MB/s have the mean 50 and the deviation 28.3, so the first is
1.41 deviations above the mean. A bundle of 20 MB/s moves, because 20 + 30 < 90. At 70, 50 and 30 the deviation is 16.3,
and the first is 1.22 deviations above; a second bundle moves to the last broker, and 50, 50, 50 is balanced.

When to use it: a few brokers are far above many similar ones. When not: a small cluster, where a broker can hardly be
more than one deviation above the mean; similar loads, where the smallest difference is many deviations; or brokers
whose loads differ much and shall stay so, since it would move most of the load, `barycenterMaxBundlesPerRound` bundles
in each round.

Source: Pulsar's `DeviationShedder` (2.9; removed since; an abstract class of which no release had a member). Where we
differ: the receiver's metric grows by what it receives. Pulsar subtracts that from the receiver, too, so that its
values are soon wrong; `receiver_gains=False` does the same.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, Unload, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.shedding.fitting import rows_by_owner
from pulsar_barycenter.load.shedding.ordering import heaviest_first
from pulsar_barycenter.load.shedding.plan import ShedPlan, sequential_mean, sequential_sum
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "DeviationShedder"

_FIRST_LOOK: Final = 64
"""How many brokers, and how many bundles of a broker, are examined first; few rounds need more."""

Metric = Callable[[LoadSnapshot], Floats]
"""Returns one value for each broker, or for each bundle."""


def _broker_throughput(snapshot: LoadSnapshot) -> Floats:
    return snapshot.brokers.latest.throughput


def _bundle_throughput(snapshot: LoadSnapshot) -> Floats:
    return snapshot.bundles.short.throughput


@dataclass(frozen=True, slots=True)
class DeviationShedder(Shedder[None]):
    """A shedder that tolerates brokers whose metric is up to `threshold` standard deviations above the mean. The
    metrics of brokers and bundles are in `unit`.

    `most` is the maximum number of bundles that one round unloads.
    """

    name: ClassVar[str] = NAME

    broker_metric: Metric
    bundle_metric: Metric
    unit: str = ""
    threshold: float = 1.0
    receiver_gains: bool = True
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        """Return the shedder that compares the throughput in + out of brokers. For a bundle it uses the throughput of
        the short-term window. No configuration key changes these settings.
        """
        return cls(_broker_throughput, _bundle_throughput, "bytes/s", most=bundles_of_round(config))

    def start(self) -> None:
        return None

    def decide(self, snapshot: LoadSnapshot, memory: None) -> tuple["DeviationPlan", None]:
        """Return the plan: the bundles to unload, in the order of choice.

        The following is repeated as long as the metric of the broker with the greatest metric is more than `threshold`
        standard deviations above the mean: its heaviest bundle b with `b + least < greatest` is moved to the broker
        with the least metric (`least` and `greatest` are the metrics of the two brokers). This changes both metrics and
        the deviation. A broker without such a bundle is no longer considered.

        Of brokers with equal greatest metrics, and of equally heavy bundles, the last one by name is chosen; of brokers
        with equal least metrics, the first. The round ends after `most` bundles; brokers above the limit from which
        none was moved wait for the next round.
        """
        metric = self.broker_metric(snapshot)
        mean = sequential_mean(metric)
        with np.errstate(over="ignore"):
            squares = sequential_sum(metric * metric)
        chosen = _moves(snapshot, self, metric, mean, squares)
        moves = chosen[: self.most]
        rows, before = (
            np.array([move.row for move in moves], np.int64),
            np.array([move.greatest for move in moves], float),
        )
        sheds = np.zeros(len(metric), bool)
        sheds[snapshot.bundles.owner[rows]] = True
        deviation, waiting = _deviation(squares, len(metric), mean), None
        if len(chosen) > len(moves):
            waiting = ~sheds & (metric > mean + self.threshold * deviation)
            waiting[snapshot.bundles.owner[chosen[-1].row]] = True
        sheds = sheds if waiting is None else sheds | waiting
        verdicts = DeviationVerdicts(self, metric, mean, deviation, sheds, moves)
        return DeviationPlan(NAME, snapshot, verdicts, rows, before, waiting=waiting), memory


class DeviationMove(NamedTuple):
    """The move of one bundle: its row and its metric (`weight`), and the row of the receiver. `least` and `greatest`
    are the metrics of the receiver and of the source before this move.
    """

    row: int
    weight: float
    receiver: int
    least: float
    greatest: float


def _deviation(squares: float, count: int, mean: float) -> float:
    """Return the standard deviation of `count` values with this mean; `squares` is the sum of their squares. 0 if
    rounding makes the variance negative.
    """
    return sqrt(max(0.0, squares / count - mean * mean)) if count else 0.0


def _moves(
    snapshot: LoadSnapshot, member: DeviationShedder, metric: Floats, mean: float, squares: float
) -> list[DeviationMove]:
    """Return the moves that the strategy chooses, in order. If bundles have to wait because the round has reached
    `most`, the result has one more move than the round makes, to show this.
    """
    values: list[float | None] = list(metric.tolist())
    most = [(-value, -row) for row, value in enumerate(metric.tolist())]
    least = [(value, row) for row, value in enumerate(metric.tolist())]
    heapify(most)
    heapify(least)
    bundles = _Bundles(snapshot, member, metric)
    moves: list[DeviationMove] = []
    while len(moves) <= member.most:
        # drop entries of the heaps that are out of date because the broker's metric has changed
        while most and values[-most[0][1]] != -most[0][0]:
            heappop(most)
        while least and values[least[0][1]] != least[0][0]:
            heappop(least)
        if not most or not least or most[0][1] == -least[0][1]:
            break
        source, greatest, receiver, smallest = -most[0][1], -most[0][0], least[0][1], least[0][0]
        variance = squares / len(values) - mean * mean  # below zero only where rounding left nothing
        if variance <= 0 or not (greatest - mean) / sqrt(variance) > member.threshold:
            break
        found = bundles.take(source, smallest, greatest)
        if found is None:
            values[source] = None
            continue
        row, weight = found
        moves.append(DeviationMove(row, weight, receiver, smallest, greatest))
        left = greatest - weight
        gained = smallest + weight if member.receiver_gains else smallest - weight
        squares += left * left + gained * gained - (greatest * greatest + smallest * smallest)
        values[source], values[receiver] = left, gained
        heapreplace(most, (-left, -source))
        heapreplace(least, (gained, receiver))
        heappush(most, (-gained, -receiver))
        heappush(least, (left, source))
    return moves


class _Bundles:
    """The bundles of each broker from which the strategy can still choose. Of a broker's bundles, only the heaviest are
    sorted at first; more are sorted when they are needed.
    """

    def __init__(self, snapshot: LoadSnapshot, member: DeviationShedder, metric: Floats) -> None:
        self._snapshot = snapshot
        self._names = snapshot.bundles.names
        self._member = member
        self._weights = np.zeros(0)
        self._greatest = np.argsort(-metric, kind="stable")[:_FIRST_LOOK]
        self._rows: dict[int, Integers] = {}
        self._sorted: dict[int, tuple[list[int], list[float]]] = {}
        self._lighter: dict[int, Integers] = {}
        self._taken: set[str] = set()

    def take(self, broker: int, least: float, greatest: float) -> tuple[int, float] | None:
        """Remove the heaviest bundle whose metric w fulfils `w + least < greatest` from the bundles of `broker`. Return
        its row and w; None if there is no such bundle.
        """
        if broker not in self._sorted:
            self._begin(broker)
        while True:
            rows, rising = self._sorted[broker]
            position = len(rising)
            if position and not rising[-1] + least < greatest:
                position = bisect_left(rising, greatest - least)
                # the sum decides, and the difference may be rounded differently
                while position < len(rising) and rising[position] + least < greatest:
                    position += 1
                while position > 0 and not rising[position - 1] + least < greatest:
                    position -= 1
            while position > 0:
                position -= 1
                row, weight = rows.pop(position), rising.pop(position)
                name = self._names[row]
                if name not in self._taken:  # two brokers report a bundle that is moving
                    self._taken.add(name)
                    return row, weight
            if not len(self._lighter[broker]):
                return None
            self._look_further(broker)

    def _begin(self, broker: int) -> None:
        while broker not in self._rows:
            self._find()
        self._sorted[broker] = [], []
        self._lighter[broker] = self._rows[broker][::-1]
        self._look_further(broker)

    def _find(self) -> None:
        """Fill the table of bundles: the first call does so for the brokers with the greatest metric, a second call for
        all brokers.
        """
        if not self._rows:
            self._weights = self._member.bundle_metric(self._snapshot)
        brokers = np.arange(len(self._snapshot.brokers)) if self._rows else self._greatest
        self._rows = dict(zip(brokers.tolist(), rows_by_owner(self._snapshot, brokers), strict=True))

    def _look_further(self, broker: int) -> None:
        """Sort more of a broker's lighter bundles, and insert them before its sorted bundles, which are in ascending
        order.

        So the heaviest bundle is always at the end; of equal bundles, the last by name.
        """
        (rows, rising), lighter = self._sorted[broker], self._lighter[broker]
        weights = self._weights[lighter]
        heaviest = heaviest_first(weights, max(_FIRST_LOOK, len(lighter) // 16))
        rows[:0] = lighter[heaviest[::-1]].tolist()
        rising[:0] = weights[heaviest[::-1]].tolist()
        self._lighter[broker] = np.delete(lighter, heaviest)


@dataclass(frozen=True, slots=True)
class DeviationVerdicts:
    """The verdicts of one round: the metric of each broker before any move, the mean and the standard deviation of
    these metrics, the brokers that shed, and the moves.
    """

    member: DeviationShedder
    metric: Floats
    mean: float
    deviation: float
    sheds: Flags
    moves: list[DeviationMove]

    @property
    def need(self) -> Floats:
        """For each broker, how far its metric is above the limit: the mean plus `threshold` standard deviations.
        Negative: it is below the limit.
        """
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
                Compared("load", value, ">" if above else "<=", "mean + tolerated deviation", line, self.member.unit),
            ),
            flags=snapshot.brokers.flags_of(broker),
        )


@dataclass(frozen=True, slots=True)
class DeviationPlan(ShedPlan):
    """The plan of a deviation shedder: `rows` are the bundles in the order in which they were chosen, mixed over all
    brokers. `before` has for each bundle the metric of its broker just before the bundle was chosen.
    """

    verdicts: DeviationVerdicts

    def _unload(self, position: int, cause: Reason) -> Unload:
        move, bundles = self.verdicts.moves[position], self.snapshot.bundles
        owner, receiver = int(bundles.owner[move.row]), self.snapshot.brokers.names[move.receiver]
        what, unit = f"load of {receiver} with the bundle", self.verdicts.member.unit
        together = Compared(what, move.weight + move.least, "<", "load of its broker", move.greatest, unit)
        reason = Reason(
            code=Code.FITTING_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[move.row],
            compared=(together,),
            flags=("the load values of the bundle are not numbers",) if bundles.suspect[move.row] else (),
            cause=cause,
        )
        return Unload(bundles.names[move.row], self.snapshot.brokers.names[owner], reason)
