"""Pages of one file in a real browser, with all reported problems."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
_DISABLED = (
    # what each window loads ahead for an address bar that nobody sees: most of the price of a page
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    # Playwright's own choice, of which Chromium would hear no more: the last list counts
    *("DestroyProfileOnBrowserClose", "HttpsUpgrades", "MediaRouter", "NetworkTimeServiceQuerying"),
    *("OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning"),
)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    f"--disable-features={','.join(_DISABLED)}",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


def opened(browser: Browser, report: str, **context: Any) -> tuple[Page, list[str]]:
    """Return the page and the list that collects its problems: errors, refusals of its policy, requests."""
    page = browser.new_page(**context)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: complaints.append(request.url) if request.url != report else None)
    page.goto(report)
    return page, complaints


OUT_OF_BOUNDS = """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
    const outer = svg.getBoundingClientRect(), shown = [];
    return [...svg.querySelectorAll('text')].flatMap(text => {
        const box = text.getBoundingClientRect(), found = [];
        if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1
            || box.bottom > outer.bottom + 1) found.push('outside: ' + text.textContent);
        for (const [other, b] of shown)
            if (Math.min(box.right, b.right) - Math.max(box.left, b.left) > 1
                && Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top) > 4)
                found.push(text.textContent + ' on ' + other);
        shown.push([text.textContent, box]);
        return found;
    });
})"""
"""Tells the texts of pictures that leave them or lie on each other."""

TEXT_EDGES = """(table, selector) => [...table.querySelectorAll(selector)].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const style = getComputedStyle(cell);
    return [cell.cellIndex, cell.textContent, range.getClientRects().length ? range.getBoundingClientRect().right
        : cell.getBoundingClientRect().right - parseFloat(style.paddingRight)];
})"""
"""Where the text of each cell of a table ends, with its column."""
