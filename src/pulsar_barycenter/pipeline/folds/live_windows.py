"""Folds samples into the windows of many bundles at once: the average of `load.reports.windows`, on NumPy columns.

A batch of the running pipeline has samples of some bundles, usually one of each. Folding them into columns takes
milliseconds; a Spark job over the windows of all bundles takes seconds. `batch.windows` folds whole histories.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.load.reports.load_report import DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_THROUGHPUT
from pulsar_barycenter.load.reports.windows import LARGEST_RATE, LONG_SAMPLES, SHORT_SAMPLES, fold
from pulsar_barycenter.pipeline.tables.schemas import BROKER_FIGURES, BUNDLE_STATE, FIGURES

WINDOW_SAMPLES: Final = {"short": SHORT_SAMPLES, "long": LONG_SAMPLES}

_STATE: Final = BUNDLE_STATE.arrow
_ORDER: Final = ("reported_at", "broker", "incarnation", "sequence")


def no_bundles() -> pa.Table:
    """Return a table with the columns BUNDLE_STATE and no rows."""
    return _STATE.empty_table()


def fold_samples(before: pa.Table, samples: pa.Table, *, history_gap_ms: int) -> tuple[pa.Table, pa.Table]:
    """Update the average rates of bundles (their windows) with `samples`.

    `before` has the columns BUNDLE_STATE, sorted by bundle, one row per bundle; `samples` has BUNDLE_SAMPLES without
    repeats, in any order. Return two tables with the columns BUNDLE_STATE: all bundles of both inputs, sorted by
    bundle; and only the bundles in `samples`.

    The samples of a bundle are added in the order of (reported_at, broker, incarnation, sequence). After more than
    `history_gap_ms` without a sample, earlier samples of a bundle no longer count.
    """
    state = _with_new_bundles(before, samples.column("bundle"))
    rows = pc.index_in(samples.column("bundle"), value_set=_whole(state.column("bundle")))
    ordered = samples.append_column("row", rows).sort_by([(name, "ascending") for name in ("row", *_ORDER)])
    columns = {name: _numbers(state.column(name)) for name in _STATE.names if name != "bundle"}
    row = _numbers(ordered.column("row"))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    rank = np.arange(len(row)) - np.repeat(first, np.diff(first, append=len(row)))
    at, topics = _numbers(ordered.column("reported_at")), _numbers(ordered.column("topics"))
    figures = {name: _numbers(ordered.column(name)) for name in FIGURES}
    by_rank = np.argsort(rank, kind="stable")
    for chosen in np.split(by_rank, np.flatnonzero(np.diff(rank[by_rank])) + 1):
        touched = row[chosen]
        is_new = at[chosen] - columns["as_of"][touched] > history_gap_ms * 1000
        for window, size in WINDOW_SAMPLES.items():
            n = np.where(is_new, 0, columns[f"{window}_num_samples"][touched])
            count = n
            for name in FIGURES:
                average = columns[f"{window}_{name}"]
                average[touched], count = _folded(average[touched], n, figures[name][chosen], size)
            columns[f"{window}_num_samples"][touched] = count
        columns["as_of"][touched] = np.maximum(columns["as_of"][touched], at[chosen])
        columns["topics"][touched] = topics[chosen]
    after = _table(state.column("bundle"), columns)
    return after, after.take(pa.array(row[first]))


def overtaken_reports(before: pa.Table, samples: pa.Table) -> list[tuple[str, str, int]]:
    """Return (broker, incarnation, sequence) of each report that came too late: it has a sample of a bundle for which
    `before` has a sample of the same time or a newer one.

    The arguments are those of `fold_samples`, which adds such samples after the newer ones. So the averages differ from
    those in the order of time.
    """
    rows = pc.index_in(samples.column("bundle"), value_set=_whole(before.column("bundle")))
    newest = before.column("as_of").take(_whole(rows))
    old = samples.filter(pc.fill_null(pc.less_equal(samples.column("reported_at"), newest), False))
    found = old.group_by(["broker", "incarnation", "sequence"]).aggregate([]).to_pydict()
    return list(zip(found["broker"], found["incarnation"], found["sequence"], strict=True))


def _folded(average: Any, n: Any, sample: Any, size: int) -> Any:
    """Return the averages and the counts of samples after one more sample. `average`, `n` (the counts before) and
    `sample` are arrays with one item per bundle, `size` is the number of samples of the window.

    Where the result would not be finite, the rates are first limited as by `load.reports.windows.bounded_rate`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found, count = fold(average, n, sample, size)
    is_finite = np.isfinite(found)
    if not is_finite.all():
        found = np.where(is_finite, found, fold(_bounded(average), n, _bounded(sample), size)[0])
    return found, count


def _bounded(rates: Any) -> Any:
    """Return the rates limited to ±LARGEST_RATE; a rate that is not finite becomes 0."""
    return np.where(np.isfinite(rates), np.clip(rates, -LARGEST_RATE, LARGEST_RATE), 0.0)


def without_silent(state: pa.Table, *, as_of_ms: int, history_gap_ms: int) -> pa.Table:
    """Return `state` without the bundles whose newest sample is more than `history_gap_ms` older than `as_of_ms` (epoch
    ms).
    """
    oldest = pa.scalar((as_of_ms - history_gap_ms) * 1000, _STATE.field("as_of").type)
    kept = pc.greater_equal(state.column("as_of"), oldest)
    return state if pc.all(kept).as_py() is not False else state.filter(kept)


def average_brokers(members: Sequence[tuple[str, str | None]], state: pa.Table) -> pa.Table:
    """Return the averages of each broker: the sums of the averages of its bundles.

    A bundle that is not in `state` counts with Pulsar's default rates. `members` are pairs of broker and bundle, all
    pairs of a broker next to one another; a broker without bundles is (broker, None), and has zeros. Output:
    BROKER_DATA without `as_of`, in the order of `members`.

    Source: Pulsar's `TimeAverageBrokerData.reset`.
    """
    brokers, bundles = zip(*members, strict=True) if members else ((), ())
    codes = pa.array(brokers, pa.string()).dictionary_encode()
    names = pa.array(bundles, pa.string())
    rows = np.asarray(
        pc.fill_null(pc.index_in(names, value_set=_whole(state.column("bundle")), skip_nulls=True), -1), np.int64
    )
    is_bundle = np.asarray(names.is_valid())
    broker = np.asarray(codes.indices, np.int64)
    columns: dict[str, Any] = {"broker": codes.dictionary}
    for figure in BROKER_FIGURES:
        window, name = figure.split("_term_")
        known = np.append(_numbers(state.column(f"{window}_{name}")), 0.0)
        default = DEFAULT_MESSAGE_THROUGHPUT if "throughput" in name else DEFAULT_MESSAGE_RATE
        values = np.where(rows >= 0, known[rows], np.where(is_bundle, default, 0.0))
        sums = np.bincount(broker, weights=values, minlength=len(codes.dictionary))
        is_finite = np.isfinite(sums)
        if not is_finite.all():  # uses the broker's own values only, so the result does not depend on the other brokers
            bounded = np.bincount(broker, weights=_bounded(values), minlength=len(codes.dictionary))
            sums = np.where(is_finite, sums, bounded)
        columns[figure] = sums
    return pa.table(columns)


def _with_new_bundles(state: pa.Table, bundles: pa.ChunkedArray) -> pa.Table:
    """Return `state` with one more row for each bundle in `bundles` that it lacks; the result is sorted by bundle. The
    averages and counts of the new rows are 0.
    """
    names = pc.unique(bundles)
    new = names.filter(pc.invert(pc.is_in(names, value_set=_whole(state.column("bundle")))))
    if len(new) == 0:
        return state
    # as_of is far in the past, so a first sample starts the windows by the rule for a long silence
    zeros = {field.name: np.zeros(len(new), np.int64) for field in _STATE if field.name != "bundle"}
    return pa.concat_tables([state, _table(new, zeros)]).sort_by("bundle")


def _table(bundles: Any, columns: dict[str, Any]) -> pa.Table:
    arrays = [bundles if f.name == "bundle" else pa.array(columns[f.name]).cast(f.type) for f in _STATE]
    return pa.table(arrays, schema=_STATE)


def _numbers(column: pa.ChunkedArray) -> Any:
    """Return the column as a numpy array that may be changed. Times become epoch µs."""
    array = _whole(column)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return array.to_numpy(zero_copy_only=False).copy()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
