"""One HTML page of a run, pictures first.

Text from outside reaches the page in two ways, both escaped: through the template, and as JSON that the script puts
into text nodes. The page's policy allows its own script and style, by their hashes, and nothing else.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import jinja2

from barycenter.demo.plan import TopicResult
from barycenter.demo.record import Record
from barycenter.demo.report.data import ReportData, short_names
from barycenter.demo.summary import verdict


@dataclass(frozen=True, slots=True)
class Origin:
    """How the run came about: the command that repeats it, its settings in words, the brokers' configuration."""

    command: str
    settings: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)


def render_report(
    record: Record, topics: list[TopicResult], summary: dict[str, Any], origin: Origin | None = None
) -> str:
    """Return the report as a self-contained HTML page: it loads nothing from anywhere.

    It may be made at any time of a run: what was not seen yet is not there.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    folder = files(__package__)
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    data = ReportData(record, topics, record.started_at_s + summary["duration_seconds"])
    return environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8")).render(
        summary=summary,
        verdict=verdict(summary),
        data=data,
        short=short_names([lane.bundle for lane in data.lanes]),
        topics=sorted(topics, key=lambda topic: -topic.produced),
        origin=origin,
        version=_version(),
        script=script,
        style=style,
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _version() -> str:
    try:
        return version("barycenter")
    except PackageNotFoundError:
        return "unknown"
