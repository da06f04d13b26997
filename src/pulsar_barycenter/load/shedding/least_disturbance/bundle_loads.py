"""The load of every bundle, by two estimates that are carried from round to round, and its recent brokers.

Work is traffic as one number: the mean of a bundle's fraction of all msg/s and of all bytes/s. The totals are those at
the time when the memory began. The recent estimate follows the reports within a minute and a half, the settled one
within five times the patience.

The two differ while the load changes and nobody can know whether the change lasts. A move must be right by both, so
noise, spikes shorter than the patience, and load that comes and goes more often, move nothing: they never enter the
settled estimate. When a change has kept its sign for the whole patience, it counts as lasting, and the settled estimate
is set to the recent one.

Worked example (patience 12 minutes): the load of a bundle rises from 10 to 20 within a minute. After five minutes the
recent estimate is 19.6 and the settled one 10.1. If the load falls back after ten minutes, it has moved nothing. If
not, both estimates are 20.0 in the twelfth minute.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.shedding.least_disturbance.alignment import rows_before
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import MINUTE_MS, Settings
from pulsar_barycenter.load.snapshot.load_snapshot import (
    Flags,
    Floats,
    Indices,
    Integers,
    LoadSnapshot,
    MessageColumns,
)

LONG_AGO: Final = -(2**53)
NOBODY: Final = -1
_LARGEST: Final = 1e12
_NO_TRAFFIC: Final = 1e-9
"""Below this many msg/s or bytes/s, a whole cluster counts as idle."""
_ALL: Final = slice(None)
_BLOCK: Final = 1 << 15
_NOISE: Final = 0.05
"""Two estimates that differ by less than this fraction count as equal."""
_ODD: Final = 0.1
"""A measurement that differs from the settled estimate by more than this fraction counts as if it differed by it."""


class Units(NamedTuple):
    """How much work one msg/s is, and how much one byte/s is. Work is the load of a bundle as one number: a weighted
    sum of its message rate and its throughput.
    """

    of_rate: float
    of_throughput: float

    @staticmethod
    def of(rate: Floats, throughput: Floats) -> "Units":
        """Return the units for which bundles with these rates and throughputs (in + out) have a work of 1 in total;
        both are 0 if there is no traffic.
        """
        rates, throughputs = _total(rate), _total(throughput)
        has_rate, has_throughput = rates > _NO_TRAFFIC, throughputs > _NO_TRAFFIC
        parts = 0.5 if has_rate and has_throughput else 1.0
        return Units(parts / rates if has_rate else 0.0, parts / throughputs if has_throughput else 0.0)

    def work(self, columns: MessageColumns, rows: slice = _ALL, out: Floats | None = None) -> Floats:
        """Return the work of each of these rows; it is written to `out`, if that is given."""
        found = np.add(columns.rate_in[rows], columns.rate_out[rows], out=out)
        return self.work_instead(found, columns.throughput_in[rows] + columns.throughput_out[rows])

    def work_instead(self, rate: Floats, throughput: Floats) -> Floats:
        """Overwrite the rates (in + out) of bundles with their work, and return it. Their throughputs (in + out) are
        lost.
        """
        rate *= self.of_rate
        throughput *= self.of_throughput
        rate += throughput
        return rate.clip(0.0, _LARGEST, out=rate)  # `np.clip` takes twice as long


def _total(values: Floats) -> float:
    """Return the sum of the values, in which negative ones count as 0."""
    return math.fsum(float(np.maximum(values[block], 0.0).sum()) for block in blocks(len(values)))


def blocks(count: int) -> Iterator[slice]:
    """Yield the rows 0 to `count - 1` in blocks that fit into the processor's cache: a million rows at once take three
    times as long.
    """
    for first in range(0, count, _BLOCK):
        yield slice(first, min(first + _BLOCK, count))


class Away(NamedTuple):
    """A bundle that no broker reports: its last broker, since when it is not reported (epoch ms), and the last values
    of the recent and the settled estimate of its work (its load as one number).
    """

    broker: str
    since_ms: int
    recent: float
    settled: float


@dataclass(frozen=True, slots=True, eq=False)
class BundleLoads:
    """The estimated loads of bundles: columns over the rows of the newest bundle table, and data of bundles that have
    no row there. The recent and the settled estimate are two moving averages, a fast and a slow one.

    `lasted_min` is for how many minutes the recent estimate has been above the settled one; negative: below it.
    `moved_at_ms` is when the bundle came to its present owner; LONG_AGO if it was there when the estimates began.
    `sums` has a column for each broker, over the bundles in its report, with three rows: measured work, recent
    estimate, settled estimate.

    `left` maps a bundle to the brokers that it left recently, with the times. `away` has the bundles that no broker
    reports at the moment. `new` maps a bundle that appeared a short while ago to that time. All times are epoch ms.
    """

    units: Units
    names: Sequence[str]
    brokers: tuple[str, ...]
    owner: Indices
    recent: Floats
    settled: Floats
    lasted_min: NDArray[np.float32]
    moved_at_ms: Integers
    sums: Floats
    away: Mapping[str, Away] = field(default_factory=dict)
    left: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    new: Mapping[str, int] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BundleLoads):
            return NotImplemented
        columns = ("owner", "recent", "settled", "lasted_min", "moved_at_ms", "sums")
        return (self.units, list(self.names), self.brokers, self.away, self.left, self.new) == (
            other.units,
            list(other.names),
            other.brokers,
            other.away,
            other.left,
            other.new,
        ) and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in columns)

    __hash__ = None  # type: ignore[assignment]

    def of(self, bundle: str) -> tuple[float, float] | None:
        """Return the recent and the settled estimate of a bundle's work. For an unknown part of a split bundle, return
        the estimates of the split bundle, times the part's fraction of its hash range. None: neither bundle is known.
        """
        row, part = self._found(bundle)
        if row >= 0:
            return float(self.recent[row]) * part, float(self.settled[row]) * part
        found = self.away.get(bundle)
        return None if found is None else (found.recent, found.settled)

    def owner_of(self, bundle: str) -> str | None:
        """Return the last known broker of a bundle; if the bundle is an unknown part of a split bundle, the last known
        broker of the split bundle. None: neither bundle is known.
        """
        row, _ = self._found(bundle)
        if row >= 0:
            return self.brokers[self.owner.item(row)]
        found = self.away.get(bundle)
        return None if found is None else found.broker

    def was_split_into(self, bundle: str) -> bool:
        """Return whether `bundle` is a part of a split bundle that still has a row in these columns."""
        row, part = self._found(bundle)
        return row >= 0 and part < 1

    def _found(self, bundle: str) -> tuple[int, float]:
        """Return the row of a bundle and the fraction 1. For an unknown part of a split bundle that still has a row,
        return the row of the split bundle, and the part's fraction of its hash range. The row is -1 if neither has a
        row.
        """
        row = bisect_left(self.names, bundle)
        if row < len(self.names) and self.names[row] == bundle:
            return row, 1.0
        if bundle in self.away:
            return -1, 0.0
        # a wider range that starts at the same hash is sorted after the bundle, all others before it
        for place in (row, row - 1):
            if 0 <= place < len(self.names):
                part = part_of(bundle, self.names[place])
                if part > 0:
                    return place, part
        return -1, 0.0


def part_of(bundle: str, whole: str) -> float:
    """Return the fraction of the hash range of `whole` that `bundle` covers; 0 if the range of `bundle` is not within
    that of `whole`.
    """
    space, _, text = bundle.rpartition("/")
    if whole.rpartition("/")[0] != space:
        return 0.0
    try:
        lower, upper = (int(edge, 16) for edge in text.split("_"))
        begin, end = (int(edge, 16) for edge in whole.rpartition("/")[2].split("_"))
    except ValueError:  # the names are not those of ranges
        return 0.0
    return (upper - lower) / (end - begin) if begin <= lower and upper <= end and end > begin else 0.0


def first_loads(snapshot: LoadSnapshot) -> BundleLoads:
    """Return the estimated loads of bundles for the first round, from the snapshot alone: the recent estimates (fast
    moving averages) from the newest reports, the settled estimates (slow ones) from the long-term windows.
    """
    bundles, latest, count = snapshot.bundles, snapshot.bundles.latest, len(snapshot.bundles)
    # rates and throughputs become the two estimates block by block, so that each column of traffic is read once
    recent, settled = latest.rate, latest.throughput
    units = Units.of(recent, settled)
    is_complete = bundles.sampled.all()
    if not is_complete:
        recent = _measured(snapshot, units)
    has_past = bundles.has_windows & (bundles.short_samples > 1)
    any_has, all_have = has_past.any(), has_past.all()
    sums = np.zeros((2, len(snapshot.brokers)))
    for block in blocks(count):
        now, past = recent[block], settled[block]
        if is_complete:
            units.work_instead(now, past)
        if any_has:
            units.work(bundles.long, block, out=past)
        if not all_have:
            np.copyto(past, now, where=~has_past[block])
        sums += _sums(bundles.owner[block], (now, past), sums.shape[1])
    return BundleLoads(
        units,
        bundles.names,
        snapshot.brokers.names,
        bundles.owner,
        recent,
        settled,
        np.zeros(count, np.float32),
        np.broadcast_to(np.int64(LONG_AGO), count),
        sums[[0, 0, 1]],  # the recent estimate is what was measured
    )


def next_loads(
    before: BundleLoads,
    snapshot: LoadSnapshot,
    minutes: float,
    now_ms: int,
    urgent: Flags,
    silent: Flags,
    doubt: Floats,
    settings: Settings,
) -> BundleLoads:
    """Return the estimated loads of bundles at `snapshot`, which is `minutes` later than `before`.

    `urgent` flags brokers on whose bundles a change of load counts as lasting at once. `silent` flags brokers that had
    not reported for a long time: for their bundles only the newest report counts. `doubt` says for each broker how far
    its newest report is not relied on, 0 to 1 (see `UsageLines.doubt`): this fraction of the measured load of its
    bundles is replaced by the settled estimate, the slow moving average. It has no effect with the extensible load
    manager.
    """
    if before.units == Units(0.0, 0.0):
        return first_loads(snapshot)
    same = _carried_over(before, snapshot, now_ms, settings)
    bundles = snapshot.bundles
    measured = None if bundles.sampled.all() else _measured(snapshot, before.units)
    estimated = np.zeros(len(bundles), bool)
    if measured is not None and snapshot.extensible is not None:
        estimated = _share_rest(measured, snapshot, same, minutes, now_ms)
    at_once = silent[bundles.owner] if silent.any() else None
    soon = urgent[bundles.owner] if urgent.any() else None
    doubted = doubt[bundles.owner] if doubt.any() and snapshot.extensible is None else None
    count = len(bundles)
    recent, settled, lasted = np.empty(count), np.empty(count), np.empty(count, np.float32)
    sums = np.zeros((3, len(snapshot.brokers)))
    for block in blocks(count):
        now = before.units.work(bundles.latest, block) if measured is None else measured[block]
        likely = now
        if doubted is not None:
            settled_before = same.settled[block]
            likely = now + doubted[block] * np.where(np.isnan(settled_before), 0.0, settled_before - now)
        recent[block], settled[block], lasted[block] = _folded(
            same.recent[block],
            same.settled[block],
            same.lasted_min[block],
            likely,
            None if at_once is None else at_once[block],
            None if soon is None else soon[block],
            minutes,
            settings,
        )
        if measured is not None:
            known = bundles.sampled[block] | estimated[block] | np.isnan(same.recent[block])
            kept = block.start + np.flatnonzero(~known)
            recent[kept], settled[kept], lasted[kept] = same.recent[kept], same.settled[kept], same.lasted_min[kept]
        sums += _sums(bundles.owner[block], (now, recent[block], settled[block]), sums.shape[1])
    return replace(
        same,
        recent=recent,
        settled=settled,
        lasted_min=lasted,
        sums=sums,
    )


def _sums(owner: Indices, columns: Sequence[Floats], brokers: int) -> Floats:
    """Return for each broker the sums of columns over its bundles."""
    wide = owner.astype(np.intp)  # once, not for each of the sums
    return np.array([np.bincount(wide, column, brokers) for column in columns])


def _folded(
    recent: Floats,
    settled: Floats,
    lasted: NDArray[np.float32],
    measured: Floats,
    at_once: Flags | None,
    soon: Flags | None,
    minutes: float,
    settings: Settings,
) -> tuple[Floats, Floats, NDArray[np.float32]]:
    """Return the recent and the settled estimates (a fast and a slow moving average) after one more measurement, and
    for how many minutes the two have differed (positive: the recent one is higher, negative: lower).

    Where an estimate is NaN, and in the rows that `at_once` flags, both estimates become the measurement. In the rows
    that `soon` flags, and where the two have differed for `Settings.patience_min` minutes, the settled estimate becomes
    the recent one.
    """
    fresh = np.isnan(recent) if at_once is None else np.isnan(recent) | at_once
    if fresh.any():
        recent, settled = np.where(fresh, measured, recent), np.where(fresh, measured, settled)
    away = measured - recent
    ahead = measured - settled
    most = _ODD * settled
    # a large change starts a new duration; a smaller difference before it does not count
    leapt = np.abs(away) > 2 * np.abs(recent - settled) + most
    recent = recent + settings.recent_weight(minutes) * away
    settled = settled + settings.settled_weight(minutes) * np.minimum(np.maximum(ahead, -most), most)
    apart = recent - settled
    differs = (np.abs(apart) > _NOISE * settled) & (ahead * apart > 0)
    sign = np.sign(apart).astype(np.float32)
    # a change of sign, or agreement of the estimates, resets the duration
    kept = np.where(leapt | (lasted * sign < 0), np.float32(0), lasted)
    lasted = np.where(differs, kept + sign * np.float32(minutes), np.float32(0))
    believed = np.abs(lasted) >= settings.patience_min
    if soon is not None:
        believed |= soon
    if believed.any():
        settled = np.where(believed, recent, settled)
        lasted = np.where(believed, np.float32(0), lasted)
    return recent, settled, lasted


def _measured(snapshot: LoadSnapshot, units: Units) -> Floats:
    """Return the measured work (load as one number) of the bundle in every row. If a broker reports the load of only
    some of its bundles, the rest of its own work is divided equally among its other bundles.
    """
    bundles = snapshot.bundles
    found = units.work(bundles.latest)
    if bundles.sampled.all():
        return found
    count = len(snapshot.brokers)
    silent = ~bundles.sampled & (snapshot.extensible.owned if snapshot.extensible is not None else bundles.listed)
    total = units.work(snapshot.brokers.latest)
    listed = np.bincount(bundles.owner, np.where(bundles.sampled, found, 0.0), count)
    others = np.bincount(bundles.owner[silent], minlength=count)
    rest = np.clip(total - listed, 0.0, None) / np.maximum(others, 1)
    return np.where(silent, rest[bundles.owner], found)


def _share_rest(measured: Floats, snapshot: LoadSnapshot, before: BundleLoads, minutes: float, now_ms: int) -> Flags:
    """Replace in `measured` the work of the bundles that are not in their broker's list of top bundles by a better
    value, and return flags of the rows of these bundles.

    The work of a broker that its list does not explain is divided among these bundles in proportion to their last
    estimates. A list may be newer than the load of its broker, so this is done only for brokers whose load was measured
    since the last round; the bundles of other brokers are not flagged, and keep their estimates.
    """
    bundles, load, count = snapshot.bundles, snapshot.extensible, len(snapshot.brokers)
    found = np.zeros(len(bundles), bool)
    if load is None:
        return found
    is_new = load.has_load & (now_ms - load.updated_at_ms < minutes * MINUTE_MS)
    found = ~bundles.sampled & load.owned & ~np.isnan(before.recent) & is_new[bundles.owner]
    owner, estimate = bundles.owner[found], before.recent[found]
    rest, sums = np.bincount(owner, measured[found], count), np.bincount(owner, estimate, count)
    factor = np.divide(rest, sums, out=np.ones(count), where=sums > 0)
    measured[found] = np.where(sums[owner] > 0, estimate * factor[owner], measured[found])
    return found


def _carried_over(before: BundleLoads, snapshot: LoadSnapshot, now_ms: int, settings: Settings) -> BundleLoads:
    """Return the loads `before` in the order of the bundle table of `snapshot`. Bundles that are new in the table get
    NaN as estimates.
    """
    names, owner, brokers = snapshot.bundles.names, snapshot.bundles.owner, snapshot.brokers.names
    index = snapshot.brokers.index
    left = _recent_only(before.left, now_ms - 2 * settings.grace_ms)
    new = {name: at_ms for name, at_ms in before.new.items() if at_ms > now_ms - settings.soon_ms}
    at = rows_before(before.names, names)
    came_from = np.array([index.get(name, NOBODY) for name in before.brokers], np.int32)
    if at is None:
        recent, settled, lasted = before.recent, before.settled, before.lasted_min
        moved_at_ms, old = before.moved_at_ms, before.owner
        away = before.away
    else:
        is_new = at < 0
        recent, settled = np.where(is_new, np.nan, before.recent[at]), np.where(is_new, np.nan, before.settled[at])
        lasted = np.where(is_new, np.float32(0), before.lasted_min[at])
        moved_at_ms, old = np.where(is_new, now_ms, before.moved_at_ms[at]), np.where(is_new, NOBODY, before.owner[at])
        away = _gone(before, at, now_ms, settings)
        for row in np.flatnonzero(is_new).tolist():
            name = names[row]
            known = away.pop(name, None)
            if known is None:
                new[name] = now_ms
                came = before.owner_of(name)
            else:
                recent[row], settled[row] = known.recent, known.settled
                came = known.broker
            if came is not None and came != brokers[owner[row]]:
                left[name] = (*left.get(name, ()), (came, now_ms if known is None else known.since_ms))
    was_on = came_from[old] if len(came_from) else np.full(len(old), NOBODY, np.int32)
    moved = np.flatnonzero((old != NOBODY) & (was_on != owner))
    if len(moved):
        moved_at_ms = moved_at_ms.copy()
        moved_at_ms[moved] = now_ms
        for row in moved.tolist():
            left[names[row]] = (*left.get(names[row], ()), (before.brokers[old[row]], now_ms))
    nothing = np.zeros((3, len(brokers)))
    return BundleLoads(
        before.units, names, brokers, owner, recent, settled, lasted, moved_at_ms, nothing, away, left, new
    )


def _gone(before: BundleLoads, at: Integers, now_ms: int, settings: Settings) -> dict[str, Away]:
    """Return the bundles that no broker reports in the present snapshot, without those that no broker has reported for
    a long time. `at` are the positions of the present bundles in `before`.
    """
    longest_ms = 2 * settings.grace_ms + MINUTE_MS
    away = {name: bundle for name, bundle in before.away.items() if now_ms - bundle.since_ms <= longest_ms}
    vanished = np.ones(len(before.names), bool)
    vanished[at[at >= 0]] = False
    for row in np.flatnonzero(vanished).tolist():
        broker = before.brokers[before.owner[row]]
        away[before.names[row]] = Away(broker, now_ms, float(before.recent[row]), float(before.settled[row]))
    return away


def _recent_only(
    left: Mapping[str, tuple[tuple[str, int], ...]], since_ms: int
) -> dict[str, tuple[tuple[str, int], ...]]:
    kept = ((name, tuple(stay for stay in stays if stay[1] >= since_ms)) for name, stays in left.items())
    return {name: stays for name, stays in kept if stays}
