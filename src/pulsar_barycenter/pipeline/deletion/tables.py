"""Deletes a tenant's rows from files of tables: each file is rewritten under the same name.

A file that has no row left stays as an empty file: its name says that its batches were folded. In texts of other rows,
`names.REDACTED` replaces the tenant's names.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.deletion.names import TenantNames
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import date_folders, files_of_date, with_lacking_columns, without_replaced
from pulsar_barycenter.pipeline.tables.reading import opened_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.segments import Segment, as_metadata, segments_of
from pulsar_barycenter.pipeline.tables.table_log import TableFile

_BUNDLE = "bundle"
_TEXTS = {"decisions": ("refused", "principal", "request", "reason", "sentence")}


def delete_rows(storage: Storage, name: str, names: TenantNames) -> int:
    """Delete a tenant's rows from all files of the table `name`. Return how many rows of the table this call deleted:
    rows in files that compaction has replaced are deleted as well, but not counted.

    Raises:
        DamagedTableError: a file cannot be read, so it may still have rows of the tenant.
    """
    if _BUNDLE not in TABLES[name].schema.names:
        return 0
    deleted = 0
    for folder in date_folders(storage, name):
        files = files_of_date(storage, folder)
        live = set(without_replaced(files))
        for file in files:
            lost = _rewrite(storage, name, file, names)
            deleted += lost if file in live else 0
    return deleted


def _rewrite(storage: Storage, name: str, file: TableFile, names: TenantNames) -> int:
    """Rewrite a file of the table `name` without the tenant's rows, and with the tenant's names redacted in other rows.
    A file that has neither stays as it is. Return how many rows were deleted.
    """
    with opened_table(storage, file.path) as source:
        looked_at = [_BUNDLE, *_texts(name, source.schema_arrow.names)]
        masks: list[pa.ChunkedArray] = []
        is_named = False
        for group in range(source.num_row_groups):
            rows = source.read_row_group(group, columns=looked_at)
            masks.append(_kept(rows, names))
            is_named = is_named or any(
                names.mentions(text) for column in looked_at[1:] for text in rows.column(column).to_pylist() if text
            )
        mask = pa.chunked_array([chunk for kept in masks for chunk in kept.chunks], pa.bool_())
        lost = len(mask) - _count(mask)
        if not (lost or is_named):
            return 0
        schema = TABLES[name].arrow_schema
        segments = segments_of(file, source)
        with (
            storage.new_file(file.path) as path,
            pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for group, kept in enumerate(masks):
                left = _redacted(name, source.read_row_group(group).filter(kept), names)
                writer.write_table(with_lacking_columns(left, name).cast(schema))
            if file.first != file.last:
                writer.add_key_value_metadata(as_metadata(_of_kept(segments, mask)))
    return lost


def _of_kept(segments: list[Segment], mask: pa.ChunkedArray) -> Iterator[Segment]:
    """Yield the segments of a file after rows were deleted: each with the number of its rows that `mask` marks as kept.
    `mask` has one flag per row of the file.
    """
    start = 0
    for segment in segments:
        yield segment._replace(rows=_count(mask.slice(start, segment.rows)))
        start += segment.rows


def _count(mask: pa.ChunkedArray) -> int:
    """Return how many items of `mask` are true."""
    count: int = pc.sum(mask).as_py() or 0
    return count


def _kept(rows: pa.Table, names: TenantNames) -> pa.ChunkedArray:
    return pc.invert(pc.fill_null(pc.starts_with(rows.column(_BUNDLE), f"{names.tenant}/"), False))


def _texts(name: str, known: Collection[str]) -> list[str]:
    return [column for column in _TEXTS.get(name, ()) if column in known]


def _redacted(name: str, rows: pa.Table, names: TenantNames) -> pa.Table:
    for column in _texts(name, rows.column_names):
        place = rows.column_names.index(column)
        texts = [None if text is None else names.redacted(text) for text in rows.column(column).to_pylist()]
        rows = rows.set_column(place, rows.schema.field(place), pa.array(texts, rows.schema.field(place).type))
    return rows
