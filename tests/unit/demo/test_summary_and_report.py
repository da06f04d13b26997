"""The figures of a demo, and the page that shows them."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from barycenter.cli.run.demo import sentences
from barycenter.demo.plan import ClientResult, TopicResult
from barycenter.demo.record import Event, LoadSample, Record
from barycenter.demo.report import render_report
from barycenter.demo.summary import summarise


def small_run() -> tuple[Record, ClientResult]:
    """Two brokers; everything on a, then even; a is killed at 60 and its bundle x goes to b."""
    record = Record(started_at_s=0.0, killed_at_s=60.0, killed_broker="a", killed_bundles={"public/demo/x"})
    for second in range(100):
        even = second >= 30
        if second < 60:
            record.samples.append(LoadSample(second, "a", 50 if even else 100, 0, 1, 0.5))
        if second >= 10:
            record.samples.append(LoadSample(second, "b", 50 if even else 0, 0, 1, 0.5))
    record.events = [
        Event(1.0, "assignment", "public/demo/x", None, "a", "only one"),
        Event(1.0, "assignment", "public/demo/y", None, "a", "only one"),
        Event(10.0, "broker joined", "", None, "b", ""),
        Event(20.0, "unload", "public/demo/y", "a", "b", "0.8 is above the mean <0.4>"),
        Event(20.1, "assignment", "public/demo/y", None, "b", "chosen"),
        Event(60.0, "broker killed", "", "a", None, ""),
        Event(63.0, "assignment", "public/demo/x", None, "b", "the owner is gone"),
    ]
    topics = [TopicResult("persistent://public/demo/t", 10, 10, 0, 1, 0, 0, 3.0, [(60.0, 63.0)])]
    return record, ClientResult(topics=topics, recovered={"persistent://public/demo/t": 3.2})


def figures(record: Record, result: ClientResult, affected: list[str]) -> dict[str, Any]:
    return summarise(record, result, affected_topics=affected, pipeline_lags_s=[0.5, 1.5], ended_at_s=100.0)


def test_imbalance_is_taken_before_the_first_unload_and_at_the_end() -> None:
    summary = figures(*small_run(), ["persistent://public/demo/t"])
    assert summary["imbalance_before"] == pytest.approx(2.0)
    assert summary["imbalance_after"] == pytest.approx(1.0)


def test_a_failover_is_a_bundle_of_the_killed_broker_that_found_another() -> None:
    summary = figures(*small_run(), ["persistent://public/demo/t"])
    assert summary["failovers"] == 1
    assert summary["recovery_seconds"] == 3.2


def test_recovery_is_unknown_while_one_topic_was_never_served_again() -> None:
    summary = figures(*small_run(), ["persistent://public/demo/t", "persistent://public/demo/u"])
    assert summary["recovery_seconds"] is None


class _Sources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value for name, value in attrs if name in {"src", "href"} and value]


def test_the_page_loads_nothing_and_escapes_reasons() -> None:
    record, result = small_run()
    summary = figures(record, result, []) | {"brokers": 2, "load": "a test"}
    page = render_report(record, result.topics, summary)
    sources = _Sources()
    sources.feed(page.partition("</script>")[2])
    assert sources.loaded == []
    assert "above the mean &lt;0.4&gt;" in page


def test_the_last_lines_speak_of_a_fail_over_only_if_a_broker_was_killed() -> None:
    record, result = small_run()
    killed = sentences(figures(record, result, ["persistent://public/demo/t"]), Path("out"))
    assert "fail-over  1 bundles, all topics served after 3.20 s" in killed
    record.killed_at_s = record.killed_broker = None
    assert "fail-over" not in sentences(figures(record, result, []), Path("out"))
