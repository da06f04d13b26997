"""Compaction and retention: a reader finds each row once, at every step and after a crash at any of them."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES

TABLE = "broker_data"
DATES = ("2026-01-01", "2026-01-02")
SETTINGS = CompactionSettings(run=4, grace_s=100.0, retention_days=1)
LONG_AGO_S, LATE_S = 0.0, 4e9


class CrashError(Exception):
    pass


def write_batches(root: Path, batches: range) -> None:
    """Write one row per date in each batch, distinguished by a value."""
    schema = TABLES[TABLE].arrow_schema
    for batch in batches:
        row: dict[str, Any] = {name: float(batch) for name in schema.names} | {"broker": "b:1", "as_of": 0}
        table = pa.Table.from_pylist([row] * len(DATES), schema=schema)
        Tables(LocalStorage(root)).write(TABLE, batch, table, dates=DATES)


def rows(files: list[Path]) -> list[tuple[str, float]]:
    return sorted(
        (file.parent.name, value)
        for file in files
        for value in pq.read_table(file, partitioning=None).column("long_term_msg_rate_in").to_pylist()
    )


def expected(batches: range, dates: tuple[str, ...] = DATES) -> list[tuple[str, float]]:
    return sorted((f"date={date}", float(batch)) for date in dates for batch in batches)


def keep(root: Path, *, now_s: float = LONG_AGO_S, completed: int = 9, newest: str = DATES[1]) -> None:
    keep_house(LocalStorage(root), completed_batch=completed, newest_date=newest, now_s=now_s, settings=SETTINGS)


def keep_twice(root: Path) -> None:
    """Merge, and delete the sources when their time of grace is over."""
    keep(root)
    keep(root, now_s=LATE_S)


def at_each_step(patch: pytest.MonkeyPatch, hook: Callable[[], None]) -> None:
    """Call `hook` before and after each change that compaction makes to a folder."""
    for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "rename"), (os, "fsync")):
        original = getattr(owner, name)

        def wrapped(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
            hook()
            result = _original(*args, **kwargs)
            hook()
            return result

        patch.setattr(owner, name, wrapped)


def test_readers_find_each_row_once_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds, the second of which deletes; a listing made before a round can be read after its merges."""
    write_batches(tmp_path, range(11))
    early = live_files(tmp_path / "tables", TABLE)
    seen = []
    with monkeypatch.context() as patch:
        at_each_step(patch, lambda: seen.append(rows(live_files(tmp_path / "tables", TABLE))))
        keep(tmp_path)
        assert rows(early) == expected(range(11))
        keep(tmp_path, now_s=LATE_S)
    assert len(seen) > 20
    assert all(each == expected(range(11)) for each in seen)
    names = [file.name for file in live_files(tmp_path / "tables", TABLE)]
    merged = ["batch-000000000000-000000000009.parquet", "batch-000000000010.parquet"]
    running = ["batch-000000000000-000000000003.parquet", "batch-000000000004-000000000007.parquet"]
    running += [f"batch-{number:012d}.parquet" for number in (8, 9, 10)]
    assert names == merged + running
    assert len(list((tmp_path / "tables" / TABLE).rglob("*.parquet"))) == len(names)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("step", range(24))
def test_a_crash_at_any_step_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The process dies at one of the changes of either round; what is there reads the same, and is finished later."""
    write_batches(tmp_path, range(10))
    count = itertools.count()

    def crash() -> None:
        if next(count) == step:
            raise CrashError

    with monkeypatch.context() as patch:
        at_each_step(patch, crash)
        with pytest.raises(CrashError):
            keep_twice(tmp_path)
    assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(10))
    Tables(LocalStorage(tmp_path)).clear_unfinished(9)
    for now_s in (LONG_AGO_S, LATE_S):
        keep(tmp_path, now_s=now_s)
        assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(10))
    assert len(list((tmp_path / "tables" / TABLE).rglob("*.parquet"))) == 1 + 2 + 2


def test_batches_that_may_run_again_are_left_alone(tmp_path: Path) -> None:
    """The last batch may write its file once more; merged, its rows would be there twice."""
    write_batches(tmp_path, range(8))
    keep(tmp_path, completed=6)
    write_batches(tmp_path, range(7, 8))
    keep(tmp_path, now_s=LATE_S, completed=6)
    assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(8))


def test_files_of_a_batch_that_never_finished_are_removed_at_the_start(tmp_path: Path) -> None:
    """Batches 0 to 4 have a state; number 5 was killed before its own."""
    write_batches(tmp_path, range(6))
    Tables(LocalStorage(tmp_path)).clear_unfinished(4)
    assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(5))


def test_old_dates_are_deleted_whole(tmp_path: Path) -> None:
    """A date as many days back as are kept stays; the next one goes with all its files."""
    write_batches(tmp_path, range(3))
    keep(tmp_path)
    assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(3))
    keep(tmp_path, newest="2026-01-03")
    assert rows(live_files(tmp_path / "tables", TABLE)) == expected(range(3), DATES[1:])
    assert not (tmp_path / "tables" / TABLE / f"date={DATES[0]}").exists()
    assert [folder.name for folder in (tmp_path / "tables" / TABLE).iterdir()] == [f"date={DATES[1]}"]


def test_files_that_lack_a_column_are_merged_with_nulls_in_it(tmp_path: Path) -> None:
    """As those of a version before the one that writes the column, among newer ones."""
    schema = TABLES["decisions"].arrow_schema
    for batch in range(4):
        blank = {name: "" if pa.types.is_string(schema.field(name).type) else batch for name in schema.names}
        table = pa.Table.from_pylist([blank | {"at": 0, "manager": "modular"}], schema=schema)
        Tables(LocalStorage(tmp_path)).write("decisions", batch, table, dates=[DATES[0]])
    for file in live_files(tmp_path / "tables", "decisions")[:2]:
        pq.write_table(pq.ParquetFile(file).read().drop_columns(["manager"]), file)
    keep_twice(tmp_path)
    (merged,) = live_files(tmp_path / "tables", "decisions")
    found = pq.read_table(merged, partitioning=None)
    assert found.schema.equals(schema)
    assert sorted(zip(*(found.column(name).to_pylist() for name in ("number", "manager")), strict=True), key=str) == [
        *((number, None) for number in (0, 1)),
        *((number, "modular") for number in (2, 3)),
    ]
