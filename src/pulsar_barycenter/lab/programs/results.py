"""The runs of a replay as tables, as a picture, and as the pages and files of `barycenter replay`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from pulsar_barycenter.lab.board import FIGURES, figure_text, heading, rows_of
from pulsar_barycenter.lab.programs.line_picture import Line, line_picture
from pulsar_barycenter.lab.report.overview import About, labels
from pulsar_barycenter.lab.report.page import report_page, write_report
from pulsar_barycenter.lab.report.thinning import MOST_OVERVIEW_POINTS, group_size, runs_shown, thinned
from pulsar_barycenter.lab.results import moves_table, series_table, splits_table, usage_table, write_results
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.measures import MEASURES

_MAX_LINES: Final = 6
_MAX_ROWS: Final = 30


@dataclass(frozen=True, repr=False)
class ReplayResults:
    """The runs of a replay; `Load.replay` returns it. A notebook shows it as a table and a picture.

    Tables are Arrow tables; usages are fractions of a broker, times are epoch ms or seconds as the names say, and `run`
    is the name of a run. docs/measures.md defines the measures; a lower value of a measure is better.

    >>> from pulsar_barycenter.replay import synthetic_load
    >>> results = synthetic_load(brokers=4, bundles=16, steps=20).replay(["no-op", "AvgShedder"], seeds=[1, 2])
    >>> len(results)
    4
    >>> results.medians().column_names[:4]
    ['strategy', 'settings', 'runs', 'regret']
    """

    _runs: tuple[RunFile, ...]
    _about: About

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        rows = rows_of(self._runs)
        best = f"; least regret: {rows[0].title}, {figure_text(rows[0].figure('regret'))} %"
        return f"<ReplayResults of {count_of(len(self._runs), 'run')}{best}>"

    def medians(self) -> pa.Table:
        """Return a row for each combination of a strategy and its settings, with the medians of the measures over seeds
        and periods; the row with the least regret is first.

        Columns: strategy, settings (key=value, separated by blanks), runs (their number), then the measures of the
        table of `barycenter replay`, in their units, except that percentages are fractions.

        >>> from pulsar_barycenter.replay import synthetic_load
        >>> results = synthetic_load(brokers=2, bundles=8, steps=5).replay(["no-op"])
        >>> results.medians()["strategy"].to_pylist()
        ['no-op']
        """
        rows = []
        for row in rows_of(self._runs):
            scenario = row.runs[0].scenario
            values = zip(FIGURES, row.figures, strict=True)
            rows.append(
                {
                    "strategy": scenario.strategy,
                    "settings": _settings(scenario.settings),
                    "runs": len(row.runs),
                    **{each.name: value / 100 if each.unit == "%" else float(value) for each, value in values},
                }
            )
        return pa.Table.from_pylist(rows)

    def measures(self) -> pa.Table:
        """Return a row for each run with all measures.

        Columns: run, strategy, settings, seed, first_step (inclusive) and end_step (exclusive) of the period, then
        every measure. `even_after_s` is a list with a value for the start and for each event: the seconds until the
        load was even, null if it was not even before the next event or the end.
        """
        rows = [
            {
                "run": run.scenario.name,
                "strategy": run.scenario.strategy,
                "settings": _settings(run.scenario.settings),
                "seed": run.scenario.seed,
                "first_step": run.scenario.period[0],
                "end_step": run.scenario.period[1],
                **{measure.name: _value(run, measure.name) for measure in MEASURES},
            }
            for run in self._runs
        ]
        return pa.Table.from_pylist(rows)

    def moves(self) -> pa.Table:
        """Return a row for each move: run, at_ms, kind ("unload", "split" or "assign"), bundle, source, destination,
        rate (msg/s in + out), topics, sessions, gap_ms (time without service), misplaced (True: after the move the
        destination's usage was above the mean), why (the reason).
        """
        return moves_table(self._runs)

    def splits(self) -> pa.Table:
        """Return a row for each split: run, at_ms, bundle, broker (its owner), parts (the new bundles), why (the
        reason).
        """
        return splits_table(self._runs)

    def balance(self) -> pa.Table:
        """Return a row for each step of each run: run, at_ms, usage_max, usage_mean and usage_min (of the running
        brokers), floor, brokers (their number).

        However the bundles are distributed, `usage_max` cannot be below `floor`.
        """
        return series_table(self._runs)

    def brokers(self) -> pa.Table:
        """Return the usage of each broker at each step: run, at_ms, broker, usage (a fraction; null while the broker
        did not run), live (whether it ran).
        """
        return pa.concat_tables(map(usage_table, self._runs))

    def page(self) -> str:
        """Return the report of `barycenter replay`: one HTML page that loads no other file."""
        return report_page(self._runs, self._about)

    def write(self, folder: str | PathLike[str]) -> Path:
        """Write the report and the result files of `barycenter replay` into `folder`, which is created if it is
        missing. Return the path of the report.

        Raises:
            OSError: a file cannot be written.
        """
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        write_results(out, self._runs)
        return write_report(out, self._runs, self._about)

    def _repr_html_(self) -> str:
        rows = rows_of(self._runs)
        names = labels(rows)
        head = "".join(f"<th>{escape(heading(figure))}</th>" for figure in FIGURES)
        body = "".join(
            f'<tr><td style="text-align:left">{escape(name)}</td>'
            + "".join(f"<td>{figure_text(value)}</td>" for value in row.figures)
            + f"<td>{len(row.runs)}</td></tr>"
            for name, row in zip(names[:_MAX_ROWS], rows, strict=False)
        )
        more = f"<p>and {len(rows) - _MAX_ROWS} more rows: medians() has all</p>" if len(rows) > _MAX_ROWS else ""
        return (
            f"<table><thead><tr><th>strategy</th>{head}<th>runs</th></tr></thead><tbody>{body}</tbody></table>"
            f"{more}{self._picture(names)}"
        )

    def _picture(self, names: Sequence[str]) -> str:
        """Return a picture of the usage of the most used broker over time: a line for each of the first rows of the
        results table, and a line for the floor. `names` are the titles of the lines.

        If a row has several runs, its line is the run with the median regret.
        """
        rows = rows_of(self._runs)[:_MAX_LINES]
        shown = [run for _, run in runs_shown([row.runs for row in rows], len(rows))]
        lines = [
            Line(f"{name}: usage of the fullest broker", _points(run, run.series.usage_max))
            for name, run in zip(names, shown, strict=False)
        ]
        lines.append(
            Line("floor: no placement has a less full fullest broker", _points(shown[0], shown[0].series.floor), True)
        )
        most = max(float(np.nanmax(line.values)) for line in lines)
        hours = max(len(run.series.at_ms) * run.series.step_ms for run in shown) / 3_600_000
        title = "Usage of the fullest broker over time, by strategy"
        return line_picture(lines, title=title, hours=hours, most=math.ceil(max(most, 0.01) * 5) / 5)


def _points(run: RunFile, values: Sequence[float]) -> Any:
    return thinned(np.array(values), group_size(len(values), MOST_OVERVIEW_POINTS), np.nanmax)


def _settings(settings: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def _value(run: RunFile, name: str) -> Any:
    value = msgspec.to_builtins(getattr(run.measures, name))
    return float(value) if isinstance(value, float) else value
