"""The Parquet tables: `<root>/<name>/date=<yyyy-mm-dd>/batch-<first id>[-<last id>].parquet`.

A batch writes one file per date, named after it, that appears by a rename. A batch that runs again after a crash thus
puts the same rows into the same files: the tables hold each row once however often a batch is tried. Files under
`_staging` are unfinished and passed over by every Parquet reader, as all names with a leading underscore are.

A compacted file (see `pipeline.compaction`) is named after the first and the last batch in it, and stands for every
file of its folder within that range: `live_files` leaves those out. So whether a row is read does not depend on when
the folder was listed: before the compacted file appears its sources are read, afterwards it alone, and the sources are
deleted much later than any listing takes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barycenter.pipeline.layout import sync
from barycenter.pipeline.schemas import TABLES

STAGING = "_staging"
DATE_PREFIX = "date="

_NAME = re.compile(r"batch-(\d{12})(?:-(\d{12}))?\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """A Parquet file with the rows of the batches `first` to `last`, both included, of one date."""

    first: int
    last: int
    path: Path

    def stands_for(self, other: TableFile) -> bool:
        is_within = self.first <= other.first and other.last <= self.last
        return is_within and (self.first, self.last) != (other.first, other.last)


def table_file_name(first: int, last: int) -> str:
    return f"batch-{first:012d}.parquet" if first == last else f"batch-{first:012d}-{last:012d}.parquet"


def files_of_date(folder: Path) -> list[TableFile]:
    """All table files of a date's folder, those that another one stands for among them, in the order of batches."""
    found = (table_file_of(name, folder / name) for name in os.listdir(folder))
    return sorted(file for file in found if file is not None)


def table_file_of(name: str, path: Path) -> TableFile | None:
    """What the file `name` holds by its name; None if it is no table file."""
    match = _NAME.fullmatch(name)
    return TableFile(int(match[1]), int(match[2] or match[1]), path) if match else None


def without_replaced(files: Iterable[TableFile]) -> list[TableFile]:
    """Leave out the files that another one stands for."""
    kept: list[TableFile] = []
    for file in sorted(files, key=lambda f: (f.first, -f.last)):
        if not (kept and kept[-1].stands_for(file)):
            kept.append(file)
    return kept


def live_files(root: Path, name: str, *, dates: Collection[str] | None = None) -> list[Path]:
    """The files that make up the table `name` now, of some `dates` (yyyy-mm-dd) or of all; for any Parquet reader."""
    return [
        file.path
        for folder in date_folders(root, name)
        if dates is None or folder.name.removeprefix(DATE_PREFIX) in dates
        for file in without_replaced(files_of_date(folder))
    ]


def date_folders(root: Path, name: str) -> list[Path]:
    """The folders of the table's dates, oldest first."""
    return sorted((root / name).glob(f"{DATE_PREFIX}????-??-??"))


class Tables:
    """Writes the tables under `root`; one process at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / STAGING

    def newest_batches(self) -> list[int]:
        """The newest batch of each table's newest date: batch ids go on from there, should states be lost."""
        newest = [folders[-1] for name in TABLES if (folders := date_folders(self.root, name))]
        return [files[-1].last for folder in newest if (files := files_of_date(folder))]

    def clear_unfinished(self, newest_batch: int | None) -> None:
        """Remove what a killed writer left: unfinished files, and those of batches after the newest completed one.

        The batches will run again; should Spark's record of them be lost, they will hold other reports. None, as
        nothing is known of batches, removes no rows.
        """
        shutil.rmtree(self._staging, ignore_errors=True)
        if newest_batch is None:
            return
        for name in TABLES:
            for folder in date_folders(self.root, name):
                for file in files_of_date(folder):
                    if file.last > newest_batch:
                        file.path.unlink()

    def write(self, name: str, batch_id: int, rows: pa.Table, *, dates: Sequence[str] | None = None) -> None:
        """Write a batch's rows as one file per date: that of each row in `dates`, or of the table's time column."""
        table = TABLES[name]
        if not len(rows):
            return
        self._staging.mkdir(parents=True, exist_ok=True)
        rows_dates = pc.strftime(rows.column(table.time), format="%Y-%m-%d") if dates is None else pa.array(dates)
        rows = rows.select(table.schema.names).cast(table.arrow_schema)
        for date in pc.unique(rows_dates).to_pylist():
            staging = self._staging / f"{name}-{batch_id}-{os.getpid()}.parquet"
            pq.write_table(rows.filter(pc.equal(rows_dates, date)), staging, compression="zstd")
            sync(staging)
            folder = self.root / name / f"{DATE_PREFIX}{date}"
            folder.mkdir(parents=True, exist_ok=True)
            staging.replace(folder / table_file_name(batch_id, batch_id))
