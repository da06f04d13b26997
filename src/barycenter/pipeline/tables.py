"""The Parquet tables: `<root>/<name>/date=<yyyy-mm-dd>/batch-<id>.parquet`, one file per batch and date.

A file is named after the batch that wrote it and appears by a rename. A batch that runs again after a crash thus puts
the same rows into the same files: the tables hold each row once however often a batch is tried. Files under `_staging`
are unfinished and passed over by every Parquet reader, as all names with a leading underscore are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

_STAGING = "_staging"


class Tables:
    """Writes the tables under `root`; one process at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / _STAGING

    def clear_staging(self) -> None:
        """Remove what a killed writer left unfinished."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def write(self, name: str, batch_id: int, rows: DataFrame, *, time: str) -> None:
        """Write a batch's rows with Spark, as one file per date of the timestamp column `time`.

        The rows never pass through the driver, so a batch may be as large as Spark can hold.
        """
        # A Java process that outlives a killed driver for a moment may still write to its own folder.
        staging = self._staging / f"{name}-{batch_id}-{os.getpid()}"
        dated = rows.selectExpr("*", f"to_date({time}) as date").coalesce(1)
        dated.write.mode("overwrite").partitionBy("date").parquet(str(staging))
        for folder in staging.glob("date=*"):
            parts = list(folder.glob("part-*.parquet"))
            assert len(parts) == 1, parts
            parts[0].replace(self._target(name, folder.name, batch_id))
        shutil.rmtree(staging)

    def write_small(self, name: str, batch_id: int, rows: pa.Table, *, time: str) -> None:
        """As `write`, for rows that are in the driver already: no Spark job."""
        self._staging.mkdir(parents=True, exist_ok=True)
        dates = pc.strftime(rows.column(time), format="%Y-%m-%d")
        for date in pc.unique(dates).to_pylist():
            staging = self._staging / f"{name}-{batch_id}-{os.getpid()}.parquet"
            pq.write_table(rows.filter(pc.equal(dates, date)), staging, compression="zstd")
            staging.replace(self._target(name, f"date={date}", batch_id))

    def _target(self, name: str, date_folder: str, batch_id: int) -> Path:
        folder = self.root / name / date_folder
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"batch-{batch_id:012d}.parquet"
