"""The tables as of a batch or a time, after any compaction; and what is refused in plain words."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.local_sql import run_local_sql
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.time_travel import TimeTravelError, batch_as_of, check_batch, parts_as_of
from support.data_of_before import copied
from support.table_engines import example_row

TABLE: Final = "broker_data"
START: Final = datetime.datetime(2026, 1, 1, 23, 50, tzinfo=datetime.UTC)
MINUTE: Final = datetime.timedelta(minutes=1)


def write(layout: PipelineLayout, batch: int, rows: int) -> None:
    """Some rows of a batch, numbered by it, of its minute; the first ones are of another date than the last."""
    found = [example_row(TABLE, batch, START + batch * MINUTE) for _ in range(rows)]
    Tables(layout).write(TABLE, batch, pa.Table.from_pylist(found, schema=TABLES[TABLE].arrow_schema))


def compact(layout: PipelineLayout, batch: int, newest: str) -> None:
    kept = CompactionSettings(run=3, grace_s=0.0, retention_days=None)
    keep_house(layout, completed_batch=batch, newest_date=newest, now_s=4e9, settings=kept)


def counts(layout: PipelineLayout, batch: int) -> list[tuple[int, int]]:
    query = f"select long_term_msg_rate_in::int as batch, count(*) as rows from {TABLE} group by 1 order by 1"
    rows = run_local_sql(layout, query, as_of_batch=batch)
    return [(row["batch"], row["rows"]) for row in rows.to_pylist()]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=14), st.booleans())
def test_each_batch_is_read_as_it_left_the_tables(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, bool]], is_over: bool
) -> None:
    """Batches of no rows to some, compactions among them, and at the end of files that were compacted before."""
    layout = PipelineLayout.of(tmp_path_factory.mktemp("data"))
    for batch, (rows, is_compacted) in enumerate(batches):
        write(layout, batch, rows)
        if is_compacted:
            compact(layout, batch, "2026-01-02")
    if is_over:
        compact(layout, len(batches), "2026-01-03")
    left = [(batch, rows) for batch, (rows, _) in enumerate(batches) if rows]
    if not left:
        with pytest.raises(TimeTravelError, match="there are no tables"):
            check_batch(layout, 0)
        return
    for batch in range(left[0][0], left[-1][0] + 1):
        assert counts(layout, batch) == [found for found in left if found[0] <= batch]
    for batch, _ in left:
        at_ms = round((START + batch * MINUTE).timestamp() * 1000)
        assert batch_as_of(layout, at_ms) == batch
        assert batch_as_of(layout, at_ms + 59_999) >= batch


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    layout = PipelineLayout.of(tmp_path)
    for batch in range(2, 6):
        write(layout, batch, 1)
    for batch in (1, 6):
        with pytest.raises(TimeTravelError, match=f"there is no batch {batch}: the tables have the batches 2 to 5"):
            check_batch(layout, batch)
    with pytest.raises(TimeTravelError, match="no batch of that time or before: ask for"):
        batch_as_of(layout, 0)


def test_a_file_that_an_earlier_release_compacted_is_not_divided(tmp_path: Path) -> None:
    """The stored folder has one of batches 0 and 1: known as of 1, not as of 0."""
    layout = copied(tmp_path / "cluster")
    with pytest.raises(
        TimeTravelError,
        match=r"has the batches 0 to 1, but does not record .* ask for the tables after batch 1 or a later",
    ):
        parts_as_of(layout, TABLE, 0)
    assert len(parts_as_of(layout, TABLE, 1)) == 1
    assert len(parts_as_of(layout, TABLE, 2)) == 2


def test_the_command_asks_tables_of_before(tmp_path: Path) -> None:
    layout = PipelineLayout.of(tmp_path / "data")
    layout.create()
    for batch in range(4):
        write(layout, batch, 2)
    compact(layout, 3, "2026-01-01")
    assert [pq.ParquetFile(file).metadata.num_rows for file in live_files(layout.tables, TABLE)] == [6, 2]
    ask = ["history", "sql", f"select count(*) as n from {TABLE}", "--data", str(layout.root), "--format", "csv"]

    def answer(*options: str) -> str:
        return CliRunner().invoke(main, [*ask, *options]).output.strip()

    assert answer() == "n\n8"
    assert answer("--as-of-batch", "1") == "n\n4"
    assert answer("--as-of", "2026-01-01T23:52:30") == "n\n6"
    assert "there is no batch 9: the tables have the batches 0 to 3" in answer("--as-of-batch", "9")
    assert "not both" in answer("--as-of-batch", "1", "--as-of", "1h")
    assert "Spark cannot read earlier batches" in answer("--as-of-batch", "1", "--engine", "spark")
