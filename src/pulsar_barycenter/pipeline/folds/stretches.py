"""Folds a stretch of the samples table into windows, with arrays: the kernel of `pipeline.batch.refold`.

A stretch is a part of the history between two times. A window's fold is an affine function of the average before it.
After a stretch of samples:

    average after = share * average before + sum

The share and the weights depend on counts only. Let T be the number of samples so far, including those before the
stretch, N the size of the window and r = (N - 1) / N. Then sample number i of T has the weight

    T ≤ N            1 / T
    T > N, i ≤ N     r^(T - N) / N
    T > N, i > N     r^(T - i) / N

The prior average represents the first n samples, so the share is n times the weight of sample 1. A stretch can thus be
folded without the averages before it: only the number of earlier samples is needed. The stretches are combined
afterwards, in the order of time.

Rows of one bundle must be in the order of their times, across files as well. Rows of different bundles may be mixed. A
bundle whose rows are not in order is marked `late`, and its values are meaningless.

This module uses NumPy and Arrow, not Spark. Rows come as tables whose columns `NAMES` are dictionaries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pulsar_barycenter.load.reports.windows import LONG_SAMPLES, SHORT_SAMPLES
from pulsar_barycenter.pipeline.tables.reading import opened_file
from pulsar_barycenter.pipeline.tables.schemas import FIGURES

SIZES: Final = (SHORT_SAMPLES, LONG_SAMPLES)
_NEVER: Final = np.iinfo(np.int64).min
COUNTED: Final = ["bundle", "reported_at"]
_REPORT: Final = ["broker", "incarnation", "sequence"]
FOLDED: Final = [*COUNTED, *_REPORT, *FIGURES, "topics"]
NAMES: Final = ["bundle", "broker", "incarnation"]


@dataclass(slots=True)
class Counts:
    """Numbers of samples, as columns: the item at index i of each array is about the bundle with the code i. `samples`
    is the number of samples since the bundle's averages last restarted, `first_at` and `last_at` are the times (epoch
    ms) of its first and last sample in the counted rows.

    `cut`: the bundle's averages restarted in the counted rows, because it had no samples for too long before. `late`:
    the bundle's rows were not in the order of time.
    """

    samples: NDArray[np.int64]
    first_at: NDArray[np.int64]
    last_at: NDArray[np.int64]
    cut: NDArray[np.bool_]
    late: NDArray[np.bool_]

    @classmethod
    def none(cls) -> "Counts":
        return cls(
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool)
        )

    def grown(self, size: int) -> "Counts":
        """Return a copy of these counts that is extended to `size` bundles; the added bundles have no samples."""
        more = size - len(self.samples)
        return Counts(
            np.append(self.samples, np.zeros(more, np.int64)),
            np.append(self.first_at, np.full(more, _NEVER)),
            np.append(self.last_at, np.full(more, _NEVER)),
            np.append(self.cut, np.zeros(more, bool)),
            np.append(self.late, np.zeros(more, bool)),
        )


@dataclass(slots=True)
class _Names:
    """Assigns a number (code) to each name: 0, 1, and so on, in the order in which the names first appear."""

    codes: dict[str, int] = field(default_factory=dict)
    _last: tuple[pa.Array, NDArray[np.int64]] | None = None

    def of(self, names: pa.Array) -> NDArray[np.int64]:
        if self._last is not None and self._last[0].equals(names):  # consecutive files usually name the same bundles
            return self._last[1]
        codes = self.codes
        found = np.fromiter((codes.setdefault(name, len(codes)) for name in names.to_pylist()), np.int64, len(names))
        self._last = names, found
        return found


@dataclass(slots=True)
class _Rows:
    """The rows of one piece of a file. `order` has the row numbers in the order of bundles; rows of the same bundle
    keep their order.

    `heads` has the indexes in `order` at which another bundle begins. `bundles` has the codes of these bundles, and
    `counts` how many rows each of them has.
    """

    table: pa.Table
    codes: NDArray[np.int64]
    at: NDArray[np.int64]
    order: NDArray[np.int64]
    heads: NDArray[np.int64]
    counts: NDArray[np.int64]
    bundles: NDArray[np.int64]


def pieces_of(files: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of local Parquet files, in the order of `files`, one table per row group. The columns NAMES are
    encoded as Arrow dictionaries.
    """
    for file in files:
        with opened_file(file, dictionaries=NAMES) as source:
            for group in range(source.num_row_groups):
                yield source.read_row_group(group, columns=list(columns), use_threads=False)


def _arranged_pieces(pieces: Iterable[pa.Table], names: _Names) -> Iterator[_Rows]:
    for piece in pieces:
        if len(piece):
            yield _arranged(piece.combine_chunks(), names)


def _arranged(table: pa.Table, names: _Names) -> _Rows:
    column = _single(table.column("bundle"))
    codes = names.of(column.dictionary)[column.indices.to_numpy()]
    at = _single(table.column("reported_at")).cast(pa.int64()).to_numpy() // 1000
    if np.all(codes[1:] >= codes[:-1]):
        order = np.arange(len(codes))
        ordered = codes
    else:
        shift = len(codes).bit_length()
        keys = np.sort((codes << shift) | np.arange(len(codes)))  # faster than a stable argsort
        order, ordered = keys & ((1 << shift) - 1), keys >> shift
    heads = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(heads, len(codes)))
    return _Rows(table, codes, at, order, heads, counts, ordered[heads])


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.unify_dictionaries().chunks)


def _count_piece(counts: Counts, rows: _Rows, gap_ms: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Add the rows of a piece to `counts`. Return two arrays with one item for each bundle in `rows.bundles`: whether
    its averages restart in this piece (after more than `gap_ms` without a sample), and how many rows of the bundle come
    before the last restart; 0 if there is none.
    """
    at, bundles = rows.at[rows.order], rows.bundles
    silence = np.diff(at, prepend=at[:1])
    before = counts.last_at[bundles]
    silence[rows.heads] = np.where(before == _NEVER, 0, at[rows.heads] - before)
    if silence.min() < 0:
        counts.late[bundles[np.minimum.reduceat(silence, rows.heads) < 0]] = True
    is_cut = np.zeros(len(bundles), bool)
    dropped = np.zeros(len(bundles), np.int64)
    if silence.max() > gap_ms:
        places = np.flatnonzero(silence > gap_ms)
        which = np.searchsorted(rows.heads, places, side="right") - 1
        is_cut[which] = True
        dropped[which] = places - rows.heads[which]  # the last cut of a bundle is assigned last
    fresh = counts.first_at[bundles] == _NEVER
    counts.first_at[bundles[fresh]] = at[rows.heads[fresh]]
    counts.last_at[bundles] = at[rows.heads + rows.counts - 1]
    counts.cut[bundles] |= is_cut
    counts.samples[bundles] = np.where(is_cut, 0, counts.samples[bundles]) + rows.counts - dropped
    return is_cut, dropped


def count_samples(pieces: Iterable[pa.Table], gap_ms: int) -> pa.Table:
    """Count the samples of each bundle in `pieces`, whose rows (columns COUNTED) are in the order of time. Return the
    fields of `Counts` and the name of the bundle as a table. The count of a bundle restarts after more than `gap_ms`
    without a sample.
    """
    names, counts = _Names(), Counts.none()
    for rows in _arranged_pieces(pieces, names):
        counts = counts.grown(len(names.codes))
        _count_piece(counts, rows, gap_ms)
    return pa.table(
        {
            "bundle": pa.array(list(names.codes), pa.string()),
            **{name: getattr(counts, name) for name in ("samples", "first_at", "last_at", "cut", "late")},
        }
    )


STRETCH: Final = pa.schema(
    [
        ("bundle", pa.string()),
        *((name, pa.int64()) for name in ("samples", "first_at", "last_at")),
        *((name, pa.bool_()) for name in ("cut", "late")),
        ("topics", pa.int64()),
        *((f"share_{size}", pa.float64()) for size in SIZES),
        *((f"sum_{size}_{figure}", pa.float64()) for size in SIZES for figure in FIGURES),
    ]
)
"""One row per bundle: its `Counts`, the topics of its last sample, share and sums of both windows.

`samples` includes those before the stretch, unless the history was cut within it.
"""

MEMBERS: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("reported_at", pa.int64()),
        ("incarnation", pa.string()),
        ("sequence", pa.int64()),
        ("bundle", pa.string()),
    ]
)
"""The bundles of the newest report of each broker, one row per bundle; `reported_at` in ms."""


class NewestReports:
    """Keeps the newest report of each broker among all rows that were added, and the bundles in that report. The newest
    report is the one with the greatest (time, incarnation, sequence).
    """

    def __init__(self) -> None:
        self._newest_at: dict[str, int] = {}
        self._found: list[tuple[dict[str, int], pa.Table]] = []

    def note(self, table: pa.Table, at: NDArray[np.int64]) -> None:
        """Add rows of the table of samples; `at` has the time of each row in epoch ms. The rows of one report may be
        added in several calls.
        """
        broker = _single(table.column("broker"))
        codes = broker.indices.to_numpy()
        newest = np.full(len(broker.dictionary), _NEVER)
        np.maximum.at(newest, codes, at)
        newest_at = dict(zip(broker.dictionary.to_pylist(), newest.tolist(), strict=True))
        known = np.array([self._newest_at.get(name, _NEVER) for name in newest_at])
        rows = pa.array(np.flatnonzero((at == newest[codes]) & (at >= known[codes])))
        found = table.select(["bundle", *_REPORT]).take(rows).append_column("reported_at", pa.array(at).take(rows))
        self.add({name: when for name, when in newest_at.items() if when != _NEVER}, found.select(MEMBERS.names))

    def add(self, newest_at: Mapping[str, int], members: pa.Table) -> None:
        """Add reports and their bundles. `members` has the schema MEMBERS, one row per bundle of a report; `newest_at`
        has the time (epoch ms) of the newest report of each broker in `members`. A report that is older than a known
        one of the same broker has no effect.
        """
        fresh = {name: at for name, at in newest_at.items() if at >= self._newest_at.get(name, _NEVER)}
        self._newest_at.update(fresh)
        self._found = [
            (times, rows)
            for times, rows in (*self._found, (fresh, members))
            if any(self._newest_at[name] == at for name, at in times.items())
        ]

    def table(self) -> pa.Table:
        """Return the bundles of each broker by its newest report, as a table with the schema MEMBERS."""
        found = [MEMBERS.empty_table(), *(rows.cast(MEMBERS) for _, rows in self._found)]
        rows = pa.concat_tables(found).combine_chunks()
        reports = rows.group_by(MEMBERS.names[:4]).aggregate([])
        order = [("broker", "ascending"), *((name, "descending") for name in MEMBERS.names[1:4])]
        newest = reports.sort_by(order)
        names = newest.column("broker").to_pylist()
        first = [place for place, name in enumerate(names) if not place or names[place - 1] != name]
        return rows.join(newest.take(first), MEMBERS.names[:4], join_type="left semi").select(MEMBERS.names)


class StretchFold:
    """Computes the part of the averages of bundles that one part of the history (a stretch) adds, without the averages
    before it. Only the number of earlier samples must be known.
    """

    def __init__(self, prior: pa.Table | None, gap_ms: int) -> None:
        """`prior` has the columns `bundle`, `samples` (the number of samples before this stretch) and `last_at` (the
        time of the last of them, epoch ms); None: there were no samples before it. After more than `gap_ms` without a
        sample, earlier samples of a bundle no longer count.
        """
        self._gap_ms = gap_ms
        self._names = _Names()
        self._counts = Counts.none()
        self._shares = [np.zeros(0) for _ in SIZES]
        self._sums = [[np.zeros(0) for _ in FIGURES] for _ in SIZES]
        self._topics = np.zeros(0, np.int64)
        self.newest = NewestReports()
        if prior is not None and len(prior):
            self._names.of(prior.column("bundle").combine_chunks())
            self._grow()
            self._counts.samples[:] = prior.column("samples").to_numpy()
            self._counts.last_at[:] = prior.column("last_at").to_numpy()

    def _grow(self) -> None:
        size = len(self._names.codes)
        more = size - len(self._topics)
        if not more:
            return
        self._counts = self._counts.grown(size)
        self._shares = [np.append(share, np.ones(more)) for share in self._shares]
        self._sums = [[np.append(total, np.zeros(more)) for total in sums] for sums in self._sums]
        self._topics = np.append(self._topics, np.zeros(more, np.int64))

    def fold(self, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return for each bundle in `pieces` how the samples there change its averages, as a table with the schema
        STRETCH: the average after the stretch is the share × the average before it + the sum.

        The rows of `pieces` are in the order of time and have the columns FOLDED.
        """
        for rows in _arranged_pieces(pieces, self._names):
            self._grow()
            self._fold_piece(rows)
        return self._result()

    def _fold_piece(self, rows: _Rows) -> None:
        before = self._counts.samples[rows.bundles]
        is_cut, dropped = _count_piece(self._counts, rows, self._gap_ms)
        before = np.where(is_cut, 0, before)
        counted = rows.counts - dropped
        rank = np.empty(len(rows.order), np.int64)  # 1 for the first row of its bundle that counts
        rank[rows.order] = np.arange(1, len(rows.order) + 1) - np.repeat(rows.heads + dropped, rows.counts)
        place = np.zeros(len(self._topics), np.int64)
        place[rows.bundles] = np.arange(len(rows.bundles))
        group = place[rows.codes]
        behind = np.minimum(counted[group] - rank, counted[group])  # the weight of rows before a cut is set to 0 below
        figures = [_single(rows.table.column(figure)).to_numpy() for figure in FIGURES]
        gone = rank < 1 if dropped.any() else None
        for size, share, sums in zip(SIZES, self._shares, self._sums, strict=True):
            weight, prior = _weights(size, before, counted, group, rank, behind)
            if gone is not None:
                weight[gone] = 0.0
            prior[is_cut] = 0.0
            share[rows.bundles] *= prior
            for total, figure in zip(sums, figures, strict=True):
                added = np.bincount(group, weights=weight * figure, minlength=len(rows.bundles))
                total[rows.bundles] = prior * total[rows.bundles] + added
        last = pa.array(rows.order[rows.heads + rows.counts - 1])
        self._topics[rows.bundles] = _single(rows.table.column("topics")).take(last).to_numpy()
        self.newest.note(rows.table, rows.at)

    def _result(self) -> pa.Table:
        seen = self._counts.first_at != _NEVER
        columns: dict[str, object] = {"bundle": pa.array(list(self._names.codes), pa.string())}
        columns |= {name: getattr(self._counts, name) for name in ("samples", "first_at", "last_at", "cut", "late")}
        columns["topics"] = self._topics
        columns |= {f"share_{size}": share for size, share in zip(SIZES, self._shares, strict=True)}
        for size, sums in zip(SIZES, self._sums, strict=True):
            columns |= {f"sum_{size}_{figure}": total for figure, total in zip(FIGURES, sums, strict=True)}
        return pa.table(columns, schema=STRETCH).filter(pa.array(seen))


def _weights(
    size: int,
    before: NDArray[np.int64],
    counted: NDArray[np.int64],
    group: NDArray[np.int64],
    rank: NDArray[np.int64],
    behind: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays: the weight of each row in the new average of its group, and for each group the weight of its
    average before these rows. A group is the rows of one bundle.

    `size` is the size of the window. `before` has for each group the number of samples before these rows, and `counted`
    the number of these rows. The other arrays have for each row its group, its `rank` in the group (from 1), and the
    number of rows of the group `behind` (after) it. While the window is not full (`before` + `rank` is at most `size`),
    all samples weigh the same. Each later row multiplies the weight of all samples before it by (size - 1) / size.
    """
    ratio = (size - 1) / size
    total = before + counted
    decay = ratio ** np.arange(int(counted.max()) + 1)
    steady = before >= size
    growing = decay[np.maximum(np.where(steady, 0, total - size), 0)] / np.minimum(np.maximum(total, 1), size)
    prior = np.where(steady, decay[counted], growing * before)
    weight: NDArray[np.float64] = (decay / size)[behind]
    if not steady.all():
        filling = before[group] + rank <= size
        weight = np.where(filling, growing[group], weight)
    return weight, prior
