"""The results of a demo, and the page that shows them."""

import base64
import hashlib
import html
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.cli.run.demo import command, sentences
from pulsar_barycenter.demo.log_readers import PipelineBatches
from pulsar_barycenter.demo.plan import ClientResult, TopicResult
from pulsar_barycenter.demo.record import Event, LoadSample, Record
from pulsar_barycenter.demo.report.data import MOST_POINTS, ReportData
from pulsar_barycenter.demo.report.page import Origin, render_report
from pulsar_barycenter.demo.scenario import DemoSettings, demo_configuration
from pulsar_barycenter.demo.summary import counted, summarise, verdict
from pulsar_barycenter.html_pages.reasons import short_reason
from support import demo_run


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
    return summarise(record, result, affected_topics=affected, pipeline=PipelineBatches([0.5, 1.5]), ended_at_s=100.0)


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


def test_of_a_broker_that_served_no_topic_no_topic_is_missed() -> None:
    said = dict(verdict(figures(*small_run(), [])))
    assert said["fail-over"] == "1 bundle, no topic was served there"


def test_batches_that_failed_are_named_with_their_reason() -> None:
    record, result = small_run()
    pipeline = PipelineBatches([0.5], ["ValueError: one", "OSError: two"])
    assert "" not in dict(verdict(figures(record, result, [])))
    summary = summarise(record, result, affected_topics=[], pipeline=pipeline, ended_at_s=100.0)
    assert dict(verdict(summary))[""] == "2 attempts to fold a batch failed, the last one by OSError: two"


class _Page(HTMLParser):
    """The scripts, styles and what is loaded of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.policy = ""
        self.own: dict[str, list[str]] = {"script": [], "style": []}
        self.inline: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value for name, value in attrs if name in {"src", "href"} and value and value[0] != "#"]
        self.inline += [name for name, _ in attrs if name == "style" or name.startswith("on")]
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attrs)["content"] or ""
        if tag in self.own:
            self._inside = tag
            self.own[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.own[self._inside][-1] += data


def page_of(record: Record, result: ClientResult, origin: Origin | None = None) -> str:
    summary = figures(record, result, []) | {"brokers": 3, "load": "a test"}
    return render_report(record, result.topics, summary, origin)


def test_the_page_loads_nothing_and_allows_only_its_own_script_and_style() -> None:
    page = _Page(page_of(*small_run()))
    assert page.loaded == page.inline == []
    data, script = page.own["script"]
    for kind, text in (("script-src", script), ("style-src", *page.own["style"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none'")
    assert json.loads(data)["brokers"] == [{"name": "b", "letter": "A"}, {"name": "a", "letter": "B"}]


def test_names_and_reasons_from_outside_are_text() -> None:
    record, result = demo_run.flapping_run()
    record.events.append(Event(1.0, "unload", demo_run.ODD_NAME, demo_run.ODD_NAME, None, demo_run.ODD_NAME))
    origin = Origin(demo_run.ODD_NAME, {demo_run.ODD_NAME: demo_run.ODD_NAME}, {"k": demo_run.ODD_NAME})
    text = page_of(record, result, origin)
    page = _Page(text)
    assert len(page.own["script"]) == 2
    assert "<script>alert" not in text
    assert html.escape(demo_run.ODD_NAME.rpartition("/")[2]) in text


def test_a_report_is_made_of_whatever_was_seen_so_far() -> None:
    page = _Page(page_of(Record(started_at_s=0.0), ClientResult(topics=[], recovered={})))
    assert json.loads(page.own["script"][0])["lanes"] == []


def test_the_page_tells_the_run_and_what_moved_back() -> None:
    page = page_of(*demo_run.flapping_run(), Origin("barycenter demo --seed 7", {"seed": "7"}))
    for told in ("barycenter demo --seed 7", "<dd>7</dd>", "back to a former owner, again after 18 s", "2 of 5 moves"):
        assert told in page


def test_what_clients_noticed_is_a_mark_each_time_and_the_longest_are_listed_with_what_happened_then() -> None:
    page = page_of(*demo_run.flapping_run())
    assert json.loads(_Page(page).own["script"][0])["gaps"] == [[40.0, 40.9, 1], [50.0, 50.3, 1]]
    rows = page.partition('class="cards worst"')[2].partition("</table>")[0].split("<tr>")[2:]
    assert [re.sub(r"<[^>]*>", " ", row).split()[:2] for row in rows] == [["40.0", "s"], ["50.0", "s"]]
    assert "broker killed" in rows[0]
    assert "no move, split or failure seen" in rows[1]


def test_a_part_of_the_page_that_is_empty_says_why() -> None:
    record, result = demo_run.calm_run()
    assert "no topic with messages under way waited for a receipt" in page_of(record, result)
    summary = figures(record, ClientResult([], {}), []) | {"brokers": 3, "load": "a test", "interrupted": True}
    page = render_report(record, [], summary)
    assert "The run was interrupted. Clients report what they waited for at the end" in page
    assert dict(verdict(summary))["noticed"].startswith("not known: clients report it at the end")
    assert 'id="gaps"' not in page


def test_the_figures_say_how_often_and_how_long_clients_waited() -> None:
    summary = figures(*demo_run.flapping_run(), [])
    assert dict(verdict(summary))["noticed"] == (
        "2 times without receipts for 0.25 s or longer, the longest 0.90 s (1 topic)"
    )
    assert summary["topic_seconds_without_receipt"] == pytest.approx(1.2)


def test_the_data_of_a_long_run_stay_small() -> None:
    record = Record(0.0, samples=[LoadSample(second, "a", second % 2, 0, 1, 0.5) for second in range(100_000)])
    points = ReportData(record, [], 100_000.0).pictures()["load"][0]
    assert 600 <= len(points) <= MOST_POINTS
    assert points[1][1] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("", ""),
        ("SIGKILL to it; 5 topics wait", "SIGKILL to it"),
        (
            "b: heaviest (x 1 < 2) [S]; because a: high (usage 9 >= 3, more 1 >= 0): now [S]; settings: k",
            "a: high (usage 9 >= 3)",
        ),
    ],
)
def test_a_short_reason_is_its_cause_with_one_comparison(reason: str, short: str) -> None:
    assert short_reason(reason) == short


def test_numbers_have_their_nouns() -> None:
    assert [counted(0, "bundle"), counted(1, "bundle"), counted(1000, "batch", "batches")] == [
        "0 bundles",
        "1 bundle",
        "1,000 batches",
    ]


def test_the_command_repeats_the_run() -> None:
    settings = DemoSettings(Path("my out"), [], "a mix", brokers=2, chaos=False, seed=7, web_port=1, broker_port=2)
    settings = replace(settings, changes={"loadBalancerLoadSheddingStrategy": "LeastDisturbance"})
    parsed = command.make_context("demo", shlex.split(settings.command())[2:]).params
    assert {key: parsed[key] for key in ("brokers", "seed", "chaos", "out", "web_port", "broker_port")} == {
        "brokers": 2,
        "seed": 7,
        "chaos": False,
        "out": Path("my out"),
        "web_port": 1,
        "broker_port": 2,
    }
    assert parsed["changes"] == ("loadBalancerLoadSheddingStrategy=LeastDisturbance",)
    assert demo_configuration(settings)["loadBalancerLoadSheddingStrategy"] == "LeastDisturbance"
    assert (parsed["duration"], parsed["speedup"]) == (settings.duration_s, settings.speedup)


def test_the_last_lines_speak_of_a_fail_over_only_if_a_broker_was_killed() -> None:
    record, result = small_run()
    killed = sentences(figures(record, result, ["persistent://public/demo/t"]), Path("out"))
    assert "fail-over  1 bundle, all topics served after 3.20 s" in killed
    record.killed_at_s = record.killed_broker = None
    assert "fail-over" not in sentences(figures(record, result, []), Path("out"))
