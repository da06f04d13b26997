"""Merges the small files that batches write into few large ones (compaction), and deletes old dates (retention).

**Compaction** reads neighbouring files of one date and writes their rows into one file. That file appears as a whole,
under a name with the ids of its batches (see `tables.files`). From that moment it replaces its sources. They are
deleted when it is `grace_s` old, so that a reader that listed the folder before can still open them. A kill at any
moment leaves an unfinished file, or sources that will be deleted later. Files of batches that may run again are not
merged. If the table has a log, one commit replaces the sources by the new file.

Files of the newest date are merged `run` at a time, so that each row is copied about once. When the date is over, its
files are merged once more, into files of up to `file_bytes`.

**Retention** deletes a whole date; in an object store, which has no folders, file by file.

A reader that lists `*.parquet` by itself finds rows twice until the sources are deleted: after `grace_s`, or when the
pipeline ends. `files.live_files`, `spark.table_reader.read_table` and readers of a log find each row once.
"""

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import (
    date_folders,
    date_of,
    files_of_date,
    table_file_name,
    with_lacking_columns,
    without_replaced,
)
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError, opened_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.segments import Segment, as_metadata, segments_of
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableFile, TableLog


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings that decide when files are merged and deleted.

    `run` is the number of small files that are merged at once. `file_bytes` is the maximum size of a merged file,
    computed as the total size of the files that it replaces. A replaced file is deleted `grace_s` seconds or more after
    the merged file was written. `retention_days`: dates that are more than this number of days before the date of the
    newest report are deleted; None: all dates are kept. `every_s` is the time in seconds between two runs of
    `keep_house`.
    """

    run: int = 32
    file_bytes: int = 128 * 2**20
    grace_s: float = 900.0
    retention_days: int | None = 30
    every_s: float = 60.0


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """What one call of `keep_house` did: the numbers of files that it merged, of replaced files that it deleted, and of
    dates that it deleted.
    """

    merged_files: int = 0
    deleted_files: int = 0
    deleted_dates: int = 0


def keep_house(
    storage: Storage,
    *,
    completed_batch: int,
    newest_date: str,
    now_s: float,
    settings: CompactionSettings,
    table_log: TableLog = NO_LOG,
) -> HousekeepingResult:
    """In all tables, merge small files, delete files that merged ones have replaced, and delete old dates. `settings`
    decide which.

    `completed_batch` is the id of the last batch that will not run again: files of later batches are not merged.
    `newest_date` is the date (yyyy-mm-dd) of the newest report, `now_s` the present time (epoch s) by the clock of the
    file system.

    Raises:
        DamagedTableError: a file cannot be read. Raised at the end: all other files are merged and deleted first.
        OSError: a file cannot be written or deleted.
    """
    merged = deleted = dates = 0
    damage: DamagedTableError | None = None
    for name in TABLES:
        for folder in date_folders(storage, name):
            date = date_of(folder)
            if settings.retention_days is not None and date < _days_before(newest_date, settings.retention_days):
                table_log.settle(name, folder, ())
                storage.delete(folder)
                dates += 1
                continue
            files = files_of_date(storage, folder)
            live = without_replaced(files)
            table_log.settle(name, folder, live)  # an earlier compaction may have been killed before its commit
            deleted += _delete_replaced(storage, files, live, now_s=now_s, grace_s=settings.grace_s)
            completed = [file for file in live if file.last <= completed_batch]
            for run in list(_runs(completed, settings, is_over=date < newest_date)):
                try:
                    merge_files(storage, name, run)
                except DamagedTableError as error:
                    damage = error
                else:
                    merged += len(run)
                    table_log.settle(name, folder, without_replaced(files_of_date(storage, folder)))
    if damage is not None:
        raise damage
    return HousekeepingResult(merged, deleted, dates)


def delete_replaced(storage: Storage) -> int:
    """Delete all files of the tables that a merged file has replaced, however short ago that was; return how many.

    The pipeline calls this when it ends. Otherwise a reader of all `*.parquet` files would find their rows twice.
    """
    deleted = 0
    for name in TABLES:
        for folder in date_folders(storage, name):
            files = files_of_date(storage, folder)
            deleted += _delete_replaced(storage, files, without_replaced(files), now_s=math.inf, grace_s=0.0)
    return deleted


def _delete_replaced(
    storage: Storage, files: list[TableFile], live: list[TableFile], *, now_s: float, grace_s: float
) -> int:
    """Delete those of `files` (all of one date) that a merged file in `live` replaces, if the merged file was written
    at least `grace_s` seconds before `now_s`. Return how many were deleted.
    """
    old = [file for file in live if file.first != file.last and now_s - file.modified_s >= grace_s]
    replaced = [file for file in files if any(other.stands_for(file) for other in old)]
    for file in replaced:
        storage.delete(file.path)
    return len(replaced)


def merge_files(storage: Storage, name: str, files: list[TableFile]) -> None:
    """Write the rows of `files`, which have consecutive batches of one date, into one new file. From then on the new
    file replaces them; they are not deleted here.
    """
    folder = files[0].path.rpartition("/")[0]
    schema = TABLES[name].arrow_schema
    segments: list[Segment] = []
    with (
        storage.new_file(f"{folder}/{table_file_name(files[0].first, files[-1].last)}") as file,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for table in _in_pieces(storage, name, files, segments):
            writer.write_table(table.cast(schema))
        writer.add_key_value_metadata(as_metadata(segments))


_PIECE_BYTES = 32 * 2**20


def _in_pieces(storage: Storage, name: str, files: list[TableFile], segments: list[Segment]) -> Iterator[pa.Table]:
    """Yield the rows of `files` as tables of about `_PIECE_BYTES`, so that memory is bounded. Each table becomes one
    row group of the merged file.

    Append to `segments`, for each of `files`, which of its rows were written by which batches of the pipeline.
    """
    piece: list[pa.Table] = []
    for file in files:
        with opened_table(storage, file.path) as source:
            segments += segments_of(file, source)
            for group in range(source.num_row_groups):
                piece.append(with_lacking_columns(source.read_row_group(group), name))
                if sum(table.nbytes for table in piece) >= _PIECE_BYTES:
                    yield pa.concat_tables(piece)
                    piece = []
    if piece:
        yield pa.concat_tables(piece)


def _runs(files: list[TableFile], settings: CompactionSettings, *, is_over: bool) -> Iterator[list[TableFile]]:
    """Yield groups of consecutive files of one date; each group is to be merged into one file. The files of a group
    have at most `settings.file_bytes` together.

    `is_over`: no more rows of the date will come. Then a group has two files or more, and files with at least half of
    `settings.file_bytes` are left as they are. If more rows may come, a group has exactly `settings.run` files, and
    files that are the result of a merge are left as they are.
    """
    least = 2 if is_over else settings.run
    run: list[TableFile] = []
    size = 0
    for file in files:
        bytes_ = file.size
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


def _days_before(date: str, days: int) -> str:
    return (datetime.date.fromisoformat(date) - datetime.timedelta(days=days)).isoformat()
