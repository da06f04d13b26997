"""Make few large files of the many small ones that batches write, and delete old dates.

**Compaction** reads a run of neighbouring files of one date, writes their rows into one file under `_staging`, and
lets it appear by a rename, under a name that says which batches are in it (see `pipeline.tables`). From that moment it
stands for its sources; they are deleted when it is `grace_s` old, so that a reader who listed the folder before can
still open them. A kill at any moment leaves an unfinished file in `_staging`, or sources that will be deleted later.
Batches that might run again are not touched.

Files of the newest date are merged by `run` at a time, each row thus about once; those of a date that is over once
more, into files of up to `file_bytes`.

**Retention** moves a whole date out of sight by one rename and deletes it.

A reader that lists `*.parquet` by itself sees rows twice for the time of grace; `live_files` and `read_table` do not.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from barycenter.pipeline.layout import sync
from barycenter.pipeline.schemas import TABLES
from barycenter.pipeline.tables import (
    DATE_PREFIX,
    STAGING,
    TableFile,
    date_folders,
    files_of_date,
    table_file_name,
    without_replaced,
)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """`retention_days` counts back from the newest date of reports; None keeps everything."""

    run: int = 32
    file_bytes: int = 128 * 2**20
    grace_s: float = 900.0
    retention_days: int | None = 30
    every_s: float = 60.0


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """What one round did, in numbers of files and dates."""

    merged_files: int = 0
    deleted_files: int = 0
    deleted_dates: int = 0


def keep_house(
    root: Path, *, completed_batch: int, newest_date: str, now_s: float, settings: CompactionSettings
) -> HousekeepingResult:
    """Compact and delete what is due in all tables.

    `completed_batch` is the id of the last batch that will not run again, `newest_date` the date (yyyy-mm-dd) of the
    newest report, `now_s` the time by the clock of the file system.
    """
    merged = deleted = dates = 0
    for name in TABLES:
        for folder in date_folders(root, name):
            date = folder.name.removeprefix(DATE_PREFIX)
            if settings.retention_days is not None and date < _days_before(newest_date, settings.retention_days):
                _delete_date(root, name, folder)
                dates += 1
                continue
            deleted += delete_replaced(folder, now_s=now_s, grace_s=settings.grace_s)
            files = [f for f in without_replaced(files_of_date(folder)) if f.last <= completed_batch]
            for run in list(_runs(files, settings, is_over=date < newest_date)):
                merge_files(root, name, run)
                merged += len(run)
    return HousekeepingResult(merged, deleted, dates)


def delete_replaced(folder: Path, *, now_s: float, grace_s: float) -> int:
    """Delete the files of a date for which one older than `grace_s` stands; return how many."""
    files = files_of_date(folder)
    live = without_replaced(files)
    deleted = 0
    for file in files:
        for other in live:
            if other.stands_for(file) and now_s - other.path.stat().st_mtime >= grace_s:
                file.path.unlink()
                deleted += 1
    return deleted


def merge_files(root: Path, name: str, files: list[TableFile]) -> Path:
    """Write the rows of neighbouring `files` of one date into one file that stands for them, and return it."""
    staging = root / STAGING
    staging.mkdir(parents=True, exist_ok=True)
    target = files[0].path.with_name(table_file_name(files[0].first, files[-1].last))
    unfinished = staging / f"{name}-{files[0].path.parent.name}-{target.stem}-{os.getpid()}.parquet"
    schema = TABLES[name].arrow_schema
    with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for table in _in_pieces(files):
            writer.write_table(table.cast(schema))
    sync(unfinished)
    unfinished.replace(target)
    return target


_PIECE_BYTES = 32 * 2**20


def _in_pieces(files: list[TableFile]) -> Iterator[pa.Table]:
    """The rows of `files` as tables of some ten megabytes, each a row group: memory is bounded, groups are not tiny."""
    piece: list[pa.Table] = []
    for file in files:
        with pq.ParquetFile(file.path) as source:
            for group in range(source.num_row_groups):
                piece.append(source.read_row_group(group))
                if sum(table.nbytes for table in piece) >= _PIECE_BYTES:
                    yield pa.concat_tables(piece)
                    piece = []
    if piece:
        yield pa.concat_tables(piece)


def _runs(files: list[TableFile], settings: CompactionSettings, *, is_over: bool) -> Iterator[list[TableFile]]:
    """The runs of neighbours to merge: of a date that goes on only full ones, and only of files never merged."""
    least = 2 if is_over else settings.run
    run: list[TableFile] = []
    size = 0
    for file in files:
        bytes_ = file.path.stat().st_size
        is_large = bytes_ >= settings.file_bytes // 2 if is_over else file.first != file.last
        if is_large or (run and size + bytes_ > settings.file_bytes):
            if len(run) >= least:
                yield run
            run, size = [], 0
        if not is_large:
            run.append(file)
            size += bytes_
            if not is_over and len(run) == settings.run:
                yield run
                run, size = [], 0
    if len(run) >= least:
        yield run


def _delete_date(root: Path, name: str, folder: Path) -> None:
    staging = root / STAGING
    staging.mkdir(parents=True, exist_ok=True)
    hidden = staging / f"{name}-{folder.name}-{os.getpid()}"
    shutil.rmtree(hidden, ignore_errors=True)
    folder.rename(hidden)
    shutil.rmtree(hidden)


def _days_before(date: str, days: int) -> str:
    return (datetime.date.fromisoformat(date) - datetime.timedelta(days=days)).isoformat()
