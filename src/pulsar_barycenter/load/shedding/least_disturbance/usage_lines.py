"""How usage follows from work: each broker has its own line, learned from its reports.

    usage = background + slope × work

The slope is the usage per work: half as much on a broker of twice the strength. At first every broker has the slope of
the whole cluster, divided by its limits, and little background. Each report moves background and slope toward the
values that explain it, the more, the less certain they are (a Kalman filter with two states). Two reports with
different work separate background from slope. A report that fits badly is ignored, until such reports have lasted for
the patience; meanwhile the part that the line does not explain counts in the recent estimate only.

Worked example: all brokers are equal, and a work of 1 takes a usage of 1.0. One broker reports 60 % at a work of 0.2,
where its line says 21 %. Its background is known to ±5 % and its slope to ±50 %. So of the 39 points 8 go to the
background and 31 to the slope, which becomes 2.5: moving a quarter of its work away will lower its usage by 12.7
points.

A broker reports when its load has changed enough, so usually no report says that its load is as it was. A broker that
reports in nearly every round is different: where its report is missing, it was probably lost or is late, and the last
one says little about the present minute. How little is the *doubt*: the share of the rounds in which the broker
reported again after a round in which it had reported, if that is at least a half, else 0. With the doubt, the load of
its bundles counts as their settled estimate, and a gain as less (`unevenness`). This holds for the modular load
manager.

Worked example: half of the bundles of all brokers pause every other minute, so all brokers report every minute, with
usages of 54 and 36 %. The report of a minute with pauses is lost for one of them. By its last report it is 18 points
above the others. It has reported in nine of ten rounds, so nine tenths of its load count as the settled estimate,
about 45 %.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import Units
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import MINUTE_MS, Settings
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

_BACKGROUND: Final = 0.01
_BACKGROUND_SD: Final = 0.05
_SLOPE_SD: Final = 0.5
"""Background and the standard deviations before the first report; _SLOPE_SD is a fraction of the slope."""
_SURE_SD: Final = 0.3
"""A slope counts as learned if its standard deviation is below this fraction of it."""
_SATURATED: Final = 0.97
_REPORT_SD: Final = 0.01
_DRIFT: Final = 0.002
"""The standard deviation by which the background, and as a fraction the slope, may change between two reports."""
_STEEPEST: Final = 8.0
_REGULAR_MIN: Final = 15.0
"""The time constant, in minutes, of the share of rounds in which a broker reports again."""
_LEAST_REGULAR: Final = 0.5
"""Brokers that report again in a lower share of the rounds have no doubt: a missing report is usual for them."""


@dataclass(frozen=True, slots=True, eq=False)
class UsageLines:
    """The usage lines of all brokers, as columns over brokers. A usage line estimates the usage of a broker from the
    work of its bundles: usage = background + slope × work.

    `variance` has three rows: the variance of the background, the covariance, and the variance of the slope. `beyond`
    is a moving average of the part of the reported usage that the line does not explain. `odd_min` is for how many
    minutes reports have been ignored because they do not fit the line. `hot_min` is for how many minutes the broker has
    been overloaded. `reports` is the number of reports; with the extensible load manager, whose brokers report smoothed
    usages, it is the number of rounds.

    `on_time` flags the brokers whose newest report was measured after the previous round. `regular` is a moving average
    of how often that was so in the round after a round in which it was so, from 0 to 1.
    """

    names: tuple[str, ...]
    background: Floats
    slope: Floats
    variance: Floats
    beyond: Floats
    odd_min: Floats
    hot_min: Floats
    reports: Integers
    reported_at_ms: Integers
    on_time: Flags
    regular: Floats

    @property
    def doubt(self) -> Floats:
        """How far the newest report of each broker is not relied on, 0 to 1. It is above 0 only if a broker that
        reports in most rounds has not reported since the previous round.
        """
        return np.where(self.on_time | (self.regular < _LEAST_REGULAR), 0.0, self.regular)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UsageLines):
            return NotImplemented
        return self.names == other.names and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]


_COLUMNS: Final = (
    "background",
    "slope",
    "variance",
    "beyond",
    "odd_min",
    "hot_min",
    "reports",
    "reported_at_ms",
    "on_time",
    "regular",
)


def reported_usage(snapshot: LoadSnapshot, settings: Settings) -> Floats:
    """Return the usage (a fraction) with which the strategy works: with the modular load manager the largest weighted
    usage of a resource, with the extensible one its moving average.
    """
    load = snapshot.extensible
    usage = snapshot.brokers.weighted_usage(settings.weights) if load is None else load.weighted_max_ema
    return np.clip(usage, 0.0, 100.0)


def reported_at_ms(snapshot: LoadSnapshot) -> Integers:
    load = snapshot.extensible
    return snapshot.brokers.reported_at_ms if load is None else load.updated_at_ms


def next_lines(
    before: UsageLines | None, snapshot: LoadSnapshot, units: Units, minutes: float, settings: Settings
) -> UsageLines:
    """Return the usage lines (see `UsageLines`) after the reports in `snapshot`. `minutes` is the time since `before`,
    the lines after the previous round; `before` None: there was no previous round.
    """
    usage, at_ms = reported_usage(snapshot, settings), reported_at_ms(snapshot)
    work = units.work(snapshot.brokers.latest)
    lines = _carried_over(before, snapshot, usage, work)
    silent = was_silent(lines, snapshot, settings)
    if silent.any():
        lines = replace(lines, reports=np.where(silent, 0, lines.reports), odd_min=np.where(silent, 0.0, lines.odd_min))
    is_new = (lines.reports == 0) | (at_ms != lines.reported_at_ms)
    error = usage - (lines.background + lines.slope * work)
    p00, p01, p11 = lines.variance
    p00 = p00 + np.where(is_new, _DRIFT**2, 0.0)
    p11 = p11 + np.where(is_new, (_DRIFT * lines.slope) ** 2, 0.0)
    spread = p00 + 2 * work * p01 + work * work * p11 + _REPORT_SD**2
    sure = p11 < (_SURE_SD * lines.slope) ** 2
    odd = sure & (np.abs(error) > 3 * np.sqrt(spread) + _REPORT_SD)
    odd_min = np.where(odd, lines.odd_min + minutes, 0.0)
    lasting = odd & (odd_min >= settings.patience_min)
    # unexpected usage that lasts must be true, so the line becomes as uncertain as that of a new broker
    p00 = np.where(lasting, _BACKGROUND_SD**2, p00)
    p01 = np.where(lasting, 0.0, p01)
    p11 = np.where(lasting, (_SLOPE_SD * lines.slope) ** 2, p11)
    spread = p00 + 2 * work * p01 + work * work * p11 + _REPORT_SD**2
    # a saturated broker reports less usage than its work would take
    learns = ((is_new & ~odd) | lasting) & ((usage < _SATURATED) | (error > _REPORT_SD))
    gain0, gain1 = (p00 + work * p01) / spread, (p01 + work * p11) / spread
    step = np.where(learns, error, 0.0)
    background = np.clip(lines.background + gain0 * step, 0.0, np.maximum(usage, lines.background))
    slope = np.clip(lines.slope + gain1 * step, lines.slope / _STEEPEST, lines.slope * _STEEPEST)
    surer = learns & (usage < _SATURATED)
    less0, less1 = np.where(surer, gain0, 0.0), np.where(surer, gain1, 0.0)
    row = p00 + work * p01, p01 + work * p11
    variance = np.array([p00 - less0 * row[0], p01 - less0 * row[1], p11 - less1 * row[1]])
    # how far beyond its limit a saturated broker would go is unknown
    variance[2] = np.where(learns & ~surer, (_SLOPE_SD * slope) ** 2, variance[2])
    rest = usage - (background + slope * work)
    rest = np.where(usage < _SATURATED, rest, rest.clip(0.0))
    weight = settings.recent_weight(minutes)
    beyond = np.where(lines.reports == 0, rest, lines.beyond + weight * (rest - lines.beyond))
    hot = usage > settings.overload_limit
    age_ms = (snapshot.taken_at_ms or int(at_ms.max(initial=0))) - at_ms
    on_time = is_new & (age_ms < minutes * MINUTE_MS)
    # a mean of all rounds at first
    follows = np.minimum(np.maximum(minutes / _REGULAR_MIN, 1 / (lines.reports + 1)), 1.0)
    again = np.where(lines.on_time, follows * (on_time - lines.regular), 0.0)
    slope, variance[2] = _as_the_others(slope, variance[2], strengths(snapshot))
    return UsageLines(
        snapshot.brokers.names,
        background,
        slope,
        variance,
        beyond,
        np.where(lasting, 0.0, odd_min),
        np.where(hot, lines.hot_min + minutes, 0.0),
        lines.reports + (is_new | (snapshot.extensible is not None)),
        at_ms,
        on_time,
        lines.regular + again,
    )


def was_silent(before: UsageLines | None, snapshot: LoadSnapshot, settings: Settings) -> Flags:
    """Flag the brokers that have reported again after a long time: between their last two reports is more time than
    `Settings.stale_ms`.
    """
    if before is None or before.names != snapshot.brokers.names:
        return np.zeros(len(snapshot.brokers), bool)
    found: Flags = (before.reports > 0) & (reported_at_ms(snapshot) - before.reported_at_ms > settings.stale_ms)
    return found


def is_urgent(lines: UsageLines, settings: Settings) -> Flags:
    """Flag the brokers that have been overloaded for at least half of `Settings.patience_min`. For their bundles, a
    change of load counts at once.
    """
    found: Flags = lines.hot_min >= settings.patience_min / 2
    return found


def _carried_over(before: UsageLines | None, snapshot: LoadSnapshot, usage: Floats, work: Floats) -> UsageLines:
    """Return a usage line (see `UsageLines`) for each broker of the snapshot: its line in `before`, or an initial one
    if the broker is new.
    """
    names, count = snapshot.brokers.names, len(snapshot.brokers)
    first = UsageLines(
        names,
        np.full(count, _BACKGROUND),
        slope := _first_slopes(snapshot, usage, work),
        np.array([np.full(count, _BACKGROUND_SD**2), np.zeros(count), (_SLOPE_SD * slope) ** 2]),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, bool),
        np.zeros(count),
    )
    if before is None or not len(before.names):
        return first
    if before.names == names:
        return before
    index = {name: row for row, name in enumerate(before.names)}
    at = np.array([index.get(name, -1) for name in names], np.int64)
    known = at >= 0
    columns = {name: np.where(known, getattr(before, name)[..., at], getattr(first, name)) for name in _COLUMNS}
    return UsageLines(names, **columns)


def _as_the_others(slope: Floats, variance: Floats, strength: Floats) -> tuple[Floats, Floats]:
    """Return `slope` and `variance` (of the slope), in which brokers whose own slope is not yet certain have the
    typical slope of the others, divided by their strength, and a large variance. A slope is the usage that one unit of
    work takes.
    """
    sure = variance < (_SURE_SD * slope) ** 2
    if sure.all() or not sure.any():
        return slope, variance
    typical = float(np.median(slope[sure] * strength[sure]))
    slope = np.where(sure, slope, typical / strength)
    return slope, np.where(sure, variance, (_SLOPE_SD * slope) ** 2)


def strengths(snapshot: LoadSnapshot) -> Floats:
    """Return the strength of each broker, 1 on average. The strength is the broker's capacity of the resource that the
    cluster uses most, relative to the mean capacity of the brokers; it is 1 if capacities are unknown.
    """
    brokers = snapshot.brokers
    count = len(brokers)
    if not count:
        return np.ones(0)
    share = np.where(brokers.limit > 0, brokers.usage / np.where(brokers.limit > 0, brokers.limit, 1.0), 0.0)
    weighed = share[[0, 2, 3, 4]].clip(0).sum(axis=1)
    limit = brokers.limit[[0, 2, 3, 4][int(np.argmax(weighed))]]
    good = limit > 0
    if not good.any():
        return np.ones(count)
    return np.where(good, limit / limit[good].mean(), 1.0)


def _first_slopes(snapshot: LoadSnapshot, usage: Floats, work: Floats) -> Floats:
    """Return the slope that each broker has until it has learned its own: the usage that one unit of work takes in the
    whole cluster, divided by the broker's strength.
    """
    strength = strengths(snapshot)
    total = float(work.sum())
    used = float((np.clip(usage - _BACKGROUND, 0.0, None) * strength).sum())
    typical = used / total if total > 0 and used > 0 else 1.0
    return typical / strength
