"""Whether a planned move still helps by the newest reports, right before it is made.

A round decides once, and then makes its moves one after the other. Each takes a while, so the last moves of a long
round would be made by load that is minutes old. Meanwhile the destination may have grown, or the bundle itself. So each
move is checked again, if a report arrived since the decision: by what brokers report now, without estimates, and with
the moves that were made since. The *gain* is by how much the move lowers the usage of the fuller one of its two
brokers. A single move by its price must still have the least gain, any other move some gain. An exchange is checked as
a whole before its first move. A bundle that stays may be chosen in the next round.

The check makes no move better, it only leaves moves out: the new load may be noise, which the estimates ignore, and a
move that is left out costs nothing but time.

Worked example: b1 is at 60 % and b2 at 40 %, and a bundle of 15 points is to move, which lowers the fuller one to 55 %.
Before its turn comes, the bundle reports 35 points, and b1 80 %. The move would leave b1 at 45 and b2 at 75 %, so it
still gains 5 points. If instead b2 has grown to 70 %, b2 would have 85 %: the bundle stays.

Source: our own.
"""

from bisect import bisect_left, bisect_right
from math import nan
from typing import Final

from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.least_disturbance.assignment import BY_NUMBER, EVENS, RETURNED
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import BAND_KEY, NAME
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import reported_usage
from pulsar_barycenter.load.shedding.least_disturbance.verdicts import DisturbancePlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

_ROUNDING: Final = 1e-6
"""A fraction. Less gain than this may come from rounding alone: brokers report usages in single precision."""


def why_it_stays(plan: DisturbancePlan, position: int, unload: Unload, load: LoadSnapshot) -> Reason | None:
    """Return why the bundle at `position` of the plan should stay on its broker, according to the newest `load`. None:
    the move still lowers the usage of the fuller broker, or the reports do not have the values to decide this.

    `unload` is the move that is about to be made; its destination may differ from that in the plan.
    """
    move, settings = plan.moves[position], plan.verdicts.settings
    if move.why == BY_NUMBER or unload.destination is None:
        return None
    newest = _Newest(plan, load)
    giver, taker, work = unload.source, unload.destination, newest.work(unload.bundle, unload.source)
    if move.why == RETURNED:
        # the heavier bundle follows in the opposite direction
        heavier = plan.snapshot.bundles.names[plan.moves[position + 1].row]
        giver, taker, work = taker, giver, newest.work(heavier, taker) - work
    before = newest.usage(giver), newest.usage(taker)
    after = before[0] - newest.slope(giver) * work, before[1] + newest.slope(taker) * work
    gain = max(before) - max(after)
    least = settings.least_gain if move.why == EVENS else 0.0
    if not gain <= least + _ROUNDING:  # also if a report is missing, whose values are not numbers
        return None
    changes = " and ".join(
        f"{broker} from {format_figure(was, '%')} to {format_figure(becomes, '%')}"
        for broker, was, becomes in zip((giver, taker), before, after, strict=True)
    )
    return Reason(
        code=Code.GAIN_IS_GONE,
        strategy=NAME,
        subject=unload.bundle,
        compared=(Compared("gain of the move by the newest reports", gain, "<=", "least gain", least, "%"),),
        settings=(BAND_KEY,),
        detail=f"it would bring {changes}",
        cause=unload.reason,
    )


class _Newest:
    """Usages of brokers and work (load as one number) of bundles by the newest reports. A value is NaN if no report has
    it.
    """

    def __init__(self, plan: DisturbancePlan, load: LoadSnapshot) -> None:
        self._loads, self._load = plan.loads, load
        self._slopes: dict[str, float] = dict(zip(plan.lines.names, plan.lines.slope.tolist(), strict=True))
        self._reported = reported_usage(load, plan.verdicts.settings)

    def slope(self, broker: str) -> float:
        """Return how much usage (a fraction) one unit of work takes on a broker. Work is load as one number."""
        return self._slopes.get(broker, nan)

    def usage(self, broker: str) -> float:
        """Return the usage of a broker (a fraction): the reported usage, plus that of bundles that came after the
        report, minus that of bundles that left after it.
        """
        row = self._load.brokers.index.get(broker)
        if row is None:
            return nan
        return self._reported.item(row) + self.slope(broker) * self._arriving(row)

    def work(self, bundle: str, broker: str) -> float:
        """Return the work (load as one number) of a bundle as `broker` reports it."""
        row = self._row(bundle, self._load.brokers.index.get(broker, NOBODY))
        return nan if row == NOBODY or not self._load.bundles.sampled[row] else self._work_in(row)

    def _work_in(self, row: int) -> float:
        return self._loads.units.work(self._load.bundles.latest, slice(row, row + 1)).item(0)

    def _row(self, bundle: str, broker: int) -> int:
        """Return the row of a bundle in the report of a broker; NOBODY if that does not contain the bundle."""
        names, owner = self._load.bundles.names, self._load.bundles.owner
        rows = range(bisect_left(names, bundle), bisect_right(names, bundle))
        return next((row for row in rows if owner.item(row) == broker), NOBODY)

    def _arriving(self, broker: int) -> float:
        """Return the work (load as one number) of the bundles that came to a broker after its report, minus the work of
        the bundles that left it after its report.
        """
        names, owner = self._load.bundles.names, self._load.bundles.owner
        work = 0.0
        for destination, bundle in self._load.on_their_way.pairs:
            rows = range(bisect_left(names, bundle), bisect_right(names, bundle))
            if any(owner.item(row) == destination for row in rows):
                continue
            if destination == broker:
                work += self._work_in(rows[0]) if rows else max(self._loads.of(bundle) or (0.0, 0.0))
            elif any(owner.item(row) == broker for row in rows):
                work -= self._work_in(self._row(bundle, broker))
        return work
