"""`barycenter watch` in a real browser, on the recording of a cluster that is gone: what moved, and why."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser_pages import NEEDS_CHROMIUM
from support.dashboard_pages import barriers
from support.recorded_cluster import BUNDLES, BUSY, BY_HAND, CALM, SHED, SPARE, record

pytestmark = [pytest.mark.integration, NEEDS_CHROMIUM, pytest.mark.xdist_group("watch in a browser")]
"""One server and one browser for all tests of the file."""

DESKTOP = {"width": 1400, "height": 1000}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that the command prints for a recording."""
    folder = tmp_path_factory.mktemp("watched")
    record(folder)
    words = ("watch", "--data", str(folder), "--port", "0", "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "pulsar_barycenter", *words], stdout=subprocess.PIPE, env={**os.environ}
    ) as process:
        assert process.stdout is not None
        try:
            yield msgspec.json.decode(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.stdout.read()
        assert process.wait(30) == 0


def opened(browser: Browser, url: str, place: str = "") -> tuple[Page, list[str]]:
    """Return a page and its problems: errors, refusals of its policy, requests to other hosts."""
    page = browser.new_page(viewport=DESKTOP)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda one: None if one.url.startswith(url) else complaints.append(one.url))
    page.goto(f"{url}{place}")
    return page, complaints


def place(kind: str, name: str) -> str:
    return f"#/{kind}/{quote(name, safe='')}"


def test_the_overview_tells_what_moved_and_whether_the_strategy_agrees(browser: Browser, url: str) -> None:
    page, complaints = opened(browser, url)
    expect(page.locator(".summary")).to_contain_text(f"{SPARE} leads, with the modular load manager and UniformLoad")
    expect(page.locator("#live")).to_have_text("a recording")
    moves = page.locator("li.event").filter(has=page.locator("b", has_text="moved"))
    expect(moves).to_have_count(len(SHED) + 1 + 3)
    shed = page.locator("li.event", has_text=f"movedrecomputed{SHED[0]}{BUSY} → {SPARE}")
    expect(shed).to_have_count(1)
    expect(shed.locator(".badge")).to_have_text(["recomputed"])
    by_hand = moves.filter(has_text=BY_HAND)
    expect(by_hand.locator(".badge")).to_have_text(["recomputed", "does not agree"])
    expect(by_hand).to_contain_text("UniformLoadShedder would not have moved it")
    gone = moves.filter(has_text=f"{CALM} is no longer in the cluster")
    expect(gone).to_have_count(3)
    expect(gone.first.locator(".badge")).to_have_count(0)
    expect(page.locator(".kinds label:visible")).to_have_text(["moved", "round"])
    for broker in (BUSY, SPARE):
        expect(page.locator(".broker", has_text=broker).locator(".part").first).to_be_visible()
    assert barriers(page) == []
    assert complaints == []


def test_a_bundle_has_its_load_from_both_brokers_and_no_buttons_that_act(browser: Browser, url: str) -> None:
    page, complaints = opened(browser, url, place("bundle", SHED[0]))
    expect(page.locator("section", has_text="Why there")).to_contain_text("It was seen to move to")
    expect(page.locator("section", has_text="Why there")).to_contain_text("heaviest remaining bundle that fits")
    line = page.locator("figure.lines", has_text="messages").locator("path.line").first
    expect(line).to_have_attribute("d", re.compile("L"))
    expect(page.get_by_role("button", name="Unload…")).to_be_hidden()
    page.get_by_label("of", exact=True).select_option("hour")
    expect(page.locator("main")).to_contain_text("A step is the mean of its time.")
    page.goto(f"{url}{place('broker', BUSY)}")
    expect(page.get_by_role("heading", name="What the cluster's strategy would do now, recomputed")).to_be_visible()
    expect(page.get_by_role("button", name="Drain…")).to_be_hidden()
    expect(page.locator("section", has_text="What it serves").locator("tbody tr")).to_have_count(5)
    assert complaints == []


def test_a_topic_leads_to_its_bundle(browser: Browser, url: str) -> None:
    page, complaints = opened(browser, url)
    page.get_by_label("Where is this topic").fill("shop/orders/a")
    page.keyboard.press("Enter")
    bundle = page.locator("dd a[href^='#/bundle/']")
    expect(bundle).to_have_count(1)
    assert bundle.inner_text() in BUNDLES
    page.goto(f"{url}#/settings")
    expect(page.locator("tr", has_text="loadBalancerLoadSheddingStrategy")).to_contain_text("recorded")
    assert complaints == []
