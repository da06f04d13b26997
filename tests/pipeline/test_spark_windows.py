"""The closed form of the windows against the sequential definition."""

import datetime
import itertools
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS, LONG_SAMPLES, SHORT_SAMPLES, fold
from pulsar_barycenter.pipeline.batch.windows import fold_windows
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES, BUNDLE_STATE, FIGURES, Columns

pytestmark = pytest.mark.pipeline

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
COUNTS = (1, 9, 10, 11, 999, 1000, 1001)
PRIOR_COUNTS = (1, 5, 9, 10, 11, 500, 995, 999, 1000)
NEW_COUNTS = (0, 1, 2, 5, 6, 9, 10, 11, 30)


def sample(bundle: str, at: datetime.datetime, figures: tuple[float, ...], **other: Any) -> dict[str, Any]:
    row = {"bundle": bundle, "broker": "b", "incarnation": "i", "sequence": 1, "reported_at": at}
    row |= {"topics": 0, "consumers": 0, "producers": 0}
    return {**row, **dict(zip(FIGURES, figures, strict=True)), **other}


def state(
    bundle: str, at: datetime.datetime, short: tuple[float, ...], long: tuple[float, ...], n: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"bundle": bundle, "as_of": at, "topics": 7}
    row |= {"short_num_samples": min(n, SHORT_SAMPLES), "long_num_samples": min(n, LONG_SAMPLES)}
    row |= {f"short_{figure}": value for figure, value in zip(FIGURES, short, strict=True)}
    return row | {f"long_{figure}": value for figure, value in zip(FIGURES, long, strict=True)}


def frame(spark: SparkSession, rows: list[dict[str, Any]], columns: Columns) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in columns.names) for row in rows], struct_type(columns))


def folded(
    spark: SparkSession, samples: list[dict[str, Any]], prior: list[dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """One job: the rows of `fold_windows` by bundle."""
    known = None if prior is None else frame(spark, prior, BUNDLE_STATE)
    rows = frame(spark, samples, BUNDLE_SAMPLES)
    return {row["bundle"]: row.asDict() for row in fold_windows(rows, known).collect()}


def random_figures(rng: random.Random) -> tuple[float, ...]:
    return tuple(rng.choice((0.0, rng.uniform(0, 1), rng.expovariate(1e-6))) for _ in FIGURES)


def sequential(values: list[float], limit: int, average: float = 0.0, n: int = 0) -> tuple[float, int]:
    for value in values:
        average, n = fold(average, n, value, limit)
    return average, n


def assert_windows(row: dict[str, Any], samples: list[dict[str, Any]], prior: dict[str, Any] | None = None) -> None:
    for window, limit in (("short", SHORT_SAMPLES), ("long", LONG_SAMPLES)):
        before = prior[f"{window}_num_samples"] if prior else 0
        for figure in FIGURES:
            start = prior[f"{window}_{figure}"] if prior else 0.0
            expected, n = sequential([s[figure] for s in samples], limit, start, before)
            assert row[f"{window}_{figure}"] == pytest.approx(expected, rel=1e-9, abs=0), (
                row["bundle"],
                window,
                figure,
            )
            assert row[f"{window}_num_samples"] == n
    assert row["new_samples"] == len(samples)


def test_windows_agree_with_the_recurrence_at_their_boundaries(spark: SparkSession) -> None:
    """Random sequences around the sizes of both windows, handed over in random order, fold as one by one."""
    rng = random.Random(7)
    series = {
        f"{count}-{repeat}": [
            sample(f"{count}-{repeat}", START + datetime.timedelta(seconds=i), random_figures(rng), sequence=i)
            for i in range(count)
        ]
        for count in COUNTS
        for repeat in range(40 if count < 100 else 4)
    }
    rows = list(itertools.chain.from_iterable(series.values()))
    rng.shuffle(rows)
    result = folded(spark, rows)
    assert result.keys() == series.keys()
    for bundle, samples in series.items():
        assert_windows(result[bundle], samples)
        assert result[bundle]["as_of"].replace(tzinfo=datetime.UTC) == samples[-1]["reported_at"]


def test_windows_resume_from_any_prior_state(spark: SparkSession) -> None:
    """Every prior count meets every number of new samples; without new ones the prior is handed on bit by bit."""
    rng = random.Random(8)
    prior, series = {}, {}
    for before, new, repeat in itertools.product(PRIOR_COUNTS, NEW_COUNTS, range(5)):
        bundle = f"{before}-{new}-{repeat}"
        prior[bundle] = state(bundle, START, random_figures(rng), random_figures(rng), before)
        series[bundle] = [
            sample(bundle, START + datetime.timedelta(seconds=1 + i), random_figures(rng), topics=i) for i in range(new)
        ]
    rows = list(itertools.chain.from_iterable(series.values()))
    rng.shuffle(rows)
    result = folded(spark, rows, list(prior.values()))
    assert result.keys() == prior.keys()
    for bundle, samples in series.items():
        assert_windows(result[bundle], samples, prior[bundle])
        assert result[bundle]["topics"] == (len(samples) - 1 if samples else 7)
        if not samples:
            assert all(result[bundle][f"long_{figure}"] == prior[bundle][f"long_{figure}"] for figure in FIGURES)


def test_folding_in_pieces_equals_folding_at_once(spark: SparkSession) -> None:
    """Two folds, the second from the first one's result, give the windows of one fold over all samples."""
    rng = random.Random(9)
    samples = [
        sample(f"b{b}", START + datetime.timedelta(seconds=i), random_figures(rng), sequence=i)
        for b, count in enumerate((2, 15, 40))
        for i in range(count)
    ]
    cut = START + datetime.timedelta(seconds=12)
    first = folded(spark, [s for s in samples if s["reported_at"] < cut])
    prior = [{**row, "as_of": row["as_of"].replace(tzinfo=datetime.UTC)} for row in first.values()]
    pieces = folded(spark, [s for s in samples if s["reported_at"] >= cut], prior)
    for bundle, row in folded(spark, samples).items():
        for name in BUNDLE_STATE.names:
            value = row[name]
            assert pieces[bundle][name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


def test_a_long_silence_ends_a_bundles_history(spark: SparkSession) -> None:
    """Silence of exactly the gap keeps the history, one millisecond more starts anew, after a prior or a sample."""
    gap = datetime.timedelta(milliseconds=HISTORY_GAP_MS)
    longer = gap + datetime.timedelta(milliseconds=1)
    ones, fives = (1.0,) * 4, (5.0,) * 4
    prior = [state(name, START, ones, ones, 4) for name in ("kept", "cut", "cut-later", "idle")]
    second = datetime.timedelta(seconds=1)
    rows = [
        sample("kept", START + gap, fives),
        sample("cut", START + longer, fives),
        sample("cut-later", START + second, fives, sequence=2),
        sample("cut-later", START + second + longer, (8.0,) * 4, sequence=3),
        sample("fresh", START, fives, sequence=1),
        sample("fresh", START + longer, ones, sequence=2),
        sample("fresh", START + longer + second, (3.0,) * 4, sequence=3),
    ]
    result = folded(spark, rows, prior)
    figures = {
        name: (row["short_num_samples"], row["long_msg_rate_in"], row["new_samples"]) for name, row in result.items()
    }
    assert figures == {
        "kept": (5, pytest.approx(9 / 5), 1),
        "cut": (1, 5.0, 1),
        "cut-later": (1, 8.0, 2),
        "idle": (4, 1.0, 0),
        "fresh": (2, 2.0, 3),
    }


def test_samples_of_one_instant_are_ordered_by_broker_incarnation_and_sequence(spark: SparkSession) -> None:
    """Eleven samples at one time: the order decides which of them the short window decays."""
    rng = random.Random(10)
    keys = [(f"b{n // 4}", f"i{n // 2 % 2}", n % 2) for n in range(11)]
    samples = [
        sample("x", START, random_figures(rng), broker=broker, incarnation=incarnation, sequence=sequence)
        for broker, incarnation, sequence in sorted(keys)
    ]
    shuffled = rng.sample(samples, len(samples))
    assert_windows(folded(spark, shuffled)["x"], samples)


def test_no_samples_and_no_prior_give_no_windows(spark: SparkSession) -> None:
    """Empty input is an ordinary case."""
    assert folded(spark, []) == {}
    assert folded(spark, [], []) == {}
