"""Each page of the dashboard in a real browser, narrow and wide, light and dark: it fits, and everybody can use it."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from support.browser_pages import NEEDS_CHROMIUM
from support.dashboard_pages import HOSTILE, address, barriers, explained, opened
from support.served_cluster import ServedCluster

pytestmark = [pytest.mark.integration, NEEDS_CHROMIUM, pytest.mark.xdist_group("dashboard for all")]
"""One cluster and one browser for all tests of the file."""


@pytest.mark.drawn(1)
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
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
        "#/nothing": "main a",
    }
    context = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    page, complaints = opened(browser, served, **context)
    page.get_by_label("of", exact=True).select_option("own")  # and so on the other pages
    expect(page.locator(".heat canvas")).to_have_attribute("aria-label", re.compile("At the end"))
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
