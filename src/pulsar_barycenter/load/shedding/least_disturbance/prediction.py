"""The usage that each broker will have, by the recent and by the settled estimate, and the usage that it can reach.

A bundle counts for the broker that it is moving to, even if reports still name the old one. The reachable usage, the
level, is the usage of all brokers if work could be divided freely:

    sum over brokers of (level - background) / slope = all work

A broker of twice the strength then has twice the work. If a single bundle takes more than this, its broker cannot get
below that bundle, and the others share the rest of the work; unless a stronger broker would have less usage with it.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY, BundleLoads, blocks
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import UsageLines, reported_at_ms
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, LoadSnapshot, namespace_of

RECENT: Final = 0
SETTLED: Final = 1
_MOST_NEW: Final = 0.25
"""A broker neither gives nor takes bundles if more than this fraction of its work is from new bundles."""
_MOST_UNLISTED: Final = 0.05
"""The work of a broker that its bundles do not explain counts only if it is more than this fraction of the broker's
work."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted owners of bundles and usages of brokers, for one snapshot.

    `owner` has, for the bundle in each row, the row of the broker that owns it or is about to own it; NOBODY: the
    bundle does not count in this row. `usage`, `target` (the reachable usage) and `apart` (usage - target) are
    fractions; each has one row for the recent and one for the settled estimate of load (a fast and a slow moving
    average), and a column for each broker. `fresh` flags the brokers whose report is not outdated, `known` those with
    enough reports to predict their usage. `doubt` says how far the newest report of each broker is not relied on, 0 to
    1 (see `UsageLines.doubt`).
    """

    owner: Indices
    usage: Floats
    target: Floats
    apart: Floats
    slope: Floats
    fresh: Flags
    known: Flags
    doubt: Floats

    @property
    def at_least(self) -> Floats:
        """How far the usage of each broker is above its reachable usage (fraction); of the two estimates of load, the
        one that gives the lower value counts.
        """
        found: Floats = self.apart.min(axis=0)
        return found

    @property
    def at_most(self) -> Floats:
        """How far the usage of each broker is above its reachable usage (fraction); of the two estimates of load, the
        one that gives the higher value counts.
        """
        found: Floats = self.apart.max(axis=0)
        return found


def predict(
    snapshot: LoadSnapshot, loads: BundleLoads, lines: UsageLines, now_ms: int, settings: Settings
) -> Prediction:
    brokers, count = snapshot.brokers, len(snapshot.brokers)
    owner, arriving = owners_to_be(snapshot, loads)
    work = loads.sums[1:].copy()
    moved = (
        np.zeros(0, np.int64) if owner is snapshot.bundles.owner else np.flatnonzero(owner != snapshot.bundles.owner)
    )
    for rows, owners, sign in (
        (moved, snapshot.bundles.owner[moved], -1.0),
        (there := moved[owner[moved] != NOBODY], owner[there], 1.0),
    ):
        for estimate, column in enumerate((loads.recent, loads.settled)):
            work[estimate] += sign * np.bincount(owners, column[rows], count)
    work += arriving[:2] + _unlisted(snapshot, loads)
    age_ms = now_ms - reported_at_ms(snapshot)
    fresh = (age_ms <= settings.stale_ms) & ~brokers.suspect
    if snapshot.extensible is not None:
        fresh &= snapshot.extensible.has_load & snapshot.extensible.live
    usage = lines.background + lines.slope * work
    usage[RECENT] = np.clip(usage[RECENT] + lines.beyond, 0.0, None)
    background = np.array([np.clip(lines.background + lines.beyond, 0.0, None), lines.background])
    heaviest = _heaviest(loads, owner, usage, settings)
    least = _least(background, lines.slope, heaviest, fresh, settings)
    target = np.array([_targets(usage[row], background[row], least[row], lines.slope, fresh) for row in (0, 1)])
    fresh &= ~_surprised(snapshot, loads, work)
    return Prediction(
        owner=owner,
        usage=usage,
        target=target,
        apart=usage - target,
        slope=lines.slope,
        fresh=fresh,
        known=_known(snapshot, lines, owner, arriving[2]),
        doubt=lines.doubt,
    )


def _heaviest(loads: BundleLoads, owner: Indices, usage: Floats, settings: Settings) -> Floats:
    """Return the work (load as one number) of the heaviest bundle of each broker: one row by the recent and one by the
    settled estimate.

    It is 0 for a broker whose usage is not above the mean by more than the band (`Settings.band`): there the heaviest
    bundle does not limit how even the usages can become.
    """
    found = np.zeros_like(usage)
    if not usage.size:
        return found
    high = (usage > usage.mean(axis=1)[:, None] + settings.band).all(axis=0)
    if not high.any():
        return found
    is_high = np.append(high, False)  # NOBODY is the last one
    columns = (loads.recent, loads.settled)
    for block in blocks(len(owner)):
        owners = owner[block]
        of_high = is_high.take(owners, mode="wrap")
        for most, column in zip(found, columns, strict=True):
            # each of these brokers has a bundle at least as heavy already, so after some blocks few bundles are left
            least = most[high].min()
            rows = np.flatnonzero(of_high & (column[block] > least))
            np.maximum.at(most, owners[rows], column[block][rows])
    return found


def _least(background: Floats, slope: Floats, heaviest: Floats, fresh: Flags, settings: Settings) -> Floats:
    """Return the least possible usage of each broker: one row by the recent and one by the settled estimate of load.

    This is the usage that the broker would have with its heaviest bundle alone. If another broker would have a clearly
    lower usage with that bundle alone, it is the usage of that other broker.
    """
    found: Floats = background + slope * heaviest
    rows = np.flatnonzero(heaviest.any(axis=0))
    if len(rows) and fresh.any():
        for row in (RECENT, SETTLED):
            alone = background[row, fresh] + slope[fresh] * heaviest[row, rows, None]
            elsewhere = alone.min(axis=1)
            found[row, rows] = np.where(elsewhere < found[row, rows] - settings.edge, elsewhere, found[row, rows])
    return found


def _targets(usage: Floats, background: Floats, least: Floats, slope: Floats, fresh: Flags) -> Floats:
    """Return the reachable usage of each broker: the level at which all brokers would be equally full, or the least
    possible usage of the broker (`least`) if that is higher.
    """
    free = fresh.copy()
    while True:
        # brokers that cannot reach the level share their excess over their least possible usage
        more = float(((usage - least) / slope)[fresh & ~free].clip(0.0).sum())
        level = reachable(usage[free], background[free], slope[free], more)
        stuck = free & (least > level)
        if not stuck.any() or stuck[free].all():
            return np.where(fresh, np.maximum(level, least), level)
        free &= ~stuck


def reachable(usage: Floats, background: Floats, slope: Floats, more: float = 0.0) -> float:
    """Return the usage at which all brokers would be equally full if they shared all their work (load as one number),
    and in addition the work `more`.

    A broker whose background (its usage without any bundle) is above this level gets no work and does not count.
    """
    if not len(usage):
        return 0.0
    work = float(((usage - background) / slope).sum()) + more
    order = np.argsort(background, kind="stable")
    share, offset = np.cumsum(1 / slope[order]), np.cumsum(background[order] / slope[order])
    levels = (work + offset) / share
    taking = background[order] <= levels
    return float(levels[np.flatnonzero(taking)[-1]]) if taking.any() else float(levels[-1])


def owners_to_be(snapshot: LoadSnapshot, loads: BundleLoads) -> tuple[Indices, Floats]:
    """Return for each row of the bundle table the broker (row) that owns the bundle or is about to own it; and for each
    broker the load of the bundles that are on their way to it and that no broker reports.

    The second value is an array of 3 rows over brokers: the work of these bundles by the recent estimate, their work by
    the settled estimate, and their number. Work is load as one number.
    """
    bundles, count = snapshot.bundles, len(snapshot.brokers)
    owner: Indices = bundles.owner
    if snapshot.extensible is not None:
        owner = np.where(snapshot.extensible.owned, owner, NOBODY).astype(np.int32)
    arriving = np.zeros((3, count))
    names, typical = bundles.names, None
    changed = False
    for broker, name in sorted(snapshot.on_their_way.pairs):
        if not changed:
            owner, changed = owner.copy(), True
        rows = _rows_of(snapshot, name)
        if rows:
            mine = [row for row in rows if bundles.owner.item(row) == broker]
            owner[rows] = NOBODY
            owner[(mine or rows)[0]] = broker
            continue
        known = loads.of(name)
        if known is None:
            typical = typical or typical_work(snapshot, loads)
            known = typical.get(namespace_of(name), typical[""])
        arriving[:, broker] += (*known, 1)
    for row in np.flatnonzero(bundles.recently_unloaded[:-1] & bundles.recently_unloaded[1:]).tolist():
        if names[row] == names[row + 1] and owner[row] != NOBODY and owner[row + 1] != NOBODY:
            if not changed:
                owner, changed = owner.copy(), True
            at_ms = snapshot.brokers.reported_at_ms
            older = row if at_ms[bundles.owner[row]] < at_ms[bundles.owner[row + 1]] else row + 1
            owner[older] = NOBODY
    return owner, arriving


def typical_work(snapshot: LoadSnapshot, loads: BundleLoads) -> dict[str, tuple[float, float]]:
    """Return for each namespace the mean work of a bundle (its load as one number), as a pair: by the recent and by the
    settled estimate. The key "" has the mean over all bundles.
    """
    namespace, spaces = snapshot.bundles.namespace, snapshot.namespaces
    if not len(namespace):
        return {"": (0.0, 0.0)}
    count = np.maximum(np.bincount(namespace, minlength=len(spaces)), 1)
    means = [np.bincount(namespace, column, len(spaces)) / count for column in (loads.recent, loads.settled)]
    found = dict(zip(spaces, zip(means[0].tolist(), means[1].tolist(), strict=True), strict=True))
    found[""] = (float(loads.recent.mean()), float(loads.settled.mean()))
    return found


def _rows_of(snapshot: LoadSnapshot, bundle: str) -> list[int]:
    names = snapshot.bundles.names
    first = bisect_left(names, bundle)
    end = first
    while end < len(names) and names[end] == bundle:
        end += 1
    return list(range(first, end))


def _unlisted(snapshot: LoadSnapshot, loads: BundleLoads) -> Floats:
    """Return for each broker the part of its measured work (load as one number) that does not come from its bundles in
    the snapshot, for example the work of a bundle that was split after the report. Small parts count as 0.
    """
    bundles, brokers = snapshot.bundles, snapshot.brokers
    total = loads.units.work(brokers.latest)
    rest = total - loads.sums[0]
    counts = rest > _MOST_UNLISTED * total
    if snapshot.extensible is not None and counts.any():
        silent = ~bundles.sampled & snapshot.extensible.owned
        counts &= np.bincount(bundles.owner[silent], minlength=len(brokers)) == 0
    return np.where(counts, rest, 0.0)


def _surprised(snapshot: LoadSnapshot, loads: BundleLoads, work: Floats) -> Flags:
    """Flag the brokers of whose work (load as one number) so large a part comes from new bundles that their load may be
    very different in a minute.
    """
    found = np.zeros(len(snapshot.brokers))
    for name in loads.new:
        for row in _rows_of(snapshot, name):
            found[snapshot.bundles.owner[row]] += loads.recent[row]
    surprised: Flags = found > _MOST_NEW * work[RECENT]
    return surprised


def _known(snapshot: LoadSnapshot, lines: UsageLines, owner: Indices, arriving: Floats) -> Flags:
    """Flag the brokers of which enough is known: those that have reported at least twice, those of which half of the
    bundles have at least two samples in their short window, and those without bundles. `owner` is that of
    `owners_to_be`, `arriving` is the number of bundles on their way to each broker that no broker reports.
    """
    bundles, count = snapshot.bundles, len(snapshot.brokers)
    if (lines.reports >= 2).all() or (len(bundles) and bundles.short_samples.min() > 1):
        return snapshot.brokers.everyone
    sampled = np.bincount(bundles.owner, bundles.short_samples > 1, count)
    is_empty = np.bincount(owner[owner != NOBODY], minlength=count) + arriving == 0
    found: Flags = (lines.reports >= 2) | is_empty | (2 * sampled >= np.bincount(bundles.owner, minlength=count))
    return found
