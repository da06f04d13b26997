"""Renders the report of a run as one HTML page, pictures first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_barycenter.demo.plan import TopicResult
from pulsar_barycenter.demo.record import Record
from pulsar_barycenter.demo.report.data import ReportData, short_names
from pulsar_barycenter.demo.summary import verdict
from pulsar_barycenter.html_pages.page import rendered


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a run: the command that repeats it, its settings as text, and the brokers' configuration."""

    command: str
    settings: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)


def render_report(
    record: Record, topics: list[TopicResult], summary: dict[str, Any], origin: Origin | None = None
) -> str:
    """Return the report as a self-contained HTML page: it loads nothing from anywhere.

    It can be rendered at any time of a run, and shows what was recorded so far.
    """
    data = ReportData(record, topics, record.started_at_s + summary["duration_seconds"])
    return rendered(
        "pulsar_barycenter.demo.report",
        data.pictures(),
        "run.js",
        "page.js",
        summary={"interrupted": False} | summary,
        verdict=verdict(summary),
        data=data,
        short=short_names([lane.bundle for lane in data.lanes]),
        topics=sorted(topics, key=lambda topic: -topic.produced),
        origin=origin,
    )
