"""The bounds of a report, and functions that shorten long series and keep their extremes."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats
from pulsar_barycenter.replay.outcome import Divided, Moved

MOST_ROWS: Final = 200
"""The maximum number of rows of the table: the first ones of the results table (`lab.board`)."""
MOST_RUNS: Final = 64
"""The maximum number of runs with pictures."""
MOST_POINTS: Final = 480
"""The maximum number of points of a line, or of a broker in a heat map."""
MOST_OVERVIEW_POINTS: Final = 240
"""The maximum number of points of a line in the picture of several runs."""
MOST_BROKERS: Final = 200
"""The maximum number of brokers of a run: half of them with the highest peaks, half with the lowest means."""
MOST_LINES: Final = 12
"""The maximum number of brokers that are drawn as lines; more are drawn as a heat map, in whole percents."""
MOST_MOVES: Final = 1_000
"""The maximum number of moves of a run that are listed with their reasons."""
MOST_PARTED: Final = 1_000
"""The maximum number of bundles and parts in the listed splits of a run."""
MOST_RATED: Final = 400
"""The maximum number of bundles of a run whose rates are listed: those that moved first."""
LONGEST_REASON: Final = 2_000
"""The maximum length of a reason, in characters."""


def group_size(steps: int, most: int) -> int:
    """Return how many steps of a run become one point of a picture, so that the picture has at most `most` points."""
    return max(1, -(-steps // most))


def thinned(values: Floats, size: int, how: Callable[..., Floats]) -> Floats:
    """Combine each `size` consecutive rows of `values` into one point; the last point is of the remaining rows. `how`
    computes a point from its rows, for example numpy's nanmax.

    If all values of a point are NaN, the point is NaN.
    """
    rows = -(-len(values) // size)
    padded = np.full((rows * size, *values.shape[1:]), np.nan)
    padded[: len(values)] = values
    groups = padded.reshape(rows, size, *values.shape[1:])
    empty: Flags = np.asarray(np.isnan(groups).all(axis=1))
    found: Floats = how(np.where(empty[:, None], 0.0, groups), axis=1)
    return np.where(empty, np.nan, found)


def brokers_shown(usage: Floats, most: int = MOST_BROKERS) -> list[int]:
    """Return the indexes of the brokers that a picture shows, ascending; they are columns of `usage`. If there are more
    than `most` brokers, half of `most` are those with the highest usage in any step, and the rest those with the lowest
    mean usage.
    """
    count = usage.shape[1]
    if count <= most:
        return list(range(count))
    there = ~np.isnan(usage)
    fullest = np.where(there, usage, 0.0).max(axis=0)
    mean = np.where(there, usage, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    chosen = set(np.argsort(-fullest, kind="stable")[: most // 2].tolist())
    rest = [column for column in np.argsort(mean, kind="stable").tolist() if column not in chosen]
    return sorted(chosen | set(rest[: most - len(chosen)]))


def moves_shown(moves: Sequence[Moved], most: int = MOST_MOVES) -> list[Moved]:
    """Return the moves that a page lists, at most `most`, in their order: all moves of a bundle or none.

    The bundles whose moves carried the most traffic are preferred. If the first of them has more than `most` moves,
    only its first `most` moves are returned.
    """
    if len(moves) <= most:
        return list(moves)
    traffic: dict[str, float] = {}
    count: dict[str, int] = {}
    for move in moves:
        traffic[move.bundle] = traffic.get(move.bundle, 0.0) + move.rate
        count[move.bundle] = count.get(move.bundle, 0) + 1
    left, kept = most, set[str]()
    for bundle in sorted(traffic, key=lambda name: (-traffic[name], name)):
        if count[bundle] <= left or not kept:
            kept.add(bundle)
            left -= count[bundle]
    return [move for move in moves if move.bundle in kept][:most]


def splits_shown(splits: Sequence[Divided], most: int = MOST_PARTED) -> list[Divided]:
    """Return the first splits, in their order, such that the split bundles and their parts are at most `most` names in
    total.
    """
    sizes = np.cumsum([1 + len(each.parts) for each in splits])
    return list(splits[: int(np.searchsorted(sizes, most, side="right"))])


def runs_shown(rows: Sequence[Sequence[RunFile]], most: int = MOST_RUNS) -> list[tuple[int, RunFile]]:
    """Return the runs for which the report has pictures, at most `most`, each with the index of its row, ordered by
    row. `rows` are the runs of each row.

    The run with the median regret of each row is chosen first; then another run of each row, row after row, until there
    are `most` runs.
    """
    ordered = [_by_distance(runs) for runs in rows]
    found: list[tuple[int, int, RunFile]] = []
    for turn in range(max(map(len, ordered), default=0)):
        for place, runs in enumerate(ordered):
            if turn < len(runs) and len(found) < most:
                found.append((place, turn, runs[turn]))
    return [(place, run) for place, _, run in sorted(found, key=lambda each: each[:2])]


def _by_distance(runs: Sequence[RunFile]) -> list[RunFile]:
    ordered = sorted(runs, key=lambda run: run.measures.regret)
    middle = ordered[len(ordered) // 2]
    return [middle, *(run for run in runs if run is not middle)]
