"""Defines the columns of every table, and the types of their files.

Units: rates are msg/s, throughput is bytes/s; times are UTC timestamps. Columns are never null unless they say so.

`TABLES` is the catalogue; docs/tables.md is made from it. `pipeline.spark.struct_types` converts the columns for Spark.
"""

import json
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
"""The four rates of a bundle that are averaged."""

WINDOWS = ("short", "long")
"""The two windows, of at most `SHORT_SAMPLES` and `LONG_SAMPLES` samples."""

BROKER_FIGURES = tuple(
    f"{window}_term_{figure}"
    for window in WINDOWS
    for figure in ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
)
"""The eight sums of TimeAverageBrokerData."""

LAST_TIME_MS = 253_402_300_799_999
"""The end of the year 9999. A later time is an error, and no table can store it."""

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_SPARKS_METADATA: Final = "SPARK::metadata::json"
"""The key under which PySpark stores a column's comment in an Arrow schema, and so in the tables' files."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `kind` is its SQL type: string, int, bigint, double or timestamp."""

    name: str
    kind: str
    about: str = ""
    nullable: bool = False

    @property
    def arrow(self) -> pa.Field:
        comment = {_SPARKS_METADATA: json.dumps({"comment": self.about})} if self.about else None
        return pa.field(self.name, _ARROW_TYPES[self.kind], self.nullable, comment)


class Columns(tuple[Column, ...]):
    """The columns of a table, in their order."""

    __slots__ = ()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of files with these columns. Times are µs in UTC."""
        return pa.schema([column.arrow for column in self])


def _text(name: str, about: str, *, nullable: bool = False) -> Column:
    return Column(name, "string", about, nullable)


def _time(name: str, about: str, *, nullable: bool = False) -> Column:
    return Column(name, "timestamp", about, nullable)


def _count(name: str, about: str) -> Column:
    return Column(name, "bigint", about)


def _double(name: str, about: str) -> Column:
    return Column(name, "double", about)


_UNIT_OF_FIGURE = {figure: "bytes/s" if "throughput" in figure else "msg/s" for figure in FIGURES}

_REPORT_IDENTITY = (
    _text("broker", "id of the broker, host:port"),
    _text("incarnation", "differs with each start of the broker"),
    _count("sequence", "1, 2, 3, ... within an incarnation"),
    _time("reported_at", "time of the report by the broker's clock"),
)

LOAD_REPORTS = Columns(
    [
        *_REPORT_IDENTITY,
        _time("started_at", "start of the broker by its clock; null if the report does not say", nullable=True),
        _text("version", "version of the broker; null if the report does not say", nullable=True),
        _text(
            "load_manager", "class name of the broker's load manager; null if the report does not say", nullable=True
        ),
        *(_double(figure, f"{_UNIT_OF_FIGURE[figure]}, whole broker") for figure in FIGURES),
        _count("topics", "loaded topics"),
        _count("bundles", "bundles in the report"),
        _count("consumers", "connected consumers"),
        _count("producers", "connected producers"),
        _count("bundles_gained", "bundles that the broker gained since its last written report"),
        _count("bundles_lost", "bundles that the broker lost since its last written report"),
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

BROKER_USAGE = Columns(
    [
        *_REPORT_IDENTITY,
        *(
            field
            for name, (_, unit) in RESOURCES.items()
            for field in (
                _double(f"{name}_usage", f"{unit}; -1 if unknown"),
                _double(f"{name}_limit", f"{unit}; -1 if unknown"),
                _double(f"{name}_percent", "may exceed 100; 0 without a limit; 32-bit precision, as in Pulsar"),
            )
        ),
        _double("max_usage", "largest of CPU, direct memory and both bandwidths; 1.0 is full; 32-bit precision"),
        _double("weighted_usage", "largest of CPU and both bandwidths (Pulsar's default weights); 1.0 is full"),
    ]
)

BUNDLE_SAMPLES = Columns(
    [
        _text("bundle", "tenant/namespace/range"),
        *_REPORT_IDENTITY,
        *(_double(figure, _UNIT_OF_FIGURE[figure]) for figure in FIGURES),
        _count("topics", "loaded topics"),
        _count("consumers", "connected consumers"),
        _count("producers", "connected producers"),
    ]
)

BUNDLE_DATA = Columns(
    [
        _text("bundle", "tenant/namespace/range"),
        _time("as_of", "time of the bundle's newest sample"),
        *(
            field
            for window in WINDOWS
            for field in (
                Column(f"{window}_num_samples", "int", f"samples in the {window} window"),
                *(_double(f"{window}_{figure}", f"{_UNIT_OF_FIGURE[figure]}, average") for figure in FIGURES),
            )
        ),
    ]
)
"""Both windows of a bundle after its sample at `as_of`."""

BUNDLE_STATE = Columns([*BUNDLE_DATA, Column("topics", "bigint", nullable=True)])
"""The state of a bundle that is needed to fold its next sample; `topics` is that of its newest sample."""

BROKER_DATA = Columns(
    [
        _text("broker", "id of the broker"),
        _time("as_of", "time of the newest report of all brokers"),
        *(
            _double(figure, ("bytes/s" if "throughput" in figure else "msg/s") + ", sum over the broker's bundles")
            for figure in BROKER_FIGURES
        ),
    ]
)

ENDED_MOVED, ENDED_SPLIT, ENDED_GONE = "moved", "split", "broker gone"

OWNERSHIP = Columns(
    [
        _text("bundle", "tenant/namespace/range"),
        _text("broker", "its owner"),
        _text("incarnation", "incarnation of the owner"),
        _time("owned_from", "time of the first report that lists the bundle, by the owner's clock, inclusive"),
        _time(
            "owned_to",
            "time of the owner's first report without it, exclusive; if broker gone, of its last report; null = still",
            nullable=True,
        ),
        _text("ended", "moved, split or broker gone; null = still", nullable=True),
    ]
)

DECISIONS = Columns(
    [
        _time("at", "time of the decision, by the deciding broker's clock"),
        _text("by", "id of the deciding broker"),
        _count("number", "counts the decisions of one process of that broker from 1"),
        _text("kind", "assign, unload, split, refuse or shed"),
        _text("bundle", "tenant/namespace/range; empty for none"),
        _text("source", "broker that owns the bundle; empty for none"),
        _text("destination", "broker that is to own the bundle; empty for none"),
        _text("refused", "action that was considered but not taken; empty unless `kind` is refuse"),
        _text(
            "manager",
            "load manager that decided: modular, extensible or simple; null if its log does not say",
            nullable=True,
        ),
        _text("strategy", "name of the strategy; empty for none"),
        _text("principal", "user who requested it, or anonymous; null if no user did", nullable=True),
        _text("request", "HTTP request with which a user did; null if no user did", nullable=True),
        _text("code", "code of the reason, see `load/reasons.py`"),
        _text("reason", "JSON of the whole reason"),
        _text("sentence", "the reason as a sentence"),
    ]
)

BALANCE = Columns(
    [
        _time("interval_start", "inclusive"),
        _time("interval_end", "exclusive"),
        _count("brokers", "brokers that reported within the last hour before the end"),
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


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with one folder for each UTC date of the column `time`. No two rows have equal values in the columns
    `key`.

    `ownership` is an exception: it has several rows (versions) of an interval, in folders of several dates; see
    `pipeline.folds.ownership`.
    """

    schema: Columns
    time: str
    key: tuple[str, ...]
    about: str

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.schema.arrow


_REPORT_KEY = ("broker", "incarnation", "sequence")

TABLES = {
    "load_reports": Table(
        LOAD_REPORTS,
        "reported_at",
        _REPORT_KEY,
        "One row per accepted load report. A copy of a report, with the same key, is left out. Values that a report"
        " does not have are 0.",
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
        "Both windows of a bundle after each batch that had samples of it. The row with the greatest `as_of` is the"
        " present one. A bundle that was split keeps its rows; its parts start without history, as in Pulsar.",
    ),
    "broker_data": Table(
        BROKER_DATA,
        "as_of",
        ("broker", "as_of"),
        "The sums of the windows of each broker's bundles after each batch, for brokers that reported within an hour.",
    ),
    "ownership": Table(
        OWNERSHIP,
        "owned_from",
        ("bundle", "broker", "incarnation", "owned_from"),
        "The owners of each bundle over time, derived from the load reports. A date's folder has every interval that"
        " was open on that date. So an interval may have several rows, written while it was open and when it ended. The"
        " row with `owned_to` is valid; of two such rows, the one with `split`. `read_table` returns only valid rows.",
    ),
    "decisions": Table(
        DECISIONS,
        "at",
        ("by", "number", "at"),
        "The decisions of the leaders with their reasons, from the decision logs. Some kinds concern no bundle: after"
        " elect, `destination` is the leader, and `source` was the leader before; after drain, `source` gets no more"
        " bundles; after undrain, it may get bundles again. Decisions that a user requested have a `principal` and a"
        " `request`.",
    ),
    "balance": Table(
        BALANCE,
        "interval_start",
        ("interval_start",),
        "How evenly the brokers were loaded at the end of each interval (default: one minute).",
    ),
}
"""Every table by its name, which is also the name of its folder."""
