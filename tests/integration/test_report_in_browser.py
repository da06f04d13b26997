"""The report of a demo opens in a real browser and draws its pictures."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from barycenter.demo.plan import TopicResult
from barycenter.demo.record import Event, LoadSample, Record
from barycenter.demo.report import render_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
def test_the_page_draws_four_pictures_without_an_error(tmp_path: Path) -> None:
    record = Record(started_at_s=0.0)
    record.samples = [LoadSample(second, broker, 10.0, 1.0, 1, 0.1) for second in range(9) for broker in ("a", "b")]
    record.events = [Event(1.0, "unload", "public/demo/0x00000000_0xffffffff", "a", "b", "too much")]
    topics = [TopicResult("persistent://public/demo/t", 10, 10, 0, 0, 0, 0, 0.1, [])]
    counts = {"messages_produced": 10, "messages_consumed": 10, "messages_lost": 0, "messages_duplicated": 0}
    moves = {"out_of_order": 0, "assignments": 0, "unloads": 1, "splits": 0, "failovers": 0, "pipeline_batches": 0}
    rest = {"imbalance_before": 2.0, "imbalance_after": 1.0, "recovery_seconds": None, "pipeline_lag_seconds_p99": None}
    summary = {**counts, **moves, **rest, "brokers": 2, "duration_seconds": 9.0, "load": "a test"}
    page_file = tmp_path / "report.html"
    page_file.write_text(render_report(record, topics, summary))

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(page_file.as_uri())
        page.wait_for_selector(".plotly-graph-div svg.main-svg")
        drawn = page.locator(".plotly-graph-div").count()
        title = page.title()
        browser.close()
    assert errors == []
    assert drawn == 4
    assert title == "Barycenter demo"
