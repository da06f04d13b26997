"""Computes means of reported load over a period, weighted by the time for which reports hold (`held`). Pure.

Input and output are Arrow tables. Rates are in + out. Times of a period are µs since 1970, begin inclusive, end
exclusive.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pulsar_barycenter.pipeline.held import Floats, Held, Indices, Times, held, in_intervals, weighted_means

FIGURES: Final = ("msg_rate", "msg_throughput")


@dataclass(frozen=True, slots=True)
class Period:
    """The time range for which means are computed, from `since`, inclusive, to `until`, exclusive, in epoch µs.
    `reports` has the sorted times of the reports of each broker in this range, and of those before it that may still be
    valid in it.
    """

    since: int
    until: int
    reports: Mapping[str, Times]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of reports, sorted by thing (a bundle or a broker), then by time. `things` has the number of each row's
    thing, which is its index in `names`. `held` has the time in which each row is valid. `counts` flags the rows that
    were reported in the period, or are valid in a part of it.
    """

    table: pa.Table
    things: Indices
    names: Sequence[str]
    at: Times
    held: Held
    counts: NDArray[np.bool_]


def report_times(reports: Iterable[pa.Table]) -> dict[str, Times]:
    """Return the times of all reports of each broker, sorted; `reports` are tables with the columns broker and
    reported_at.
    """
    found: dict[str, list[Times]] = {}
    for table in reports:
        codes, brokers = _coded(table, "broker")
        at = _times(table)
        for code, broker in enumerate(brokers):
            found.setdefault(broker, []).append(at[codes == code])
    return {broker: np.sort(np.concatenate(parts)) for broker, parts in found.items()}


def bundle_means(rows: pa.Table, period: Period) -> pa.Table:
    """Return the means of each bundle, weighted by time, in no order. A bundle has no row if it has no report in the
    period, and none from before that is still valid in the period.

    Input: bundle, broker, topics, reported_at and FIGURES (message rate and throughput). Output: bundle, broker and
    topics (of its newest row), samples (the number of reports in the period), covered_s (for how many seconds a report
    was valid); and for each name in FIGURES the mean, and as `…_max` the greatest value.
    """
    found = _sorted(rows, "bundle", period)
    count = len(found.names)
    kept = np.flatnonzero(found.counts)
    weights = found.held.seconds[kept]
    groups = found.things[kept]
    known = np.unique(groups)
    newest = np.zeros(count, np.int64)
    newest[groups] = kept  # rows are in the order of time, so the last one remains
    of_bundle: dict[str, pa.Array] = {
        "bundle": pa.array([found.names[code] for code in known], pa.string()),
        "broker": found.table.column("broker").take(pa.array(newest[known])),
        "samples": pa.array(np.bincount(groups, found.at[kept] >= period.since, count)[known].astype(np.int64)),
        "covered_s": pa.array(np.bincount(groups, weights, count)[known], pa.float64()),
    }
    for name in FIGURES:
        values = _doubles(found.table.column(name))[kept]
        greatest = np.full(count, -np.inf)
        np.maximum.at(greatest, groups, values)
        of_bundle[name] = pa.array(weighted_means(groups, count, weights, values)[known])
        of_bundle[f"{name}_max"] = pa.array(greatest[known])
    of_bundle["topics"] = found.table.column("topics").take(pa.array(newest[known]))
    return pa.table(of_bundle)


def bundle_means_per_interval(rows: pa.Table, period: Period, width: int) -> pa.Table:
    """Return the means of one bundle in each interval of `width` µs, weighted by time, oldest first. An interval
    without a valid report has no row.

    Input: as in `bundle_means`. Output: interval_start, broker (of the newest valid row), samples (the number of
    reports in the interval), covered_s (for how many seconds a report was valid), the mean for each name in FIGURES,
    topics (the greatest number).
    """
    found = _sorted(rows, "bundle", period)
    row, starts, seconds = in_intervals(found.held, width)
    holds = seconds > 0
    row, starts, seconds = row[holds], starts[holds], seconds[holds]
    known, groups = np.unique(starts, return_inverse=True)
    count = len(known)
    newest = np.zeros(count, np.int64)
    newest[groups] = row
    topics = np.zeros(count, np.int64)
    np.maximum.at(topics, groups, found.table.column("topics").to_numpy()[row])
    samples = np.bincount(groups, found.at[row] // width * width == starts, count).astype(np.int64)
    means = {
        name: pa.array(weighted_means(groups, count, seconds, _doubles(found.table.column(name))[row]))
        for name in FIGURES
    }
    return pa.table(
        {
            "interval_start": pa.array(known).cast(pa.timestamp("us", "UTC")),
            "broker": found.table.column("broker").take(pa.array(newest)),
            "samples": pa.array(samples),
            "covered_s": pa.array(np.bincount(groups, seconds, count)),
            **means,
            "topics": pa.array(topics),
        }
    )


def step_sums(rows: pa.Table, figures: Sequence[str], period: Period, width: int) -> pa.Table:
    """Return the load of each thing (a broker or a bundle) in each interval of `width` µs, as sums from which means
    weighted by time are computed. The rows have no order. An interval without a valid report of the thing has no row.

    Input: of (the name of the thing), broker, reported_at, bundles, and the columns `figures`, in which null means
    unknown. Output: step (the begin of the interval, epoch µs), of, broker (of the newest valid row), bundles (the
    greatest number); and for each name in `figures` the sum of value × seconds, and as `…_s` for how many seconds the
    value is known. The mean is the first divided by the second. `summed` combines results for several parts of the
    rows.
    """
    found = _sorted(rows, "of", period)
    row, starts, seconds = in_intervals(found.held, width)
    holds = seconds > 0
    row, starts, seconds = row[holds], starts[holds], seconds[holds]
    columns = {"step": pa.array(starts)}
    columns |= {name: found.table.column(name).take(pa.array(row)) for name in ("of", "broker", "bundles")}
    for name in figures:
        values = found.table.column(name)
        columns[name] = pa.array(_doubles(values.fill_null(0.0))[row] * seconds)
        columns[f"{name}_s"] = pa.array(np.where(values.is_valid().to_numpy()[row], seconds, 0.0))
    return summed([pa.table(columns)], figures)


def summed(parts: Iterable[pa.Table], figures: Sequence[str]) -> pa.Table:
    """Combine results of `step_sums` for several parts of the rows into one. `parts` are in the order of time, oldest
    first.
    """
    kinds = {"broker": "last", "bundles": "max"}
    kinds |= {column: "sum" for name in figures for column in (name, f"{name}_s")}
    grouped = pa.concat_tables(parts).group_by(["step", "of"], use_threads=False).aggregate([*kinds.items()])
    names = {f"{name}_{kind}": name for name, kind in kinds.items()}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def usage_shares(rows: pa.Table, period: Period, threshold: float) -> pa.Table:
    """Return for each broker in which share of the time its usage was above `threshold`. The rows have no order.

    Input: broker, reported_at, weighted_usage. Output: broker, reports (the number of reports in the period), over (how
    many of these are above the threshold), share (of the time with a valid report, the fraction above the threshold),
    usage_mean (weighted by time), usage_max, first_over and last_over (the times of the first and the last report
    above; null if there is none).
    """
    found = _sorted(rows, "broker", period)
    count = len(found.names)
    kept = np.flatnonzero(found.counts)
    groups, weights = found.things[kept], found.held.seconds[kept]
    usage = _doubles(found.table.column("weighted_usage"))[kept]
    over, within = usage > threshold, found.at[kept] >= period.since
    known = np.unique(groups)
    greatest, first, last = np.full(count, -np.inf), np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.maximum.at(greatest, groups, usage)
    at = np.maximum(found.at[kept], period.since)
    np.minimum.at(first, groups[over], at[over])
    np.maximum.at(last, groups[over], at[over])
    never = np.bincount(groups, over, count)[known] == 0
    return pa.table(
        {
            "broker": pa.array([found.names[code] for code in known], pa.string()),
            "reports": pa.array(np.bincount(groups, within, count)[known].astype(np.int64)),
            "over": pa.array(np.bincount(groups, within & over, count)[known].astype(np.int64)),
            "share": pa.array(weighted_means(groups, count, weights, over.astype(np.float64))[known]),
            "usage_mean": pa.array(weighted_means(groups, count, weights, usage)[known]),
            "usage_max": pa.array(greatest[known]),
            "first_over": pa.array(first[known], pa.int64(), mask=never).cast(pa.timestamp("us", "UTC")),
            "last_over": pa.array(last[known], pa.int64(), mask=never).cast(pa.timestamp("us", "UTC")),
        }
    )


def _sorted(rows: pa.Table, thing: str, period: Period) -> _Rows:
    things, names = _coded(rows, thing)
    codes, brokers = _coded(rows, "broker")
    by_name = np.argsort(np.argsort(np.array(brokers, np.str_)))
    order = np.lexsort((by_name[codes], _times(rows), things))  # sorting numbers is faster than sorting names
    table, things, codes = rows.take(pa.array(order)).combine_chunks(), things[order], codes[order]
    reports = {code: period.reports[name] for code, name in enumerate(brokers) if name in period.reports}
    at = _times(table)
    found = held(things, codes, at, reports, period.since, period.until)
    within = (at >= period.since) & (at < period.until)
    return _Rows(table, things, names, at, found, within | (found.seconds > 0))


def _coded(table: pa.Table, column: str) -> tuple[Indices, list[str]]:
    codes = table.column(column).combine_chunks().dictionary_encode()
    return codes.indices.to_numpy(zero_copy_only=False).astype(np.int64), codes.dictionary.to_pylist()


def _times(table: pa.Table) -> Times:
    found: Times = table.column("reported_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return found


def _doubles(column: pa.ChunkedArray) -> Floats:
    found: Floats = column.cast(pa.float64()).to_numpy()
    return found
