"""Writes `report.html`: one page with the results of a grid, pictures first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pulsar_barycenter.html_pages.page import rendered
from pulsar_barycenter.lab.board import FIGURES, Row, figure_text, heading, rows_of
from pulsar_barycenter.lab.report.overview import About, fronts, labels, overview, verdict
from pulsar_barycenter.lab.report.thinning import MOST_ROWS, MOST_RUNS, runs_shown
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.measures import MEASURES
from pulsar_barycenter.whole_files.appearing import write_whole

REPORT: Final = "report.html"
_SCRIPTS: Final = ("shared.js", "scatter.js", "pictures.js", "panel.js", "differences.js", "story.js", "page.js")


def write_report(out: Path, runs: Sequence[RunFile], about: About) -> Path:
    """Write the report of all runs (at least one) into the folder `out`, and return its path.

    The same arguments give the same bytes.

    Raises:
        OSError: the file cannot be written.
    """
    path = out / REPORT
    write_whole(path, report_page(runs, about).encode())
    return path


def report_page(runs: Sequence[RunFile], about: About) -> str:
    """Return the report as a self-contained HTML page: it loads no other file."""
    rows = rows_of(runs)
    kept = rows[:MOST_ROWS]
    shown = runs_shown([row.runs for row in kept], MOST_RUNS)
    return rendered(
        "pulsar_barycenter.lab.report",
        overview(kept, shown, about),
        *_SCRIPTS,
        about=about,
        verdict=verdict(kept, about),
        rows=_table(kept),
        figures=[(figure, heading(figure)) for figure in FIGURES],
        fronts=fronts(kept),
        labels=labels(kept),
        measures=MEASURES,
        total_rows=len(rows),
        total_runs=len(runs),
        shown_runs=len(shown),
    )


def _table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows of the report's results table. In each column the least value is marked as the best, unless all
    values of the column are equal.
    """
    columns = list(zip(*(row.figures for row in rows), strict=True))
    on_front = set(fronts(rows)[0].rows)
    found = []
    for place, row in enumerate(rows):
        cells = [
            {
                "text": figure_text(value),
                "best": value == min(column) < max(column),
                "tip": _spread(figure.title, row, number),
            }
            for number, (figure, value, column) in enumerate(zip(FIGURES, row.figures, columns, strict=True))
        ]
        scenario = row.runs[0].scenario
        found.append(
            {
                "strategy": scenario.strategy,
                "settings": sorted(scenario.settings.items()),
                "runs": len(row.runs),
                "cells": cells,
                "on_front": place in on_front,
                "best": row.figures == rows[0].figures != rows[-1].figures,
            }
        )
    return found


def _spread(title: str, row: Row, number: int) -> str:
    about = FIGURES[number].about
    if len(row.runs) == 1:
        return f"{title}: {about}"
    least, greatest = figure_text(row.least[number]), figure_text(row.greatest[number])
    return f"median of {count_of(len(row.runs), 'run')}, from {least} to {greatest}\n{title}: {about}"
