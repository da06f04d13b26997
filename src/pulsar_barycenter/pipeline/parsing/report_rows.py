"""From load reports to rows: one per report with the broker's figures, one per bundle and report with the bundle's.

The same expressions serve the batch and the stream.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.parsing.report_lines import IS_REPORT
from pulsar_barycenter.pipeline.tables.schemas import BROKER_USAGE, BUNDLE_SAMPLES, LOAD_REPORTS, RESOURCES

_IDENTITY = {
    "broker": "brokerId",
    "incarnation": "incarnation",
    "sequence": "sequence",
    "reported_at": "timestamp_millis(lastUpdate)",
}

_LOAD_REPORTS = _IDENTITY | {
    "started_at": "timestamp_millis(startTimestamp)",
    "version": "brokerVersionString",
    "load_manager": "loadManagerClassName",
    "msg_rate_in": "coalesce(msgRateIn, 0D)",
    "msg_rate_out": "coalesce(msgRateOut, 0D)",
    "msg_throughput_in": "coalesce(msgThroughputIn, 0D)",
    "msg_throughput_out": "coalesce(msgThroughputOut, 0D)",
    "topics": "coalesce(numTopics, 0L)",
    "bundles": "cast(coalesce(size(lastStats), 0) as bigint)",
    "consumers": "coalesce(numConsumers, 0L)",
    "producers": "coalesce(numProducers, 0L)",
    "bundles_gained": "cast(coalesce(size(lastBundleGains), 0) as bigint)",
    "bundles_lost": "cast(coalesce(size(lastBundleLosses), 0) as bigint)",
}


def _percent(field: str) -> str:
    """Pulsar's `ResourceUsage.percentUsage`: operands, quotient and product are 32-bit floats."""
    # A division of two widened floats rounded to 32 bits is the 32-bit division; nullif as 1e-50 narrows to 0.
    quotient = f"cast(cast({field}.usage as float) / nullif(cast({field}.limit as float), 0F) as float)"
    return f"case when {field}.limit > 0 then coalesce(cast({quotient} * 100F as double), 0D) else 0D end"


_WEIGHTED = ("cpu", "bandwidthIn", "bandwidthOut")

_BROKER_USAGE = (
    _IDENTITY
    | {
        f"{name}_{part}": expression
        for name, (field, _) in RESOURCES.items()
        for part, expression in (
            ("usage", f"coalesce({field}.usage, 0D)"),
            ("limit", f"coalesce({field}.limit, 0D)"),
            ("percent", _percent(field)),
        )
    }
    | {
        "max_usage": "cast(cast(greatest("
        + ", ".join(_percent(field) for field in ("directMemory", *_WEIGHTED))
        + ") / 100 as float) as double)",
        # direct memory weighs 0, which is a floor of 0 under the maximum
        "weighted_usage": f"greatest(0D, {', '.join(map(_percent, _WEIGHTED))}) / 100",
    }
)

_SAMPLE = {
    "msg_rate_in": "coalesce(stats.msgRateIn, 0D)",
    "msg_rate_out": "coalesce(stats.msgRateOut, 0D)",
    "msg_throughput_in": "coalesce(stats.msgThroughputIn, 0D)",
    "msg_throughput_out": "coalesce(stats.msgThroughputOut, 0D)",
    "topics": "coalesce(stats.topics, 0L)",
    "consumers": "coalesce(stats.consumerCount, 0L)",
    "producers": "coalesce(stats.producerCount, 0L)",
}

assert list(_LOAD_REPORTS) == LOAD_REPORTS.names
assert list(_BROKER_USAGE) == BROKER_USAGE.names
assert ["bundle", *_IDENTITY, *_SAMPLE] == BUNDLE_SAMPLES.names


def load_reports(reports: DataFrame) -> DataFrame:
    """One row per report with its times, figures and counts. Input: LOAD_REPORT. Output: LOAD_REPORTS."""
    return reports.selectExpr(*_named(_LOAD_REPORTS))


def broker_usage(reports: DataFrame) -> DataFrame:
    """One row per report with the broker's resources. Input: LOAD_REPORT. Output: BROKER_USAGE.

    Source: Pulsar's `ResourceUsage.percentUsage`, `LocalBrokerData.getMaxResourceUsage` and
    `getMaxResourceUsageWithWeight` with the default weights of 4.x.
    """
    return reports.selectExpr(*_named(_BROKER_USAGE))


def bundle_samples(reports: DataFrame) -> DataFrame:
    """One row per bundle of each report; a figure that a report leaves out counts as 0, as Pulsar's default.

    Input: LOAD_REPORT without repeats. Output: BUNDLE_SAMPLES.
    """
    exploded = reports.selectExpr(*_named(_IDENTITY), "explode(lastStats) as (bundle, stats)")
    return exploded.selectExpr("bundle", *_IDENTITY, *_named(_SAMPLE))


REPORT_ROW = ("key", "gains", "load_report", "broker_usage", "samples")
"""The columns that `report_rows` makes of a report; all are null for a line that is none."""


def report_rows(lines: DataFrame, *kept: str) -> DataFrame:
    """One row per line with all that the tables hold of its report, and the columns `kept`.

    Input: LOAD_REPORT_LINE. Output: `kept`; `key` (brokerId, incarnation, sequence, lastUpdate); `gains`, the bundles
    gained; `load_report`, `broker_usage`, a struct each of their table's columns; `samples`, an array of BUNDLE_SAMPLES
    without the columns of the report.
    """
    sample = ", ".join(f"{text.replace('stats.', 'e.value.')} as {name}" for name, text in _SAMPLE.items())
    columns = {
        "key": "struct(brokerId, incarnation, sequence, lastUpdate)",
        "gains": "coalesce(lastBundleGains, array())",
        "load_report": f"struct({', '.join(_named(_LOAD_REPORTS))})",
        "broker_usage": f"struct({', '.join(_named(_BROKER_USAGE))})",
        "samples": f"transform(map_entries(coalesce(lastStats, map())), e -> struct(e.key as bundle, {sample}))",
    }
    assert tuple(columns) == REPORT_ROW
    told = lines.withColumn(_IS_REPORT, F.expr(IS_REPORT))  # once for all columns: it looks at every bundle
    return told.selectExpr(*kept, *_guarded(told, columns))


def _guarded(lines: DataFrame, columns: dict[str, str]) -> list[str]:
    """The expressions of `columns` that are null for a line that is no report."""
    if not _ROW_TYPES:
        # In a null struct no field may be declared never to be null, which Arrow refuses: a cast by name allows it.
        schema = lines.selectExpr(*_named(columns)).schema
        _ROW_TYPES.update({field.name: field.dataType.simpleString() for field in schema})
    return [
        f"case when {_IS_REPORT} then cast({text} as {_ROW_TYPES[name]}) end as {name}"
        for name, text in columns.items()
    ]


_IS_REPORT = "isReport"
_ROW_TYPES: dict[str, str] = {}


def _named(expressions: dict[str, str]) -> list[str]:
    return [f"{text} as {name}" for name, text in expressions.items()]
