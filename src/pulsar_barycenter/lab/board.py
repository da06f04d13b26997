"""The results table of a grid: a row for each strategy and its settings, with medians over seeds and periods.

`front` finds the rows that are worth their cost.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.replay.measures import MEASURES, Measure, Measures

_SHOWN: Final = (
    "regret",
    "max_over_mean",
    "spread",
    "overloaded_s",
    "unloads",
    "splits",
    "flaps",
    "wrong_placements",
    "sessions_disturbed",
    "unserved_topic_s",
)
FIGURES: Final[tuple[Measure, ...]] = tuple(
    next(each for each in MEASURES if each.name == name) for name in _SHOWN
)  # the regret first: by it the rows are sorted


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one strategy with the same settings: a row of the results table. `figures` are the medians of the
    measures FIGURES over the runs, in the order and units of FIGURES (fractions as %). `least` and `greatest` are the
    least and the greatest value of each measure in a single run.
    """

    title: str
    runs: tuple[RunFile, ...]
    figures: tuple[float, ...]
    least: tuple[float, ...]
    greatest: tuple[float, ...]

    def figure(self, name: str) -> float:
        return self.figures[_SHOWN.index(name)]


def heading(figure: Measure) -> str:
    """Return the title of the column for a measure in the results table."""
    return f"{figure.title}{', ' if ' ' in figure.title and figure.unit else ' '}{figure.unit}".strip()


def figure_text(value: float) -> str:
    """Return a value with four significant digits, without an exponent: 140,700, not 1.407e+05."""
    return f"{float(f'{value:.4g}'):,.10g}"


def rows_of(runs: Sequence[RunFile]) -> list[Row]:
    """Return the rows of the results table: one for each combination of a strategy and its settings, the row with the
    least regret first.
    """
    groups: dict[str, list[RunFile]] = defaultdict(list)
    for run in runs:
        groups[run.scenario.title].append(run)
    rows = []
    for title, found in groups.items():
        columns = [[_read(figure, run.measures) for run in found] for figure in FIGURES]
        rows.append(
            Row(
                title,
                tuple(found),
                tuple(median(column) for column in columns),
                tuple(min(column) for column in columns),
                tuple(max(column) for column in columns),
            )
        )
    return sorted(rows, key=lambda row: (row.figures, row.title))


def _read(figure: Measure, measures: Measures) -> float:
    value: float = getattr(measures, figure.name)
    return value * 100 if figure.unit == "%" else value


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indexes of the points that no other point beats, ordered by their first coordinate, the lowest first.

    A point beats another one if it is lower in one coordinate and not higher in the other. Equal points do not beat
    each other: if no other point beats them, all of them are returned.
    """
    found: list[int] = []
    best = float("inf")
    for place in sorted(range(len(points)), key=lambda each: (points[each], each)):
        if points[place][1] < best or (found and points[place] == points[found[-1]]):
            found.append(place)
            best = points[place][1]
    return found
