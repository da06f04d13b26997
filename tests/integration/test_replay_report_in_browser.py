"""The report of a replay in a real browser: what it draws on screens and paper, and what pointer and keys do to it."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from pulsar_barycenter.lab.report.overview import About
from pulsar_barycenter.lab.report.page import report_page
from support.browser_pages import NEEDS_CHROMIUM, OUT_OF_BOUNDS, TEXT_EDGES, opened
from support.replay_report import HIGH, LOW, ODD_NAME, UPPER, WHOLE, few_runs, run_of

pytestmark = [
    pytest.mark.integration,
    NEEDS_CHROMIUM,
    pytest.mark.xdist_group("report of a replay"),
    pytest.mark.drawn_tests(7),
]
WIDE = {"viewport": {"width": 1280, "height": 900}}
FEW, MANY, STILL, IDLE, ODD = "few", "many", "still", "idle", "odd"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the addresses of reports: of five brokers and of a hundred, of one run in which nothing moves, of brokers
    far below their limit, and one whose names are hostile."""
    folder = tmp_path_factory.mktemp("reports")
    names = [f"{ODD_NAME}{number}" for number in range(3)]
    runs = {
        FEW: few_runs(),
        MANY: few_runs(100),
        STILL: [run_of("no-op", moving=False)],
        IDLE: [run_of(base=0.01, spread=0.02, seed=seed, steps=90) for seed in range(5)],
        ODD: [run_of(brokers=3, names=names, why=ODD_NAME, settings={ODD_NAME: ODD_NAME})],
    }
    found = {}
    for name, each in runs.items():
        page = report_page(each, About("barycenter replay --out x", "2 h of test", ("a gap",), {}))
        (folder / f"{name}.html").write_text(page)
        found[name] = (folder / f"{name}.html").as_uri()
    return found


def drawn(browser: Browser, report: str, **context: Any) -> tuple[Page, list[str]]:
    page, complaints = opened(browser, report, **(context or WIDE))
    expect(page.locator("#panel-a .chart svg").first).to_be_attached()
    expect(page.locator("#story-a")).not_to_be_empty()
    return page, complaints


@pytest.mark.drawn(8)
@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", [FEW, MANY, STILL, IDLE])
def test_at_every_width_texts_keep_apart_and_inside_and_nothing_complains(
    browser: Browser, reports: dict[str, str], which: str, width: int, scheme: Any
) -> None:
    page, complaints = drawn(browser, reports[which], viewport={"width": width, "height": 800}, color_scheme=scheme)
    for zoom in range(2):
        if zoom:
            page.get_by_role("button", name="Zoom in").click()
        assert page.evaluate(OUT_OF_BOUNDS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    if which != STILL:
        page.locator("#run-b").select_option(index=4)
        expect(page.locator("#panel-b .chart svg").first).to_be_attached()
        assert page.evaluate(OUT_OF_BOUNDS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert complaints == []
    page.close()


def tip(page: Page) -> str:
    expect(page.locator("#tip")).to_be_visible()
    return page.locator("#tip").inner_text()


def test_figures_and_marks_explain_themselves_to_pointer_keyboard_and_finger(
    browser: Browser, reports: dict[str, str]
) -> None:
    page, complaints = drawn(browser, reports[FEW])
    page.locator("th a", has_text="regret").hover()
    assert "by how much the fullest was too full" in tip(page)
    page.locator("#row1 td.n").first.hover()
    assert re.match(r"median of 2 runs, from [\d.]+ to [\d.]+\nregret: ", tip(page))
    page.evaluate("addEventListener('pointermove', event => { window.rests = [event.screenX, event.screenY]; })")
    page.locator("#panel-a .signs a").first.hover()
    assert re.match(
        r"1 time unloaded, 00:05\n• 0x80000000_0xffffffff: broker-0001:8080 → broker-0002:8080: ", tip(page)
    )
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    at_rest = dict(zip(("screenX", "screenY"), page.evaluate("window.rests"), strict=True))
    page.locator("nav a").last.focus()
    page.keyboard.press("Tab")
    assert "area over the hours replayed" in tip(page)
    page.locator("h1").dispatch_event("pointerover", at_rest)
    assert "area over the hours replayed" in tip(page), "the page scrolled to the focus, below a pointer at rest"
    page.keyboard.press("Enter")
    expect(page.locator("#m-regret")).to_be_in_viewport()
    page.close()
    assert complaints == []
    finger = {"viewport": {"width": 360, "height": 700}, "has_touch": True, "is_mobile": True}
    page, complaints = drawn(browser, reports[FEW], **finger)
    page.locator("#row1 td.n").first.tap()
    assert "median of 2 runs" in tip(page)
    assert complaints == []
    page.close()


def test_moves_are_filtered_by_words_kind_and_a_mark(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[FEW])
    rows = page.locator("#panel-a .moves tbody tr")
    expect(rows).to_have_count(6)
    page.locator("#panel-a input[type=search]").fill("0x8000 broker-0003")
    expect(rows).to_have_count(2)
    page.locator("#panel-a select").select_option("split")
    expect(rows).to_have_count(0)
    page.locator("#panel-a input[type=search]").fill("")
    expect(rows).to_have_count(1)
    page.locator("#panel-a .signs a[aria-label^='unloaded']").nth(1).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("00:20")
    page.get_by_role("button", name=re.compile("✕")).click()
    expect(rows).to_have_count(3)
    rows.first.locator("summary").click()
    expect(rows.first.locator("details")).to_contain_text("seen twice")
    assert complaints == []
    page.close()


def test_two_runs_stand_side_by_side_with_what_differs(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[FEW])
    page.locator("#run-a").select_option(label="1 AvgShedder LowThreshold=10, seed 1")
    page.locator("#run-b").select_option(label="3 ThresholdShedder AvgShedderLowThreshold=10, seed 1")
    differences = page.locator("#differences")
    expect(differences).to_contain_text("loadBalancerLoadSheddingStrategy")
    expect(differences).not_to_contain_text("loadBalancerAvgShedderLowThreshold")
    expect(differences).to_contain_text("Balance parts at 00:00, when the fullest broker of 3 is")
    left, right = (page.locator(f"#panel-{side}").bounding_box() for side in "ab")
    assert left
    assert right
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    axis = "[...document.querySelectorAll('#panel-{} .chart svg')][0].textContent.match(/\\d+ %/g).join()"
    assert page.evaluate(axis.format("a")).split(",")[:3] == page.evaluate(axis.format("b")).split(",")[:3]
    page.locator("#run-b").select_option(value="")
    expect(differences).to_be_empty()
    assert complaints == []
    page.close()


def test_a_bundle_tells_where_it_was_what_it_carried_and_why_it_moved(
    browser: Browser, reports: dict[str, str]
) -> None:
    page, complaints = drawn(browser, reports[FEW])
    story = page.locator("#story-a")
    expect(story).to_contain_text(f"{HIGH} · 3 moves")  # what moved most is told unasked
    names = story.locator("text.in").evaluate_all("all => all.map(one => one.textContent)")
    assert [each[-4:] for each in names] == ["0002", "0003", "0001"]  # the first five minutes have no room for a name
    expect(story.locator("ol li")).to_have_count(3)
    expect(story.locator("ol li").nth(2)).to_contain_text("00:50")
    page.locator("#bundle").fill(UPPER[-21:])
    page.keyboard.press("Tab")
    expect(story).to_contain_text("Split off at 00:10 from 0x40000000_0x80000000, on broker-0001:8080.")
    story.get_by_role("button", name=WHOLE.rpartition("/")[2]).click()
    expect(story).to_contain_text("Divided at 00:10")
    expect(page.locator("#bundle")).to_have_value(WHOLE)
    page.locator("#panel-a .moves button.name", has_text=LOW.rpartition("/")[2]).click()
    expect(story).to_contain_text("01:00 – 02:00: broker-0002:8080")
    page.locator("#bundle").fill("public/orders/none")
    page.keyboard.press("Enter")
    expect(story).to_contain_text("public/orders/none neither moved nor was split in this run.")
    assert complaints == []
    page.close()


def test_a_cost_has_its_own_front_and_a_point_chooses_its_run(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[FEW])
    shown = page.locator(".frontline:visible")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("On the front of unloads:")
    page.get_by_role("button", name="sessions").click()
    expect(shown).to_contain_text("On the front of sessions:")
    points = page.locator("#scatter g[role=button]")
    expect(points).to_have_count(4)
    page.locator("#scatter g[aria-label^='3 ']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-a h3").first).to_have_text(re.compile("^3 "))
    expect(page.locator("#panel-a")).to_be_in_viewport()
    assert complaints == []
    page.close()


def test_lines_of_runs_are_picked_and_all_pictures_over_time_zoom_together(
    browser: Browser, reports: dict[str, str]
) -> None:
    page, complaints = drawn(browser, reports[FEW])
    lines = page.locator("#lines path.curve")
    expect(lines).to_have_count(4)
    page.locator("#picked input:not(:checked)").first.check()
    expect(lines).to_have_count(5)
    page.get_by_role("button", name="fullest over the mean").click()
    expect(page.locator("#lines line.even")).to_have_count(1)
    times = """all => all.map(svg => [...svg.querySelectorAll('text')]
        .map(t => t.textContent).filter(t => /^\\d\\d:\\d\\d$/.test(t)).join())"""
    whole = page.locator("#panel-a .chart svg, #lines svg, #story-a .chart svg").evaluate_all(times)
    page.locator("#lines").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    zoomed = page.locator("#panel-a .chart svg, #lines svg, #story-a .chart svg").evaluate_all(times)
    assert len(set(whole)) == len(set(zoomed)) == 1
    assert set(whole) != set(zoomed)
    box = page.locator("#lines svg").bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 120)
    assert "AvgShedder" in page.locator("#readout").inner_text()
    assert complaints == []
    page.close()


def test_many_brokers_are_a_heat_map_that_can_be_ordered(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[MANY])
    heat = page.locator("#panel-a .heat svg")
    names = "svg => [...svg.querySelectorAll('text')].map(t => t.textContent).filter(t => t.startsWith('broker'))"
    assert heat.evaluate(names)[0] == "broker-0001:8080"
    heat.scroll_into_view_if_needed()
    box = heat.bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 32 + 6.4 * 41)
    assert re.search(r"broker-004\d:8080 \d+\.0 % · 00:\d\d: fullest", page.locator("#readout").inner_text())
    page.get_by_role("button", name="fullest first").click()
    assert heat.evaluate(names)[0] == "broker-0001:8080"  # it is the one that is fuller than all
    assert heat.evaluate(names)[1:4] != ["broker-0004:8080", "broker-0007:8080", "broker-0010:8080"]
    expect(page.locator("#panel-a")).to_contain_text("broker-0100")
    assert complaints == []
    page.close()


def test_names_from_outside_stay_text(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[ODD])
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.locator("#panel-a .signs a").first.hover()
    assert ODD_NAME in tip(page)
    expect(page.locator("#panel-a .key").nth(1)).to_contain_text(f"{ODD_NAME}1")
    assert page.locator("script").count() == 2
    assert page.locator("b").count() == 0
    assert complaints == []
    page.close()


def test_without_moves_the_page_says_so(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[STILL])
    expect(page.locator("#panel-a .signs")).to_contain_text("nothing moved, and nothing was split")
    expect(page.locator("#story-a")).to_contain_text("No bundle moved or was split in this run.")
    expect(page.locator("#run-b")).to_be_hidden()
    assert complaints == []
    page.close()


def test_without_the_script_there_are_the_verdict_and_the_figures(browser: Browser, reports: dict[str, str]) -> None:
    page, _ = opened(browser, reports[FEW], java_script_enabled=False)
    expect(page.locator(".board tbody tr")).to_have_count(4)
    expect(page.locator("#m-regret")).to_be_visible()
    expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    page.close()


def test_an_old_browser_has_the_pictures_of_all_runs(browser: Browser, reports: dict[str, str]) -> None:
    context = browser.new_context(**WIDE)
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(reports[FEW])
    expect(page.locator("#old")).to_be_visible()
    expect(page.locator("#scatter g[role=button]")).to_have_count(4)
    expect(page.locator("#lines path.curve")).to_have_count(4)
    expect(page.locator("#chosen")).to_be_hidden()
    context.close()


def test_on_paper_the_page_is_light_and_what_is_chosen_is_there(browser: Browser, reports: dict[str, str]) -> None:
    page, complaints = drawn(browser, reports[FEW], color_scheme="dark", **WIDE)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 36, 48)"
    expect(page.locator("#picked")).to_be_hidden()
    expect(page.locator("#panel-a .moves")).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
    assert page.locator("td details[open]").count() == 0
    assert complaints == []
    page.close()


def test_numbers_end_below_their_titles_and_whole_costs_have_whole_marks(
    browser: Browser, reports: dict[str, str]
) -> None:
    page, complaints = drawn(browser, reports[FEW])
    for table in page.locator("table.cards").all():
        titles = {column: right for column, _, right in table.evaluate(TEXT_EDGES, "th.n")}
        cells = table.evaluate(TEXT_EDGES, "td.n")
        assert cells
        assert titles.keys() == {column for column, _, _ in cells}
        assert all(abs(right - titles[column]) <= 1 for column, _, right in cells)
    marks = page.locator("#scatter text.soft[text-anchor=middle]").all_text_contents()
    assert marks
    assert all(mark.replace(",", "").isdigit() for mark in marks)
    assert complaints == []
