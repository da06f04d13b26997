"""What the dashboard tells an operator: condition of the cluster, drained brokers, what people did, what drains do."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from pulsar_barycenter.load.reasons import Code, Reason
from support.browser_pages import NEEDS_CHROMIUM
from support.dashboard_pages import address, barriers, explained, opened
from support.served_cluster import ServedCluster

pytestmark = [
    pytest.mark.integration,
    NEEDS_CHROMIUM,
    pytest.mark.xdist_group("dashboard operators"),
    pytest.mark.drawn_tests(4),
]
"""One cluster and one browser for all tests of the file."""

LOW = {"width": 1400, "height": 420}
NARROW = {"width": 390, "height": 560}
WHY = "it has the lowest long-term message rate of all candidates"
DRAINED_KEY = "barycenterDrainedBrokers"


def many_leaving(found: Any) -> Any:
    """Have 40 bundles leave in ten groups, and every broker be told of six times."""
    names = [f"public/ns/0x{number:08x}_0x{number + 1:08x}" for number in range(40)]
    group = {"destination": found["sides"][0]["broker"], "why": WHY}
    groups = [group | {"bundles": [{"bundle": name, "sentence": WHY} for name in names[at::10]]} for at in range(10)]
    return found | {"count": 40, "groups": groups, "sides": found["sides"] * 6}


def opened_drain(page: Page) -> None:
    page.locator("#now-title").wait_for()
    page.get_by_role("button", name="Drain…", exact=True).click()
    expect(page.locator("dialog#action button.act")).to_be_enabled()


@pytest.mark.parametrize("viewport", [LOW, NARROW], ids=["low", "narrow"])
def test_the_buttons_of_a_long_dialog_are_in_sight(browser: Browser, served: ServedCluster, viewport: Any) -> None:
    served.report()
    broker = served.cluster.brokers[0].broker_id
    patches, context = (
        {"/barycenter/v1/drain-preview": many_leaving},
        {"viewport": viewport, "reduced_motion": "reduce"},
    )
    page, complaints = opened(browser, served, address("broker", broker), patches=patches, **context)
    opened_drain(page)
    preview = page.locator("dialog .preview")
    assert preview.evaluate("one => one.scrollHeight > one.clientHeight")
    for top in ("0", "one.scrollHeight"):
        preview.evaluate(f"one => {{ one.scrollTop = {top}; }}")
        for name in ("Drain", "Cancel"):
            box = page.get_by_role("dialog").get_by_role("button", name=name, exact=True).bounding_box()
            assert box is not None
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= viewport["height"]
            assert box["x"] + box["width"] <= viewport["width"]
    assert page.locator("#action form").evaluate("one => one.scrollWidth <= one.clientWidth")
    assert preview.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert barriers(page) == []
    assert complaints == []


def test_a_button_stays_where_it_is_pressed_when_the_load_arrives(browser: Browser, served: ServedCluster) -> None:
    served.report()
    page = browser.new_page()
    held: list[Route] = []
    page.route("**/barycenter/v1/overview", lambda route: held.append(route))
    page.goto(f"{served.url}/{address('broker', served.cluster.brokers[0].broker_id)}")
    page.locator("#now-title").wait_for()
    page.get_by_role("button", name="Drain…", exact=True).hover()
    page.mouse.down()
    for route in held:
        route.continue_()
    page.get_by_text("by its newest report").wait_for()
    page.mouse.up()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_dialog_closes_with_its_page(browser: Browser, served: ServedCluster) -> None:
    served.report()
    broker = served.cluster.brokers[0].broker_id
    page, complaints = opened(browser, served)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto(f"{served.url}/{address('broker', broker)}")
    opened_drain(page)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator("dialog#action")).to_be_hidden()
    page.go_forward()
    opened_drain(page)  # and opens anew
    expect(page.get_by_role("dialog")).to_contain_text(f"Drain {broker}")
    assert complaints == []


def test_a_drain_tells_each_reason_once_and_each_brokers_load_before_and_after(
    browser: Browser, served: ServedCluster
) -> None:
    served.report()
    broker = explained(served, topic="persistent://public/ns/t0")["owner"]
    page, complaints = opened(browser, served, address("broker", broker))
    found = served.get("/barycenter/v1/drain-preview", broker=broker)
    opened_drain(page)
    dialog = page.get_by_role("dialog")
    groups = dialog.locator(".leaving")
    expect(groups).to_have_count(len(found["groups"]))
    for group, shown in zip(found["groups"], groups.all(), strict=True):
        why = group["why"][0].upper() + group["why"][1:]
        assert shown.locator("> .why").all_inner_texts() == [f"{why}."]
        expect(shown.locator("h4")).to_contain_text(group["destination"])
        shown.locator("summary").click()
        expect(shown.locator("li")).to_have_count(len(group["bundles"]))
    rows = dialog.locator("table.sides tbody tr")
    expect(rows).to_have_count(len(served.cluster.brokers))
    for side in found["sides"]:
        before, after = side["bundles"]
        expect(rows.filter(has_text=side["broker"])).to_contain_text(f"{before} → {after}")
    assert complaints == []


def test_the_condition_of_the_cluster_is_at_the_top(browser: Browser, served: ServedCluster) -> None:
    served.report()
    page, complaints = opened(browser, served)
    told = served.get("/barycenter/v1/balance")
    condition = page.locator(".condition")
    expect(condition.locator(".health")).to_contain_text("Healthy")
    expect(condition.locator(".balance")).to_contain_text(re.compile("Balanced|even", re.I))
    expect(condition.locator(".balance")).to_contain_text(f"AvgShedder moves nothing now: {told['short']}")
    expect(condition.locator(".balance")).to_contain_text("points above the mean of")
    expect(condition.locator(".drained")).to_contain_text("None")
    [top] = condition.evaluate_all("all => all.map(one => one.getBoundingClientRect().bottom)")
    assert top < 600
    assert complaints == []


def test_what_is_wrong_is_named(browser: Browser, served: ServedCluster) -> None:
    complaint = "b9 last reported its load 20 min ago"
    patches = {"/barycenter/v1/overview": lambda found: found | {"complaints": [complaint]}}
    page, complaints = opened(browser, served, patches=patches)
    expect(page.locator(".condition .health")).to_contain_text("1 problem")
    expect(page.locator(".condition .health")).to_contain_text(complaint)
    assert complaints == []


def test_a_drained_broker_is_seen_with_who_drained_it_and_what_to_do(browser: Browser, served: ServedCluster) -> None:
    broker = served.cluster.brokers[0].broker_id
    path = f"/admin/v2/brokers/configuration/{DRAINED_KEY}"
    page, complaints = opened(browser, served)
    expect(page.locator(".condition .drained")).to_contain_text("None")
    other = next(each for each in served.cluster.brokers if not each.leadership.is_leader())
    moved = "public/moved/0x00000000_0xffffffff"  # by a person, which the broker keeps that was asked

    async def record() -> None:
        reason = Reason(code=Code.ADMIN, subject=moved)
        other.control.load_manager.decisions.record(other.control.env.clock.now_ms(), "unload", reason, bundle=moved)

    served.run(record())
    served.run(served.cluster.expect(200, "POST", f"{path}/{quote(broker)}"))
    try:
        expect(page.locator("li.event", has_text=moved)).to_be_visible()
        drained = page.locator(".condition .drained")
        expect(drained).to_contain_text(
            re.compile(rf"{broker}: drained by an unknown user \(no authentication\) at \d\d:\d\d")
        )
        expect(page.locator(".broker", has_text=broker).locator(".badge")).to_have_text("drained")
        assert page.locator(".broker .badge:visible").count() == 1
        assert barriers(page) == []
        drained.get_by_role("link", name=broker).click()
        fact = page.locator("main dl").first
        expect(fact).to_contain_text("Yes, drained by an unknown user (no authentication)")
        expect(fact).to_contain_text(f"barycenter undrain {broker} --bring-back")
        expect(page.get_by_role("button", name="Undrain…")).to_be_visible()
        assert complaints == []
    finally:
        served.run(served.cluster.expect(200, "POST", f"{path}/%2C"))
        served.run(served.cluster.expect(200, "DELETE", path))


def test_what_a_person_did_is_marked_in_the_time_line(browser: Browser, served: ServedCluster) -> None:
    bundle, broker = "public/ns/0x00000000_0x20000000", "b1:1"
    base = {
        "by": broker,
        "sentence": "public/ns: an administrator requested it: alice, disk [AdminRequest]",
        "short": "disk",
    }
    base |= {"principal": "alice", "request": "PUT /admin/v2/namespaces/public/ns/0x00000000_0x20000000/unload"}
    made = [
        base | {"at": 1_790_000_000_000, "number": 1, "kind": "unload", "bundle": bundle, "source": broker},
        base | {"at": 1_790_000_100_000, "number": 2, "kind": "drain", "source": broker},
        base | {"at": 1_790_000_200_000, "number": 3, "kind": "promote", "source": broker},  # of a later release
    ]
    page, complaints = opened(browser, served, patches={"/barycenter/v1/timeline": lambda _: made})
    events = page.locator(".events li.event")
    expect(events).to_have_count(3)
    for event, kind in zip(events.all(), ("promote", "drained", "unloaded"), strict=True):
        expect(event).to_contain_text(kind)
        expect(event.locator(".badge")).to_have_text("by alice")
        event.locator("summary").click()
        expect(event.locator("code")).to_have_text(base["request"])
    assert barriers(page) == []
    assert complaints == []
