"""The dashboard by keys alone: each thing that can be done with it, with a real browser and a running cluster."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser_pages import NEEDS_CHROMIUM
from support.dashboard_pages import TOPICS, address, barriers, explained, opened, tab_to
from support.known_roles import ASKED, ROOT
from support.proofs import token
from support.served_cluster import ServedCluster

pytestmark = [pytest.mark.integration, NEEDS_CHROMIUM, pytest.mark.xdist_group("dashboard by keys")]
"""One cluster and one browser for all tests of the file."""


def press(page: Page, matches: str) -> None:
    """Go to a button by Tab, and press it once it can be."""
    expect(page.locator(matches).first).to_be_enabled()
    tab_to(page, matches)
    page.keyboard.press("Enter")


def test_a_bundle_is_found_and_moved_after_a_dry_run(browser: Browser, served: ServedCluster) -> None:
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
    press(page, "main button.drain")
    dialog = page.locator("dialog#action")
    expect(dialog.locator("li", has_text=bundle)).to_contain_text(other)
    assert explained(served, bundle=bundle)["owner"] == broker  # nothing happened yet
    assert barriers(page) == []
    press(page, "dialog button.act")
    expect(dialog.get_by_text("serves none, and gets none")).to_be_visible(timeout=60_000)  # a bundle a second
    assert {explained(served, topic=f"persistent://public/ns/{name}")["owner"] for name in TOPICS} <= {other, ""}
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Drain…", exact=True)).to_be_focused()
    expect(page.locator("main dl").first).to_contain_text("drained")
    press(page, "main button.undrain")
    press(page, "dialog button.act")
    expect(dialog).to_contain_text(f"Done: {broker} may have bundles again")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert served.get("/barycenter/v1/drain-preview", broker=broker)["isDrained"] is False
    served.run(served.cluster.expect(200, "DELETE", "/admin/v2/brokers/configuration/barycenterDrainedBrokers"))
    assert complaints == []


def test_a_bundle_is_split_after_a_dry_run(browser: Browser, served: ServedCluster) -> None:
    served.run(served.cluster.create_namespace("public/parted", 1))
    for number in range(4):
        served.run(served.cluster.expect(204, "PUT", f"/admin/v2/persistent/public/parted/t{number}"))
    bundle = explained(served, topic="persistent://public/parted/t0")["bundle"]
    page, complaints = opened(browser, served, address("bundle", bundle))
    expect(page.get_by_role("heading", name="Why there")).to_be_visible()
    press(page, "main button.split")
    dialog = page.locator("dialog#action")
    expect(dialog.locator("tbody tr")).to_have_count(2)
    tab_to(page, "dialog input[type=checkbox]")
    page.keyboard.press("Space")
    expect(dialog).to_contain_text("and are unloaded")
    assert explained(served, namespace="public/parted")["bundleCount"] == 1  # nothing happened yet
    assert barriers(page) == []
    press(page, "dialog button.act")
    expect(dialog).to_contain_text("its parts are on the page of the namespace")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    assert explained(served, namespace="public/parted")["bundleCount"] == 2
    assert [text for text in complaints if "412" not in text] == []  # of a bundle that is no more


def test_a_setting_is_changed_after_its_effect_was_told_and_set_back(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, "#/settings")
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    tab_to(page, "#words")
    page.keyboard.type(key)
    press(page, f"button[aria-label='Change {key}']")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("120")
    expect(dialog).to_contain_text("is not allowed")
    expect(dialog.get_by_role("button", name="Set")).to_be_disabled()
    page.keyboard.press("Control+A")
    page.keyboard.type("77")
    expect(dialog).to_contain_text("85 → 77")
    assert barriers(page) == []
    press(page, "dialog button.act")
    expect(dialog).to_contain_text("Done")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name=key)).to_contain_text("dynamic")
    assert served.get("/admin/v2/brokers/configuration/values") == {key: "77"}

    press(page, f"button[aria-label='Remove the override of {key}']")
    expect(dialog).to_contain_text("stays in force until a broker restarts")
    press(page, "dialog button.act")
    expect(dialog).to_contain_text("Done")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=f"Remove the override of {key}")).to_have_count(0)
    assert served.get("/admin/v2/brokers/configuration/values") == {}
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
        expect(page.locator("#forget")).to_have_text("Give a token")
        press(page, "#forget")
        expect(field).to_be_focused()
        page.keyboard.type("not a token")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("not a JSON Web Token")
        expect(field).to_have_value("")
        expect(field).to_be_focused()
        page.keyboard.type(token("somebody"))
        page.keyboard.press("Enter")
        expect(page.locator("#trouble")).to_contain_text("not authorized")
        expect(page.locator("#forget")).to_have_text("Forget token")
        press(page, "#forget")
        expect(field).to_be_focused()
        assert barriers(page) == []
        page.keyboard.type(token(ROOT))
        page.keyboard.press("Enter")
        expect(page.locator(".broker")).to_have_count(2)  # as the other broker, which leads, tells whom root asks
        page.reload()
        expect(page.locator(".broker")).to_have_count(2)
        kept = page.evaluate("[localStorage.length, document.cookie, location.href, document.body.textContent]")
        assert kept[:2] == [0, ""]
        assert token(ROOT) not in kept[2] + kept[3]
        assert [text for text in complaints if "401" not in text and "403" not in text] == []
