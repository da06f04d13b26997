"""Plans of shedders that fill a budget: they take the heaviest bundles that fit, and skip those that do not.

UniformLoadShedder and AvgShedder share this. The budget is in msg/s or in bytes/s: the strategy decides which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.ordering import by_group, heaviest_first, sheddable_rows
from pulsar_barycenter.load.shedding.plan import ShedPlan, Verdicts
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot

LARGEST: Final = 2**31 - 1
"""The largest value of a Java `int`, to which Pulsar bounds these numbers."""
_FIRST_LOOK: Final = 64


class FittingVerdicts(Verdicts, Protocol):
    """The verdicts of a shedder that picks bundles which fit into a budget. `need` is the budget: the maximum traffic
    that leaves each broker, in msg/s for the brokers that `by_rate` flags, in bytes/s for the others.
    """

    @property
    def by_rate(self) -> Flags: ...

    @property
    def destination(self) -> Indices:
        """For each broker, the row of the broker to which its bundles go; -1: the shedder chooses no destination, the
        placement strategy does.
        """
        ...


@dataclass(frozen=True, slots=True)
class FittingPlan(ShedPlan):
    """The bundles to unload: `rows` of the snapshot's bundles, grouped by broker. The brokers are in the order in which
    the strategy selected them.

    `before` has, for each row, the traffic that its broker had still to shed when the row was selected, in msg/s or
    bytes/s (see `FittingVerdicts`).
    """

    verdicts: FittingVerdicts

    def _unload(self, position: int, cause: Reason) -> Unload:
        row, bundles, brokers = self.rows.item(position), self.snapshot.bundles, self.snapshot.brokers
        owner, short = bundles.owner.item(row), bundles.short
        by_rate, destination = self.verdicts.by_rate.item(owner), self.verdicts.destination.item(owner)
        unit = "msg/s" if by_rate else "bytes/s"
        into, out = (short.rate_in, short.rate_out) if by_rate else (short.throughput_in, short.throughput_out)
        traffic, left = into.item(row) + out.item(row), self.before.item(position)
        reason = Reason(
            code=Code.FITTING_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[row],
            compared=(Compared("traffic of the bundle", traffic, "<=", "remaining load to shed", left, unit),),
            flags=("the load values of the bundle are not numbers",) if bundles.suspect[row] else (),
            detail=f"its broker has to shed {format_figure(self.verdicts.need.item(owner), unit)} in total",
            cause=cause,
        )
        goal = None if destination < 0 else brokers.names[destination]
        return Unload(bundles.names[row], brokers.names[owner], reason, goal)

    def destinations(self) -> Mapping[str, str]:
        """Return the destination of each bundle for which the strategy chose one. This builds no reasons, so it is
        faster than reading the unloads.
        """
        bundles, brokers = self.snapshot.bundles.names, self.snapshot.brokers.names
        goals = self.verdicts.destination[self.snapshot.bundles.owner[self.rows]].tolist()
        pairs = zip(self.rows.tolist(), goals, strict=True)
        return {bundles[row]: brokers[goal] for row, goal in pairs if goal >= 0}


def rows_by_owner(snapshot: LoadSnapshot, brokers: Integers) -> list[Integers]:
    """Return for each of `brokers`, which are distinct, the rows of its bundles that may be shed, sorted by name."""
    asked = np.zeros(len(snapshot.brokers), bool)
    asked[brokers] = True
    rows = sheddable_rows(snapshot, asked)
    order, edges = by_group(snapshot.bundles.owner[rows], len(snapshot.brokers))
    rows = rows[order]
    return [rows[edges[broker] : edges[broker + 1]] for broker in brokers.tolist()]


def take_fitting(
    traffic: Floats, budget: float, most: int = NO_LIMIT, *, whole: bool = False
) -> tuple[Integers, Floats]:
    """Return the positions of the bundles to take, at most `most`, and for each of them the budget that was left before
    it was taken. `traffic` is the traffic of the bundles.

    The heaviest bundles are examined first. A bundle is taken if its traffic fits into the budget, which is then
    lowered by its traffic. With `whole`, the budget is lowered only by the whole part of its traffic, bounded by
    LARGEST, as in Pulsar. A bundle with traffic of 0 or less is not taken.
    """
    taken, before = [np.zeros(0, np.int64)], [np.zeros(0)]
    ahead, room, look = np.flatnonzero(traffic > 0), most, most
    # the budget only falls, so a bundle that did not fit never fits later; if all fit, one pass is enough
    while room > 0 and len(ahead := ahead[traffic[ahead] <= budget]):
        heaviest = heaviest_first(traffic[ahead], look)
        falling = ahead[heaviest]
        found, lefts, budget = _walk(traffic[falling], budget, whole=whole)
        taken.append(falling[found[:room]])
        before.append(lefts[:room])
        ahead = np.delete(ahead, heaviest)
        room, look = room - len(taken[-1]), 8 * look
    return np.concatenate(taken), np.concatenate(before)


def _walk(falling: Floats, budget: float, *, whole: bool) -> tuple[Integers, Floats, float]:
    """Return the positions of the bundles that are taken, the budget before each of them, and the budget after the
    last.

    `falling` is the traffic of the bundles, all above 0, in descending order. `whole` is as in `take_fitting`.
    """
    charges = np.minimum(np.trunc(falling), LARGEST) if whole else falling
    rising = -falling
    taken, before = [np.zeros(0, np.int64)], [np.zeros(0)]
    position, size = 0, _FIRST_LOOK
    # each skip leaves less than two thirds of the budget, so there are at most a few dozen skips
    while (position := position + int(np.searchsorted(rising[position:], -budget))) < len(falling):
        end = min(position + size, len(falling))
        with np.errstate(invalid="ignore"):
            left = np.subtract.accumulate(np.concatenate(([budget], charges[position:end])))
        fits = falling[position:end] <= left[:-1]
        count = len(fits) if fits.all() else int(np.argmin(fits))
        taken.append(np.arange(position, position + count))
        before.append(left[:count])
        size = 2 * size if position + count == end else _FIRST_LOOK
        position, budget = position + count, float(left[count])
    return np.concatenate(taken), np.concatenate(before), budget
