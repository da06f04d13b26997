"""The most even usage that moves of the present bundles can reach, whichever strategy is configured.

This runs the search of LeastDisturbance without its caution: it acts on POINT instead of the band, by the newest report
alone and at once, moves bundles that moved a moment ago, and makes any number of moves. Policies still apply. The
search is greedy: a better assignment may exist, but it never returns a worse one.

Worked example: b1 serves two bundles that take 30 % each, b2 one that takes 20 %. After a move of one of the larger
bundles b1 has 30 % and b2 50 %; no move of these three bundles lowers the highest usage further.

Source: our own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT
from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.shedding.least_disturbance.assignment import Search
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY, BundleLoads, first_loads
from pulsar_barycenter.load.shedding.least_disturbance.givers import movable_rows
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance import AllowedBrokers
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import RECENT, predict
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import (
    UsageLines,
    next_lines,
    reported_at_ms,
    reported_usage,
    strengths,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot

POINT: Final = 0.01
"""A broker gives bundles if its usage exceeds the reachable usage by more than this fraction."""

_LITTLE_WORK: Final = 1e-3
"""A broker with less than this fraction of the cluster's work does not show how its usage follows from work."""
_LEAST_PART: Final = 1 / 8


@dataclass(frozen=True, slots=True)
class BestUsage:
    """Columns over the brokers of a snapshot: `usage` is the reported usage; `best` is the usage in the most even state
    that the search finds, which is reached by `moves` moves of bundles.

    Usages are fractions of a broker. Only the brokers that `fresh` flags count: their report is not outdated.
    """

    usage: Floats
    best: Floats
    fresh: Flags
    moves: int


def best_usage(snapshot: LoadSnapshot, settings: Settings, filters: ExtensibleFilterSettings) -> BestUsage:
    """Return the usage of each broker in `snapshot`, and its usage in the most even state that the search finds.
    Bundles move only as `filters` allow.
    """
    eager = replace(settings, band=POINT, patience_min=0.0, grace_ms=0, most=NO_LIMIT)
    now_ms = snapshot.taken_at_ms or int(reported_at_ms(snapshot).max(initial=0))
    usage = reported_usage(snapshot, settings)
    bundles = snapshot.bundles
    rested = replace(snapshot, bundles=replace(bundles, recently_unloaded=np.zeros_like(bundles.recently_unloaded)))
    with np.errstate(over="ignore", invalid="ignore"):
        loads, lines = _newest(rested, eager)
        view = predict(rested, loads, lines, now_ms, eager)
        view = replace(view, known=rested.brokers.everyone)
        movable = movable_rows(rested, loads, view, eager, now_ms)
        found = Search(rested, loads, view, movable, AllowedBrokers(rested, loads, filters, now_ms), eager).run()
        moves = [(move.row, move.source, move.destination) for move in found.moves]
        best = _with_moves(view.usage[RECENT], loads, lines, moves)
    return BestUsage(usage, best, view.fresh, len(moves))


def usage_after(snapshot: LoadSnapshot, settings: Settings, moves: Iterable[tuple[int, int, int]]) -> Floats:
    """Return the usage (fraction) of each broker after `moves`: at least 0, and it may be above 1.

    A move is (row of the bundle, row of its source, row of its destination); NOBODY instead of a row: there is no such
    broker.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        loads, lines = _newest(snapshot, settings)
        return _with_moves(reported_usage(snapshot, settings), loads, lines, moves)


def _newest(snapshot: LoadSnapshot, settings: Settings) -> tuple[BundleLoads, UsageLines]:
    """Return the work (load as one number) of the bundles by the newest report alone, and for each broker the usage
    line (usage = background + slope × work) that gives its reported usage for this work.

    One report does not show how much of the usage is background and how much depends on work. So the slope is at most
    usage / work, and at least _LEAST_PART of the usual slope. A broker without work gets the typical slope of the
    others, divided by its strength (see `strengths`).
    """
    loads = first_loads(snapshot)
    measured, recent, _ = loads.sums
    loads = replace(loads, settled=loads.recent, sums=np.array([measured, recent, recent]))
    lines = next_lines(None, snapshot, loads.units, 0.0, settings)
    usage, work = reported_usage(snapshot, settings), np.maximum(loads.units.work(snapshot.brokers.latest), measured)
    works = work > _LITTLE_WORK
    most = usage / np.where(works, work, 1.0)
    slope = np.where(works, np.maximum(np.minimum(lines.slope, most), lines.slope * _LEAST_PART), lines.slope)
    if works.any() and not works.all():
        strength = strengths(snapshot)
        slope = np.where(works, slope, float(np.median((slope * strength)[works])) / strength)
    # usage that the slope does not explain stays with the broker, whatever moves
    return loads, replace(lines, slope=slope, background=usage - slope * work, beyond=np.zeros_like(usage))


def _with_moves(usage: Floats, loads: BundleLoads, lines: UsageLines, moves: Iterable[tuple[int, int, int]]) -> Floats:
    found = usage.copy()
    for row, source, destination in moves:
        for broker, sign in ((source, -1.0), (destination, 1.0)):
            if broker != NOBODY:
                found[broker] += sign * lines.slope[broker] * loads.recent[row]
    return np.maximum(found, 0.0)
