"""The report of a demo: one HTML file with everything in it, pictures first."""

from importlib.resources import files
from typing import Any

import jinja2
import plotly.graph_objects as go
import plotly.offline

from barycenter.demo.plan import TopicResult
from barycenter.demo.record import Event, Record, imbalance_over_time

_KINDS = {
    "assignment": ("#2a78d6", "circle"),
    "unload": ("#eb6834", "triangle-right"),
    "split": ("#4a3aa7", "diamond"),
    "broker joined": ("#1baf7a", "star"),
    "broker killed": ("#e34948", "x"),
}
_BROKER_COLOURS = ["#2a78d6", "#eb6834", "#1baf7a", "#4a3aa7", "#eda100", "#e87ba4", "#008300", "#e34948"]
_LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "font": {"family": "system-ui, sans-serif", "size": 13},
    "margin": {"l": 60, "r": 20, "t": 10, "b": 45},
    "legend": {"orientation": "h", "y": 1.08},
    "hoverlabel": {"align": "left"},
}
_WIDEST_HOVER = 90


def render_report(record: Record, topics: list[TopicResult], summary: dict[str, Any]) -> str:
    """Return the report as a self-contained HTML page: it loads nothing from anywhere."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((files(__package__) / "report.html.j2").read_text())
    figures = {
        "load": _load_figure(record),
        "imbalance": _imbalance_figure(record, summary),
        "events": _event_figure(record),
        "gaps": _gap_figure(topics),
    }
    return template.render(
        summary=summary,
        plotly=plotly.offline.get_plotlyjs(),
        figures={name: _embedded(figure) for name, figure in figures.items()},
        events=[(_since(record, event.at_s), event) for event in record.events],
        topics=sorted(topics, key=lambda topic: -topic.produced),
    )


def _embedded(figure: go.Figure) -> str:
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
    return html


def _load_figure(record: Record) -> go.Figure:
    figure = go.Figure(layout=_LAYOUT)
    for index, broker in enumerate(sorted({sample.broker for sample in record.samples})):
        samples = [sample for sample in record.samples if sample.broker == broker]
        figure.add_scatter(
            x=[_since(record, sample.at_s) for sample in samples],
            y=[sample.msg_rate for sample in samples],
            name=broker,
            mode="lines",
            line={"color": _BROKER_COLOURS[index % len(_BROKER_COLOURS)], "width": 2},
            customdata=[(sample.bundles, sample.usage * 100) for sample in samples],
            hovertemplate="%{y:.0f} msg/s, %{customdata[0]} bundles, %{customdata[1]:.0f} % used",
        )
    figure.update_layout(hovermode="x unified", yaxis_title="messages/s, in + out", xaxis_title="seconds")
    figure.update_yaxes(rangemode="tozero")
    _mark_kill(figure, record)
    return figure


def _imbalance_figure(record: Record, summary: dict[str, Any]) -> go.Figure:
    points = imbalance_over_time(record.samples)
    figure = go.Figure(layout=_LAYOUT)
    figure.add_scatter(
        x=[_since(record, at_s) for at_s, _ in points],
        y=[value for _, value in points],
        mode="lines",
        line={"color": "#4a3aa7", "width": 2},
        hovertemplate="%{y:.2f} at %{x:.0f} s<extra></extra>",
    )
    figure.add_hline(y=1, line={"color": "#888", "dash": "dot"}, annotation_text="even")
    figure.update_layout(showlegend=False, yaxis_title="busiest broker / mean", xaxis_title="seconds")
    _mark_kill(figure, record)
    return figure


def _event_figure(record: Record) -> go.Figure:
    figure = go.Figure(layout=_LAYOUT)
    for kind, (colour, symbol) in _KINDS.items():
        events = [event for event in record.events if event.kind == kind]
        if events:
            figure.add_scatter(
                x=[_since(record, event.at_s) for event in events],
                y=[event.bundle or (event.source or event.destination or "") for event in events],
                mode="markers",
                name=kind,
                marker={"color": colour, "symbol": symbol, "size": 11, "line": {"width": 1, "color": "white"}},
                text=[_hover(event) for event in events],
                hovertemplate="%{text}<extra></extra>",
            )
    rows = len({event.bundle for event in record.events})
    figure.update_layout(xaxis_title="seconds", height=220 + 18 * rows, yaxis={"automargin": True})
    _mark_kill(figure, record)
    return figure


def _gap_figure(topics: list[TopicResult]) -> go.Figure:
    ordered = sorted(topics, key=lambda topic: topic.longest_gap_s)
    figure = go.Figure(layout=_LAYOUT)
    figure.add_bar(
        x=[topic.longest_gap_s for topic in ordered],
        y=[topic.topic.rpartition("/")[2] for topic in ordered],
        orientation="h",
        marker_color="#2a78d6",
        hovertemplate="%{y}: %{x:.2f} s<extra></extra>",
    )
    figure.update_layout(xaxis_title="longest time without a receipt, seconds", height=160 + 20 * len(ordered))
    return figure


def _mark_kill(figure: go.Figure, record: Record) -> None:
    if record.killed_at_s is not None:
        at_s = _since(record, record.killed_at_s)
        figure.add_vline(x=at_s, line={"color": "#e34948", "dash": "dash"}, annotation_text="broker killed")


def _hover(event: Event) -> str:
    where = " → ".join(place for place in (event.source, event.destination) if place)
    lines = [f"<b>{event.kind}</b> {event.bundle}", where, *_wrapped(event.reason)]
    return "<br>".join(line for line in lines if line)


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _WIDEST_HOVER:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _since(record: Record, at_s: float) -> float:
    return round(at_s - record.started_at_s, 2)
