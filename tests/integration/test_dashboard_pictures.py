"""What the dashboard shows can be read: aligned, round, unbroken, with its past, and with the reason if it is empty."""

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser_pages import NEEDS_CHROMIUM, TEXT_EDGES
from support.dashboard_pages import address, explained, opened
from support.served_cluster import ServedCluster

pytestmark = [
    pytest.mark.integration,
    NEEDS_CHROMIUM,
    pytest.mark.xdist_group("dashboard pictures"),
    pytest.mark.drawn_tests(4),
]
"""One cluster and one browser for all tests of the file."""

WIDE = {"width": 1400, "height": 900}
NARROW = {"width": 390, "height": 640}
TABLED_BUNDLE = "public/ns/0x00000000_0x20000000"

BROKEN_WORDS = """selector => [...document.querySelectorAll(selector)].flatMap(host => {
    const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT), found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        for (const word of node.data.matchAll(/[A-Za-z0-9]+/g)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].filter(box => box.width).map(box => Math.round(box.top)));
            if (lines.size > 1) found.push(word[0]);
        }
    return found;
})"""
"""Words of the text of elements, between places where a name may break, that stand on two lines."""


def with_load(found: Any) -> Any:
    """Give bundles loads whose words have one, two and three parts."""
    for number, each in enumerate(found["bundles"]):
        each |= {"msgRate": [3_000.0, 12.5, 0.0][number % 3], "msgThroughput": [3e6, 900.0, 0.0][number % 3]}
    return found


def test_numbers_stand_right_below_their_titles(browser: Browser, served: ServedCluster) -> None:
    served.report()
    broker = explained(served, topic="persistent://public/ns/t0")["owner"]
    for kind, name in (("broker", broker), ("namespace", "public/ns")):
        patches = {"/barycenter/v1/bundles": with_load}
        page, complaints = opened(browser, served, address(kind, name), patches=patches, viewport=WIDE)
        expect(page.locator("td.n", has_text="3 k msg/s").first).to_be_visible()
        titles = {column: right for column, _, right in page.locator("table").first.evaluate(TEXT_EDGES, "th.n")}
        assert len(titles) == 4
        cells = page.locator("table").first.evaluate(TEXT_EDGES, "td.n")
        assert cells
        assert all(abs(right - titles[column]) <= 1 for column, _, right in cells)
        figures = page.locator("td").filter(has_text=re.compile(r"^[\d.,]+ ?[\w/% ]*$"))
        assert figures.count() == page.locator("td.n:not(:empty)").count()
        assert complaints == []


def test_the_figures_of_brokers_end_below_each_other(browser: Browser, served: ServedCluster) -> None:
    page, _ = opened(browser, served, viewport=WIDE)
    page.get_by_label("by", exact=True).select_option("bundles")
    figures = page.locator(".broker .figure")
    expect(figures).to_have_count(len(served.cluster.brokers))
    ends = figures.evaluate_all(
        "all => all.map(one => { const range = document.createRange(); range.selectNodeContents(one);"
        " return Math.round(range.getBoundingClientRect().right); })"
    )
    assert len({*ends}) == 1


def ticks(page: Page, *pictures: str) -> list[list[tuple[str, float]]]:
    """Return the marks of each picture, all as they are at one time."""
    found = page.evaluate(
        "all => all.map(one => [...document.querySelectorAll(`${one} text.tick`)]"
        ".map(tick => [tick.textContent, tick.getBoundingClientRect().x]))",
        list(pictures),
    )
    return [[(text, round(x)) for text, x in marks] for marks in found]


@pytest.mark.parametrize("span", ["now", "day"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_heat_map_and_lines_have_one_axis_of_time(
    browser: Browser, served: ServedCluster, viewport: Any, span: str
) -> None:
    page, complaints = opened(browser, served, viewport=viewport)
    page.get_by_label("of", exact=True).select_option(span)
    lines = page.get_by_role("img", name="Brokers compared")
    expect(lines).to_have_attribute("aria-label", re.compile("the highest .*, the mean .*, the lowest "))
    expect(page.locator("#live")).to_have_text("live")  # an answer under way is drawn also after Pause
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".heat text.tick").first).to_be_visible()
    heat, compared = ticks(page, ".heat", "figure.lines")
    assert heat == compared
    canvas, picture = page.locator(".heat canvas"), page.locator("figure.lines svg.chart, figure.lines > svg")
    boxes = [each.first.bounding_box() for each in (canvas, picture)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert (boxes[0]["x"], boxes[0]["width"]) == (boxes[1]["x"], boxes[1]["width"])
    for share in (0.45, 0.8, 0.95):
        times = []
        for host, told in ((canvas, ".heat .readout"), (picture.first, "figure.lines .readout")):
            box = host.bounding_box()
            assert box is not None
            host.hover(position={"x": box["width"] * share, "y": 10})
            [text] = re.findall(r"\d\d:\d\d:\d\d", page.locator(told).inner_text())
            hours, minutes, seconds = map(int, text.split(":"))
            times.append(3600 * hours + 60 * minutes + seconds)
        apart = abs(times[0] - times[1]) % 86_400
        assert min(apart, 86_400 - apart) <= (600 if span == "day" else 20)
    assert complaints == []


def test_axes_are_marked_at_round_values_and_times(browser: Browser, served: ServedCluster) -> None:
    page, _ = opened(browser, served, viewport=WIDE)
    for measure in ("throughput", "rate", "usage", "bundles"):
        page.get_by_label("by", exact=True).select_option(measure)
        for span in ("now", "hour", "day", "week"):
            page.get_by_label("of", exact=True).select_option(span)
            expect(page.locator("figure.lines text.mark-label").first).to_be_visible()
            marks = page.locator("figure.lines text.mark-label").all_text_contents()
            values = [float(re.sub(r"[^\d.]", "", text)) for text in marks]
            assert len(values) >= 2
            assert values[0] == 0
            assert re.fullmatch(r"0*[125]0*", f"{values[1]:f}".replace(".", "").rstrip("0") or "1"), marks
            assert all(b - a == pytest.approx(values[1]) for a, b in pairwise(values)), marks
            assert len({re.sub(r"[\d.,]+", "", text) for text in marks[1:]}) == 1  # one unit
            [ticked] = ticks(page, "figure.lines")
            clocks = [text for text, _ in ticked if ":" in text]
            seconds = [sum(int(part) * 60 ** (2 - at) for at, part in enumerate(text.split(":"))) for text in clocks]
            steps = {(b - a) % 86_400 for a, b in pairwise(seconds)} - {0}
            for at in seconds:
                assert at % min(steps, default=1) == 0, clocks


AXES = """async () => {
    const { timeAxis, labelled } = await import('/dashboard/time_axis.js'), found = [];
    for (const width of [280, 300, 364, 520, 1140]) for (const left of [84, Math.min(150, Math.round(width * 0.34))])
        for (const minutes of [0.1, 1, 1.5, 5, 10, 29.9, 30, 30.2, 60, 180, 1440, 1450, 10080, 10110, 44640])
            for (let start = 0; start < 97; start++) {
                const until = 1795000000000 + start * 1234567;
                const axis = timeAxis(until - minutes * 60000, until, left, width);
                const labels = labelled(axis), at = `${width} ${left} ${minutes} ${until}`;
                if (!labels.length) found.push(`none: ${at}`);
                labels.slice(1).forEach((one, i) => { if (one.x - labels[i].x < 40) found.push(`close: ${at}`); });
                for (const one of labels) if (Math.abs(axis.timeAt(one.x) - one.t) > 1) found.push(`astray: ${at}`);
            }
    return found.slice(0, 5);
}"""


def test_every_axis_of_time_has_labels_and_they_keep_apart(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, "#/settings")
    assert page.evaluate(AXES) == []
    assert complaints == []


def test_what_was_before_the_page_was_opened_is_there(browser: Browser, served: ServedCluster) -> None:
    broker = served.cluster.brokers[1].broker_id
    for place in ("", address("broker", broker), address("bundle", TABLED_BUNDLE)):
        page, complaints = opened(browser, served, place, viewport=WIDE)
        opened_at = page.evaluate("Date.now()")
        picture = page.locator("figure.lines").first
        expect(picture.locator("> svg path.line").first).to_have_attribute("d", re.compile("L"))
        picture.locator("> svg").focus()
        page.keyboard.press("Home")
        [text] = re.findall(r"\d\d:\d\d:\d\d", picture.locator(".readout").inner_text())
        first = page.evaluate(
            "text => { const at = new Date(); at.setHours(...text.split(':')); return at.getTime(); }", text
        )
        assert (opened_at - first) % 86_400_000 > 20 * 60_000, place
        assert complaints == []


def test_an_empty_picture_says_why(browser: Browser, served: ServedCluster) -> None:
    page, complaints = opened(browser, served, viewport=WIDE)
    expect(page.locator("[aria-labelledby=brokers-title] .empty")).to_contain_text("no bundle has load")
    page.get_by_label("of", exact=True).select_option("own")
    page.get_by_label("from", exact=True).fill("2020-01-02T02:00")
    page.get_by_label("to", exact=True).fill("2020-01-02T05:00")
    expect(page.locator(".heat .empty")).to_contain_text("No load was recorded in this time")
    expect(page.locator("figure.lines .empty")).to_contain_text("No load was recorded in this time")
    expect(page.locator(".heat canvas")).to_be_hidden()
    for choice in page.locator(".kinds input").all():
        choice.uncheck()
    expect(page.locator("[aria-labelledby=line-title]")).to_contain_text("none of the kinds that are chosen")
    assert complaints == []


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_no_key_and_no_broker_is_broken_in_mid_word(browser: Browser, served: ServedCluster, width: int) -> None:
    page, complaints = opened(browser, served, "#/settings", viewport={"width": width, "height": 900})
    expect(page.locator("tbody tr").nth(100)).to_be_visible()
    assert page.evaluate(BROKEN_WORDS, "td b, td[data-label=value], td[data-label=default]") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    bundle = explained(served, topic="persistent://public/ns/t0")["bundle"]
    for kind, name in (("broker", served.cluster.brokers[0].broker_id), ("bundle", bundle)):
        page.goto(f"{served.url}/{address(kind, name)}")
        page.locator("#now-title").wait_for()
        assert page.evaluate(BROKEN_WORDS, "h1, .why, .whole, summary, td a") == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
