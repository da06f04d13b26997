"""ThresholdShedder: unload from brokers whose smoothed usage is above the mean by at least a threshold.

Worked example (threshold 10 points, minimum 10 MiB/s): three new brokers have a usage of 40 %, 10 % and 10 %. Their
smoothed usages start with these values, so the mean is 20 % and the limit 30 %. Only the first broker sheds:
(0.40 - 0.20 - 0.10 + 0.05) = 15 % of its throughput, at least one bundle, heaviest first.

When to use it: equal brokers under steady load. When not: clusters that grow, since a new, idle broker gets nothing
while the others have similar usages (unless `lowerBoundarySheddingEnabled` is on); and load that changes fast, since
smoothing delays the reaction.

Source: Pulsar's `ThresholdShedder` (4.x). Where we differ: brokers are examined in the order of their names, and the
histories of brokers that left are dropped at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.decisions import NO_LIMIT, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.shedding.plan import THROUGHPUT_MARGIN, ShedPlan, sequential_mean, take_heaviest
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from pulsar_barycenter.load.strategy import MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "ThresholdShedder"
_MEBIBYTE: Final = 1_048_576
_LOWER_BOUNDARY_SHARE: Final = 0.5

UsageHistory = Mapping[str, float]
"""Broker id to smoothed usage (fraction)."""


@dataclass(frozen=True, slots=True)
class ThresholdShedder(Shedder[UsageHistory]):
    """The strategy ThresholdShedder: `threshold` and `history_weight` are fractions, `minimum_throughput` is bytes/s in
    + out. `history_weight` is the weight of the previous value when a smoothed usage (a moving average) is updated.

    `most` is the maximum number of bundles that one round unloads.
    """

    name: ClassVar[str] = NAME

    threshold: float = 0.1
    history_weight: float = 0.9
    minimum_throughput: float = 10 * _MEBIBYTE
    weights: ResourceWeights = DEFAULT_WEIGHTS
    lower_boundary: bool = False
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            threshold=config.load_balancer_broker_threshold_shedder_percentage / 100.0,
            history_weight=config.load_balancer_history_resource_percentage,
            minimum_throughput=config.load_balancer_bundle_unload_min_throughput_threshold * _MEBIBYTE,
            weights=resource_weights(config),
            lower_boundary=config.lower_boundary_shedding_enabled,
            most=bundles_of_round(config),
        )

    def start(self) -> UsageHistory:
        return {}

    def decide(self, snapshot: LoadSnapshot, history: UsageHistory) -> tuple["ThresholdPlan", UsageHistory]:
        """Return the plan, and the smoothed usages for the next round.

        The smoothed usage of a broker is at first its weighted usage. Each call replaces it by `old * h + (1 - h) *
        usage`, where `old` is its present value and h is `history_weight`. With mean m and threshold t, a broker whose
        smoothed usage c is at least m + t sheds `throughput * (c - m - t + 0.05)` bytes/s, unless that is below the
        minimum or the broker has fewer than two bundles.

        If no bundle is selected and the lower boundary is switched on, the smoothed usages are updated a second time,
        and the lower boundary decides.
        """
        usage = snapshot.brokers.weighted_usage(self.weights)
        scores = _step(snapshot, usage, history, self.history_weight)
        verdicts = _judge(snapshot, self, usage, scores)
        rows, before, waiting = take_heaviest(snapshot, verdicts.sheds, verdicts.need, self.most)
        if len(rows) == 0 and verdicts.mean != 0 and self.lower_boundary:
            scores = _step(snapshot, usage, _as_history(snapshot, scores), self.history_weight)
            verdicts = _judge_lower_boundary(snapshot, self, usage, scores, verdicts)
            rows, before, waiting = take_heaviest(snapshot, verdicts.sheds, verdicts.need, self.most)
        return ThresholdPlan(NAME, snapshot, verdicts, rows, before, waiting=waiting), _as_history(snapshot, scores)

    def document(self, memory: UsageHistory) -> MemoryDocument:
        return MemoryDocument(usage=dict(memory))

    def remembered(self, document: MemoryDocument) -> UsageHistory:
        return document.usage


def _step(snapshot: LoadSnapshot, usage: Floats, history: UsageHistory, weight: float) -> Floats:
    past = np.array([history.get(name, np.nan) for name in snapshot.brokers.names], float)
    return np.where(np.isnan(past), usage, past * weight + (1 - weight) * usage)


def _as_history(snapshot: LoadSnapshot, scores: Floats) -> UsageHistory:
    return dict(zip(snapshot.brokers.names, scores.tolist(), strict=True))


_CODES: Final = (
    Code.NO_LOAD,
    Code.WITHIN_THRESHOLD,
    Code.BELOW_MINIMUM_THROUGHPUT,
    Code.TOO_FEW_BUNDLES,
    Code.ABOVE_AVERAGE,
    Code.OTHERS_BELOW_LOWER_BOUNDARY,
)


@dataclass(frozen=True, slots=True)
class ThresholdVerdicts:
    """The verdicts of one round, as columns over brokers: usage and smoothed usage (fractions), the throughput that the
    broker would shed (bytes/s), and an index of _CODES.

    If the lower boundary was applied, because the threshold selected no bundle, `first` has the verdicts by the
    threshold; otherwise it is None.
    """

    settings: ThresholdShedder
    mean: float
    usage: Floats
    scores: Floats
    need: Floats
    code: NDArray[np.int8]
    first: "ThresholdVerdicts | None" = None

    @property
    def sheds(self) -> Flags:
        """One flag for each broker, set if the broker sheds: by the lower boundary if that was applied, otherwise by
        the threshold.
        """
        wanted = Code.ABOVE_AVERAGE if self.first is None else Code.OTHERS_BELOW_LOWER_BOUNDARY
        return np.equal(self.code, _CODES.index(wanted))

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if self.mean == 0:
            return Reason(code=Code.NO_LOAD, strategy=NAME)
        shedding = np.flatnonzero(self.sheds)
        if len(shedding):
            return self.broker(snapshot, int(shedding[0]))
        if not len(snapshot.brokers):
            return Reason(code=Code.BALANCED, strategy=NAME)
        first = self.first or self
        highest = first.broker(snapshot, int(np.argmax(first.scores)))
        return Reason(code=Code.BALANCED, strategy=NAME, settings=highest.settings, cause=highest)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        code = _CODES[self.code[broker]]
        if self.first is not None and code is _CODES[self.first.code[broker]]:
            return self.first.broker(snapshot, broker)
        compared, settings = self._comparison(snapshot, broker, code)
        return Reason(
            code=code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=compared,
            settings=settings,
            flags=snapshot.brokers.flags_of(broker),
            detail=f"usage now {format_figure(float(self.usage[broker]), '%')}, "
            f"smoothed {format_figure(float(self.scores[broker]), '%')}, mean {format_figure(self.mean, '%')}",
        )

    def _comparison(
        self, snapshot: LoadSnapshot, broker: int, code: Code
    ) -> tuple[tuple[Compared, ...], tuple[str, ...]]:
        score, line = float(self.scores[broker]), self.mean + self.settings.threshold
        asked, least = float(self.need[broker]), self.settings.minimum_throughput
        above = Compared("smoothed usage", score, ">=", "mean + threshold", line, "%")
        worth = Compared("throughput to shed", asked, ">=", "minimum", least, "bytes/s")
        threshold_key, minimum_key = (
            "loadBalancerBrokerThresholdShedderPercentage",
            "loadBalancerBundleUnloadMinThroughputThreshold",
        )
        match code:
            case Code.WITHIN_THRESHOLD:
                within = Compared("smoothed usage", score, "<", "mean + threshold", line, "%")
                return (within,), (threshold_key,)
            case Code.BELOW_MINIMUM_THROUGHPUT:
                too_little = Compared("throughput to shed", asked, "<", "minimum", least, "bytes/s")
                return (too_little,) if self.first is not None else (above, too_little), (minimum_key,)
            case Code.TOO_FEW_BUNDLES:
                few = Compared("bundles", float(snapshot.brokers.bundle_count[broker]), "<", "minimum", 2, "bundles")
                return (above, few), ("loadBalancerAutoBundleSplitEnabled",)
            case Code.ABOVE_AVERAGE:
                return (above, worth), (threshold_key, minimum_key)
            case Code.OTHERS_BELOW_LOWER_BOUNDARY:
                lower = self.mean - self.settings.threshold
                least_loaded = int(np.argmin(self.scores))
                below = Compared(
                    f"smoothed usage of {snapshot.brokers.names[least_loaded]}",
                    float(self.scores[least_loaded]),
                    "<",
                    "mean - threshold",
                    lower,
                    "%",
                )
                return (below, worth), ("lowerBoundarySheddingEnabled", threshold_key)
            case _:
                return (), ()


@dataclass(frozen=True, slots=True)
class ThresholdPlan(ShedPlan):
    verdicts: ThresholdVerdicts


def _judge(snapshot: LoadSnapshot, settings: ThresholdShedder, usage: Floats, scores: Floats) -> ThresholdVerdicts:
    mean = sequential_mean(scores)
    excess = scores - mean - settings.threshold + THROUGHPUT_MARGIN
    with np.errstate(over="ignore", invalid="ignore"):
        asked = snapshot.brokers.latest.throughput * excess
    within = scores < mean + settings.threshold
    too_little = asked < settings.minimum_throughput
    too_few = snapshot.brokers.bundle_count <= 1
    code = np.select([np.full(len(scores), mean == 0), within, too_little, too_few], [0, 1, 2, 3], 4).astype(np.int8)
    return ThresholdVerdicts(settings, mean, usage, scores, asked, code)


def _judge_lower_boundary(
    snapshot: LoadSnapshot,
    settings: ThresholdShedder,
    usage: Floats,
    scores: Floats,
    first: ThresholdVerdicts,
) -> ThresholdVerdicts:
    mean = sequential_mean(scores)
    line = mean - settings.threshold
    asked = snapshot.brokers.latest.throughput * settings.threshold * _LOWER_BOUNDARY_SHARE
    code = first.code.copy()
    eligible = np.flatnonzero((scores > line) & (snapshot.brokers.bundle_count > 1))
    if len(eligible) and np.any(scores < line):
        top = eligible[np.argmax(scores[eligible])]
        if settings.minimum_throughput > asked[top]:
            code[top] = _CODES.index(Code.BELOW_MINIMUM_THROUGHPUT)
        else:
            code[top] = _CODES.index(Code.OTHERS_BELOW_LOWER_BOUNDARY)
    return ThresholdVerdicts(settings, mean, usage, scores, asked, code, first)
