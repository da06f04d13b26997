"""AvgShedder: pair the most loaded broker with the least loaded, and so on, and balance pairs whose gap lasts.

Worked example (defaults): three brokers have a usage of 80 %, 80 % and 20 %. The gap of the first pair is 60 points,
more than 40, so the pair acts in the second round in a row: 80 % and 20 % become 50 % and 50 %. The gap of the next
pair is 30 points, more than 15 only, so that pair acts after eight more rounds.

When to use it: equal brokers whose usage follows their traffic. It serves many pairs at once, chooses the destination
of each bundle, and waits until a peak has lasted. Name it as the placement strategy as well (4.x requires it), so that
a bundle goes to the broker that was chosen when it was shed. When not: usage that does not follow traffic (if the
fuller broker carries less traffic, nothing moves), or with `loadBalancerDistributeBundlesEvenlyEnabled`, whose filter
may remove the destination before placement.

Source: Pulsar's `AvgShedder` (4.2 and 5.0, which choose alike; scores are not rounded). Where we differ: brokers of
equal score are ordered by name, and the counts of brokers that left are dropped at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.decisions import NO_LIMIT, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.shedding.fitting import FittingPlan, rows_by_owner, take_fitting
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "AvgShedder"
_LOW_KEYS: Final = ("loadBalancerAvgShedderLowThreshold", "loadBalancerAvgShedderHitCountLowThreshold")
_HIGH_KEYS: Final = ("loadBalancerAvgShedderHighThreshold", "loadBalancerAvgShedderHitCountHighThreshold")
_AMOUNT_KEYS: Final = ("maxUnloadPercentage", "minUnloadMessage", "minUnloadMessageThroughput")


@dataclass(frozen=True, slots=True)
class HitCounts:
    """For how many rounds in a row a broker has belonged to a pair (of a full and an empty broker) whose difference in
    usage has reached a threshold. `low` and `high` map broker ids to the number of rounds for the low and the high
    threshold; a missing broker has 0.
    """

    low: Mapping[str, int] = field(default_factory=dict)
    high: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AvgShedder(Shedder[HitCounts]):
    """The strategy AvgShedder. It pairs the fullest broker with the emptiest one, the second fullest with the second
    emptiest, and so on. Thresholds are in percentage points of usage, hits are numbers of rounds, the minima are in
    msg/s and bytes/s, in + out.

    `most` is the maximum number of bundles that one round unloads.
    """

    name: ClassVar[str] = NAME

    low: float = 15.0
    high: float = 40.0
    low_hits: int = 8
    high_hits: int = 2
    share: float = 0.2
    minimum_rate: float = 1_000
    minimum_throughput: float = 1_048_576
    weights: ResourceWeights = DEFAULT_WEIGHTS
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            low=config.load_balancer_avg_shedder_low_threshold,
            high=config.load_balancer_avg_shedder_high_threshold,
            low_hits=config.load_balancer_avg_shedder_hit_count_low_threshold,
            high_hits=config.load_balancer_avg_shedder_hit_count_high_threshold,
            share=config.max_unload_percentage,
            minimum_rate=config.min_unload_message,
            minimum_throughput=config.min_unload_message_throughput,
            weights=resource_weights(config),
            most=bundles_of_round(config),
        )

    def start(self) -> HitCounts:
        return HitCounts()

    def decide(self, snapshot: LoadSnapshot, hits: HitCounts) -> tuple[FittingPlan, HitCounts]:
        """Return the plan of bundles to unload, each with its destination, and the counts for the next round. The gap
        of a pair is the difference between the usages of its two brokers.

        Each broker has a low and a high count: in how many rounds in a row the gap of its pair was at least `low`, or
        `high`. Counts belong to brokers, so they go on if the broker is paired with another one. Bundles of a pair may
        move once one of the four counts of its brokers reaches its number of hits, if the gap is at least `low`. Then
        the counts of both brokers are deleted, even if no bundle moves.

        The amount to move is `share` times the difference of message rates if that is above the minimum, else `share`
        times the difference of throughputs, if that is above its minimum. The heaviest bundles that fit leave the
        fuller broker for the other one, even if it has only one bundle.

        The pairs with the widest gaps come first. If bundles of a pair wait because the round has reached `most`, the
        pair keeps its counts, so that it goes on in the next round if the gap still exists.
        """
        scores = snapshot.brokers.weighted_usage(self.weights) * 100
        order = np.lexsort((~np.signbit(scores), scores))  # stable; -0 comes before 0, as Java compares
        pairs = (len(order) + 1) // 2
        lesser, greater = order[:pairs], order[::-1][:pairs]
        gap = scores[greater] - scores[lesser]
        low, high = _counted(snapshot, self, hits, lesser, greater, gap)
        enough_low = np.maximum(low[lesser], low[greater]) >= self.low_hits
        enough_high = np.maximum(high[lesser], high[greater]) >= self.high_hits
        acts = (gap >= self.low) & (enough_low | enough_high)
        by_rate, need = _amounts(snapshot, self, lesser, greater)
        verdicts = _verdicts(snapshot, self, scores, low, high, Pairs(lesser, greater, acts, by_rate, need))
        rows, before, waiting = _choose(snapshot, verdicts, greater[acts & (need > 0)], self.most)
        through = acts & ~waiting[greater]
        done = np.concatenate((lesser[through], greater[through]))
        left_low, left_high = low.copy(), high.copy()
        left_low[done] = left_high[done] = 0
        names = snapshot.brokers.names
        plan = FittingPlan(NAME, snapshot, verdicts, rows, before, waiting=waiting if waiting.any() else None)
        return plan, HitCounts(_as_counts(names, left_low), _as_counts(names, left_high))

    def document(self, memory: HitCounts) -> MemoryDocument:
        return MemoryDocument(low_hits=dict(memory.low), high_hits=dict(memory.high))

    def remembered(self, document: MemoryDocument) -> HitCounts:
        return HitCounts(document.low_hits, document.high_hits)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Columns over pairs of a full and an empty broker, the widest gap in usage first: the rows of both brokers,
    whether bundles of the pair may move, and the traffic that may move.

    The traffic `need` is in msg/s for the pairs that `by_rate` flags, in bytes/s for the others; it is 0 if it is below
    the minimum.
    """

    lesser: Integers
    greater: Integers
    acts: Flags
    by_rate: Flags
    need: Floats


def _counted(
    snapshot: LoadSnapshot,
    settings: AvgShedder,
    hits: HitCounts,
    lesser: Integers,
    greater: Integers,
    gap: Floats,
) -> tuple[Integers, Integers]:
    """Return for each broker, after this round, its low and its high count: the number of rounds in a row in which the
    gap of its pair was at least the low, or the high, threshold.
    """
    names = snapshot.brokers.names
    low = np.array([hits.low.get(name, 0) for name in names], np.int64)
    high = np.array([hits.high.get(name, 0) for name in names], np.int64)
    narrow, wide = gap < settings.low, (gap >= settings.low) & (gap >= settings.high)
    for side in (lesser, greater):
        low[side] = np.where(narrow, 0, low[side] + 1)
        high[side] = np.where(wide, high[side] + 1, 0)
    return low, high


def _amounts(snapshot: LoadSnapshot, settings: AvgShedder, lesser: Integers, greater: Integers) -> tuple[Flags, Floats]:
    """Return for each pair of brokers whether the amount is a message rate (else it is a throughput), and the amount of
    traffic that may leave the fuller broker; 0 if it is below the minimum.
    """
    latest = snapshot.brokers.latest
    with np.errstate(over="ignore", invalid="ignore"):
        rate = (latest.rate[greater] - latest.rate[lesser]) * settings.share
        throughput = (latest.throughput[greater] - latest.throughput[lesser]) * settings.share
    by_rate = rate > settings.minimum_rate
    by_throughput = throughput > settings.minimum_throughput
    return by_rate, np.where(by_rate, rate, np.where(by_throughput, throughput, 0.0))


def _as_counts(names: tuple[str, ...], counts: Integers) -> Mapping[str, int]:
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def _choose(
    snapshot: LoadSnapshot, verdicts: "AvgVerdicts", sources: Integers, most: int
) -> tuple[Integers, Floats, Flags]:
    """Return the rows of the bundles that leave `sources`, in the order of the sources. Also return, for each bundle,
    how much traffic its broker had still to shed before it; and flags of the brokers that have more bundles to shed,
    which must wait because the round has `most` bundles.
    """
    short = snapshot.bundles.short
    kept, before = [np.zeros(0, np.int64)], [np.zeros(0)]
    waiting, room = np.zeros(len(snapshot.brokers), bool), most
    for source, rows in zip(sources.tolist(), rows_by_owner(snapshot, sources), strict=True):
        into, out = (
            (short.rate_in, short.rate_out) if verdicts.by_rate[source] else (short.throughput_in, short.throughput_out)
        )
        taken, lefts = take_fitting(into[rows] + out[rows], float(verdicts.need[source]), room + 1)
        waiting[source] = len(taken) > room
        kept.append(rows[taken[:room]])
        before.append(lefts[:room])
        room -= len(kept[-1])
    return np.concatenate(kept).astype(np.int64), np.concatenate(before), waiting


_CODES: Final = (
    Code.DIFFERENCE_TOLERATED,
    Code.GAP_TOO_NEW,
    Code.LESSER_OF_PAIR,
    Code.BELOW_MINIMUM_THROUGHPUT,
    Code.GAP_LASTED,
    Code.MIDDLE_BROKER,
)


def _verdicts(
    snapshot: LoadSnapshot, settings: AvgShedder, scores: Floats, low: Integers, high: Integers, pairs: Pairs
) -> "AvgVerdicts":
    count = len(snapshot.brokers)
    partner = np.zeros(count, np.int32)
    partner[pairs.lesser], partner[pairs.greater] = pairs.greater, pairs.lesser
    code = np.zeros(count, np.int8)
    near = scores[pairs.greater] - scores[pairs.lesser] < settings.low
    code[pairs.lesser] = np.select([near, ~pairs.acts], [0, 1], 2)
    code[pairs.greater] = np.select([near, ~pairs.acts, ~(pairs.need > 0)], [0, 1, 3], 4)
    code[partner == np.arange(count)] = _CODES.index(Code.MIDDLE_BROKER)
    by_rate, need, destination = np.zeros(count, bool), np.zeros(count), np.full(count, -1, np.int32)
    by_rate[pairs.greater] = pairs.by_rate
    need[pairs.greater] = np.where(pairs.acts, pairs.need, 0.0)
    destination[pairs.greater] = pairs.lesser
    return AvgVerdicts(settings, scores, partner, low, high, code, by_rate, need, destination)


@dataclass(frozen=True, slots=True)
class AvgVerdicts:
    """The verdicts of one round, as columns over brokers: score (usage in percent), the row of the partner in the
    broker's pair (its own row if it has no partner), the two counts after this round, an index of _CODES, the amount of
    traffic to shed, and the row of the destination.
    """

    settings: AvgShedder
    scores: Floats
    partner: Indices
    low: Integers
    high: Integers
    code: NDArray[np.int8]
    by_rate: Flags
    need: Floats
    destination: Indices

    @property
    def sheds(self) -> Flags:
        return np.equal(self.code, _CODES.index(Code.GAP_LASTED))

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if not len(snapshot.brokers):
            return Reason(code=Code.BALANCED, strategy=NAME)
        shedding = np.flatnonzero(self.sheds)
        if len(shedding):
            return self.broker(snapshot, int(shedding[0]))
        highest = self.broker(snapshot, int(np.argsort(self.scores, kind="stable")[-1]))
        return Reason(code=Code.BALANCED, strategy=NAME, settings=highest.settings, cause=highest)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        code, partner = _CODES[self.code[broker]], int(self.partner[broker])
        compared: tuple[Compared, ...] = ()
        settings: tuple[str, ...] = ()
        if code is Code.MIDDLE_BROKER:
            detail = f"usage {format_figure(float(self.scores[broker]) / 100, '%')}"
        else:
            compared, settings = self._comparison(snapshot, broker, partner, code)
            mine, other = (format_figure(float(self.scores[each]) / 100, "%") for each in (broker, partner))
            detail = f"paired with {snapshot.brokers.names[partner]}, usage {mine} and {other}"
        return Reason(
            code=code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=compared,
            settings=settings,
            flags=snapshot.brokers.flags_of(broker),
            detail=detail,
        )

    def _comparison(
        self, snapshot: LoadSnapshot, broker: int, partner: int, code: Code
    ) -> tuple[tuple[Compared, ...], tuple[str, ...]]:
        gap = abs(float(self.scores[broker] - self.scores[partner])) / 100
        if code is Code.DIFFERENCE_TOLERATED:
            return (Compared("usage gap", gap, "<", "low threshold", self.settings.low / 100, "%"),), _LOW_KEYS[:1]
        high = max(int(self.high[broker]), int(self.high[partner]))
        low = max(int(self.low[broker]), int(self.low[partner]))
        by_high = high >= self.settings.high_hits if code is not Code.GAP_TOO_NEW else gap * 100 >= self.settings.high
        name, threshold, count, least, keys = (
            ("high threshold", self.settings.high, high, self.settings.high_hits, _HIGH_KEYS)
            if by_high
            else ("low threshold", self.settings.low, low, self.settings.low_hits, _LOW_KEYS)
        )
        relation = "<" if code is Code.GAP_TOO_NEW else ">="
        compared = (
            Compared("usage gap", gap, ">=", name, threshold / 100, "%"),
            Compared("rounds in a row", count, relation, "required", least),
        )
        if code is Code.BELOW_MINIMUM_THROUGHPUT:
            return (*compared, *self._too_little(snapshot, broker, partner)), _AMOUNT_KEYS
        return compared, keys

    def _too_little(self, snapshot: LoadSnapshot, broker: int, partner: int) -> tuple[Compared, ...]:
        latest, options = snapshot.brokers.latest, self.settings
        rate = float(latest.rate[broker] - latest.rate[partner]) * options.share
        throughput = float(latest.throughput[broker] - latest.throughput[partner]) * options.share
        return (
            Compared("message rate to shed", rate, "<=", "minimum", options.minimum_rate, "msg/s"),
            Compared("throughput to shed", throughput, "<=", "minimum", options.minimum_throughput, "bytes/s"),
        )
