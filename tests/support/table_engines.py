"""How engines read a table while it is written: by its Delta log, or by the list of its files."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from pulsar_barycenter.pipeline.tables.files import live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFormat

Rows = list[tuple[Any, ...]]
"""Rows of some columns, sorted."""


def _files(tables: Path, name: str, table_format: TableFormat) -> list[str]:
    if table_format is TableFormat.DELTA:
        return DeltaTable(str(tables / name)).file_uris()
    return [str(file) for file in live_files(tables, name)]


def with_pyarrow(tables: Path, name: str, columns: Sequence[str], table_format: TableFormat) -> Rows:
    files = _files(tables, name, table_format)
    return _sorted(
        row
        for file in files
        for row in _rows_of(pq.read_table(file, columns=list(columns), partitioning=None).to_pydict(), columns)
    )


def with_duckdb(tables: Path, name: str, columns: Sequence[str], table_format: TableFormat) -> Rows:
    files = _files(tables, name, table_format)
    if not files:
        return []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        read = connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
        return _sorted(read.project(", ".join(f'"{column}"' for column in columns)).fetchall())


def with_pandas(tables: Path, name: str, columns: Sequence[str], table_format: TableFormat) -> Rows:
    if table_format is TableFormat.DELTA:
        frame = DeltaTable(str(tables / name)).to_pandas(columns=list(columns))
    else:
        files = _files(tables, name, table_format)
        parts = [pd.read_parquet(file, columns=list(columns), partitioning=None) for file in files]
        frame = pd.concat(parts) if parts else pd.DataFrame(columns=list(columns))
    return _sorted(frame[list(columns)].astype(object).itertuples(index=False, name=None))


def with_polars(tables: Path, name: str, columns: Sequence[str], table_format: TableFormat) -> Rows:
    if table_format is TableFormat.DELTA:
        frame = pl.scan_delta(str(tables / name)).select(list(columns)).collect()
    else:
        files = _files(tables, name, table_format)
        if not files:
            return []
        frame = pl.scan_parquet(files, missing_columns="insert").select(list(columns)).collect()
    return _sorted(frame.rows())


def with_deltalake(tables: Path, name: str, columns: Sequence[str], table_format: TableFormat) -> Rows:
    if table_format is not TableFormat.DELTA:
        return with_pyarrow(tables, name, columns, table_format)
    read = pa.table(DeltaTable(str(tables / name)).to_pyarrow_table(columns=list(columns)))
    return _sorted(_rows_of(read.to_pydict(), columns))


Engine = Callable[[Path, str, Sequence[str], TableFormat], Rows]

ENGINES: Final[dict[str, Engine]] = {
    "pyarrow": with_pyarrow,
    "duckdb": with_duckdb,
    "pandas": with_pandas,
    "polars": with_polars,
    "deltalake": with_deltalake,
}


def example_row(name: str, number: int, at: datetime.datetime) -> dict[str, Any]:
    """Return a row of a table, told apart by its number; times are `at`."""
    row: dict[str, Any] = {}
    for field in TABLES[name].arrow_schema:
        if pa.types.is_timestamp(field.type):
            row[field.name] = at
        elif pa.types.is_string(field.type):
            row[field.name] = f"{field.name} {number}"
        else:
            row[field.name] = number
    return row


def _rows_of(columns: dict[str, list[Any]], names: Sequence[str]) -> Rows:
    return list(zip(*(columns[name] for name in names), strict=True))


def _sorted(rows: Any) -> Rows:
    return sorted((tuple(row) for row in rows), key=repr)
