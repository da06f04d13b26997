"""The reports of one batch as Arrow columns in the driver, and the rows of the tables that are made from them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader, ReportKey
from pulsar_barycenter.pipeline.tables.schemas import TABLES


@dataclass(frozen=True, slots=True)
class ReportTables:
    """The rows that a batch adds to three tables; each field has the name of its table."""

    load_reports: pa.Table
    broker_usage: pa.Table
    bundle_samples: pa.Table


@dataclass(frozen=True, slots=True)
class ReportColumns:
    """The reports of a batch as columns: those that were read from files, and those that the previous batch held back.

    `table` has one row per report, with the columns of `parsing.report_rows`. `headers` has the key of each report and
    its row number in `table`. `corrupt_files` are the files with a line that is not a valid report, as full paths or
    URLs.
    """

    table: pa.Table
    headers: tuple[ReportHeader, ...]
    corrupt_files: tuple[str, ...]

    @classmethod
    def of(cls, read: pa.Table, held: pa.Table | None) -> "ReportColumns":
        """Return the reports of a batch. `read` has one row for each line that was read; lines that are not valid
        reports are left out. `held` has the reports that the previous batch held back, None if there were none. `read`
        has the columns of `held`, and a column `file`.
        """
        is_report = read.column("key").is_valid()
        files = read.filter(pc.invert(is_report)).column("file")
        table = read.filter(is_report).drop_columns(["file"])
        if held is not None:
            table = pa.concat_tables([held.cast(table.schema), table])
        return cls(table, tuple(_headers(table)), tuple(files.to_pylist()))

    def rows(self, headers: Iterable[ReportHeader]) -> ReportTables:
        """Return the rows of three tables for the reports `headers`, in the order of the reports' times."""
        chosen = self.chosen(headers)
        reports = columns_of(chosen.column("load_report"))
        parents, samples = exploded(chosen.column("samples"))
        identity = reports.select(["broker", "incarnation", "sequence", "reported_at"]).take(parents)
        for name in identity.column_names:
            samples = samples.append_column(name, identity.column(name))
        return ReportTables(
            reports,
            columns_of(chosen.column("broker_usage")),
            samples.select(TABLES["bundle_samples"].schema.names),
        )

    def chosen(self, headers: Iterable[ReportHeader]) -> pa.Table:
        """Return the rows of `table` for `headers`, in the order of the reports' times."""
        ordered = sorted(headers, key=lambda header: (header.key, header.row))
        return self.table.take(pa.array([header.row for header in ordered], pa.int64()))


def _headers(table: pa.Table) -> Iterable[ReportHeader]:
    parents, samples = exploded(table.column("samples"))
    names = samples.column("bundle").to_pylist()
    ends = np.cumsum(np.bincount(np.asarray(parents), minlength=len(table))).tolist()
    start = 0
    for row, (key, end) in enumerate(zip(table.column("key").to_pylist(), ends, strict=True)):
        key = ReportKey(key["lastUpdate"], key["brokerId"], key["incarnation"], key["sequence"])
        yield ReportHeader(row, key, tuple(names[start:end]))
        start = end


def columns_of(structs: pa.ChunkedArray) -> pa.Table:
    """Return a table with one column for each field of the structs in the column `structs`."""
    return pa.Table.from_arrays(structs.combine_chunks().flatten(), names=[field.name for field in structs.type])


def exploded(lists: pa.ChunkedArray) -> tuple[pa.Array, pa.Table]:
    """Return the structs in a column of lists of structs as two results with one item for each struct: the row number
    of the list in which it is, and the fields of the struct as columns of a table.
    """
    combined = lists.combine_chunks()
    return combined.value_parent_indices(), pa.Table.from_arrays(
        combined.flatten().flatten(), names=[field.name for field in lists.type.value_type]
    )
