"""The windows folded anew from files of samples, by arrays, against the sequential definition."""

import datetime
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.windows import LONG_SAMPLES, SHORT_SAMPLES, fold
from pulsar_barycenter.pipeline.batch.refold import refold, refold_here
from pulsar_barycenter.pipeline.folds.stretches import COUNTED, FOLDED, StretchFold, count_samples, pieces_of
from pulsar_barycenter.pipeline.tables.schemas import FIGURES

pytestmark = pytest.mark.pipeline

START_MS = 1_790_000_000_000
SIZES = {"short": SHORT_SAMPLES, "long": LONG_SAMPLES}
Row = dict[str, Any]


def make_rows(rng: random.Random, *, reports: int, bundles: int, gap_ms: int) -> list[Row]:
    """Reports of two brokers in the order of time; bundles move between them, fall silent, and come back."""
    owner = {f"t/n/0x{i:08x}_0x{i + 1:08x}": rng.choice("ab") for i in range(bundles)}
    silent_until = dict.fromkeys(owner, 0)
    rows: list[Row] = []
    for number in range(reports):
        at = START_MS + number * 1000
        for name in owner:
            if rng.random() < 0.02:
                silent_until[name] = at + rng.choice((gap_ms, gap_ms + 2000))
            if rng.random() < 0.05:
                owner[name] = rng.choice("ab")
        broker = rng.choice("ab")
        for name in rng.sample(sorted(owner), len(owner)):
            if owner[name] == broker and at >= silent_until[name]:
                row: Row = {"bundle": name, "broker": broker, "incarnation": "i", "sequence": number + 1}
                row |= {"reported_at": datetime.datetime.fromtimestamp(at / 1000, datetime.UTC)}
                row |= {figure: rng.choice((0.0, rng.expovariate(1e-3))) for figure in FIGURES}
                rows.append(row | {"topics": rng.randrange(9), "consumers": 1, "producers": 1})
    return rows


def write_files(folder: Path, rows: list[Row], count: int) -> list[str]:
    """Cut `rows` into `count` files of small row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // count)
    files = []
    for number in range(0, len(rows), size):
        file = folder / f"batch-{number:06d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[number : number + size]), file, row_group_size=37)
        files.append(str(file))
    return files


def sequential(rows: list[Row], gap_ms: int) -> dict[str, Row]:
    """The recurrence, sample by sample, in the order of (time, broker, incarnation, sequence)."""
    state: dict[str, Row] = {}
    for row in sorted(rows, key=lambda r: (r["reported_at"], r["broker"], r["incarnation"], r["sequence"])):
        known = state.get(row["bundle"])
        if known is None or row["reported_at"] - known["as_of"] > datetime.timedelta(milliseconds=gap_ms):
            known = {f"{window}_num_samples": 0 for window in SIZES}
            known |= {f"{window}_{figure}": 0.0 for window in SIZES for figure in FIGURES}
        after: Row = {"as_of": row["reported_at"], "topics": row["topics"]}
        for window, size in SIZES.items():
            count = known[f"{window}_num_samples"]
            for figure in FIGURES:
                average, n = fold(known[f"{window}_{figure}"], count, row[figure], size)
                after |= {f"{window}_{figure}": average, f"{window}_num_samples": n}
        state[row["bundle"]] = after
    newest = max(known["as_of"] for known in state.values())
    return {name: k for name, k in state.items() if newest - k["as_of"] <= datetime.timedelta(milliseconds=gap_ms)}


def assert_same(found: pa.Table, expected: dict[str, Row]) -> None:
    rows = {row.pop("bundle"): row for row in found.to_pylist()}
    assert rows.keys() == expected.keys()
    for name, row in rows.items():
        for column, value in expected[name].items():
            wanted = pytest.approx(value, rel=1e-9, abs=1e-200) if isinstance(value, float) else value
            assert row[column] == wanted, (name, column)


@pytest.mark.parametrize(("seed", "stretches"), [(1, 1), (2, 2), (3, 3), (4, 5)])
def test_files_in_the_order_of_time_fold_as_one_by_one(
    spark: SparkSession, tmp_path: Path, seed: int, stretches: int
) -> None:
    """Windows that grow, that are full, and that were cut by silences, whatever the number of tasks."""
    rows = make_rows(random.Random(seed), reports=2600, bundles=4, gap_ms=60_000)
    found = refold(spark, write_files(tmp_path, rows, 11), history_gap_ms=60_000, stretches=stretches)
    assert found.late == 0
    assert_same(found.bundles, sequential(rows, 60_000))


def test_bundles_whose_samples_came_late_are_sorted(spark: SparkSession, tmp_path: Path) -> None:
    """A late sample within a file, and one in a later file than newer ones; the other bundles need no sorting."""
    rows = make_rows(random.Random(5), reports=300, bundles=12, gap_ms=20_000)
    rows.insert(140, rows.pop(100))
    rows.append(rows.pop(400))
    found = refold(spark, write_files(tmp_path, rows, 7), history_gap_ms=20_000, stretches=3)
    assert 1 <= found.late <= 2
    assert_same(found.bundles, sequential(rows, 20_000))


@pytest.mark.parametrize(("seed", "stretches"), [(11, 1), (12, 4)])
def test_what_spark_reads_folds_as_one_by_one_whatever_its_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, stretches: int
) -> None:
    """As at an address that only Spark reads; rows lie anywhere, times are shared by rows at the ends of stretches."""
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold.local_folder", lambda address: None)
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold._PIECE_ROWS", 100)
    rows = make_rows(random.Random(seed), reports=700, bundles=4, gap_ms=60_000)
    files = write_files(tmp_path / "in order", rows, 5)
    random.Random(seed).shuffle(rows)
    mixed = write_files(tmp_path / "mixed", rows, 5)
    expected = refold(spark, files, history_gap_ms=60_000, stretches=1)
    found = refold(spark, mixed, history_gap_ms=60_000, stretches=stretches)
    assert found.late == 0
    assert_same(found.bundles, sequential(rows, 60_000))
    same = {row.pop("broker"): row for row in expected.brokers.to_pylist()}
    for row in found.brokers.to_pylist():
        wanted = same.pop(row.pop("broker"))
        assert row.pop("as_of") == wanted.pop("as_of")
        assert row == pytest.approx(wanted, rel=1e-9)
    assert not same


@pytest.mark.parametrize(("seed", "stretches"), [(21, 1), (22, 1), (23, 3)])
def test_with_and_without_spark_the_bits_are_the_same(
    spark: SparkSession, tmp_path: Path, seed: int, stretches: int
) -> None:
    """Also of bundles whose samples came late: within a file, in another file, and at the time of another sample."""
    rng = random.Random(seed)
    rows = make_rows(rng, reports=500, bundles=12, gap_ms=20_000)
    for _ in range(rng.randrange(4)):
        rows.insert(rng.randrange(len(rows)), rows.pop(rng.randrange(len(rows))))
    twin = rng.choice(rows)
    rows.insert(0, twin | {"broker": "c", "incarnation": "j"})
    files = write_files(tmp_path, rows, 7)
    found = refold_here(files, history_gap_ms=20_000, stretches=stretches)
    expected = refold(spark, files, history_gap_ms=20_000, stretches=stretches)
    assert found.late == expected.late >= 1
    assert_same(found.bundles, sequential(rows, 20_000))
    assert found.bundles.cast(expected.bundles.schema).equals(expected.bundles)
    assert found.brokers.equals(expected.brokers)


def test_a_small_history_is_one_stretch_however_many_cores_spark_has(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path, make_rows(random.Random(24), reports=900, bundles=5, gap_ms=60_000), 9)
    assert spark.sparkContext.defaultParallelism > 1
    expected = refold_here(files)
    assert refold(spark, files).bundles.equals(expected.bundles)
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold.SMALL_HISTORY", 100)
    found = refold(spark, files).bundles
    assert not found.equals(expected.bundles), "two stretches round as one"
    assert found.equals(refold_here(files, stretches=spark.sparkContext.defaultParallelism).bundles)


def test_brokers_are_averaged_over_the_bundles_of_their_newest_report(spark: SparkSession, tmp_path: Path) -> None:
    """A bundle counts for each broker whose newest report names it, also for one that has lost it since."""
    rows = make_rows(random.Random(6), reports=400, bundles=9, gap_ms=20_000)
    found = refold(spark, write_files(tmp_path, rows, 5), history_gap_ms=20_000, stretches=2)
    windows = sequential(rows, 20_000)
    newest = {broker: max(row["sequence"] for row in rows if row["broker"] == broker) for broker in "ab"}
    members = defaultdict(list)
    for row in rows:
        if row["sequence"] == newest[row["broker"]]:
            members[row["broker"]].append(row["bundle"])
    assert {row["broker"]: row["long_term_msg_rate_in"] for row in found.brokers.to_pylist()} == {
        broker: pytest.approx(sum(windows[name]["long_msg_rate_in"] for name in names), rel=1e-9)
        for broker, names in members.items()
    }


def test_files_without_rows_are_refused(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be said of nothing."""
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.Table.from_pylist(make_rows(random.Random(1), reports=9, bundles=2, gap_ms=1000))[:0], empty)
    with pytest.raises(ValueError, match="no rows"):
        refold(spark, [str(empty)])
    with pytest.raises(ValueError, match="no rows"):
        refold_here([str(empty)])
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold.local_folder", lambda address: None)
    with pytest.raises(ValueError, match="no rows"):
        refold(spark, [str(empty)])


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), cut=st.floats(0, 1), reports=st.integers(2, 60))
def test_stretches_compose_whatever_was_before(tmp_path_factory: Any, seed: int, cut: float, reports: int) -> None:
    """Share times the average before, plus the sum, is the average after, for both windows and after a silence."""
    rows = make_rows(random.Random(seed), reports=reports, bundles=2, gap_ms=3000)
    place = int(cut * len(rows))
    before, after = rows[:place], rows[place:]
    if not before or not after:
        return
    folder = tmp_path_factory.mktemp("stretch")
    counted = count_samples(pieces_of(write_files(folder / "1", before, 1), COUNTED), 3000)
    stretch = StretchFold(counted.select(["bundle", "samples", "last_at"]), 3000).fold(
        pieces_of(write_files(folder / "2", after, 2), FOLDED)
    )
    known, whole = windows_of_each(before, 3000), windows_of_each(rows, 3000)
    assert {row["bundle"] for row in stretch.to_pylist()} == {row["bundle"] for row in after}
    for row in stretch.to_pylist():
        name = row["bundle"]
        for size in SIZES.values():
            window = "short" if size == SHORT_SAMPLES else "long"
            for figure in FIGURES:
                average = known.get(name, {}).get(f"{window}_{figure}", 0.0)
                folded = row[f"share_{size}"] * average + row[f"sum_{size}_{figure}"]
                assert folded == pytest.approx(whole[name][f"{window}_{figure}"], rel=1e-9, abs=1e-200)


def windows_of_each(rows: list[Row], gap_ms: int) -> dict[str, Row]:
    """The windows after `rows`, also of bundles that have been silent since."""
    found: dict[str, Row] = {}
    for name in {row["bundle"] for row in rows}:
        found |= sequential([row for row in rows if row["bundle"] == name], gap_ms)
    return found
