"""Means over reports are weighted by their validity: compared with a model that steps tick by tick, and DuckDB."""

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.held import LONGEST_HELD
from pulsar_barycenter.pipeline.load_means import (
    Period,
    bundle_means,
    bundle_means_per_interval,
    report_times,
    usage_shares,
)
from support.mean_oracles import Sample, mean_and_ticks

TICK_S = 20
TICK = TICK_S * 1_000_000
LONGEST = round(LONGEST_HELD.total_seconds()) // TICK_S
SPAN = 150
"""In ticks, as all times of samples."""
SAMPLES = st.lists(
    st.builds(
        Sample,
        thing=st.sampled_from("xyz"),
        broker=st.sampled_from("abc"),
        at=st.integers(0, SPAN),
        value=st.integers(0, 5_000).map(float),
    ),
    max_size=25,
    unique_by=lambda each: (each.thing, each.broker, each.at),
)
OTHER_REPORTS = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, SPAN), max_size=5))


def tabled(samples: Sequence[Sample]) -> pa.Table:
    schema = pa.schema(
        {
            "bundle": pa.string(),
            "broker": pa.string(),
            "topics": pa.int64(),
            "reported_at": pa.timestamp("us", "UTC"),
            "msg_rate": pa.float64(),
            "msg_throughput": pa.float64(),
            "weighted_usage": pa.float64(),
        }
    )
    rows = [
        {
            "bundle": each.thing,
            "broker": each.broker,
            "topics": 1,
            "reported_at": each.at * TICK,
            "msg_rate": each.value,
            "msg_throughput": 2 * each.value,
            "weighted_usage": each.value / 5_000,
        }
        for each in samples
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def reports_of(samples: Sequence[Sample], more: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the times of all reports of each broker: those with samples, and others, of other bundles."""
    found = {broker: list(times) for broker, times in more.items()}
    for each in samples:
        found.setdefault(each.broker, []).append(each.at)
    return found


def period_of(reports: dict[str, list[int]], since: int, until: int) -> Period:
    times = {broker: np.sort(np.array(each, np.int64)) * TICK for broker, each in reports.items()}
    return Period(since * TICK, until * TICK, times)


@given(SAMPLES, OTHER_REPORTS, st.integers(0, SPAN), st.integers(1, SPAN))
def test_the_mean_of_a_bundle_is_that_of_the_time_for_which_a_report_holds(
    samples: list[Sample], more: dict[str, list[int]], since: int, width: int
) -> None:
    until, reports = since + width, reports_of(samples, more)
    rows = bundle_means(tabled(samples), period_of(reports, since, until)).to_pylist()
    found = {row["bundle"]: row for row in rows}
    for bundle in "xyz":
        mine = [each for each in samples if each.thing == bundle]
        mean, seconds = mean_and_ticks(mine, reports, since, until, LONGEST)
        within = [each for each in mine if since <= each.at < until]
        assert (bundle in found) == bool(seconds or within), bundle
        if bundle not in found:
            continue
        row = found[bundle]
        assert row["covered_s"] == pytest.approx(seconds * TICK_S)
        assert row["samples"] == len(within)
        if mean is not None:
            assert row["msg_rate"] == pytest.approx(mean)
            assert row["msg_throughput"] == pytest.approx(2 * mean)
        assert row["msg_rate_max"] >= row["msg_rate"] - 1e-6


@given(SAMPLES, OTHER_REPORTS, st.integers(0, SPAN), st.integers(1, SPAN), st.integers(2, 40))
def test_the_means_of_intervals_are_those_of_their_own_time(
    samples: list[Sample], more: dict[str, list[int]], since: int, width: int, every: int
) -> None:
    mine, until = [each for each in samples if each.thing == "x"], since + width
    reports = reports_of(samples, more)
    rows = bundle_means_per_interval(tabled(mine), period_of(reports, since, until), every * TICK).to_pylist()
    found = {round(row["interval_start"].timestamp()) // TICK_S: (row["msg_rate"], row["covered_s"]) for row in rows}
    expected = {}
    for start in range(since // every * every, until, every):
        mean, seconds = mean_and_ticks(mine, reports, max(since, start), min(until, start + every), LONGEST)
        if seconds:
            expected[start] = pytest.approx((mean, seconds * TICK_S))
    assert found == expected


@given(SAMPLES, st.integers(0, SPAN), st.integers(1, SPAN))
def test_the_share_of_a_broker_above_a_threshold_is_a_share_of_time(
    samples: list[Sample], since: int, width: int
) -> None:
    until = since + width
    own = list({(each.broker, each.at): each for each in samples}.values())  # a broker makes one report at a time
    reports = reports_of(own, {})
    rows = usage_shares(tabled(own), period_of(reports, since, until), 0.5).to_pylist()
    for row in rows:
        mine = [Sample("u", each.broker, each.at, each.value / 5_000) for each in own if each.broker == row["broker"]]
        over = [Sample("o", each.broker, each.at, float(each.value > 0.5)) for each in mine]
        mean, seconds = mean_and_ticks(mine, reports, since, until, LONGEST)
        share, _ = mean_and_ticks(over, reports, since, until, LONGEST)
        if seconds:
            assert (row["usage_mean"], row["share"]) == pytest.approx((mean, share))


@given(SAMPLES, st.integers(1, SPAN))
def test_duckdb_says_the_same_of_the_whole_time(samples: list[Sample], until: int) -> None:
    """By window functions over the same rows: the time to the next row of the bundle, or of the broker."""
    table, reports = tabled(samples), report_times([tabled(samples)])
    found = bundle_means(table, Period(0, until * TICK, reports))
    connection = duckdb.connect()
    connection.register("samples", table)
    rows = connection.execute(
        f"""
        with reports as (select distinct broker, reported_at from samples),
        ends as (select broker, reported_at, lead(reported_at) over (partition by broker order by reported_at) as next
                 from reports),
        held as (
            select s.bundle, s.msg_rate, epoch_us(s.reported_at) as begun, least(
                coalesce(epoch_us(e.next), {until * TICK}),
                coalesce(epoch_us(lead(s.reported_at) over (partition by s.bundle order by s.reported_at, s.broker)),
                         {until * TICK}),
                epoch_us(s.reported_at) + {LONGEST * TICK}, {until * TICK}) as until
            from samples s join ends e on s.broker = e.broker and s.reported_at = e.reported_at)
        select bundle, sum(msg_rate * (until - begun)) / sum(until - begun), sum(until - begun) / 1e6
        from held where until > begun group by bundle order by bundle
        """
    ).fetchall()
    mine = [(row["bundle"], row["msg_rate"], row["covered_s"]) for row in found.to_pylist() if row["covered_s"] > 0]
    assert sorted(mine) == [(name, pytest.approx(mean), pytest.approx(seconds)) for name, mean, seconds in rows]


def test_a_bundle_that_carried_3000_for_long_and_1000_for_short_carried_2800() -> None:
    """The worked example of docs/measures.md; the mean of the reports would be 2,000."""
    samples = [Sample("x", "a", 0, 3_000.0), Sample("x", "b", 9, 1_000.0)]
    (row,) = bundle_means(tabled(samples), period_of(reports_of(samples, {}), 0, 10)).to_pylist()
    assert (row["msg_rate"], row["covered_s"], row["samples"]) == (2_800.0, 10 * TICK_S, 2)


def test_a_bundle_that_nobody_reported_for_a_while_does_not_look_cold() -> None:
    """Its broker reports without it: from then on it is not reported, which is not zero."""
    samples = [Sample("x", "a", 0, 3_000.0), Sample("x", "b", 40, 3_000.0)]
    (row,) = bundle_means(tabled(samples), period_of(reports_of(samples, {"a": [3]}), 0, 50)).to_pylist()
    assert (row["msg_rate"], row["covered_s"]) == (3_000.0, 13 * TICK_S)
