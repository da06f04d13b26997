"""The schemas of everything the pipeline reads and writes.

Units: rates are msg/s, throughput is bytes/s; times in tables are UTC timestamps, times in reports epoch ms. Columns of
tables are never null unless their schema says so. `TABLES` is the catalogue; docs/tables.md is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by
from pyspark.sql.pandas.types import to_arrow_schema

FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
"""The four figures of a bundle that are averaged."""

WINDOWS = ("short", "long")
"""The two windows, of at most `SHORT_SAMPLES` and `LONG_SAMPLES` samples."""

BROKER_FIGURES = tuple(
    f"{window}_term_{figure}"
    for window in WINDOWS
    for figure in ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
)
"""The eight sums of TimeAverageBrokerData."""

LAST_TIME_MS = 253_402_300_799_999
"""The end of the year 9999: a time beyond it is a mistake, and no table can hold it."""

CORRUPT = "corrupt"
"""The column of a read report that holds the text of a line that is not a load report; null for a good one."""


def _fields(kind: T.DataType, *names: str, nullable: bool = True) -> list[T.StructField]:
    return [T.StructField(name, kind, nullable) for name in names]


_RESOURCE_USAGE = T.StructType(_fields(T.DoubleType(), "usage", "limit"))

BUNDLE_STATS = T.StructType(
    [
        *_fields(T.DoubleType(), "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"),
        *_fields(T.LongType(), "consumerCount", "producerCount", "topics", "cacheSize"),
    ]
)
"""NamespaceBundleStats."""

_LISTENER = T.StructType(
    _fields(T.StringType(), "brokerServiceUrl", "brokerServiceUrlTls", "brokerHttpUrl", "brokerHttpsUrl")
)

LOAD_REPORT = T.StructType(
    [
        *_fields(T.StringType(), "brokerId", "incarnation"),
        *_fields(T.LongType(), "sequence", "lastUpdate"),
        T.StructField("lastStats", T.MapType(T.StringType(), BUNDLE_STATS)),
        *_fields(_RESOURCE_USAGE, "cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"),
        *_fields(T.DoubleType(), "msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut", "maxResourceUsage"),
        *_fields(T.LongType(), "numTopics", "numBundles", "numConsumers", "numProducers", "startTimestamp"),
        *_fields(T.ArrayType(T.StringType()), "bundles", "lastBundleGains", "lastBundleLosses"),
        *_fields(T.StringType(), "webServiceUrl", "webServiceUrlTls", "pulsarServiceUrl", "pulsarServiceUrlTls"),
        *_fields(T.BooleanType(), "persistentTopicsEnabled", "nonPersistentTopicsEnabled"),
        *_fields(T.StringType(), "brokerVersionString", "loadManagerClassName", "loadReportType"),
        T.StructField("protocols", T.MapType(T.StringType(), T.StringType())),
        T.StructField("advertisedListeners", T.MapType(T.StringType(), _LISTENER)),
    ]
)
"""The JSON of LocalBrokerData with our `incarnation` and `sequence`; other fields are ignored on reading."""

LOAD_REPORT_LINE = T.StructType([*LOAD_REPORT.fields, *_fields(T.StringType(), CORRUPT)])
"""What the JSON reader makes of one line of the report log."""

DECISION_LINE = T.StructType(
    [
        *_fields(T.LongType(), "at", "number"),
        *_fields(T.StringType(), "by", "kind", "reason", "sentence"),
        *_fields(T.StringType(), "bundle", "source", "destination", "refused", "strategy", CORRUPT),
    ]
)
"""What the JSON reader makes of one line of a decision log; `reason` is its JSON."""


def _column(kind: T.DataType, name: str, comment: str, *, nullable: bool = False) -> T.StructField:
    return T.StructField(name, kind, nullable, {"comment": comment})


def _text(name: str, comment: str, *, nullable: bool = False) -> T.StructField:
    return _column(T.StringType(), name, comment, nullable=nullable)


def _time(name: str, comment: str, *, nullable: bool = False) -> T.StructField:
    return _column(T.TimestampType(), name, comment, nullable=nullable)


def _count(name: str, comment: str) -> T.StructField:
    return _column(T.LongType(), name, comment)


def _double(name: str, comment: str) -> T.StructField:
    return _column(T.DoubleType(), name, comment)


_UNIT_OF_FIGURE = {figure: "bytes/s" if "throughput" in figure else "msg/s" for figure in FIGURES}

_REPORT_IDENTITY = (
    _text("broker", "id of the broker, host:port"),
    _text("incarnation", "differs with each start of the broker"),
    _count("sequence", "1, 2, 3, ... within an incarnation"),
    _time("reported_at", "time of the report by the broker's clock"),
)

LOAD_REPORTS = T.StructType(
    [
        *_REPORT_IDENTITY,
        _time("started_at", "start of the broker by its clock; null if the report does not say", nullable=True),
        _text("version", "of the broker's program; null if the report does not say", nullable=True),
        _text("load_manager", "class name of the broker's load manager; null likewise", nullable=True),
        *(_double(figure, f"{_UNIT_OF_FIGURE[figure]}, whole broker") for figure in FIGURES),
        _count("topics", "loaded topics"),
        _count("bundles", "bundles in the report"),
        _count("consumers", "connected consumers"),
        _count("producers", "connected producers"),
        _count("bundles_gained", "since the last written report"),
        _count("bundles_lost", "since the last written report"),
    ]
)

RESOURCES = {
    "cpu": ("cpu", "percent of one core"),
    "memory": ("memory", "MiB"),
    "direct_memory": ("directMemory", "MiB"),
    "bandwidth_in": ("bandwidthIn", "kbit/s"),
    "bandwidth_out": ("bandwidthOut", "kbit/s"),
}
"""Column prefix to the field of a load report and its unit."""

BROKER_USAGE = T.StructType(
    [
        *_REPORT_IDENTITY,
        *(
            field
            for name, (_, unit) in RESOURCES.items()
            for field in (
                _double(f"{name}_usage", f"{unit}; -1 if unknown"),
                _double(f"{name}_limit", f"{unit}; -1 if unknown"),
                _double(f"{name}_percent", "0 to 100 and beyond; 0 without a limit; 32-bit precision, as Pulsar's"),
            )
        ),
        _double("max_usage", "largest of CPU, direct memory and both bandwidths; 1.0 is full; 32-bit precision"),
        _double("weighted_usage", "largest of CPU and both bandwidths (Pulsar's default weights); 1.0 is full"),
    ]
)

BUNDLE_SAMPLES = T.StructType(
    [
        _text("bundle", "tenant/namespace/range"),
        *_REPORT_IDENTITY,
        *(_double(figure, _UNIT_OF_FIGURE[figure]) for figure in FIGURES),
        _count("topics", "loaded topics"),
        _count("consumers", "connected consumers"),
        _count("producers", "connected producers"),
    ]
)

BUNDLE_DATA = T.StructType(
    [
        _text("bundle", "tenant/namespace/range"),
        _time("as_of", "time of the bundle's newest sample"),
        *(
            field
            for window in WINDOWS
            for field in (
                _column(T.IntegerType(), f"{window}_num_samples", f"samples in the {window} window"),
                *(_double(f"{window}_{figure}", f"{_UNIT_OF_FIGURE[figure]}, average") for figure in FIGURES),
            )
        ),
    ]
)
"""Both windows of a bundle after its sample of `as_of`."""

BUNDLE_STATE = T.StructType([*BUNDLE_DATA.fields, *_fields(T.LongType(), "topics")])
"""What must be remembered of a bundle to fold its next sample in; `topics` is of its newest sample."""

BROKER_DATA = T.StructType(
    [
        _text("broker", "id of the broker"),
        _time("as_of", "time of the newest report of all"),
        *(
            _double(figure, ("bytes/s" if "throughput" in figure else "msg/s") + ", sum over the broker's bundles")
            for figure in BROKER_FIGURES
        ),
    ]
)

ENDED_MOVED, ENDED_SPLIT, ENDED_GONE = "moved", "split", "broker gone"

OWNERSHIP = T.StructType(
    [
        _text("bundle", "tenant/namespace/range"),
        _text("broker", "its owner"),
        _text("incarnation", "of the owner"),
        _time("owned_from", "time of the first report that lists the bundle, by the owner's clock, inclusive"),
        _time(
            "owned_to",
            "time of the owner's first report without it, exclusive; of its last report if it is gone; null = still",
            nullable=True,
        ),
        _text("ended", "moved, split or broker gone; null = still", nullable=True),
    ]
)

DECISIONS = T.StructType(
    [
        _time("at", "by the deciding broker's clock"),
        _text("by", "id of the deciding broker"),
        _count("number", "counts the decisions of one process of that broker from 1"),
        _text("kind", "assign, unload, split, refuse or shed"),
        _text("bundle", "tenant/namespace/range; empty for none"),
        _text("source", "broker the bundle is on; empty for none"),
        _text("destination", "broker the bundle shall go to; empty for none"),
        _text("refused", "what was considered and not done; empty unless `kind` is refuse"),
        _text("strategy", "name of the strategy; empty for none"),
        _text("code", "of the reason, see `load/reasons.py`"),
        _text("reason", "JSON of the whole reason"),
        _text("sentence", "the reason as a person reads it"),
    ]
)

BALANCE = T.StructType(
    [
        _time("interval_start", "inclusive"),
        _time("interval_end", "exclusive"),
        _count("brokers", "brokers heard of within the last hour before the end"),
        *(
            _double(f"{name}_{kind}", f"{unit}, {kind} over the brokers")
            for name, unit in (
                ("usage", "weighted usage, 1.0 is full"),
                ("msg_rate", "msg/s in and out"),
                ("msg_throughput", "bytes/s in and out"),
            )
            for kind in ("max", "mean")
        ),
        _double("usage_deviation", "standard deviation of the weighted usage over the brokers"),
        _count("brokers_over_threshold", "brokers whose weighted usage is above the overload threshold"),
        _count("unloads", "decisions to unload in the interval"),
        _count("splits", "decisions to split in the interval"),
        _count("bundles_without_owner", "bundles at the end that lost their owner within the last hour, see below"),
    ]
)


def arrow_schema_of(schema: T.StructType) -> pa.Schema:
    """The same columns for Arrow; timestamps are µs in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Its rows are parted by the UTC date of the column `time`; `key` names a row, or its versions.

    `ownership` alone is parted otherwise, see `pipeline.ownership`.
    """

    schema: T.StructType
    time: str
    key: tuple[str, ...]
    about: str

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema_of(self.schema)


_REPORT_KEY = ("broker", "incarnation", "sequence")

TABLES = {
    "load_reports": Table(
        LOAD_REPORTS,
        "reported_at",
        _REPORT_KEY,
        "One row per accepted load report. A copy of a report, with the same key, is left out. Figures that a report"
        " does not have count as 0.",
    ),
    "broker_usage": Table(
        BROKER_USAGE, "reported_at", _REPORT_KEY, "The resources of the broker, one row per accepted load report."
    ),
    "bundle_samples": Table(
        BUNDLE_SAMPLES, "reported_at", ("bundle", *_REPORT_KEY), "One row per bundle of each accepted load report."
    ),
    "bundle_data": Table(
        BUNDLE_DATA,
        "as_of",
        ("bundle", "as_of"),
        "Both windows of a bundle after each batch that had samples of it. The row of the greatest `as_of` is the"
        " present one. A bundle that was split keeps its rows; its children start without history, as Pulsar's do.",
    ),
    "broker_data": Table(
        BROKER_DATA,
        "as_of",
        ("broker", "as_of"),
        "The windows of each broker's bundles summed, after each batch, for every broker heard of within an hour.",
    ),
    "ownership": Table(
        OWNERSHIP,
        "owned_from",
        ("bundle", "broker", "incarnation", "owned_from"),
        "Who owned which bundle and when, as the load reports tell. A date's folder holds every interval that was open"
        " on that date, so one interval may stand in several, while it was open and after: the row with `owned_to`"
        " counts, and of two such rows `split` counts. `read_table` sees to it.",
    ),
    "decisions": Table(
        DECISIONS, "at", ("by", "number", "at"), "What the leaders decided and why, from their decision logs."
    ),
    "balance": Table(
        BALANCE,
        "interval_start",
        ("interval_start",),
        "How evenly the brokers were loaded at the end of each interval (default: one minute).",
    ),
}
"""Every table by its name, which is its folder's."""

MEMBERSHIP = T.StructType(_fields(T.StringType(), "broker", "bundle"))
"""The bundles of each broker's newest report; one row with a null bundle for a broker that serves none."""
