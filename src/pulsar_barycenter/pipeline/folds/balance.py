"""Computes how evenly the brokers were loaded, for each interval of time.

The values of an interval are those at its end: for each broker, the values of its newest report before the end. That
report may be up to an hour old (`HISTORY_GAP_MS`), because a broker without changes reports only every 15 minutes. An
interval is settled when the newest report of all brokers is `settle_ms` after its end. Later reports do not change it.
An interval in which no broker is known has no row.

A bundle counts as without an owner from the report that shows that its owner lost it. It does so until a broker reports
it or a part of its range, or until an hour has passed: a bundle that no client uses may stay without an owner.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.folds.ownership import Interval, parts_of
from pulsar_barycenter.pipeline.tables.schemas import FIGURES


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """The settings by which the table `balance` is computed: `interval_ms` is the length of an interval. An interval
    gets its row when reports are known until `settle_ms` after its end. A broker's report is used for at most
    `history_gap_ms`. `overload_threshold` is Pulsar's `loadBalancerBrokerOverloadedThresholdPercentage` as a fraction.
    """

    interval_ms: int = 60_000
    settle_ms: int = 60_000
    overload_threshold: float = 0.85
    history_gap_ms: int = HISTORY_GAP_MS


class BrokerFigures(msgspec.Struct, frozen=True, rename="camel", order=True):
    """The load of a broker in one report. `usage` is its weighted usage (a fraction); `msg_rate` (msg/s) and
    `msg_throughput` (bytes/s) are in + out.
    """

    reported_at: int
    incarnation: str
    sequence: int
    usage: float
    msg_rate: float
    msg_throughput: float


def broker_figures(load_reports: pa.Table, broker_usage: pa.Table) -> dict[str, list[BrokerFigures]]:
    """Return the load in each report, in the order of the input, keyed by broker. The table `balance` is computed from
    these values.

    Input: tables with the columns LOAD_REPORTS and BROKER_USAGE; rows with the same index are about the same report.
    """
    found: dict[str, list[BrokerFigures]] = {}
    usages = broker_usage.column("weighted_usage").to_pylist()
    times = load_reports.column("reported_at").cast(pa.int64()).to_pylist()
    columns = ["broker", "incarnation", "sequence", *FIGURES]
    for at, usage, row in zip(times, usages, load_reports.select(columns).to_pylist(), strict=True):
        figures = BrokerFigures(
            reported_at=at // 1000,
            incarnation=row["incarnation"],
            sequence=row["sequence"],
            usage=usage,
            msg_rate=row["msg_rate_in"] + row["msg_rate_out"],
            msg_throughput=row["msg_throughput_in"] + row["msg_throughput_out"],
        )
        found.setdefault(row["broker"], []).append(figures)
    return found


class BalanceMemory(msgspec.Struct, rename="camel"):
    """What the pipeline keeps from one batch to the next to compute rows of the table `balance`: the values of reports,
    by broker, and the times of decisions to unload and to split.

    `next_start` is the start of the first interval (epoch ms) that has no row yet; None until the first row is written.
    """

    next_start: int | None = None
    figures: dict[str, list[BrokerFigures]] = {}
    unloads: list[int] = []
    splits: list[int] = []


Row = dict[str, int | float]


def settle_intervals(
    before: BalanceMemory,
    figures: Mapping[str, Iterable[BrokerFigures]],
    decided: Mapping[str, Iterable[int]],
    owners: Owners,
    *,
    as_of: int,
    settings: BalanceSettings,
) -> tuple[BalanceMemory, list[Row]]:
    """Return the rows of the table `balance` that can be written after this batch, oldest first, and the memory for the
    next batch. An interval gets its row when `as_of`, the time of the newest report, is at least `settings.settle_ms`
    after its end. Times are epoch ms.

    `before` is the memory after the previous batch, which is not changed. `figures` (values of reports, by broker) and
    `decided` (times of decisions, by "unload" and "split") are from this batch. `owners` is the ownership after it.
    """
    known = {broker: list(reports) for broker, reports in before.figures.items()}
    for broker, reports in figures.items():
        known.setdefault(broker, []).extend(reports)
    known = {broker: sorted(reports) for broker, reports in known.items()}
    unloads = [*before.unloads, *decided.get("unload", ())]
    splits = [*before.splits, *decided.get("split", ())]
    size = settings.interval_ms
    rows: list[Row] = []
    start = before.next_start
    while True:
        start = _next_interval(start, known, settings)
        if start is None or start + size + settings.settle_ms > as_of:
            break
        end = start + size
        rows.append(
            {
                "interval_start": start,
                "interval_end": end,
                **_spread(_newest_before(end, known, settings.history_gap_ms), settings.overload_threshold),
                "unloads": sum(start <= at < end for at in unloads),
                "splits": sum(start <= at < end for at in splits),
                "bundles_without_owner": count_without_owner(owners, end, settings.history_gap_ms),
            }
        )
        start = end
    # Before the first interval is settled, a broker that has not reported yet may still add an earlier interval.
    after = start if rows or before.next_start is not None else None
    return _remember(after, known, unloads, splits, settings), rows


def _next_interval(
    start: int | None, known: Mapping[str, list[BrokerFigures]], settings: BalanceSettings
) -> int | None:
    """Return the start of the first interval at whose end some broker has a report that is at most `history_gap_ms`
    old. Only intervals that start at `start` or later are considered; None: all. Return None if there is no such
    interval.
    """
    size = settings.interval_ms
    if start is not None and _newest_before(start + size, known, settings.history_gap_ms):
        return start
    later = [r.reported_at for reports in known.values() for r in reports if start is None or r.reported_at >= start]
    return min(later) // size * size if later else None


def _newest_before(end: int, known: Mapping[str, list[BrokerFigures]], history_gap_ms: int) -> list[BrokerFigures]:
    newest = []
    for reports in known.values():
        earlier = [report for report in reports if report.reported_at < end]
        if earlier and end - earlier[-1].reported_at <= history_gap_ms:
            newest.append(earlier[-1])
    return newest


def _spread(brokers: list[BrokerFigures], threshold: float) -> Row:
    columns = {
        "usage": [broker.usage for broker in brokers],
        "msg_rate": [broker.msg_rate for broker in brokers],
        "msg_throughput": [broker.msg_throughput for broker in brokers],
    }
    row: Row = {"brokers": len(brokers)}
    for name, values in columns.items():
        row |= {f"{name}_max": max(values), f"{name}_mean": statistics.fmean(values)}
    row["usage_deviation"] = statistics.pstdev(columns["usage"])
    row["brokers_over_threshold"] = sum(usage > threshold for usage in columns["usage"])
    return row


def count_without_owner(owners: Owners, at: int, history_gap_ms: int) -> int:
    """Return how many bundles had no owner at the time `at` (epoch ms).

    A bundle counts from the report that shows that its owner lost it. It counts until a broker reports the bundle or a
    part of its range, or until `history_gap_ms` has passed.
    """
    missing = [
        parts_of(bundle)
        for bundle in owners.lost_until(at, history_gap_ms)
        if not any(_covers(interval, at) for interval in owners.intervals_of(bundle))
    ]
    starts = owners.starts_in({namespace for namespace, _, _ in missing})
    return sum(
        not any(
            start <= at and lower <= low and high <= upper and (low, high) != (lower, upper)
            for low, high, start in starts[namespace]
        )
        for namespace, lower, upper in missing
    )


def _covers(interval: Interval, at: int) -> bool:
    return interval.owned_from <= at and (interval.owned_to is None or interval.lost_at > at)


def _remember(
    start: int | None,
    known: Mapping[str, list[BrokerFigures]],
    unloads: list[int],
    splits: list[int],
    settings: BalanceSettings,
) -> BalanceMemory:
    """Return what is needed to compute intervals from `start` on: for each broker its reports since `start` and the
    newest one before; decisions since `start`. If `start` is None, all of `known`, `unloads` and `splits` is kept.
    """
    if start is None:
        return BalanceMemory(None, dict(known), unloads, splits)
    kept = {}
    for broker, reports in known.items():
        earlier = [r for r in reports if r.reported_at < start and start - r.reported_at <= settings.history_gap_ms]
        later = [report for report in reports if report.reported_at >= start]
        if earlier or later:
            kept[broker] = earlier[-1:] + later
    return BalanceMemory(start, kept, [t for t in unloads if t >= start], [t for t in splits if t >= start])
