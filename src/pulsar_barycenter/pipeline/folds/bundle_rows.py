"""Keeps the windows of all bundles and changes them in place: the cost of a batch depends only on its samples.

The rows are in arrays, in no order. A dictionary finds the row of a name. A batch copies the rows of its bundles to a
small table, `live_windows.fold_samples` folds that table, and its rows are written back. Only `table` sorts all rows.

Silent bundles are found without a search. Each row is in one bucket, by the second of its newest sample. Later samples
do not move the row. When a bucket is older than the history gap, its silent rows are dropped, and the others are put in
the buckets of their newest samples. So each row is examined once an hour (`HISTORY_GAP_MS`), no matter how often it is
folded.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_STATE

_SCHEMA: Final = BUNDLE_STATE.arrow
_NUMBERS: Final = {field.name: field.type for field in _SCHEMA if field.name != "bundle"}
_BUCKET_US: Final = 1_000_000


class BundleRows:
    """Keeps the average rates of bundles (their windows): one row with the columns BUNDLE_STATE for each bundle that it
    was given and that was not dropped since.
    """

    def __init__(self, state: pa.Table) -> None:
        """Start with the bundles in `state`, which has the columns BUNDLE_STATE and one row for each bundle."""
        self._row_of: dict[str, int] = {}
        self._name_of: list[str] = []
        self._free: list[int] = []
        self._columns = {name: np.zeros(0, _dtype(kind)) for name, kind in _NUMBERS.items()}
        self._buckets: dict[int, list[Any]] = {}
        self._oldest: list[int] = []
        """The keys of the buckets, as a heap."""
        self._sorted: tuple[pa.Array, Any] | None = None
        """All names and their rows in the order of names; None after a bundle was added or dropped."""
        self.put(state)

    def __len__(self) -> int:
        return len(self._row_of)

    def of(self, bundles: Iterable[str]) -> pa.Table:
        """Return the rows of those of `bundles` that are kept here, with the columns BUNDLE_STATE, sorted by bundle."""
        names = sorted({name for name in bundles if name in self._row_of})
        return self._taken(names, np.fromiter((self._row_of[name] for name in names), np.int64, len(names)))

    def table(self) -> pa.Table:
        """Return all rows, with the columns BUNDLE_STATE, sorted by bundle. The time that this takes grows with the
        number of all bundles.
        """
        if self._sorted is None:
            names = pa.array(self._row_of.keys(), pa.string())
            rows = np.fromiter(self._row_of.values(), np.int64, len(self._row_of))
            order = pc.sort_indices(names)
            self._sorted = names.take(order), rows[order.to_numpy()]
        return self._taken(*self._sorted)

    def put(self, state: pa.Table) -> None:
        """Store the rows in `state`, which has the columns BUNDLE_STATE, one row per bundle. A row replaces the stored
        row of the same bundle, if there is one.
        """
        names = state.column("bundle").to_pylist()
        new = [name for name in names if name not in self._row_of]
        if new:
            self._sorted = None
        added = self._rows_for(new)
        rows = np.fromiter((self._row_of[name] for name in names), np.int64, len(names))
        for name, values in self._columns.items():
            column = state.column(name).combine_chunks()
            kind = pa.int64() if pa.types.is_timestamp(column.type) else column.type
            values[rows] = column.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        self._file(added)

    def drop_silent(self, *, as_of_ms: int, history_gap_ms: int) -> list[str]:
        """Drop the bundles whose newest sample is more than `history_gap_ms` older than `as_of_ms` (epoch ms). Return
        their names.
        """
        oldest_us = (as_of_ms - history_gap_ms) * 1000
        due: list[Any] = []
        while self._oldest and self._oldest[0] * _BUCKET_US < oldest_us:
            due += self._buckets.pop(heapq.heappop(self._oldest))
        if not due:
            return []
        rows = np.concatenate(due)
        is_silent = self._columns["as_of"][rows] < oldest_us
        self._file(rows[~is_silent])
        dropped = []
        for row in rows[is_silent].tolist():
            name = self._name_of[row]
            del self._row_of[name]
            self._sorted = None
            self._name_of[row] = ""
            self._free.append(row)
            dropped.append(name)
        return dropped

    def _taken(self, names: Any, rows: Any) -> pa.Table:
        arrays = [pa.array(names, pa.string())]
        arrays += [pa.array(self._columns[name][rows]).cast(kind) for name, kind in _NUMBERS.items()]
        return pa.table(arrays, schema=_SCHEMA)

    def _rows_for(self, names: Sequence[str]) -> Any:
        """Reserve a row in the arrays for each bundle in `names`, none of which has one yet. Return the numbers of
        these rows.
        """
        rows = []
        for name in names:
            if self._free:
                row = self._free.pop()
                self._name_of[row] = name
            else:
                row = len(self._name_of)
                self._name_of.append(name)
            self._row_of[name] = row
            rows.append(row)
        self._grow(len(self._name_of))
        return np.array(rows, np.int64)

    def _grow(self, size: int) -> None:
        room = len(self._columns["as_of"])
        if size <= room:
            return
        more = max(size, room + room // 2) - room  # grows by half, so that each row is copied only a few times
        for name, values in self._columns.items():
            self._columns[name] = np.concatenate([values, np.zeros(more, values.dtype)])

    def _file(self, rows: Any) -> None:
        """Add rows to the buckets, which group rows by the time of their newest sample, so that bundles without recent
        samples are found quickly. The rows must not be in a bucket yet.
        """
        keys = self._columns["as_of"][rows] // _BUCKET_US
        order = np.argsort(keys, kind="stable")
        firsts = np.flatnonzero(np.diff(keys[order])) + 1
        for some in np.split(rows[order], firsts) if len(rows) else ():
            key = int(self._columns["as_of"][some[0]] // _BUCKET_US)
            if key not in self._buckets:
                self._buckets[key] = []
                heapq.heappush(self._oldest, key)
            self._buckets[key].append(some)


def _dtype(kind: pa.DataType) -> Any:
    return np.int64 if pa.types.is_timestamp(kind) else kind.to_pandas_dtype()
