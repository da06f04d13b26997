"""The dashboard of a running cluster in a real browser: what it shows, of now and of before."""

import re

import pytest
from playwright.sync_api import Browser, expect

from support.browser_pages import NEEDS_CHROMIUM
from support.dashboard_pages import (
    HOSTILE,
    OLD_BUNDLE,
    OLD_DECISIONS,
    address,
    explained,
    opened,
)
from support.served_cluster import ServedCluster

pytestmark = [pytest.mark.integration, NEEDS_CHROMIUM, pytest.mark.xdist_group("dashboard"), pytest.mark.drawn_tests(4)]
"""One cluster and one browser for all tests of the file."""


def test_the_overview_shows_what_rest_says_and_asks_nobody_else(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, viewport={"width": 1400, "height": 900})
    page.get_by_label("by", exact=True).select_option("bundles")
    told = served.get("/barycenter/v1/overview")
    for broker in told["brokers"]:
        row = page.locator(".broker", has_text=broker["broker"])
        expect(row.locator(".part")).to_have_count(len(broker["top"]))
        labels = row.locator(".part").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        assert sorted(label.partition(" on ")[0] for label in labels) == sorted(share[0] for share in broker["top"])
        expect(row.locator(".figure")).to_have_text(str(broker["bundles"]))
    expect(page.locator(".leads")).to_have_text(told["leader"])
    assigned = [each for each in served.get("/barycenter/v1/timeline", of="leader") if each["kind"] == "assign"]
    assert assigned
    for decision in assigned:
        event = page.locator("li.event", has_text=f"assigned{decision['bundle']}{decision['destination']}")
        expect(event.filter(has_text=decision["sentence"]).first).to_be_visible()
    assert complaints == []


def test_a_name_of_a_topic_is_text_wherever_it_stands(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served)
    page.get_by_label("Where is this topic").fill(HOSTILE)
    page.keyboard.press("Enter")
    found = explained(served, topic=HOSTILE)
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.get_by_role("link", name=found["bundle"]).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(found["bundle"])
    page.locator("summary", has_text="persistent topic").click()
    expect(page.locator(".names")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    assert page.title() == f"{found['bundle']} · Barycenter"
    assert complaints == []


def test_loads_of_before_this_page_are_from_the_tables(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, viewport={"width": 1400, "height": 900})
    page.get_by_label("of", exact=True).select_option("day")
    expect(page.locator("main")).to_contain_text("a step is 10 min")
    lines = page.get_by_role("img", name="Brokers compared")
    expect(lines).to_have_attribute("aria-label", re.compile("the highest .*, the mean .*, the lowest "))
    lines.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("figure.lines .readout")).to_contain_text("the highest 1.9 MiB/s, the mean 1.4 MiB/s")

    broker = served.cluster.brokers[1].broker_id
    page.goto(f"{served.url}/{address('broker', broker)}")  # the same span is chosen there
    expect(page.get_by_label("of", exact=True)).to_have_value("day")
    for title in ("messages", "throughput", "fullest resource"):
        picture = page.locator("figure.lines", has_text=title)
        expect(picture.locator("path.line").first).to_have_attribute("d", re.compile("L"))
    bundle = "public/ns/0x00000000_0x20000000"
    page.goto(f"{served.url}/{address('bundle', bundle)}")
    expect(page.locator("figure.lines", has_text="messages").locator("path.line").first).to_have_attribute(
        "d", re.compile("L")
    )
    assert complaints == []


def test_a_span_of_ones_own_is_asked_for_and_what_is_unknown_is_said(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served)
    page.get_by_label("of", exact=True).select_option("own")
    told = page.locator(".told[role=status]")
    page.get_by_label("from", exact=True).fill("2020-01-02T03:00")  # and to this day
    expect(told).to_have_text("Give at most 31 days.")
    page.get_by_label("to", exact=True).fill("2020-01-02T02:00")
    expect(told).to_have_text("Give a time, and a later one.")
    page.get_by_label("to", exact=True).fill("2020-01-02T05:00")
    expect(told).to_have_text("No load was recorded in this time.")
    assert complaints == []


def test_the_time_line_goes_back_in_the_logs_page_by_page(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served)
    older, events = page.get_by_role("button", name="Older…"), page.locator(".events li.event")
    expect(events.first).to_be_visible()
    counts = []
    for _ in range(20):
        counts.append(events.count())
        before = page.locator(".older [role=status]").inner_text()
        older.click()
        expect(page.locator(".older [role=status]")).not_to_have_text(before)
        expect(page.locator(".older [role=status]")).not_to_have_text("Asking…")
        if not older.is_visible():
            break
    expect(page.locator(".older")).to_contain_text("all that the logs keep")
    assert counts == sorted(counts)
    assert events.filter(has_text=OLD_BUNDLE).count() == OLD_DECISIONS
    short = events.filter(has_text=OLD_BUNDLE).locator(".why, summary")
    assert len({*short.all_inner_texts()[:300]}) == 1  # told alike by the time line and by the log
    assert complaints == []


def test_the_page_of_a_bundle_goes_back_in_what_was_decided_about_it(browser: Browser, served: ServedCluster) -> None:
    served.run(served.cluster.create_namespace("public/old", 1))
    page, complaints = opened(browser, served, address("bundle", OLD_BUNDLE))
    events = page.locator(".events li.event")
    expect(events.first).to_contain_text(OLD_BUNDLE)
    page.get_by_role("button", name="Older…").click()
    expect(page.locator(".older")).to_contain_text("200 older decisions, back to ")
    assert events.count() > 200
    assert explained(served, bundle=OLD_BUNDLE)["owner"] == ""
    assert complaints == []


def test_what_people_ask_for_comes_up_on_an_open_page(browser: Browser, served: ServedCluster) -> None:
    """Also where the broker that did it does not lead, whose decisions the page asks for by themselves."""
    page, complaints = opened(browser, served)
    told = served.get("/barycenter/v1/overview")
    bundle = next(
        share[0]
        for broker in told["brokers"]
        for share in broker["top"]
        if broker["broker"] != told["leader"] and share[0].startswith("public/ns/")
    )
    unload = f"/admin/v2/namespaces/{bundle}/unload"
    served.run(served.cluster.expect(204, "PUT", unload, headers={"X-Barycenter-Why": "by hand"}))
    event = page.locator("li.event", has_text="by hand").first
    expect(event).to_contain_text(bundle, timeout=30_000)
    expect(event).to_contain_text("anonymous, by hand")
    assert complaints == []
