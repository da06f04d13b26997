"""Compares computed tables with the rows that the stream recorded.

A refold and the stream agree within rounding, about 1e-12, as long as no report was late. Late reports are in the
samples, but not in the stream's averages. A history gap that differs from the stream's makes a difference as well. The
archive deletes logs after two days; shortened logs yield fewer rows, and different first intervals and averages.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by
from pyspark.sql import types as T  # noqa: N812

from pulsar_barycenter.pipeline.parsing.conditions import all_of
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.reading import opened_table

_SLACK = datetime.timedelta(minutes=10)
"""The clocks of brokers differ, so a file may end before the file that was written before it ends."""
_RECORDED = " recorded"


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs between a computed and a recorded row. `name` identifies the row, `column` is the column of
    the value; `refolded` is the computed value and `recorded` the recorded one.
    """

    name: str
    column: str
    refolded: float
    recorded: float

    @property
    def relative(self) -> float:
        """The difference of the two values, divided by the greater of their absolute values."""
        return abs(self.refolded - self.recorded) / max(abs(self.refolded), abs(self.recorded))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison of computed rows with recorded rows: the number of computed rows (`rows`), and for how
    many of these there is a recorded row (`matched`).

    `greatest` is the value with the greatest relative difference; None if no value differs. Only computed rows for
    which there is a recorded row are compared.
    """

    rows: int
    matched: int
    greatest: Difference | None

    def agrees(self, tolerance: float) -> bool:
        """Return whether there is a recorded row for every computed row, and no value differs by more than `tolerance`.
        The difference of two values is a fraction of the greater of their absolute values.
        """
        is_close = self.greatest is None or self.greatest.relative <= tolerance
        return self.rows == self.matched and is_close


def compare_with_recorded(refolded: pa.Table, storage: Storage, files: Sequence[str], key: str) -> Comparison:
    """Compare each row of `refolded` with the recorded row of the same bundle or broker (`key` is the column "bundle"
    or "broker"): the earliest recorded row whose `as_of` is not before that of the computed row.

    `files` are the recorded files, as paths in `storage`, oldest first. They are read from the newest backwards, up to
    the first file that ends more than ten minutes before the oldest computed row. A recorded row may be newer than the
    computed one, because the pipeline may have continued since the tables were computed.
    """
    wanted = refolded.drop_columns([name for name in ("topics",) if name in refolded.column_names])  # not recorded
    oldest = pc.min(wanted.column("as_of")).as_py() - _SLACK if len(wanted) else None
    found: pa.Table | None = None
    for file in reversed(files) if oldest is not None else ():
        with opened_table(storage, file) as recorded:
            rows = recorded.read(columns=wanted.column_names)
        if not len(rows) or pc.max(rows.column("as_of")).as_py() < oldest:
            break
        both = wanted.join(rows, key, join_type="inner", right_suffix=_RECORDED).combine_chunks()
        both = both.filter(pc.greater_equal(both.column(f"as_of{_RECORDED}"), both.column("as_of")))
        found = _first(both if found is None else pa.concat_tables([found, both.select(found.column_names)]), key)
    if found is None:
        return Comparison(len(refolded), 0, None)
    figures = [name for name in wanted.column_names if name not in (key, "as_of")]
    return Comparison(len(refolded), len(found), _greatest(found, key, figures))


def compare_tables(refolded: DataFrame, recorded: DataFrame) -> Comparison:
    """Compare the computed rows (`refolded`) with the recorded rows, in Spark. Both have the same columns.

    A computed row matches a recorded row if both are equal in all columns that are not of type double. Values of type
    double are then compared.
    """
    figures = [field.name for field in refolded.schema if isinstance(field.dataType, T.DoubleType)]
    keys = [name for name in refolded.columns if name not in figures]
    columns = (F.col(name).alias(f"{name}{_RECORDED}") for name in (*keys, *figures))
    theirs = recorded.select(F.lit(1).alias("recorded"), *columns)
    is_same = all_of(*(F.col(name).eqNullSafe(F.col(f"{name}{_RECORDED}")) for name in keys))
    both = refolded.join(theirs, is_same, "left")
    greatest = [_greatest_in(figure, keys) for figure in figures]
    rows, matched, *differences = both.select(F.count(F.lit(1)), F.count("recorded"), *greatest).collect()[0]
    found: Difference | None = None
    for figure, row in zip(figures, differences, strict=True):
        if row is not None:
            found = _greater(found, Difference(row["name"], figure, row["refolded"], row["recorded"]))
    return Comparison(rows, matched, found)


def _greatest_in(figure: str, keys: Sequence[str]) -> Column:
    """Return an aggregate over joined rows: the greatest relative difference between the column `figure` and its
    recorded value, and the row in which it is. Null if no value differs. `keys` are the columns whose values name the
    row.
    """
    mine, theirs = F.col(figure), F.col(f"{figure}{_RECORDED}")
    difference = F.struct(
        (F.abs(mine - theirs) / F.greatest(F.abs(mine), F.abs(theirs))).alias("relative"),
        F.concat_ws(" ", *keys).alias("name"),
        mine.alias("refolded"),
        theirs.alias("recorded"),
    )
    return F.max(F.when(mine != theirs, difference))


def _first(both: pa.Table, key: str) -> pa.Table:
    """Return for each value of the column `key` the row of `both` with the earliest recorded `as_of`."""
    ordered = both.sort_by([(key, "ascending"), (f"as_of{_RECORDED}", "ascending")])
    names = ordered.column(key).to_pylist()
    first = [row for row, name in enumerate(names) if not row or names[row - 1] != name]
    return ordered.take(pa.array(first, pa.int64()))


def _greatest(both: pa.Table, key: str, figures: Sequence[str]) -> Difference | None:
    found: Difference | None = None
    for name in figures if len(both) else ():
        mine, theirs = (both.column(column).to_numpy().astype(float) for column in (name, f"{name}{_RECORDED}"))
        size = np.maximum(np.abs(mine), np.abs(theirs))
        row = int(np.argmax(np.abs(mine - theirs) / np.where(size > 0, size, 1.0)))
        if mine[row] != theirs[row]:
            here = Difference(both.column(key)[row].as_py(), name, float(mine[row]), float(theirs[row]))
            found = _greater(found, here)
    return found


def _greater(first: Difference | None, second: Difference | None) -> Difference | None:
    if first is None or second is None:
        return first or second
    return max(first, second, key=lambda each: each.relative)
