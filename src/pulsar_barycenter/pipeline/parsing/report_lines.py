"""Reads load reports with Spark: from the lines of the report log, or from the topic to which brokers publish them.

messages = spark.read.format("pulsar").option("service.url", url).option("topic", LOAD_REPORT_TOPIC).load()
tables = fold_history(report_lines(messages), decisions)
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by
from pyspark.sql import types as T  # noqa: N812

from pulsar_barycenter.load.reports.load_report import LOAD_REPORT_TOPIC as LOAD_REPORT_TOPIC
from pulsar_barycenter.pipeline.parsing.conditions import all_of, any_of
from pulsar_barycenter.pipeline.spark.session import kept_columns
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, REPORT_LOG
from pulsar_barycenter.pipeline.tables.schemas import LAST_TIME_MS, RESOURCES

CORRUPT: Final = "corrupt"
"""The column with the text of a line that is not valid JSON of its schema; null for a valid line."""

# ---- schemas ----


def _fields(kind: T.DataType, *names: str) -> list[T.StructField]:
    return [T.StructField(name, kind) for name in names]


_RESOURCE_USAGE = T.StructType(_fields(T.DoubleType(), "usage", "limit"))

_BUNDLE_STATS = T.StructType(
    [
        *_fields(T.DoubleType(), "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"),
        *_fields(T.LongType(), "consumerCount", "producerCount", "topics", "cacheSize"),
    ]
)
"""NamespaceBundleStats."""

_LISTENER = T.StructType(
    _fields(T.StringType(), "brokerServiceUrl", "brokerServiceUrlTls", "brokerHttpUrl", "brokerHttpsUrl")
)

LOAD_REPORT: Final = T.StructType(
    [
        *_fields(T.StringType(), "brokerId", "incarnation"),
        *_fields(T.LongType(), "sequence", "lastUpdate"),
        T.StructField("lastStats", T.MapType(T.StringType(), _BUNDLE_STATS)),
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
"""The JSON of LocalBrokerData with our `incarnation` and `sequence`. Other fields are ignored."""

LOAD_REPORT_LINE: Final = T.StructType([*LOAD_REPORT.fields, *_fields(T.StringType(), CORRUPT)])
"""The row that Spark's JSON reader makes of a line of the report log."""


# ---- reading ----

JSON_OPTIONS: Final = {
    "columnNameOfCorruptRecord": CORRUPT,
    "mode": "PERMISSIVE",
    "allowNonNumericNumbers": "false",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",  # the log's retention may delete a file between listing and reading
    "pathGlobFilter": "*.json",
}
"""Options to read a report log. Spark ignores files whose names begin with '.' or '_'."""

_PARSING: Final = {name: JSON_OPTIONS[name] for name in ("columnNameOfCorruptRecord", "mode", "allowNonNumericNumbers")}


def read_report_log(session: SparkSession, storage: Storage) -> DataFrame:
    """Return every line of the load reports in the data directory: those that wait in the report log, and those that
    the pipeline has read and moved to the archive. Output: the columns LOAD_REPORT_LINE.
    """
    roots = [storage.address(root) for root in (REPORT_LOG, ARCHIVE) if storage.exists(root)]
    reader = session.read.schema(LOAD_REPORT_LINE).options(**JSON_OPTIONS, recursiveFileLookup="true")
    return reader.json(roots).transform(believable_times).transform(one_entry_a_bundle)


def report_lines(messages: DataFrame) -> DataFrame:
    """Parse the values of messages in the same way as lines of the report log. A value that is not JSON of a report
    becomes a row whose column `corrupt` is not null.

    Input: `value`, binary or string. Output: the columns LOAD_REPORT_LINE, one row per message.
    """
    line = F.from_json(F.col("value").cast("string"), LOAD_REPORT_LINE, _PARSING)
    return messages.select(line.alias("line")).select("line.*").transform(one_entry_a_bundle)


# ---- which lines are reports ----

_FIELDS_READ: Final = (
    *(f"{field}.{part}" for field, _ in RESOURCES.values() for part in ("usage", "limit")),
    *("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"),
    *("numTopics", "numConsumers", "numProducers", "startTimestamp", "lastBundleGains", "lastBundleLosses"),
    *("brokerVersionString", "loadManagerClassName"),
)
_LARGEST: Final = 1.7976931348623157e308
_LARGEST_OF_32_BITS: Final = 3.4028234663852886e38
_LARGEST_SHARE: Final = 1e36
_LEAST_HASH: Final = -(2**63)
_RATES: Final = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")


@kept_columns
def is_report() -> Column:
    """Return a column that says whether a line is a valid load report: true or false, never null. Input: the columns
    LOAD_REPORT_LINE.
    """
    return all_of(
        F.col(CORRUPT).isNull(),
        *(F.col(name).isNotNull() for name in ("brokerId", "incarnation", "sequence")),
        F.coalesce(F.col("lastUpdate").between(0, LAST_TIME_MS), F.lit(False)),
        F.coalesce("startTimestamp", F.lit(0)).between(0, LAST_TIME_MS),
        ~F.coalesce(_has_infinite_rate(F.col), F.lit(False)),
        *(_is_share(field) for field, _ in RESOURCES.values()),
        ~F.coalesce(
            F.exists(F.map_values("lastStats"), lambda stats: _has_infinite_rate(stats.getField)), F.lit(False)
        ),
        # Always true. Spark parses only the fields that a query needs, and detects wrong types only in these. Without
        # this line, a report with one field of a wrong type would be in some tables and not in others.
        F.xxhash64(*_FIELDS_READ, F.map_values("lastStats")) >= _LEAST_HASH,
    )


def _has_infinite_rate(rate: Callable[[str], Column]) -> Column:
    """Return a column: true if one of the message rates or throughputs is infinite. Otherwise null if one of them is
    missing, else false. `rate` returns the column of a rate by name.

    A JSON number that is too large for 64 bits, such as 1e999, is read as infinity, and would make averages infinite.
    """
    return any_of(*(F.abs(rate(name)) > _LARGEST for name in _RATES))


def _is_share(resource: str) -> Column:
    """Return a column: false if the usage or the limit of a resource, or the usage in percent of the limit, is too
    large for a 32-bit float (Pulsar's type for them). Otherwise true, also if usage or limit is missing.
    """
    usage, limit = F.col(f"{resource}.usage"), F.col(f"{resource}.limit")
    are_numbers = all_of(*(F.abs(number) <= _LARGEST_OF_32_BITS for number in (usage, limit)))
    has_no_limit = (limit <= 0) | (limit.cast("float") == F.lit(0).cast("float"))
    share = has_no_limit | (F.abs(F.try_divide(usage, limit)) <= _LARGEST_SHARE)
    return F.coalesce(are_numbers & share, F.lit(True))


MAX_AHEAD_MS = 86_400_000
"""How far a report's time may be after the time at which its file was written.

Otherwise, one clock that runs far ahead would make all other brokers look silent.
"""


def believable_times(lines: DataFrame) -> DataFrame:
    """Set `lastUpdate` to null if it is more than `MAX_AHEAD_MS` after the modification time of the file. The line is
    then not a valid report.

    Input and output: LOAD_REPORT_LINE as read from files, with their metadata. A file keeps its modification time when
    it is moved to the archive, so a later computation from the archive refuses the same reports.
    """
    latest = F.unix_millis("_metadata.file_modification_time") + MAX_AHEAD_MS
    return lines.withColumn("lastUpdate", F.when(F.col("lastUpdate") <= latest, F.col("lastUpdate")))


def one_entry_a_bundle(lines: DataFrame) -> DataFrame:
    """Keep only the last entry of each bundle in `lastStats`, as other JSON readers do: the JSON of a report may have
    the same bundle several times.

    Input and output: the columns LOAD_REPORT_LINE.
    """
    names = F.map_keys("lastStats")
    is_twice = F.size(F.array_distinct(names)) < F.size(names)
    return lines.withColumn("lastStats", F.when(is_twice, _last_entries("lastStats")).otherwise(F.col("lastStats")))


def _last_entries(name: str) -> Column:
    """Return the map column `name` without repeats: for each key, only the last of its entries."""
    keys = F.map_keys(name)

    def is_last(entry: Column, place: Column) -> Column:
        later = F.slice(keys, place + 2, F.size(keys))
        return ~F.exists(later, lambda key: key == entry.getField("key"))

    return F.map_from_entries(F.filter(F.map_entries(name), is_last))


def valid_reports(lines: DataFrame) -> DataFrame:
    """Return the lines that are valid load reports. `is_report` has the rule: for example, broker, incarnation,
    sequence and time must be there.

    Input: the columns LOAD_REPORT_LINE. Output: LOAD_REPORT.
    """
    return lines.where(is_report()).drop(CORRUPT)


def distinct_reports(reports: DataFrame) -> DataFrame:
    """Return one report for each (broker, incarnation, sequence): the one with the earliest `lastUpdate`.

    Input and output: LOAD_REPORT. A report may be in the log twice, because a broker retries.
    """
    copies = Window.partitionBy("brokerId", "incarnation", "sequence").orderBy("lastUpdate")
    return reports.withColumn("copy", F.row_number().over(copies)).where(F.col("copy") == 1).drop("copy")
