"""The report of a demo in a real browser: what it draws, on screens and paper, and what a drag or a key does to it."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from pulsar_barycenter.demo.log_readers import PipelineBatches
from pulsar_barycenter.demo.plan import ClientResult
from pulsar_barycenter.demo.record import Record
from pulsar_barycenter.demo.report.comparison import render_comparison
from pulsar_barycenter.demo.report.page import Origin, render_report
from pulsar_barycenter.demo.summary import summarise
from support.browser_pages import NEEDS_CHROMIUM, OUT_OF_BOUNDS, opened
from support.demo_run import AFFECTED, ODD_NAME, STARTED_AT_S, compared_runs, flapping_run

pytestmark = [
    pytest.mark.integration,
    NEEDS_CHROMIUM,
    pytest.mark.xdist_group("report of a demo"),
    pytest.mark.drawn_tests(5),
]


@pytest.fixture
def report(tmp_path: Path) -> str:
    record, result = flapping_run()
    summary = summarise(
        record, result, affected_topics=[AFFECTED], pipeline=PipelineBatches([0.5]), ended_at_s=STARTED_AT_S + 60
    )
    origin = Origin("barycenter demo --seed 1", {"seed": "1"}, {"a.long.key.of.the.configuration": "1"})
    file = tmp_path / "report.html"
    file.write_text(render_report(record, result.topics, summary | {"brokers": 3, "load": "a test"}, origin))
    return file.as_uri()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_at_every_width_texts_keep_apart_and_inside_and_nothing_complains(
    browser: Browser, report: str, width: int, scheme: Any
) -> None:
    page, complaints = opened(browser, report, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.locator(".chart svg").count() == 5  # load, imbalance, two groups of bundles, gaps
    for _ in range(3):
        assert page.evaluate(OUT_OF_BOUNDS) == []
        page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert complaints == []


def times_shown(page: Page) -> list[list[str]]:
    """Return the labels of each picture's axis of time."""
    script = """svg => [...svg.querySelectorAll('text[text-anchor=middle].soft')].map(t => t.textContent)
        .filter(t => /^[0-9.]+ s$/.test(t))"""
    return [chart.evaluate(script) for chart in page.locator(".chart svg").all()]


def test_a_drag_over_one_picture_zooms_all_and_a_key_shows_the_whole_run(browser: Browser, report: str) -> None:
    page, complaints = opened(browser, report, viewport={"width": 1280, "height": 900})
    whole = times_shown(page)
    assert whole[0] == ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"][: len(whole[0])]
    box = page.locator("#load svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    selections = page.locator(".chart .select").evaluate_all("all => all.map(one => +one.getAttribute('width'))")
    assert min(selections) > 100
    page.mouse.up()
    zoomed = times_shown(page)
    assert zoomed[0] != whole[0]
    assert all(times == zoomed[0] for times in zoomed)
    assert "At " in page.locator("#readout").inner_text()

    page.locator("#gaps").focus()
    page.keyboard.press("0")
    assert times_shown(page) == whole
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    moved = times_shown(page)
    assert moved[0] != whole[0]
    assert all(times == moved[0] for times in moved)
    page.get_by_role("button", name="Whole run").click()
    assert times_shown(page) == whole
    assert page.get_by_role("button", name="Zoom out").is_disabled()
    assert complaints == []


def test_lanes_tell_owners_by_letter_and_events_by_shape(browser: Browser, report: str) -> None:
    page, _ = opened(browser, report, viewport={"width": 1280, "height": 900})
    upper = page.locator("#lanes svg", has=page.get_by_text("0x80000000_0xffffffff"))
    assert upper.locator("text.in").evaluate_all("all => all.map(one => one.textContent)") == ["A", "C", "A", "B"]
    lower = page.locator("#lanes svg", has=page.get_by_text("0x40000000_0x80000000"))
    assert lower.locator("rect.none").count() == 1
    drawn = """[...new Set([...document.querySelectorAll('#lanes .mark')].flatMap(
        one => [getComputedStyle(one).fill, getComputedStyle(one).stroke]))].sort()"""
    neutral = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert page.evaluate(drawn) == sorted(neutral)
    page.locator("#lanes a").first.click()
    assert page.locator("tr:target").count() == 1


def test_names_from_outside_stay_text(browser: Browser, report: str) -> None:
    page, complaints = opened(browser, report)
    shown = page.locator("table.worst td").all_text_contents()
    assert any(ODD_NAME.rpartition("/")[2] in text for text in shown)
    assert page.locator("body script").count() == 2
    assert complaints == []


def test_what_clients_noticed_is_a_strip_of_a_few_marks_that_have_their_seconds(browser: Browser, report: str) -> None:
    page, _ = opened(browser, report, viewport={"width": 1280, "height": 900})
    marks = page.locator("#gaps rect.gap").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert len(marks) == 2
    assert marks[0] == pytest.approx(3 * marks[1], rel=0.1)  # 0.9 s and 0.3 s
    texts = page.locator("#gaps text").all_text_contents()
    assert {"0.90 s, 1 topic", "0.30 s, 1 topic"} <= set(texts)


def test_a_chart_of_which_there_is_nothing_says_why(browser: Browser, tmp_path: Path) -> None:
    summary = summarise(
        Record(STARTED_AT_S),
        ClientResult([], {}),
        affected_topics=[],
        pipeline=PipelineBatches(),
        ended_at_s=STARTED_AT_S + 60,
    )
    file = tmp_path / "report.html"
    file.write_text(render_report(Record(STARTED_AT_S), [], summary | {"brokers": 3, "load": "a test"}))
    page, complaints = opened(browser, file.as_uri())
    said = page.locator(".empty").all_text_contents()
    assert [text.split(" ")[:3] for text in said] == [
        ["No", "broker", "sent"],
        ["No", "broker", "reported"],
        ["No", "bundle", "was"],
        ["Nothing:", "no", "topic"],
    ]
    assert page.locator(".chart svg").count() == 0
    assert complaints == []


@pytest.mark.parametrize("width", [320, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison_has_both_runs_on_one_axis_of_time(
    browser: Browser, tmp_path: Path, width: int, scheme: Any
) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_comparison(compared_runs(tmp_path), "barycenter demo --compare", tmp_path))
    page, complaints = opened(browser, file.as_uri(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.locator(".chart svg").count() == 4  # imbalance, two of load, one of gaps: the other run has none
    assert page.locator("#gaps1 .empty").count() == 1
    for _ in range(2):
        assert page.evaluate(OUT_OF_BOUNDS) == []
        page.get_by_role("button", name="Zoom in").click()
    assert page.locator("#shown").inner_text() == "22.5–37.5 s of 60 s"
    for times in times_shown(page):
        assert times
        assert all(22.5 <= float(time.removesuffix(" s")) <= 37.5 for time in times)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_without_the_script_tables_tell_the_same(browser: Browser, report: str) -> None:
    page, _ = opened(browser, report, java_script_enabled=False)
    for heading in ("Load as a table", "Owners as a table", "Counts of each topic"):
        assert page.locator("details[open]", has_text=heading).locator("table").is_visible()
    assert not page.get_by_role("button", name="Zoom in").is_visible()


def test_on_paper_reasons_are_open_and_the_page_is_light(browser: Browser, report: str) -> None:
    page, complaints = opened(browser, report, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 36, 48)"
    page.evaluate("addEventListener('afterprint', () => { window.folded = 1 })")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.open = document.querySelectorAll('td details[open]').length })"
    )
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("[window.open > 3, window.folded]") == [True, 1]
    assert page.locator("td details[open]").count() == 0
    assert complaints == []
