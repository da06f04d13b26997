"""What the pipeline's tables must contain, computed report by report from their definitions."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.load_report import (
    DEFAULT_WEIGHTS,
    BundleData,
    LocalBrokerData,
    default_bundle_data,
    max_resource_usage,
    weighted_resource_usage,
)
from pulsar_barycenter.load.reports.windows import broker_averages, fold_bundle
from pulsar_barycenter.naming.bundle import BundleRange
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from support.pipeline_runs import Row, assert_same, first_columns, newest_broker_data, newest_bundle_data, rows_of

FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


def moment(ms: int | None) -> datetime.datetime | None:
    """The time as Spark returns it to Python: naive, in the zone of this process."""
    if ms is None:
        return None
    whole = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC).astimezone()
    return whole.replace(microsecond=ms % 1000 * 1000, tzinfo=None)


@dataclass(slots=True)
class Owned:
    bundle: str
    broker: str
    incarnation: str
    owned_from: int
    owned_to: int | None = None
    ended: str | None = None
    lost_at: float = math.inf


class PipelineOracle:
    """The tables of some reports, no two with one time."""

    def __init__(self, reports: Iterable[LocalBrokerData], settings: StreamSettings | None = None) -> None:
        settings = settings or StreamSettings()
        self.reports = sorted(reports, key=lambda report: report.last_update)
        self.as_of = self.reports[-1].last_update
        self.settings = settings
        self.gap_ms = settings.history_gap_ms
        self.balance_settings = settings.balance
        self.owned = self._owned()

    def load_reports(self) -> list[Row]:
        return [
            {
                **_identity(report),
                "started_at": moment(report.start_timestamp),
                "version": report.broker_version_string,
                "load_manager": report.load_manager_class_name,
                **{figure: getattr(report, figure) for figure in FIGURES},
                "topics": report.num_topics,
                "bundles": len(report.last_stats),
                "consumers": report.num_consumers,
                "producers": report.num_producers,
                "bundles_gained": len(report.last_bundle_gains),
                "bundles_lost": len(report.last_bundle_losses),
            }
            for report in self.reports
        ]

    def broker_usage(self) -> list[Row]:
        rows = []
        for report in self.reports:
            row = _identity(report)
            for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out"):
                resource = getattr(report, name)
                row |= {f"{name}_usage": resource.usage, f"{name}_limit": resource.limit}
                row[f"{name}_percent"] = resource.percent
            row["max_usage"] = max_resource_usage(report)
            row["weighted_usage"] = weighted_resource_usage(report, DEFAULT_WEIGHTS)
            rows.append(row)
        return rows

    def bundle_samples(self) -> list[Row]:
        return [
            {
                "bundle": bundle,
                **_identity(report),
                **{figure: getattr(stats, figure) for figure in FIGURES},
                "topics": stats.topics,
                "consumers": stats.consumer_count,
                "producers": stats.producer_count,
            }
            for report in self.reports
            for bundle, stats in report.last_stats.items()
        ]

    def _windows(self) -> dict[str, tuple[int, BundleData]]:
        windows: dict[str, tuple[int, BundleData]] = {}
        for report in self.reports:
            for bundle, stats in report.last_stats.items():
                known_at, data = windows.get(bundle, (0, default_bundle_data()))
                if report.last_update - known_at > self.gap_ms:
                    data = default_bundle_data()
                windows[bundle] = report.last_update, fold_bundle(data, stats)
        return {name: (at, data) for name, (at, data) in windows.items() if self.as_of - at <= self.gap_ms}

    def bundle_data(self) -> list[Row]:
        """Only the newest rows."""
        rows = []
        for bundle, (known_at, data) in self._windows().items():
            row: Row = {"bundle": bundle, "as_of": moment(known_at)}
            for window, average in (("short", data.short_term_data), ("long", data.long_term_data)):
                row[f"{window}_num_samples"] = average.num_samples
                row |= {f"{window}_{figure}": getattr(average, figure) for figure in FIGURES}
            rows.append(row)
        return rows

    def broker_data(self) -> list[Row]:
        """Only the newest rows."""
        newest = {str(report.broker_id): report for report in self.reports}
        data = {bundle: windows for bundle, (_, windows) in self._windows().items()}
        rows = []
        for broker, report in newest.items():
            if self.as_of - report.last_update <= self.gap_ms:
                sums = broker_averages(report.last_stats, data)
                row = {"broker": broker, "as_of": moment(self.as_of)}
                rows.append(row | {name: getattr(sums, name) for name in sums.__struct_fields__})
        return rows

    def _owned(self) -> list[Owned]:
        owned: list[Owned] = []
        for broker in sorted({str(report.broker_id) for report in self.reports}):
            held: dict[str, Owned] = {}
            before: LocalBrokerData | None = None
            for report in (r for r in self.reports if r.broker_id == broker):
                now = report.last_update
                if before and (report.incarnation != before.incarnation or now - before.last_update > self.gap_ms):
                    _lose(held, before, min(now, before.last_update + self.gap_ms))
                for bundle in set(held) - set(report.last_stats):
                    lost = held.pop(bundle)
                    lost.owned_to, lost.ended, lost.lost_at = now, "moved", now
                for bundle in set(report.last_stats) - set(held):
                    held[bundle] = Owned(bundle, broker, report.incarnation, now)
                    owned.append(held[bundle])
                before = report
            if before and self.as_of - before.last_update > self.gap_ms:
                _lose(held, before, before.last_update + self.gap_ms)
        for each in owned:
            is_last = not any(o.bundle == each.bundle and o.owned_from > each.owned_from for o in owned)
            if is_last and each.ended == "moved" and each.owned_to is not None:
                until = each.owned_to + self.gap_ms
                if any(is_part(o.bundle, each.bundle) and each.owned_from <= o.owned_from <= until for o in owned):
                    each.ended = "split"
        return owned

    def ownership(self) -> list[Row]:
        return [
            {
                "bundle": each.bundle,
                "broker": each.broker,
                "incarnation": each.incarnation,
                "owned_from": moment(each.owned_from),
                "owned_to": moment(each.owned_to),
                "ended": each.ended,
            }
            for each in self.owned
        ]

    def balance(self, decisions: Iterable[tuple[int, str]]) -> list[Row]:
        """`decisions` are (time, kind)."""
        settings, decided = self.balance_settings, list(decisions)
        size = settings.interval_ms
        start = self.reports[0].last_update // size * size
        rows = []
        while start + size + settings.settle_ms <= self.as_of:
            end = start + size
            newest = {r.broker_id: r for r in self.reports if r.last_update < end}
            known = [r for r in newest.values() if end - r.last_update <= settings.history_gap_ms]
            if known:
                usage = [weighted_resource_usage(r, DEFAULT_WEIGHTS) for r in known]
                rate = [r.msg_rate_in + r.msg_rate_out for r in known]
                throughput = [r.msg_throughput_in + r.msg_throughput_out for r in known]
                row: Row = {"interval_start": moment(start), "interval_end": moment(end), "brokers": len(known)}
                for name, values in (("usage", usage), ("msg_rate", rate), ("msg_throughput", throughput)):
                    row |= {f"{name}_max": max(values), f"{name}_mean": statistics.fmean(values)}
                row["usage_deviation"] = statistics.pstdev(usage)
                row["brokers_over_threshold"] = sum(each > settings.overload_threshold for each in usage)
                for kind in ("unload", "split"):
                    row[f"{kind}s"] = sum(what == kind and start <= at < end for at, what in decided)
                row["bundles_without_owner"] = self._without_owner(end)
                rows.append(row)
            start = end
        return rows

    def _without_owner(self, at: int) -> int:
        count = 0
        for bundle in {each.bundle for each in self.owned}:
            mine = [each for each in self.owned if each.bundle == bundle and each.owned_from <= at]
            is_owned = any(each.lost_at > at for each in mine)
            is_missed = any(at - each.lost_at < self.gap_ms for each in mine)
            is_split = any(is_part(each.bundle, bundle) and each.owned_from <= at for each in self.owned)
            count += bool(mine) and is_missed and not is_owned and not is_split
        return count


def is_part(bundle: str, of: str) -> bool:
    """Return whether the range of `bundle` is a proper part of the other's, in one namespace."""
    (namespace, _, text), (other, _, other_text) = bundle.rpartition("/"), of.rpartition("/")
    inner, outer = BundleRange.parse(text), BundleRange.parse(other_text)
    return namespace == other and outer.lower <= inner.lower and inner.upper <= outer.upper and inner != outer


def _identity(report: LocalBrokerData) -> Row:
    return {
        "broker": report.broker_id,
        "incarnation": report.incarnation,
        "sequence": report.sequence,
        "reported_at": moment(report.last_update),
    }


def _lose(held: dict[str, Owned], last: LocalBrokerData, known_at: int) -> None:
    for lost in held.values():
        lost.owned_to, lost.ended, lost.lost_at = last.last_update, "broker gone", known_at
    held.clear()


def assert_tables_follow(
    spark: SparkSession, layout: PipelineLayout, oracle: PipelineOracle, decisions: Mapping[int, str] | None = None
) -> None:
    """Assert that the stream's tables, except `decisions`, follow their definitions; `decisions` is kind by time."""
    expected: dict[str, list[Row]] = {
        "load_reports": oracle.load_reports(),
        "broker_usage": oracle.broker_usage(),
        "bundle_samples": oracle.bundle_samples(),
        "ownership": oracle.ownership(),
        "balance": oracle.balance((decisions or {}).items()),
    }
    for name, rows in expected.items():
        assert_same(rows_of(read_table(spark, layout, name)), sorted(rows, key=first_columns))
    assert_same(newest_bundle_data(spark, layout, oracle.settings), sorted(oracle.bundle_data(), key=first_columns))
    assert_same(newest_broker_data(spark, layout), sorted(oracle.broker_data(), key=first_columns))
