"""Plans of shedders that choose bundles that fit into a budget, which one does not fit being passed over.

UniformLoadShedder and AvgShedder share it. A budget is of messages or of bytes, whichever the strategy found to matter.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from barycenter.load.decisions import Unload
from barycenter.load.reasons import Code, Compared, Reason, format_figure
from barycenter.load.shedding.plan import ShedPlan, Verdicts
from barycenter.load.snapshot import Flags, Floats, Indices, Integers, LoadSnapshot


class FittingVerdicts(Verdicts, Protocol):
    """`need` is what leaves each broker at most: msg/s where `by_rate`, else bytes/s."""

    @property
    def by_rate(self) -> Flags: ...

    @property
    def destination(self) -> Indices:
        """The row of the broker that shall own what leaves each broker; -1: placement decides."""
        ...


@dataclass(frozen=True, slots=True)
class FittingPlan(ShedPlan):
    """`rows` and `before` as in `ShedPlan`, but in the unit of the broker's budget and brokers in order of selection.

    `before` is what was left of the budget when a row was chosen.
    """

    verdicts: FittingVerdicts

    def unload(self, position: int) -> Unload:
        """Return the decision at `position` of `rows`, with its reason and its destination if that is known."""
        row = int(self.rows[position])
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        owner = int(bundles.owner[row])
        by_rate, destination = bool(self.verdicts.by_rate[owner]), int(self.verdicts.destination[owner])
        unit = "msg/s" if by_rate else "bytes/s"
        traffic = float((bundles.short.rate if by_rate else bundles.short.throughput)[row])
        reason = Reason(
            code=Code.FITTING_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[row],
            compared=(Compared("traffic", traffic, "<=", "what is left to leave", float(self.before[position]), unit),),
            flags=("the bundle's figures are no numbers",) if bundles.suspect[row] else (),
            detail=f"of {format_figure(float(self.verdicts.need[owner]), unit)} in all",
            cause=self.verdicts.broker(self.snapshot, owner),
        )
        goal = None if destination < 0 else brokers.names[destination]
        return Unload(bundles.names[row], brokers.names[owner], reason, goal)

    def __iter__(self) -> Iterator[Unload]:
        return (self.unload(position) for position in range(len(self)))


def rows_by_owner(snapshot: LoadSnapshot, brokers: Integers) -> list[Integers]:
    """Return for each of `brokers` its rows that may be shed, in the order of names; each broker once."""
    place = np.full(len(snapshot.brokers), -1, np.int64)
    place[brokers] = np.arange(len(brokers))
    bundles = snapshot.bundles
    rows = np.flatnonzero(bundles.may_shed & (place[bundles.owner] >= 0)) if len(bundles) else np.zeros(0, np.int64)
    places = place[bundles.owner[rows]]
    order = np.argsort(places, kind="stable")
    return np.split(rows[order], np.searchsorted(places[order], np.arange(1, len(brokers)))) if len(brokers) else []


def take_fitting(
    traffic: Floats, budget: float, charge: Callable[[float], float] = float
) -> tuple[list[int], list[float]]:
    """Walk `traffic` (falling) and take whatever is at most the budget, which each one taken lowers by its `charge`.

    Traffic of 0 and less is not taken. Returns the positions taken and what was left before each.
    """
    count = int(np.count_nonzero(traffic > 0))
    rising = (-traffic[:count]).tolist()
    taken: list[int] = []
    before: list[float] = []
    position = 0
    while (position := bisect_left(rising, -budget, position)) < count:
        taken.append(position)
        before.append(budget)
        budget -= charge(-rising[position])
        position += 1
    return taken, before
