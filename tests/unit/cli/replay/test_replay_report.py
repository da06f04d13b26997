"""The data in the report of a replay: what is kept of a run, how it is thinned, which runs, the front."""

import base64
import json
import math
import zlib
from html.parser import HTMLParser
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pulsar_barycenter.lab.board import figure_text, front, rows_of
from pulsar_barycenter.lab.report.overview import About, labels, verdict
from pulsar_barycenter.lab.report.page import report_page
from pulsar_barycenter.lab.report.run_detail import detail
from pulsar_barycenter.lab.report.thinning import (
    MOST_BROKERS,
    MOST_MOVES,
    MOST_PARTED,
    MOST_POINTS,
    MOST_RATED,
    MOST_ROWS,
    MOST_RUNS,
    brokers_shown,
    group_size,
    moves_shown,
    runs_shown,
    thinned,
)
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.lab.series import USAGE_UNIT, packed, unpacked
from pulsar_barycenter.replay.outcome import Moved
from pulsar_barycenter.replay.synthetic.demand import START_MS
from support.replay_report import HIGH, LOW, LOWER, MINUTE_MS, ODD_NAME, UPPER, WHOLE, few_runs, run_of

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)
FIGURES = st.floats(0, 40) | st.just(math.nan)


@given(POINTS)
def test_the_front_is_what_no_other_point_beats(points: list[tuple[int, int]]) -> None:
    beaten = {
        place
        for place, (cost, regret) in enumerate(points)
        if any(
            other_cost <= cost and other_regret <= regret and (other_cost, other_regret) != (cost, regret)
            for other_cost, other_regret in points
        )
    }
    found = front(points)
    assert set(found) == set(range(len(points))) - beaten
    assert found == sorted(found, key=lambda place: (points[place], place))


@given(arrays(float, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=FIGURES), st.integers(1, 20))
def test_thinning_keeps_the_greatest_of_every_part(values: Any, most: int) -> None:
    size = group_size(len(values), most)
    found = thinned(values, size, np.nanmax)
    assert len(found) <= most
    for row, column in np.ndindex(found.shape):
        part = [value for value in values[row * size : (row + 1) * size, column].tolist() if not math.isnan(value)]
        assert (found[row, column] == max(part)) if part else math.isnan(found[row, column])


@given(
    arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 5)), elements=st.floats(0, 200_000) | st.just(math.nan))
)
def test_packed_tables_are_as_they_were_to_a_whole(values: Any) -> None:
    np.testing.assert_array_equal(unpacked(packed(values), values.shape[1]), np.rint(values).reshape(values.shape))


def test_a_run_keeps_what_each_broker_used_to_four_digits_and_when_it_was_not_there() -> None:
    run = msgspec.json.decode(msgspec.json.encode(run_of()), type=RunFile)
    usage = run.series.usages()
    assert usage.shape == (120, 5)
    np.testing.assert_allclose(np.nanmax(usage, axis=1), run.series.usage_max, atol=USAGE_UNIT)
    np.testing.assert_allclose(np.nanmean(usage, axis=1), run.series.usage_mean, atol=USAGE_UNIT)
    assert np.isnan(usage[60:80, -1]).all()
    assert np.isnan(usage).sum() == 20
    rates = run.series.rates()
    assert rates[0, 0] == 500
    assert np.isnan(rates[0, 3])


def test_of_many_brokers_the_fullest_and_the_emptiest_are_shown() -> None:
    usage = np.full((10, 500), 0.5)
    usage[3, 77], usage[:, 400], usage[:, 401] = 2.0, 0.01, math.nan
    shown = brokers_shown(usage)
    assert len(shown) == MOST_BROKERS
    assert {77, 400, 401} <= set(shown)
    assert brokers_shown(usage[:, :7]) == list(range(7))


MOVES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9)), max_size=30)


@given(MOVES, st.integers(1, 12))
def test_a_bundle_is_shown_with_all_its_moves_or_none(drawn: list[tuple[str, int]], most: int) -> None:
    moves = [Moved(at_ms=at, kind="unload", bundle=name, rate=rate) for at, (name, rate) in enumerate(drawn)]
    shown = moves_shown(moves, most)
    assert len(shown) <= most
    assert shown == [move for move in moves if move in shown]
    kept = {move.bundle for move in shown}
    if len(kept) > 1 or len(moves) <= most:
        assert shown == [move for move in moves if move.bundle in kept]
    assert bool(shown) == bool(moves)


def test_of_each_row_the_median_run_is_shown_first_and_rows_take_turns() -> None:
    first = [run_of(seed=seed, spread=spread) for seed, spread in ((1, 0.9), (2, 0.5), (3, 0.6))]
    second = [run_of("no-op", seed=seed) for seed in (1, 2)]
    by_regret = sorted(first, key=lambda run: run.measures.regret)
    shown = runs_shown([first, second], 4)
    assert [place for place, _ in shown] == [0, 0, 1, 1]
    assert shown[0][1] is by_regret[1]
    assert runs_shown([first, second], 1) == [(0, by_regret[1])]


def test_the_detail_of_a_run_tells_its_moves_splits_and_brokers_that_came_and_went() -> None:
    found = detail(run_of())
    assert found["bundles"] == sorted([LOW, WHOLE, LOWER, UPPER, HIGH])
    assert found["moments"] == [[3600.0, "went", "broker-0005:8080"], [4800.0, "came", "broker-0005:8080"]]
    slowed = msgspec.structs.replace(
        run_of().series, event_ms=[START_MS + 90 * MINUTE_MS, START_MS + 60 * MINUTE_MS + 1]
    )
    assert detail(msgspec.structs.replace(run_of(), series=slowed))["moments"][2:] == [[5400.0, "event", ""]]
    kinds = [(move[0], move[1], found["bundles"][move[2]]) for move in found["moves"]]
    assert kinds == [
        (300.0, "unloaded", HIGH),
        (600.0, "part placed", UPPER),
        (1200.0, "unloaded", HIGH),
        (3000.0, "unloaded", HIGH),
        (3600.0, "failed over", LOW),
    ]
    assert found["moves"][0][-2] == "broker-0001:8080: its usage is high (usage 90 % >= limit 85 %)"
    assert found["first"] == {found["bundles"].index(LOW): "broker-0005:8080"}
    assert sum(map(sum, found["counts"].values())) == 6
    assert found["usage"][-1][60:80] == [None] * 20
    assert (found["limit"], found["end"], found["lines"]) == (850, 7200.0, True)


def test_a_long_run_of_many_brokers_stays_small_and_keeps_its_peak() -> None:
    run = run_of(brokers=300, steps=5_000)
    found = detail(run)
    assert len(found["usage"]) == MOST_BROKERS
    assert max(len(values) for values in found["usage"]) <= MOST_POINTS
    assert max(found["max"]) == round(max(run.series.usage_max) * 1000)
    assert not found["lines"]
    many = tuple(
        msgspec.structs.replace(run.moves[1], bundle=f"{HIGH}{n % 700}", why="x" * 5_000) for n in range(3_000)
    )
    found = detail(msgspec.structs.replace(run, moves=many))
    assert len(found["moves"]) <= MOST_MOVES
    assert found["moved"] == 3_000
    assert sum(found["counts"]["unloaded"]) == 3_000
    assert max(len(move[-1]) for move in found["moves"]) <= 2_000
    parts = tuple(f"{WHOLE}{n}" for n in range(128))
    splits = tuple(
        msgspec.structs.replace(run.splits[0], bundle=f"{WHOLE}{n}", parts=parts) for n in range(1_000, 1_100)
    )
    found = detail(msgspec.structs.replace(run, moves=many, splits=splits))
    assert sum(1 + len(split[3]) for split in found["splits"]) <= MOST_PARTED
    assert (found["divided"], len(found["splits"])) == (100, 7)
    assert sum(1 for rates in found["rates"] if rates) <= MOST_RATED


def test_rows_are_named_by_what_differs() -> None:
    rows = rows_of(few_runs())
    assert sorted(labels(rows)) == [
        "AvgShedder LowThreshold=10",
        "AvgShedder LowThreshold=15",
        "ThresholdShedder AvgShedderLowThreshold=10",
        "no-op AvgShedderLowThreshold=10",
    ]
    paired = [
        run_of("ThresholdShedder+LeastLongTermMessageRate"),
        run_of("ThresholdShedder+AvgShedder"),
        run_of("no-op"),
    ]
    assert sorted(labels(rows_of(paired))) == sorted(run.scenario.strategy for run in paired)


def test_the_verdict_tells_the_most_even_the_cheapest_and_what_is_configured() -> None:
    runs = [run_of("AvgShedder"), run_of("configured", spread=0.9), run_of("no-op", spread=0.5, moving=False)]
    rows = rows_of(runs)
    told = dict(verdict(rows, About(replayed="an hour", warnings=("a gap",))))
    assert told["most even"].startswith("1 AvgShedder: regret ")
    assert told["fewest unloads"].startswith("2 no-op: ")
    assert told["as configured"].startswith("3 configured: ")
    alike = rows_of([run_of("AvgShedder"), run_of("configured"), run_of("no-op")])
    assert dict(verdict(alike, About()))["most even"].endswith("; as good in every figure: 2 configured, 3 no-op")
    assert "badge" in report_page(runs, About())
    assert "best</span>" not in report_page([run for row in alike for run in row.runs], About())
    assert (told["replayed"], told["mind"]) == ("an hour", "a gap")


@pytest.mark.parametrize(("value", "text"), [(140_712.0, "140,700"), (0.0, "0"), (4.3591, "4.359"), (12.0, "12")])
def test_figures_are_told_as_people_read_them(value: float, text: str) -> None:
    assert figure_text(value) == text


class Page(HTMLParser):
    """What a browser would find in a page that runs, loads or styles something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.inline: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in {"src", "href"} and value and value[0] != "#"]
        self.inline += [name for name, _ in attrs if name == "style" or name.startswith("on")]
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data


def data_of(page: str) -> Any:
    return json.loads(Page(page).scripts[0])


def test_the_page_has_all_rows_and_its_runs_packed() -> None:
    page = report_page(few_runs(), About(command="barycenter replay --out x", replayed="2 h"))
    data = data_of(page)
    assert len(data["rows"]) == 4
    assert [len(run["ratio"]) for run in data["runs"]] == [120] * 5
    unpacked_run = json.loads(zlib.decompress(base64.b64decode(data["runs"][0]["detail"])))
    assert unpacked_run["names"][0] == "broker-0001:8080"
    found = Page(page)
    assert found.outside == found.inline == []
    assert page.count('id="m-regret"') == 1
    assert '<th class="n"><a href="#m-regret"' in page


def test_the_same_runs_have_the_same_page() -> None:
    assert report_page(few_runs(), About()) == report_page(few_runs(), About())


def test_one_run_without_moves_and_a_run_of_one_step_have_a_page() -> None:
    assert len(data_of(report_page([run_of("no-op", moving=False)], About()))["runs"]) == 1
    assert data_of(report_page([run_of("no-op", moving=False, steps=1, brokers=3)], About()))["runs"][0]["end"] == 60


def test_a_page_of_very_many_runs_is_bounded_and_says_so() -> None:
    key = "loadBalancerAvgShedderLowThreshold"
    run = run_of(steps=5, moving=False)
    runs = [
        msgspec.structs.replace(run, scenario=msgspec.structs.replace(run.scenario, settings={key: str(n)}, seed=seed))
        for n in range(MOST_ROWS + 20)
        for seed in (1, 2)
    ]
    page = report_page(runs, About())
    data = data_of(page)
    assert (len(data["rows"]), len(data["runs"])) == (MOST_ROWS, MOST_RUNS)
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 20}" in page
    assert f"Pictures are of {MOST_RUNS} of {len(runs)} runs" in page


@given(
    st.text(min_size=1, max_size=40)
    | st.sampled_from([ODD_NAME, "]]>", "{{ 7 * 7 }}", "\u2028", "&lt;", "<svg/onload=x>"])
)
def test_no_name_breaks_out_of_the_page(name: str) -> None:
    names = [f"{name}{number}" for number in range(3)]
    plain = Page(report_page([run_of(brokers=3, settings={"a": "b"})], About("c", "r", ("d",), {"k": "v"})))
    run = run_of(brokers=3, settings={name: name}, names=names, why=name)
    moves = tuple(msgspec.structs.replace(move, bundle=name + move.bundle) for move in run.moves)
    page = report_page([msgspec.structs.replace(run, moves=moves)], About(name, name, (name,), {name: name}))
    found = Page(page)
    assert found.tags == plain.tags
    assert found.outside == found.inline == []
    data = json.loads(found.scripts[0])
    assert data["rows"][0]["keys"][name] == name
    unpacked_run = json.loads(zlib.decompress(base64.b64decode(data["runs"][0]["detail"])))
    assert unpacked_run["names"] == names
