"""Make few large files of the many small ones that batches write, and delete old dates.

**Compaction** reads a run of neighbouring files of one date, writes their rows into one file, and lets it appear
whole, under a name that says which batches are in it (see `tables.files`). From that moment it stands for its
sources; they are deleted when it is `grace_s` old, so that a reader who listed the folder before can still open them. A
kill at any moment leaves an unfinished file, or sources that will be deleted later. Batches that might run again are
not touched. Where the table has a log, one commit puts the new file in the place of its sources.

Files of the newest date are merged by `run` at a time, each row thus about once; those of a date that is over once
more, into files of up to `file_bytes`.

**Retention** deletes a whole date; in an object store, which has no folders, file by file.

A reader that lists `*.parquet` by itself sees rows twice for the time of grace, which ends with the run;
`files.live_files`, `spark.table_reader.read_table` and readers of a log do not.
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
    storage: Storage,
    *,
    completed_batch: int,
    newest_date: str,
    now_s: float,
    settings: CompactionSettings,
    table_log: TableLog = NO_LOG,
) -> HousekeepingResult:
    """Compact and delete what is due in all tables.

    `completed_batch` is the id of the last batch that will not run again, `newest_date` the date (yyyy-mm-dd) of the
    newest report, `now_s` the time by the clock of the file system.

    Raises:
        DamagedTableError: a file cannot be read; what does not need it is done all the same.
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
            table_log.settle(name, folder, live)  # of a compaction that was cut off before its commit
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
    """Delete all files of the tables for which others stand, whatever their age; return how many.

    For the end of a run: until the next one nobody would, and a reader of `*.parquet` would count their rows twice.
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
    """Delete the files of a date for which one older than `grace_s` stands; return how many."""
    old = [file for file in live if file.first != file.last and now_s - file.modified_s >= grace_s]
    replaced = [file for file in files if any(other.stands_for(file) for other in old)]
    for file in replaced:
        storage.delete(file.path)
    return len(replaced)


def merge_files(storage: Storage, name: str, files: list[TableFile]) -> None:
    """Write the rows of neighbouring `files` of one date into one file that stands for them."""
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
    """The rows of `files` as tables of some ten megabytes, each a row group: memory is bounded, groups are not tiny.

    Which batches they are of is added to `segments`.
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
    """The runs of neighbours to merge: of a date that goes on only full ones, and only of files never merged."""
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
