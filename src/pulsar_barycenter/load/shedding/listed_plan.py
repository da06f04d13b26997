"""A plan that is a list: for shedders that choose bundles one by one and give a sentence for each.

The strategies of this package keep their numbers in columns, because a round of a large cluster decides upon a million
bundles. A shedder of another package may be simpler: it lists `Shed` values, and this plan makes the reasons.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.shedding.shedder import UsageSpread, refusals_to_shed
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot
from pulsar_barycenter.load.strategy_plugins import PluginError


@dataclass(frozen=True, slots=True)
class Shed:
    """A bundle to unload, in the plan of a strategy of another package: `bundle` is the row of the bundle in the
    snapshot, `because` is why.

    `because` is the end of a sentence that begins with "the shedding strategy chose it: ". `compared` are the
    comparisons that decided. The placement strategy chooses the destination.
    """

    bundle: int
    because: str
    compared: tuple[Compared, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedPlan:
    """A shedder's plan that consists of a list: `sheds` are the bundles to unload, in the order in which they are
    unloaded. It implements `SheddingPlan`.

    `kept_because` is why the brokers of which no bundle is listed do not shed. `settings` are the configuration keys
    that would change the decision.
    """

    strategy: str
    snapshot: LoadSnapshot
    sheds: Sequence[Shed]
    kept_because: str
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows = [shed.bundle for shed in self.sheds]
        count = len(self.snapshot.bundles)
        if any(not 0 <= row < count for row in rows) or len(set(rows)) < len(rows):
            raise PluginError(
                f"{self.strategy} lists bundles {rows[:16]}: each must be the number of a row, from 0 to {count - 1},"
                " and occur once; report this to the authors of the strategy"
            )
        numbers = [number for shed in self.sheds for one in shed.compared for number in (one.value, one.limit)]
        if not all(map(math.isfinite, numbers)):
            raise PluginError(
                f"{self.strategy} gives a number that is not finite as a reason to unload:"
                " report this to the authors of the strategy"
            )

    @property
    def decided(self) -> "ListedPlan":
        """This plan itself: its rows are those of the snapshot that the shedder received."""
        return self

    @property
    def rows(self) -> Integers:
        """The rows of the bundles to unload, in the order in which they are unloaded."""
        return np.array([shed.bundle for shed in self.sheds], np.int64)

    @property
    def reason(self) -> Reason:
        """The reason why the round sheds bundles, or sheds none."""
        if self.sheds:
            return self._reason(Code.SHEDS_BY_STRATEGY, "", self.sheds[0].because, self.sheds[0].compared)
        return self._reason(Code.KEPT_BY_STRATEGY, "", self.kept_because)

    @property
    def usage_spread(self) -> UsageSpread | None:
        """Always None: a listed plan does not say which usages the strategy compared."""
        return None

    def __len__(self) -> int:
        return len(self.sheds)

    def __iter__(self) -> Iterator[Unload]:
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        for shed in self.sheds:
            name, source = bundles.names[shed.bundle], brokers.names[bundles.owner.item(shed.bundle)]
            reason = self._reason(Code.MOVES_BY_STRATEGY, name, shed.because, shed.compared)
            yield Unload(name, source, reason)

    def broker_reason(self, broker: int) -> Reason:
        """Return why the broker in this row sheds, or does not."""
        name = self.snapshot.brokers.names[broker]
        for shed in self.sheds:
            if self.snapshot.bundles.owner.item(shed.bundle) == broker:
                return self._reason(Code.SHEDS_BY_STRATEGY, name, shed.because, shed.compared)
        return self._reason(Code.KEPT_BY_STRATEGY, name, self.kept_because)

    def destinations(self) -> Mapping[str, str]:
        """Return an empty mapping: the placement strategy chooses the destinations."""
        return {}

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each broker that sheds nothing does not shed."""
        return refusals_to_shed(self)

    def _reason(self, code: Code, subject: str, detail: str, compared: tuple[Compared, ...] = ()) -> Reason:
        return Reason(
            code=code,
            strategy=self.strategy,
            subject=subject,
            compared=compared,
            settings=self.settings,
            detail=detail,
        )
