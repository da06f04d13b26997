"""The dashboard of a running cluster in a real browser: what it shows, and what keys alone can do with it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support.browser_pages import NEEDS_CHROMIUM, chromium
from support.known_roles import ASKED, ROOT
from support.proofs import token
from support.served_cluster import ServedCluster

pytestmark = [pytest.mark.integration, NEEDS_CHROMIUM]

HOSTILE = "persistent://public/ns/<img src=x onerror=\"document.title='owned'\">"
TOPICS = [f"t{number}" for number in range(12)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path_factory.mktemp("dashboard")) as served:
        cluster = served.cluster
        served.run(cluster.create_namespace(bundles=8))
        names = [*TOPICS, quote(HOSTILE.rpartition("/")[2], safe="")]
        for name in names:
            served.run(cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/{name}"))
        served.report()
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def opened(browser: Browser, served: ServedCluster, place: str = "", **context: Any) -> tuple[Page, list[str]]:
    """Return a page and the list of what it complains of: errors, refusals of its policy, requests to elsewhere."""
    page = browser.new_page(**context)
    page.set_default_timeout(15_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on(
        "request", lambda request: None if request.url.startswith(f"{served.url}/") else complaints.append(request.url)
    )
    page.goto(f"{served.url}/{place}")
    return page, complaints


def address(kind: str, name: str) -> str:
    return f"#/{kind}/{quote(name, safe='')}"


def explained(served: ServedCluster, **query: str) -> Any:
    return served.get("/barycenter/v1/explanation", **query)


def tab_to(page: Page, matches: str) -> None:
    """Press Tab until what matches has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", matches):
            return
    pytest.fail(f"Tab leads to no {matches}")


def barriers(page: Page) -> list[tuple[str, list[str]]]:
    """Return what axe finds: rules that are broken, each with the first elements that break it."""
    violations = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in violations]


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
        event = page.locator("li.event", has_text=decision["bundle"]).first
        expect(event).to_contain_text(f"assigned{decision['bundle']}{decision['destination']}")
        expect(event).to_contain_text(decision["sentence"])
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


def test_keys_alone_lead_to_a_bundle_and_move_it_after_a_dry_run(browser: Browser, served: ServedCluster) -> None:
    served.report()
    page, complaints = opened(browser, served)
    page.get_by_label("by", exact=True).select_option("bundles")
    bundle = explained(served, topic="persistent://public/ns/t0")["bundle"]
    owner = explained(served, bundle=bundle)["owner"]
    [other] = [broker.broker_id for broker in served.cluster.brokers if broker.broker_id != owner]
    page.locator(f'.part[aria-label^="{bundle} on {owner}"]').wait_for()  # reports may tell of it a moment later

    tab_to(page, ".part")
    rows = page.locator(".broker").count()
    for _ in range(rows):
        page.keyboard.press("ArrowUp")
    for _ in range(rows * 20):
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        if label.startswith(f"{bundle} on "):
            break
        before = label
        page.keyboard.press("ArrowRight")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == before:
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Home")
    assert page.locator(".readout").first.inner_text().startswith(f"{bundle} on {owner}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(bundle)

    expect(page.get_by_role("heading", name="Why there")).to_be_visible()
    tab_to(page, "main button")
    page.keyboard.press("Enter")
    dialog = page.locator("dialog#action")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(dialog.locator("td", has_text=re.compile("→")).first).to_be_visible()
    assert explained(served, bundle=bundle)["owner"] == owner  # nothing happened yet
    expect(dialog.get_by_role("button", name="Unload")).to_be_enabled()
    assert barriers(page) == []
    tab_to(page, "button.act")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text(f"Done: {other} serves it.")
    assert explained(served, bundle=bundle)["owner"] == other
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Unload…")).to_be_focused()
    expect(page.locator("main dl")).to_contain_text(other)
    assert complaints == []


def test_a_broker_is_drained_after_a_dry_run_and_undrained(browser: Browser, served: ServedCluster) -> None:
    served.report()
    bundle = explained(served, topic="persistent://public/ns/t2")["bundle"]
    broker = explained(served, bundle=bundle)["owner"]
    [other] = [each.broker_id for each in served.cluster.brokers if each.broker_id != broker]
    page, complaints = opened(browser, served, address("broker", broker))
    page.get_by_role("button", name="Drain…", exact=True).click()
    dialog = page.locator("dialog#action")
    expect(dialog.locator("li", has_text=bundle)).to_contain_text(other)
    assert explained(served, bundle=bundle)["owner"] == broker  # nothing happened yet
    assert barriers(page) == []
    dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(dialog.get_by_text("serves none, and gets none")).to_be_visible(timeout=60_000)  # a bundle a second
    assert {explained(served, topic=f"persistent://public/ns/{name}")["owner"] for name in TOPICS} <= {other, ""}
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("main dl").first).to_contain_text("drained")
    page.get_by_role("button", name="Undrain…").click()
    dialog.get_by_role("button", name="Undrain", exact=True).click()
    expect(dialog).to_contain_text(f"Done: {broker} may have bundles again")
    assert served.get("/barycenter/v1/drain-preview", broker=broker)["isDrained"] is False
    served.run(served.cluster.expect(200, "DELETE", "/admin/v2/brokers/configuration/barycenterDrainedBrokers"))
    assert complaints == []


def test_a_setting_is_changed_after_its_effect_was_told(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, "#/settings")
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    page.get_by_role("button", name=f"Change {key}").click()
    value, dialog = page.get_by_role("dialog").get_by_role("textbox"), page.get_by_role("dialog")
    value.fill("120")
    expect(dialog).to_contain_text("is not allowed")
    expect(dialog.get_by_role("button", name="Set")).to_be_disabled()
    value.fill("77")
    expect(dialog).to_contain_text("85 → 77")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog).to_contain_text("Done")
    dialog.get_by_role("button", name="Close").click()
    row = page.locator("tr", has=page.get_by_role("button", name=f"Change {key}"))
    expect(row).to_contain_text("dynamic")
    assert served.get("/admin/v2/brokers/configuration/values") == {key: "77"}
    assert [text for text in complaints if "412" not in text] == []


def test_who_is_not_let_in_is_asked_for_a_token_which_goes_to_this_broker_alone(
    browser: Browser, tmp_path: Path
) -> None:
    with ServedCluster(tmp_path, **ASKED) as served:
        page, complaints = opened(browser, served)
        dialog, field = page.get_by_role("dialog"), page.get_by_label("Token")
        expect(dialog).to_contain_text("This broker asks who you are")
        assert page.locator(".broker").count() == 0
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Give a token").click()
        field.fill("not a token")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("no JSON Web Token")
        expect(field).to_have_value("")
        field.fill(token("somebody"))
        page.keyboard.press("Enter")
        expect(page.locator("#trouble")).to_contain_text("not authorized")
        page.get_by_role("button", name="Forget token").click()
        field.fill(token(ROOT))
        page.keyboard.press("Enter")
        expect(page.locator(".broker")).to_have_count(2)  # as the other broker, which leads, tells whom root asks
        page.reload()
        expect(page.locator(".broker")).to_have_count(2)
        kept = page.evaluate("[localStorage.length, document.cookie, location.href, document.body.textContent]")
        assert kept[:2] == [0, ""]
        assert token(ROOT) not in kept[2] + kept[3]
        assert [text for text in complaints if "401" not in text and "403" not in text] == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_every_page_fits_and_can_be_used_by_all(
    browser: Browser, served: ServedCluster, width: int, scheme: Any
) -> None:
    """Contrast, names, roles and order by axe; no page is wider than its window, in either scheme."""
    bundle = explained(served, topic="persistent://public/ns/t1")["bundle"]
    broker = served.cluster.brokers[0].broker_id
    places = {
        "": ".part",
        "#/settings/shedding": "tbody tr",
        address("bundle", bundle): "#now-title",
        address("broker", broker): "#now-title",
        address("topic", HOSTILE): "#now-title",
        address("namespace", "public/ns"): "#now-title",
    }
    context = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    page, complaints = opened(browser, served, **context)
    for place, sign in places.items():
        page.goto(f"{served.url}/{place}")
        if not place:
            page.get_by_label("by", exact=True).select_option("bundles")
        page.locator(sign).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        assert barriers(page) == [], place
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert complaints == []
