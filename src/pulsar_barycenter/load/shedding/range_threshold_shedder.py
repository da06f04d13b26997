"""RangeThresholdShedder: the ThresholdShedder, which also sheds for brokers far below the mean if none is above it.

Worked example (threshold 10 points): ten brokers are at 80 % and one at 5 %. The mean is 73.2 %, and no broker reaches
83.2 %, but the idle one is below 63.2 %. So the most loaded broker sheds a tenth of its throughput.

When to use it: where `lowerBoundarySheddingEnabled` of the ThresholdShedder is too slow, since this moves twice as much
in a round. When not: if the most loaded broker has a single bundle, since then nothing moves, whatever others hold.

Source: a development predecessor of the lower boundary of Pulsar's `ThresholdShedder`; no release has it. Where we
differ: as in the ThresholdShedder; of brokers of equal usage the one with the smaller name is the most loaded.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.shedding.plan import ShedPlan, Verdicts, take_heaviest
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.shedding.threshold_shedder import (
    ThresholdShedder,
    ThresholdVerdicts,
    UsageHistory,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from pulsar_barycenter.load.strategy import MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "RangeThresholdShedder"
_THRESHOLD_KEY: Final = "loadBalancerBrokerThresholdShedderPercentage"
_MINIMUM_KEY: Final = "loadBalancerBundleUnloadMinThroughputThreshold"


@dataclass(frozen=True, slots=True)
class RangeThresholdShedder(Shedder[UsageHistory]):
    """The strategy RangeThresholdShedder. It first applies `plain`, a ThresholdShedder without lower boundary. If that
    selects no bundle, it applies a lower boundary of its own.
    """

    name: ClassVar[str] = NAME
    plain: ThresholdShedder

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(replace(ThresholdShedder.of(config), lower_boundary=False))

    def start(self) -> UsageHistory:
        return self.plain.start()

    def decide(self, snapshot: LoadSnapshot, history: UsageHistory) -> tuple[ShedPlan, UsageHistory]:
        """Return the plan, and the smoothed usages for the next round. The plan is that of the ThresholdShedder
        `plain`; if that selects no bundle, it is the plan by the lower boundary.

        The plan by the lower boundary first updates the smoothed usages a second time. If the smoothed usage of any
        broker is then below mean - threshold, the most loaded broker sheds `throughput * threshold` bytes/s, unless
        that is below the minimum or the broker has fewer than two bundles.
        """
        plain = self.plain
        first, after = plain.decide(snapshot, history)
        if len(first) or first.verdicts.mean == 0:
            renamed = _Renamed(first.verdicts)
            return ShedPlan(NAME, snapshot, renamed, first.rows, first.before, waiting=first.waiting), after
        second, after = plain.decide(snapshot, after)
        verdicts = _judge(snapshot, plain, first.verdicts, second.verdicts)
        rows, before, waiting = take_heaviest(snapshot, verdicts.sheds, verdicts.need, plain.most)
        return ShedPlan(NAME, snapshot, verdicts, rows, before, waiting=waiting), after

    def document(self, memory: UsageHistory) -> MemoryDocument:
        return self.plain.document(memory)

    def remembered(self, document: MemoryDocument) -> UsageHistory:
        return self.plain.remembered(document)


def _judge(
    snapshot: LoadSnapshot, settings: ThresholdShedder, first: Verdicts, second: ThresholdVerdicts
) -> "RangeVerdicts":
    scores, line = second.scores, second.mean - settings.threshold
    need = snapshot.brokers.latest.throughput * settings.threshold
    top, code = int(np.argmax(scores)), Code.WITHIN_THRESHOLD
    if scores[top] > line and bool(np.any(scores < line)):
        if snapshot.brokers.bundle_count[top] <= 1:
            code = Code.TOO_FEW_BUNDLES
        elif settings.minimum_throughput > need[top]:
            code = Code.BELOW_MINIMUM_THROUGHPUT
        else:
            code = Code.OTHERS_BELOW_LOWER_BOUNDARY
    return RangeVerdicts(settings, _Renamed(first), scores, line, need, top, code)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """The verdicts of the ThresholdShedder, with reasons that name the RangeThresholdShedder as the strategy."""

    verdicts: Verdicts

    @property
    def sheds(self) -> Flags:
        return self.verdicts.sheds

    @property
    def need(self) -> Floats:
        return self.verdicts.need

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        return _rename(self.verdicts.overall(snapshot))

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        return _rename(self.verdicts.broker(snapshot, broker))


def _rename(reason: Reason) -> Reason:
    cause = None if reason.cause is None else _rename(reason.cause)
    return msgspec.structs.replace(reason, strategy=NAME, cause=cause)


@dataclass(frozen=True, slots=True)
class RangeVerdicts:
    """The verdicts of a round in which the lower boundary was applied. It decides about the most loaded broker, in row
    `top`; the verdicts on all other brokers are those of the ThresholdShedder before it (`first`).
    """

    settings: ThresholdShedder
    first: _Renamed
    scores: Floats
    line: float
    need: Floats
    top: int
    code: Code

    @property
    def sheds(self) -> Flags:
        flags = np.zeros(len(self.scores), bool)
        flags[self.top] = self.code is Code.OTHERS_BELOW_LOWER_BOUNDARY
        return flags

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        verdict = self.broker(snapshot, self.top)
        if self.code is Code.OTHERS_BELOW_LOWER_BOUNDARY:
            return verdict
        return Reason(code=Code.BALANCED, strategy=NAME, settings=verdict.settings, cause=verdict)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        if broker != self.top or self.code is Code.WITHIN_THRESHOLD:
            return self.first.broker(snapshot, broker)
        return Reason(
            code=self.code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=(self._below(snapshot), self._judged(snapshot)),
            settings=(_THRESHOLD_KEY, _MINIMUM_KEY),
            flags=snapshot.brokers.flags_of(broker),
        )

    def _below(self, snapshot: LoadSnapshot) -> Compared:
        least = int(np.argmin(self.scores))
        name, score = snapshot.brokers.names[least], float(self.scores[least])
        return Compared(f"smoothed usage of {name}", score, "<", "mean - threshold", self.line, "%")

    def _judged(self, snapshot: LoadSnapshot) -> Compared:
        if self.code is Code.TOO_FEW_BUNDLES:
            count = float(snapshot.brokers.bundle_count[self.top])
            return Compared("bundles", count, "<", "minimum", 2, "bundles")
        relation = ">=" if self.code is Code.OTHERS_BELOW_LOWER_BOUNDARY else "<"
        need, least = float(self.need[self.top]), self.settings.minimum_throughput
        return Compared("throughput to shed", need, relation, "minimum", least, "bytes/s")
