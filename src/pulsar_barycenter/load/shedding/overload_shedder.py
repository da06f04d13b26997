"""OverloadShedder: unload from brokers whose usage has reached the overload limit.

Worked example (limit 85 %): a broker at 90 % with 1 000 MiB/s in + out has to shed (0.90 - 0.85 + 0.05) = 10 % of it,
100 MiB/s. Of its bundles of 125 MiB/s one is enough.

When to use it: hardly ever; as a last resort against full brokers, where differences below the limit do not matter.
When not: it compares a broker with no other one, so if all are above the limit, it moves bundles between overloaded
brokers without end; and it has no memory and no minimum.

Source: Pulsar's `OverloadShedder` (4.x: weighted usage; up to 3.x the unweighted maximum).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, OVERLOAD_KEY, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.shedding.plan import THROUGHPUT_MARGIN, ShedPlan, take_heaviest
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "OverloadShedder"


@dataclass(frozen=True, slots=True)
class OverloadShedder(Shedder[None]):
    """The strategy OverloadShedder: `limit` is a usage as a fraction; `most` is the maximum number of bundles that one
    round unloads.
    """

    name: ClassVar[str] = NAME

    limit: float = 0.85
    weights: ResourceWeights = DEFAULT_WEIGHTS
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            limit=config.load_balancer_broker_overloaded_threshold_percentage / 100.0,
            weights=resource_weights(config),
            most=bundles_of_round(config),
        )

    def start(self) -> None:
        return None

    def decide(self, snapshot: LoadSnapshot, memory: None) -> tuple["ShedPlan", None]:
        """Return the plan: a broker whose usage u is at least the limit sheds bundles of `throughput * (u - limit +
        0.05)` bytes/s in total, the heaviest first.

        Such a broker sheds at least one bundle, but none if it has fewer than two. If its usage is above 100 %, it may
        shed all its bundles.
        """
        usage = snapshot.brokers.weighted_usage(self.weights)
        over = usage >= self.limit
        with np.errstate(over="ignore", invalid="ignore"):
            asked = snapshot.brokers.latest.throughput * (usage - self.limit + THROUGHPUT_MARGIN)
        sheds = over & (snapshot.brokers.bundle_count > 1)
        rows, before, waiting = take_heaviest(snapshot, sheds, asked, self.most)
        verdicts = OverloadVerdicts(self, usage, over, sheds, asked)
        return ShedPlan(NAME, snapshot, verdicts, rows, before, waiting=waiting), memory


@dataclass(frozen=True, slots=True)
class OverloadVerdicts:
    """The verdicts of one round, as columns over brokers: usage (fraction), whether the usage is at least the limit,
    whether the broker sheds, and the throughput to shed (bytes/s).
    """

    settings: OverloadShedder
    usage: Floats
    over: Flags
    sheds: Flags
    need: Floats

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        shedding = np.flatnonzero(self.sheds)
        if len(shedding):
            return self.broker(snapshot, int(shedding[0]))
        if not len(snapshot.brokers):
            return Reason(code=Code.BALANCED, strategy=NAME, settings=(OVERLOAD_KEY,))
        highest = self.broker(snapshot, int(np.argmax(self.usage)))
        return Reason(code=Code.BALANCED, strategy=NAME, settings=(OVERLOAD_KEY,), cause=highest)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        usage, limit = float(self.usage[broker]), self.settings.limit
        if not self.over[broker]:
            code, compared = Code.BELOW_LIMIT, [Compared("usage", usage, "<", "overload limit", limit, "%")]
        else:
            code, compared = Code.ABOVE_LIMIT, [Compared("usage", usage, ">=", "overload limit", limit, "%")]
            if not self.sheds[broker]:
                code = Code.TOO_FEW_BUNDLES
                count = float(snapshot.brokers.bundle_count[broker])
                compared.append(Compared("bundles", count, "<", "minimum", 2, "bundles"))
        return Reason(
            code=code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=tuple(compared),
            settings=(OVERLOAD_KEY,),
            flags=snapshot.brokers.flags_of(broker),
        )
