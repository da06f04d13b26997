"""The data of a report about all runs: the rows of the results table (`lab.board`), the best rows for each cost, and
the lines of each run with pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pulsar_barycenter.lab.board import FIGURES, Row, figure_text, front, heading
from pulsar_barycenter.lab.report.run_detail import packed_detail
from pulsar_barycenter.lab.report.thinning import MOST_OVERVIEW_POINTS, group_size, thinned
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.replay.grid import CONFIGURED, settings_of

COSTS: Final = ("unloads", "sessions_disturbed", "unserved_topic_s", "flaps")
MAX_WARNINGS: Final = 12
_PREFIX: Final = "loadBalancer"


@dataclass(frozen=True, slots=True)
class About:
    """The origin of a report: `command`, the input as text (`replayed`), warnings about the input, and the settings
    that were recorded with it (`base`).
    """

    command: str = ""
    replayed: str = ""
    warnings: tuple[str, ...] = ()
    base: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Front:
    """The rows of the results table that are best for one measure of cost, such as unloads: no other row has less of
    this cost without more regret, or less regret without more of this cost. `rows` are the indexes of these rows.
    """

    name: str
    heading: str
    about: str
    rows: list[int]


def fronts(rows: Sequence[Row]) -> list[Front]:
    """Return a `Front` for each measure of cost: the rows that are best for that cost and regret, the cheapest row
    first.
    """
    by_name = {figure.name: figure for figure in FIGURES}
    return [
        Front(
            name,
            heading(by_name[name]),
            by_name[name].about,
            front([(row.figure(name), row.figure("regret")) for row in rows]),
        )
        for name in COSTS
    ]


def labels(rows: Sequence[Row]) -> list[str]:
    """Return a short name of each row: its strategy, and those settings whose values are not the same in all rows.

    The strategy SHEDDER+PLACEMENT is named by its shedder only, if no other strategy has the same shedder.
    """
    scenarios = [row.runs[0].scenario for row in rows]
    values: dict[str, set[str]] = {}
    for each in scenarios:
        for key in {key for other in scenarios for key in other.settings}:
            values.setdefault(key, set()).add(each.settings.get(key, ""))
    strategies = {each.strategy for each in scenarios}
    found = []
    for each in scenarios:
        shedder = each.strategy.partition("+")[0]
        alone = sum(1 for other in strategies if other.partition("+")[0] == shedder) == 1
        varied = [
            f"{key.removeprefix(_PREFIX).removeprefix(shedder)}={value}"
            for key, value in sorted(each.settings.items())
            if len(values[key]) > 1
        ]
        found.append(" ".join([shedder if alone else each.strategy, *varied]))
    return found


def verdict(rows: Sequence[Row], about: About) -> list[tuple[str, str]]:
    """Return the main results as pairs of a label and a sentence: the row with the least regret, the one with the
    fewest unloads, rows between the two, the row with the recorded settings, and warnings about the input.
    """
    names = labels(rows)

    def told(place: int) -> str:
        unloads, sessions = (figure_text(rows[place].figure(name)) for name in ("unloads", "sessions_disturbed"))
        regret = rows[place].figure("regret")
        return f"{place + 1} {names[place]}: regret {regret:.3g} %, unloads {unloads}, sessions disturbed {sessions}"

    equals = [f"{place + 1} {names[place]}" for place in range(1, len(rows)) if rows[place].figures == rows[0].figures]
    found = [("most even", told(0) + (f"; as good in every figure: {', '.join(equals[:5])}" if equals else ""))]
    on_front = front([(row.figure("unloads"), row.figure("regret")) for row in rows])
    if on_front[0] != 0:
        found.append(("fewest unloads", told(on_front[0])))
    ends = {rows[place].figures for place in (0, on_front[0])}
    between = [place for place in on_front if rows[place].figures not in ends]
    if between:
        found.append(("in between", "; ".join(told(place) for place in between[:5])))
    configured = [place for place, row in enumerate(rows) if row.runs[0].scenario.strategy == CONFIGURED]
    if configured and rows[configured[0]].figures != rows[0].figures:
        found.append(("as configured", told(configured[0])))
    if about.replayed:
        found.append(("replayed", about.replayed))
    found += [("mind", warning) for warning in about.warnings[:MAX_WARNINGS]]
    if len(about.warnings) > MAX_WARNINGS:
        found.append(("mind", f"and {len(about.warnings) - MAX_WARNINGS} more warnings; the command printed them"))
    return found


def overview(rows: Sequence[Row], runs: Sequence[tuple[int, RunFile]], about: About) -> dict[str, Any]:
    """Return the data from which the scripts of the page draw its tables and pictures, ready for JSON.

    `rows` are the rows of the results table; `runs` are the runs with pictures, each with the index of its row.
    """
    names = labels(rows)
    return {
        "rows": [
            {
                "label": names[place],
                "title": row.title,
                "figures": dict(zip((figure.name for figure in FIGURES), row.figures, strict=True)),
                "keys": _keys(row, about.base),
            }
            for place, row in enumerate(rows)
        ],
        "base": dict(about.base),
        "figures": [[figure.name, heading(figure)] for figure in FIGURES],
        "costs": [[each.name, each.heading, each.about, each.rows] for each in fronts(rows)],
        "runs": [_run(place, run) for place, run in runs],
    }


def _keys(row: Row, base: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of broker.conf that a row sets, with their values: those of its strategy, and those of its
    settings. `base` are the settings of the input, from which the strategy "configured" is read.
    """
    scenario = row.runs[0].scenario
    return {**settings_of(scenario.strategy, base), **scenario.settings}


def _run(row: int, run: RunFile) -> dict[str, Any]:
    series = run.series
    size = group_size(len(series.at_ms), MOST_OVERVIEW_POINTS)
    most, mean, floor = (np.array(values) for values in (series.usage_max, series.usage_mean, series.floor))
    ratio = np.divide(most, mean, out=np.ones(len(mean)), where=mean > 0)
    scenario = run.scenario
    return {
        "row": row,
        "name": scenario.name,
        "seed": scenario.seed,
        "period": scenario.period,
        "start": series.at_ms[0],
        "end": len(series.at_ms) * series.step_ms / 1000,
        "point": size * series.step_ms / 1000,
        "ratio": [round(value * 1000) for value in thinned(ratio, size, np.nanmax).tolist()],
        "above": [round(value * 1000) for value in thinned(np.maximum(most - floor, 0), size, np.nanmax).tolist()],
        "figures": {
            figure.name: getattr(run.measures, figure.name) * (100 if figure.unit == "%" else 1) for figure in FIGURES
        },
        "detail": packed_detail(run),
    }
