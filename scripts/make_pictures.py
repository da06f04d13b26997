"""Take the pictures of docs/pictures: the dashboard of a demo's cluster, in Chromium, light and dark, wide and narrow.

    .venv/bin/python scripts/make_pictures.py

Starts the demo of seed 1 without its crash, waits until its load has spread, and takes each picture. The load and what
is asked are the same each time; which bundle goes where is up to the run. Look at the pictures before you commit them.
"""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import msgspec
from playwright.sync_api import Browser, Page

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "pictures"
MOST_BYTES: Final = 200_000
WIDE: Final = {"width": 1400, "height": 900}
TALL: Final = {"width": 1400, "height": 1180}
NARROW: Final = {"width": 390, "height": 844}
_BROKERS: Final = 3
_DURATION_S: Final = 240
_STARTS_WITHIN_S: Final = 600.0
_SPREADS_S: Final = 75.0


def free_ports() -> tuple[int, int]:
    """Return the first web port and the first binary port of brokers, which were all free a moment ago."""
    for first in range(20_000, 30_000, 2 * _BROKERS):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + 2 * _BROKERS):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first, first + _BROKERS
    sys.exit("no ports are free from 20000 to 30000")


def overview(url: str) -> dict[str, Any]:
    with urlopen(f"{url}/barycenter/v1/overview", timeout=5) as answer:
        found: dict[str, Any] = msgspec.json.decode(answer.read())
    return found


def address(kind: str, name: str) -> str:
    return f"#/{kind}/{quote(name, safe='')}"


def by_throughput(page: Page) -> None:
    page.get_by_label("by", exact=True).select_option("throughput")
    page.locator(".part").first.wait_for()


def explained(page: Page) -> None:
    page.locator("#now-title").wait_for()


def over_time(page: Page) -> None:
    """Show the load from before the page was opened on; a bundle, once somebody owns it."""
    explained(page)
    page.locator("main .kind", has_text="Broker").or_(page.locator("main dl a[href*=broker]")).first.wait_for()
    page.locator("figure.lines > svg path.line").first.wait_for()
    if page.viewport_size == NARROW:
        page.locator("#load-title").evaluate("title => title.scrollIntoView()")


def draining(page: Page) -> None:
    explained(page)
    page.get_by_role("button", name="Drain…", exact=True).click()
    page.locator("dialog#action .preview p").first.wait_for()


def take_all(browser: Browser, url: str) -> None:
    known = overview(url)["brokers"]
    busiest = max(known, key=lambda one: one["msgThroughput"])
    bundle = busiest["top"][0][0]
    pictures: list[tuple[str, str, dict[str, int], str, Callable[[Page], None]]] = [
        ("overview-light", "", TALL, "light", by_throughput),
        ("overview-dark-narrow", "", NARROW, "dark", by_throughput),
        ("bundle-dark", address("bundle", bundle), WIDE, "dark", over_time),
        ("broker-load-light", address("broker", busiest["broker"]), WIDE, "light", over_time),
        ("broker-load-dark-narrow", address("broker", busiest["broker"]), NARROW, "dark", over_time),
        ("drain-light", address("broker", busiest["broker"]), WIDE, "light", draining),
    ]
    for name, place, viewport, scheme, ready in pictures:
        page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.goto(f"{url}/{place}")
        ready(page)
        page.wait_for_timeout(4_000)
        file = FOLDER / f"{name}.png"
        page.screenshot(path=file)
        page.close()
        size = file.stat().st_size
        print(f"{file.relative_to(ROOT)}  {size:,} bytes")
        if size > MOST_BYTES:
            sys.exit(f"{file} is larger than {MOST_BYTES:,} bytes")


def wait_for_cluster(demo: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while demo.poll() is None and time.monotonic() < deadline:
        try:
            if len(overview(url)["brokers"]) == _BROKERS:
                return
        except OSError:
            pass
        time.sleep(1)
    sys.exit("the demo's cluster did not start")


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser_pages import chromium

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as out:
        web_port, broker_port = free_ports()
        url = f"http://127.0.0.1:{web_port}"
        words = ["demo", "--no-chaos", "--duration", f"{_DURATION_S}s", "--brokers", str(_BROKERS), "--out", out]
        words += ["--web-port", str(web_port), "--broker-port", str(broker_port)]
        demo = subprocess.Popen([sys.executable, "-m", "pulsar_barycenter", *words])
        try:
            wait_for_cluster(demo, url)
            with chromium() as browser:
                page = browser.new_page()  # an open page has the leader keep the load over time
                page.goto(url)
                page.wait_for_timeout(1_000 * _SPREADS_S)
                take_all(browser, url)
        finally:
            demo.terminate()
            demo.wait()


if __name__ == "__main__":
    main()
