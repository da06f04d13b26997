"""Compares runs of the same load with several strategies: a table for the terminal, and one HTML page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pulsar_barycenter.demo.contenders import Contender
from pulsar_barycenter.demo.plan import TopicResult
from pulsar_barycenter.demo.record import Record
from pulsar_barycenter.demo.report.data import ReportData
from pulsar_barycenter.html_pages.page import rendered


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run that has ended: its strategy, its record, its results and the path of its own report."""

    contender: Contender
    record: Record
    topics: Sequence[TopicResult]
    summary: dict[str, Any]
    report: Path


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the comparison: one value in all runs, as texts in the order of the runs, and the index of the best run
    (None: all are equal, or a run has no value).
    """

    name: str
    texts: tuple[str, ...]
    best: int | None


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    value: Callable[[dict[str, Any]], float | None]
    text: Callable[[dict[str, Any]], str]


_Text: TypeAlias = Callable[[dict[str, Any]], str]


def _key(key: str, form: str, unit: str = "") -> tuple[Callable[[dict[str, Any]], Any], _Text]:
    def text(summary: dict[str, Any]) -> str:
        return "–" if summary[key] is None else f"{summary[key]:{form}}{unit}"

    return (lambda summary: summary[key]), text


_FIGURES: Final = (
    _Figure("messages lost", *_key("messages_lost", ",")),
    _Figure("messages out of order", *_key("out_of_order", ",")),
    _Figure("busiest / mean, last fifth", *_key("imbalance_after", ".2f")),
    _Figure("busiest / mean, all brokers there", *_key("imbalance_mean", ".2f")),
    _Figure("moves of bundles", *_key("moves", ",")),
    _Figure("moved back", *_key("moved_back", ",")),
    _Figure("times without receipts", *_key("interruptions", ",")),
    _Figure("longest of these", *_key("longest_gap_seconds", ".2f", " s")),
    _Figure("topics × seconds of these", *_key("topic_seconds_without_receipt", ".1f", " s")),
    _Figure("all topics back after the kill", *_key("recovery_seconds", ".2f", " s")),
)
"""The compared values; a lower value is better for all."""


def lines(summaries: Sequence[dict[str, Any]]) -> list[Line]:
    """Return the lines of the comparison, one for each value in the summaries of the runs; a value that no run has is
    left out.
    """
    found = []
    for figure in _FIGURES:
        values = [figure.value(summary) for summary in summaries]
        if all(value is None for value in values):
            continue
        known = [value for value in values if value is not None]
        differ = len(known) == len(values) and len({round(value, 2) for value in known}) > 1
        best = values.index(min(known)) if differ else None
        found.append(Line(figure.name, tuple(figure.text(summary) for summary in summaries), best))
    return found


def table(runs: Sequence[SeenRun]) -> str:
    """Return a table for a terminal that compares the results of runs: one line per value, with the best run marked."""
    rows = [("", *(run.contender.title for run in runs))]
    for line in lines([run.summary for run in runs]):
        marked = (f"{text} *" if place == line.best else text for place, text in enumerate(line.texts))
        rows.append((line.name, *marked))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*shown, "* the better value; each strategy ran once, and other work on the machine counts"])


def render_comparison(runs: Sequence[SeenRun], command: str, folder: Path) -> str:
    """Return the page that compares two runs, the one with LeastDisturbance first. It links to the pages of the runs,
    which are below `folder`.
    """
    data = [
        ReportData(run.record, run.topics, run.record.started_at_s + run.summary["duration_seconds"]) for run in runs
    ]
    sides = [
        {"title": run.contender.title, "report": run.report.relative_to(folder).as_posix(), "summary": run.summary}
        for run in runs
    ]
    return rendered(
        "pulsar_barycenter.demo.report",
        {"end": max(one.end_s for one in data), "runs": [one.pictures() for one in data]},
        "run.js",
        "comparison.js",
        template="comparison.html.j2",
        sides=sides,
        lines=lines([run.summary for run in runs]),
        command=command,
    )
