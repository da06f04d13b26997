"""The data of a report about one run, compressed: a page opens quickly, and unpacks only the runs that are viewed.

Times are seconds since the run began; usages are thousandths of a broker, null while the broker did not run.
"""

import base64
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.lab.report.thinning import (
    LONGEST_REASON,
    MOST_LINES,
    MOST_POINTS,
    MOST_RATED,
    brokers_shown,
    group_size,
    moves_shown,
    splits_shown,
    thinned,
)
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.lab.series import Series
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.outcome import Divided, Moved

_KINDS: Final = {"unload": "unloaded", "assign": "failed over", "split": "part placed"}
SPLIT: Final = "split"
_UNIT: Final = 1000


def packed_detail(run: RunFile) -> str:
    """Return the data of `detail` for a run as JSON, compressed with zlib and encoded in base64."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(detail(run)), 9)).decode()


def detail(run: RunFile) -> dict[str, Any]:
    """Return the data from which the page draws the pictures and lists (moves, splits) of a run, ready for JSON."""
    series = run.series
    start_ms, steps = series.at_ms[0], len(series.at_ms)
    size = group_size(steps, MOST_POINTS)
    usage = series.usages()
    columns = brokers_shown(usage)
    fine = 1 if len(columns) <= MOST_LINES else 10
    moved = [move for move in run.moves if move.source]
    moves, splits = moves_shown(moved), splits_shown(run.splits)
    first = {move.bundle: move.destination for move in run.moves if not move.source}
    shown = {move.bundle for move in moves} | {name for each in splits for name in (each.bundle, *each.parts)}
    bundles = sorted(shown)
    place = {name: number for number, name in enumerate(bundles)}

    def since(at_ms: int) -> float:
        return (at_ms - start_ms) / 1000

    return {
        "size": size,
        "step": size * series.step_ms / 1000,
        "end": steps * series.step_ms / 1000,
        "lines": len(columns) <= MOST_LINES,
        "limit": round(series.overload_limit * _UNIT),
        "names": [series.names[column] for column in columns],
        "allNames": series.names if len(columns) < len(series.names) else [],
        "usage": [_whole(column, fine) for column in thinned(usage[:, columns], size, np.nanmax).T],
        "max": _whole(thinned(np.array(series.usage_max), size, np.nanmax)),
        "mean": _whole(thinned(np.array(series.usage_mean), size, np.nanmean)),
        "min": _whole(thinned(np.array(series.usage_min), size, np.nanmin)),
        "floor": _whole(thinned(np.array(series.floor), size, np.nanmean)),
        "moments": _moments(series, usage),
        "counts": _counts(moved, run.splits, start_ms, size * series.step_ms, -(-steps // size)),
        "bundles": bundles,
        "first": {place[name]: broker for name, broker in first.items() if name in place},
        "moves": [_move(move, place[move.bundle], since(move.at_ms)) for move in moves],
        "splits": [
            [since(each.at_ms), place[each.bundle], each.broker, [place[name] for name in each.parts], *_why(each.why)]
            for each in splits
        ],
        "moved": len(moved),
        "divided": len(run.splits),
        "ratedAt": [since(series.at_ms[step]) for step in series.rated_at],
        "rates": _rates(run, bundles, [*(move.bundle for move in moves), *bundles]),
    }


def _move(move: Moved, bundle: int, at_s: float) -> list[Any]:
    return [
        at_s,
        _KINDS.get(move.kind, move.kind),
        bundle,
        move.source,
        move.destination,
        round(move.rate),
        move.sessions,
        move.gap_ms / 1000,
        move.misplaced,
        *_why(move.why),
    ]


def _why(reason: str) -> tuple[str, str]:
    whole = reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"
    return short_reason(reason), whole


def _whole(values: Floats, fine: int = 1) -> list[int | None]:
    """Return the values, which are fractions, in thousandths, rounded to multiples of `fine`; None for NaN."""
    return [None if np.isnan(value) else round(value * _UNIT / fine) * fine for value in values.tolist()]


def _counts(
    moves: Sequence[Moved], splits: Sequence[Divided], start_ms: int, point_ms: int, points: int
) -> dict[str, list[int]]:
    """Return for each kind of decision its number at each point of a picture; decisions that the page does not list
    count, too. Point `i` has the decisions from `start_ms + i * point_ms` (inclusive) to the next point (exclusive);
    `points` is the number of points.
    """
    found = {kind: [0] * points for kind in (*_KINDS.values(), SPLIT)}
    for kind, at_ms in [(_KINDS.get(move.kind, ""), move.at_ms) for move in moves] + [(SPLIT, s.at_ms) for s in splits]:
        if kind in found:
            found[kind][(at_ms - start_ms) // point_ms] += 1
    return found


def _moments(series: Series, usage: Floats) -> list[list[Any]]:
    """Return the times at which brokers joined or left, and of other events, oldest first. Each item is a list: seconds
    since the start of the run, "came", "went" or "event", and the broker ("" for "event").
    """
    start_ms, there = series.at_ms[0], ~np.isnan(usage)
    changed = [(step + 1, row) for step, row in np.argwhere(there[1:] != there[:-1]).tolist()]
    steps = {step for step, _ in changed}
    found: list[list[Any]] = [
        [(series.at_ms[step] - start_ms) / 1000, "came" if there[step, row] else "went", series.names[row]]
        for step, row in changed
    ]
    found += [
        [(at_ms - start_ms) / 1000, "event", ""]
        for at_ms in series.event_ms
        if (at_ms - start_ms) // series.step_ms not in steps
    ]
    return sorted(found, key=lambda moment: moment[0])


def _rates(run: RunFile, bundles: Sequence[str], ordered: Sequence[str]) -> list[list[int | None]]:
    """Return a list for each of `bundles`: its rates (msg/s in + out) at the times of the run's samples, None where the
    bundle did not exist.

    The list is empty for a bundle without samples, and for a bundle that is not among the first `MOST_RATED` names of
    `ordered`.
    """
    wanted = set(list(dict.fromkeys(ordered))[:MOST_RATED])
    columns = {name: number for number, name in enumerate(run.series.bundles) if name in wanted}
    rates = run.series.rates()
    return [
        [None if np.isnan(rate) else round(rate) for rate in rates[:, columns[name]].tolist()]
        if name in columns
        else []
        for name in bundles
    ]
