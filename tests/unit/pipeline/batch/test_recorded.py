"""Averages computed again next to the recorded rows."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_barycenter.pipeline.batch.recorded import compare_with_recorded
from pulsar_barycenter.pipeline.storage.files import LocalStorage

AT = [datetime.datetime(2026, 1, 1, 0, 0, second, tzinfo=datetime.UTC) for second in range(3)]


def rows(*figures: tuple[str, int, float]) -> pa.Table:
    """(bundle, second, rate)"""
    return pa.table(
        {
            "bundle": [name for name, _, _ in figures],
            "as_of": pa.array([AT[second] for _, second, _ in figures], pa.timestamp("us", "UTC")),
            "rate": [rate for _, _, rate in figures],
        }
    )


def recorded(folder: Path, *batches: pa.Table) -> list[str]:
    files = []
    for number, batch in enumerate(batches):
        files.append(f"batch-{number:012d}.parquet")
        pq.write_table(batch, folder / files[-1])
    return files


def test_the_row_of_the_same_time_counts_and_not_the_newest(tmp_path: Path) -> None:
    """The pipeline went on after the samples were listed: its newer row of `a` is passed over."""
    files = recorded(tmp_path, rows(("a", 0, 1.0), ("b", 0, 5.0)), rows(("a", 1, 2.0)), rows(("a", 2, 3.0)))
    found = compare_with_recorded(rows(("a", 1, 2.0), ("b", 0, 5.0)), LocalStorage(tmp_path), files, "bundle")
    assert (found.rows, found.matched, found.greatest) == (2, 2, None)
    assert found.agrees(0.0)


def test_the_greatest_difference_is_relative_and_named(tmp_path: Path) -> None:
    files = recorded(tmp_path, rows(("a", 0, 1000.0), ("b", 0, 1.0), ("c", 0, 0.0)))
    found = compare_with_recorded(
        rows(("a", 0, 1001.0), ("b", 0, 1.5), ("c", 0, 0.0)), LocalStorage(tmp_path), files, "bundle"
    )
    assert found.greatest is not None
    assert (found.greatest.name, found.greatest.column) == ("b", "rate")
    assert found.greatest.relative == pytest.approx(1 / 3)
    assert found.agrees(0.34)
    assert not found.agrees(0.33)


def test_a_row_that_was_never_recorded_is_a_difference(tmp_path: Path) -> None:
    files = recorded(tmp_path, rows(("a", 0, 1.0)))
    found = compare_with_recorded(rows(("a", 0, 1.0), ("b", 1, 1.0)), LocalStorage(tmp_path), files, "bundle")
    assert (found.rows, found.matched, found.greatest) == (2, 1, None)
    assert not found.agrees(1.0)


def test_a_report_without_bundles_makes_the_recorded_time_a_later_one(tmp_path: Path) -> None:
    files = recorded(tmp_path, rows(("a", 0, 1.0)), rows(("a", 2, 7.0)))
    found = compare_with_recorded(rows(("a", 1, 7.0)), LocalStorage(tmp_path), files, "bundle")
    assert (found.matched, found.greatest) == (1, None)


def test_rows_recorded_before_all_that_was_computed_do_not_count(tmp_path: Path) -> None:
    """The newest report waits for the one before it, and only the logs have it yet."""
    files = recorded(tmp_path, rows(("a", 0, 1.0), ("b", 1, 1.0)))
    found = compare_with_recorded(rows(("a", 2, 1.0)), LocalStorage(tmp_path), files, "bundle")
    assert (found.rows, found.matched, found.greatest) == (1, 0, None)


def test_nothing_recorded_is_told_as_such(tmp_path: Path) -> None:
    found = compare_with_recorded(rows(("a", 0, 1.0)), LocalStorage(tmp_path), [], "bundle")
    assert (found.rows, found.matched) == (1, 0)
