"""Converts load reports to rows: one per report with the broker's values, one per bundle and report with the bundle's.

The batch and the stream use the same expressions.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.parsing.report_lines import is_report
from pulsar_barycenter.pipeline.spark.session import kept_columns
from pulsar_barycenter.pipeline.tables.schemas import BROKER_USAGE, BUNDLE_SAMPLES, LOAD_REPORTS, RESOURCES

_WEIGHTED: Final = ("cpu", "bandwidthIn", "bandwidthOut")
_IDENTITY: Final = ("broker", "incarnation", "sequence", "reported_at")
_SAMPLE: Final = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
    "topics": "topics",
    "consumers": "consumerCount",
    "producers": "producerCount",
}
"""For each column of BUNDLE_SAMPLES, the field of a bundle's stats."""

assert {"bundle", *_IDENTITY, *_SAMPLE} == {*BUNDLE_SAMPLES.names}


def _identity() -> dict[str, Column]:
    """Return the Spark columns that identify a report (broker, incarnation, sequence) and its time, keyed by their
    names in the tables. They are computed from the columns LOAD_REPORT.
    """
    return {
        "broker": F.col("brokerId"),
        "incarnation": F.col("incarnation"),
        "sequence": F.col("sequence"),
        "reported_at": F.timestamp_millis(F.col("lastUpdate")),
    }


def _load_report() -> list[Column]:
    """Return the Spark columns that compute a row of LOAD_REPORTS from the columns of LOAD_REPORT."""
    columns = _identity() | {
        "started_at": F.timestamp_millis(F.col("startTimestamp")),
        "version": F.col("brokerVersionString"),
        "load_manager": F.col("loadManagerClassName"),
        "msg_rate_in": _rate(F.col("msgRateIn")),
        "msg_rate_out": _rate(F.col("msgRateOut")),
        "msg_throughput_in": _rate(F.col("msgThroughputIn")),
        "msg_throughput_out": _rate(F.col("msgThroughputOut")),
        "topics": _count(F.col("numTopics")),
        "bundles": _size("lastStats"),
        "consumers": _count(F.col("numConsumers")),
        "producers": _count(F.col("numProducers")),
        "bundles_gained": _size("lastBundleGains"),
        "bundles_lost": _size("lastBundleLosses"),
    }
    return _named(columns, LOAD_REPORTS.names)


def _broker_usage() -> list[Column]:
    """Return the Spark columns that compute a row of BROKER_USAGE from the columns of LOAD_REPORT."""
    columns = _identity()
    for name, (field, _) in RESOURCES.items():
        columns[f"{name}_usage"] = _rate(F.col(f"{field}.usage"))
        columns[f"{name}_limit"] = _rate(F.col(f"{field}.limit"))
        columns[f"{name}_percent"] = _percent(field)
    columns["max_usage"] = _max_usage()
    columns["weighted_usage"] = _weighted_usage()
    return _named(columns, BROKER_USAGE.names)


def _sample(stats: Column) -> list[Column]:
    """Return the Spark columns of BUNDLE_SAMPLES that depend on the stats of a bundle, computed from the struct
    `stats`. A missing value becomes 0.
    """
    found = {
        name: (_rate if name.startswith("msg_") else _count)(stats.getField(field)) for name, field in _SAMPLE.items()
    }
    return _named(found, list(_SAMPLE))


def _rate(value: Column) -> Column:
    """Return the column `value` as a double, with 0 instead of null."""
    return F.coalesce(value, F.lit(0.0))


def _count(value: Column) -> Column:
    """Return the column `value` as a bigint, with 0 instead of null."""
    return F.coalesce(value, F.lit(0).cast("bigint"))


def _size(name: str) -> Column:
    """Return a Spark column with the number of entries of the array or map `name`; 0 if that is null."""
    return F.coalesce(F.size(name), F.lit(0)).cast("bigint")


def _percent(resource: str) -> Column:
    """Return a Spark column with the usage of a resource in percent of its limit; 0 if the limit is missing or not
    positive.

    Source: Pulsar's `ResourceUsage.percentUsage`: operands, quotient and product are 32-bit floats.
    """
    usage, limit = F.col(f"{resource}.usage"), F.col(f"{resource}.limit")
    zero, hundred = (F.lit(number).cast("float") for number in (0, 100))
    # Dividing widened floats and rounding to 32 bits is the 32-bit division. nullif, because 1e-50 is 0 in 32 bits.
    quotient = (usage.cast("float") / F.nullif(limit.cast("float"), zero)).cast("float")
    percent = F.coalesce((quotient * hundred).cast("double"), F.lit(0.0))
    return F.when(limit > 0, percent).otherwise(F.lit(0.0))


def _max_usage() -> Column:
    """Return a Spark column with the greatest usage of direct memory, CPU, and inbound and outbound bandwidth, as a
    fraction with 32-bit precision.
    """
    greatest = F.greatest(*(_percent(resource) for resource in ("directMemory", *_WEIGHTED)))
    return (greatest / 100).cast("float").cast("double")


def _weighted_usage() -> Column:
    """Return a Spark column with the greatest usage of CPU and of inbound and outbound bandwidth, as a fraction: the
    resources that have a weight by default.
    """
    # direct memory has the weight 0, so the maximum is at least 0
    return F.greatest(F.lit(0.0), *(_percent(resource) for resource in _WEIGHTED)) / 100


def _named(columns: Mapping[str, Column], names: list[str]) -> list[Column]:
    """Return the columns that `names` lists, in this order, each named by its key in `columns`."""
    assert list(columns) == names, f"{list(columns)} are not {names}"
    return [column.alias(name) for name, column in columns.items()]


def load_reports(reports: DataFrame) -> DataFrame:
    """Return one row per report with its times, values and counts. Input: LOAD_REPORT. Output: LOAD_REPORTS."""
    return reports.select(*_load_report())


def broker_usage(reports: DataFrame) -> DataFrame:
    """Return one row per report with the broker's resources. Input: LOAD_REPORT. Output: BROKER_USAGE.

    Source: Pulsar's `ResourceUsage.percentUsage`, `LocalBrokerData.getMaxResourceUsage` and
    `getMaxResourceUsageWithWeight` with the default weights of 4.x.
    """
    return reports.select(*_broker_usage())


def bundle_samples(reports: DataFrame) -> DataFrame:
    """Return one row per bundle of each report (a sample). A value that is missing in the report becomes 0, which is
    Pulsar's default.

    Input: LOAD_REPORT without repeats. Output: BUNDLE_SAMPLES.
    """
    identity = _named(_identity(), [*_IDENTITY])
    exploded = reports.select(*identity, F.explode("lastStats").alias("bundle", "stats"))
    return exploded.select("bundle", *_IDENTITY, *_sample(F.col("stats")))


REPORT_ROW = ("key", "gains", "load_report", "broker_usage", "samples")
"""The columns that `report_rows` makes of a report. All are null for a line that is not a report."""


def report_rows(lines: DataFrame, *kept: str) -> DataFrame:
    """Return one row per line: what the tables store of the report, and the columns `kept` of the line. The columns of
    the report are null if the line is not a valid report.

    Input: LOAD_REPORT_LINE. Output: `kept`; `key` (brokerId, incarnation, sequence, lastUpdate); `gains`, the bundles
    that the broker gained; `load_report` and `broker_usage`, each a struct with the columns of the table of that name;
    `samples`, an array of structs, one per bundle, with those columns of BUNDLE_SAMPLES that depend on the bundle.
    """
    checked = lines.withColumn(_IS_REPORT, is_report())  # computed once for all columns, because it reads every bundle
    return checked.select(*kept, *_report_row_or_null(_ROW_TYPES.of(checked)))


@kept_columns
def _report_row() -> list[Column]:
    """Return the Spark columns that REPORT_ROW lists: what the tables store of a report. They are computed from the
    columns LOAD_REPORT.
    """
    columns = {
        "key": F.struct("brokerId", "incarnation", "sequence", "lastUpdate"),
        "gains": F.coalesce("lastBundleGains", F.array()),
        "load_report": F.struct(*_load_report()),
        "broker_usage": F.struct(*_broker_usage()),
        "samples": F.transform(F.map_entries(F.coalesce("lastStats", F.create_map())), _entry_as_sample),
    }
    return _named(columns, [*REPORT_ROW])


def _entry_as_sample(entry: Column) -> Column:
    """Return a Spark column: an entry of the map `lastStats` as a struct with the bundle's name and those columns of
    BUNDLE_SAMPLES that depend on the bundle's stats.
    """
    return F.struct(entry.getField("key").alias("bundle"), *_sample(entry.getField("value")))


@kept_columns
def _report_row_or_null(types: tuple[str, ...]) -> list[Column]:
    """Return the Spark columns that REPORT_ROW lists, cast to `types`. For a line that is not a valid report, all of
    them are null.
    """
    return [
        F.when(F.col(_IS_REPORT), column.cast(kind)).alias(name)
        for name, column, kind in zip(REPORT_ROW, _report_row(), types, strict=True)
    ]


class RowTypes:
    """The types of the columns of REPORT_ROW, as Spark's names of types. They are computed at the first call of `of`.
    Several threads may call `of` at the same time.
    """

    def __init__(self) -> None:
        self._types: tuple[str, ...] = ()

    def of(self, lines: DataFrame) -> tuple[str, ...]:
        """Return the type of each column in REPORT_ROW, in the same order. `lines` has the columns LOAD_REPORT_LINE and
        `isReport`.

        A cast to these types by name makes all fields nullable. Without it, Arrow refuses a null struct with a field
        that is declared as not nullable.
        """
        if not self._types:
            schema = lines.select(*_report_row()).schema
            self._types = tuple(field.dataType.simpleString() for field in schema)  # all at once, for other threads
        return self._types


_IS_REPORT = "isReport"
_ROW_TYPES = RowTypes()
