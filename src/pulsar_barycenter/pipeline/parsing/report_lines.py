"""Load reports as Spark reads them: the report log's lines, or the messages of the topic that brokers publish to.

messages = spark.read.format("pulsar").option("service.url", url).option("topic", LOAD_REPORT_TOPIC).load()
tables = fold_history(report_lines(messages), decisions)
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by
from pyspark.sql import types as T  # noqa: N812

from pulsar_barycenter.load.reports.load_report import LOAD_REPORT_TOPIC as LOAD_REPORT_TOPIC
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, REPORT_LOG
from pulsar_barycenter.pipeline.tables.schemas import LAST_TIME_MS, RESOURCES

CORRUPT: Final = "corrupt"
"""The column of a line that holds its text if it is not what it ought to be; null for a good one."""

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
"""The JSON of LocalBrokerData with our `incarnation` and `sequence`; other fields are ignored on reading."""

LOAD_REPORT_LINE: Final = T.StructType([*LOAD_REPORT.fields, *_fields(T.StringType(), CORRUPT)])
"""What the JSON reader makes of one line of the report log."""


# ---- reading ----

JSON_OPTIONS: Final = {
    "columnNameOfCorruptRecord": CORRUPT,
    "mode": "PERMISSIVE",
    "allowNonNumericNumbers": "false",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",  # the log's retention may delete a file between listing and reading
    "pathGlobFilter": "*.json",
}
"""How a report log is read. Names starting with '.' or '_' are passed over by Spark itself."""

_PARSING: Final = {name: JSON_OPTIONS[name] for name in ("columnNameOfCorruptRecord", "mode", "allowNonNumericNumbers")}


def read_report_log(session: SparkSession, storage: Storage) -> DataFrame:
    """Every line of the report log, those already read by the stream included. Output: LOAD_REPORT_LINE."""
    roots = [storage.address(root) for root in (REPORT_LOG, ARCHIVE) if storage.exists(root)]
    reader = session.read.schema(LOAD_REPORT_LINE).options(**JSON_OPTIONS, recursiveFileLookup="true")
    return reader.json(roots).transform(believable_times).transform(one_entry_a_bundle)


def report_lines(messages: DataFrame) -> DataFrame:
    """Parse the values of messages as the lines of the report log are; one that is no report is a corrupt line.

    Input: `value`, binary or string. Output: LOAD_REPORT_LINE, one row a message.
    """
    line = F.from_json(F.col("value").cast("string"), LOAD_REPORT_LINE, _PARSING)
    return messages.select(line.alias("line")).select("line.*").transform(one_entry_a_bundle)


# ---- which lines are reports ----

_FIELDS_READ = ", ".join(
    [
        *(f"{field}.{part}" for field, _ in RESOURCES.values() for part in ("usage", "limit")),
        *("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"),
        *("numTopics", "numConsumers", "numProducers", "startTimestamp", "lastBundleGains", "lastBundleLosses"),
        *("brokerVersionString", "loadManagerClassName", "map_values(lastStats)"),
    ]
)

_LARGEST: Final = "1.7976931348623157E308D"
_LARGEST_OF_32_BITS: Final = "3.4028234663852886E38D"
_RATES: Final = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")


def _no_number(prefix: str) -> str:
    """A JSON number beyond 64 bits, as 1e999, is read as infinite, and would make every average of it infinite.

    True if a rate is such a one; null or false if none is, as some may be absent.
    """
    return " or ".join(f"abs({prefix}{name}) > {_LARGEST}" for name in _RATES)


def _is_share(resource: str) -> str:
    """Usage and limit are numbers of 32 bits, as Pulsar computes with, and so is the percentage."""
    usage, limit = f"{resource}.usage", f"{resource}.limit"
    are_numbers = f"abs({usage}) <= {_LARGEST_OF_32_BITS} and abs({limit}) <= {_LARGEST_OF_32_BITS}"
    share = f"{limit} <= 0 or cast({limit} as float) = 0F or abs(try_divide({usage}, {limit})) <= 1E36D"
    return f"coalesce({are_numbers} and ({share}), true)"


_ARE_NUMBERS = " and ".join(
    [
        f"not coalesce({_no_number('')}, false)",
        *(_is_share(field) for field, _ in RESOURCES.values()),
        f"not coalesce(exists(map_values(lastStats), s -> {_no_number('s.')}), false)",
    ]
)

IS_REPORT = (
    f"({CORRUPT} is null and brokerId is not null and incarnation is not null"
    f" and sequence is not null and coalesce(lastUpdate between 0 and {LAST_TIME_MS}, false)"
    f" and coalesce(startTimestamp, 0) between 0 and {LAST_TIME_MS}"
    f" and {_ARE_NUMBERS}"
    # Always true. Spark parses only the fields a query needs, and what it does not parse it does not find corrupt:
    # without this line the tables would disagree about a report with one field of a wrong type.
    f" and xxhash64({_FIELDS_READ}) >= -9223372036854775808L)"
)
"""Tells a load report from a line that is none; never null."""


MAX_AHEAD_MS = 86_400_000
"""How far a report's time may lie after the time its file was written. One clock that runs far ahead would else make
every other broker look silent."""


def believable_times(lines: DataFrame) -> DataFrame:
    """Drop the time of a report that is more than `MAX_AHEAD_MS` ahead of its file's, which makes it no report.

    Input and output: LOAD_REPORT_LINE as it is read from files, with their metadata. A file keeps its time in the
    archive, so the batch and the stream refuse the same reports.
    """
    latest = f"unix_millis(_metadata.file_modification_time) + {MAX_AHEAD_MS}"
    return lines.withColumn("lastUpdate", F.expr(f"case when lastUpdate <= {latest} then lastUpdate end"))


def one_entry_a_bundle(lines: DataFrame) -> DataFrame:
    """Of a bundle that stands several times in a report keep the last entry, as other readers of JSON do.

    Input and output: LOAD_REPORT_LINE.
    """
    names = "map_keys(lastStats)"
    comes_again = f"exists(slice({names}, i + 2, size({names})), name -> name = e.key)"
    last = f"map_from_entries(filter(map_entries(lastStats), (e, i) -> not {comes_again}))"
    is_twice = f"size(array_distinct({names})) < size({names})"
    return lines.withColumn("lastStats", F.expr(f"case when {is_twice} then {last} else lastStats end"))


def valid_reports(lines: DataFrame) -> DataFrame:
    """Keep the lines that are load reports: well-formed, and with broker, incarnation, sequence and time.

    Input: LOAD_REPORT_LINE. Output: LOAD_REPORT.
    """
    return lines.where(IS_REPORT).drop(CORRUPT)


def distinct_reports(reports: DataFrame) -> DataFrame:
    """Keep one report of each (broker, incarnation, sequence), the one of the earliest `lastUpdate`.

    Input and output: LOAD_REPORT. Needed because a report may be logged twice, by a broker that retries.
    """
    copy = "row_number() over (partition by brokerId, incarnation, sequence order by lastUpdate) as copy"
    return reports.selectExpr("*", copy).where("copy = 1").drop("copy")
