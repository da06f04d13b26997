"""The schemas of everything the pipeline reads and writes.

Units: rates are msg/s, throughput is bytes/s; times in tables are UTC timestamps, times in reports epoch ms. Nothing
in a table is null.
"""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by

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

BUNDLE_SAMPLES = T.StructType(
    [
        *_fields(T.StringType(), "bundle", "broker", "incarnation"),
        *_fields(T.LongType(), "sequence"),
        *_fields(T.TimestampType(), "reported_at"),
        *_fields(T.DoubleType(), *FIGURES),
        *_fields(T.LongType(), "topics", "consumers", "producers"),
    ]
)
"""One row per bundle and load report. Key: bundle, broker, incarnation, sequence."""

BUNDLE_DATA = T.StructType(
    [
        *_fields(T.StringType(), "bundle"),
        *_fields(T.TimestampType(), "as_of"),
        *(
            field
            for window in WINDOWS
            for field in (
                *_fields(T.IntegerType(), f"{window}_num_samples"),
                *_fields(T.DoubleType(), *(f"{window}_{figure}" for figure in FIGURES)),
            )
        ),
    ]
)
"""Both windows of a bundle after its sample of `as_of`. A bundle's row of the greatest `as_of` is its present one."""

BUNDLE_STATE = T.StructType([*BUNDLE_DATA.fields, *_fields(T.LongType(), "topics")])
"""What must be remembered of a bundle to fold its next sample in; `topics` is of its newest sample."""

BROKER_DATA = T.StructType(
    [
        *_fields(T.StringType(), "broker"),
        *_fields(T.TimestampType(), "as_of"),
        *_fields(T.DoubleType(), *BROKER_FIGURES),
    ]
)
"""Time averages of every broker heard of lately, once per publication; `as_of` is the publication's newest report."""

MEMBERSHIP = T.StructType(_fields(T.StringType(), "broker", "bundle"))
"""The bundles of each broker's newest report; one row with a null bundle for a broker that serves none."""
