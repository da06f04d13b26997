"""The tables of `barycenter top`: the columns of brokers, bundles, decisions and topics, with their sort orders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.load.bundle_load import LOAD_BYTES, LOAD_RATE, LONG, load_bytes, load_rate
from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.status.board import BundleRow, TopicRow
from pulsar_barycenter.status.cluster_status import BrokerStatus

UNKNOWN: Final = "-"

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table on the screen of `top`. `cell` returns the text of a row's cell. If the table is sorted by
    this column, rows are in the order of the results of `key`; rows with None come last. A column of numbers
    (`is_figure`) is right-aligned, and sorted with the greatest first.
    """

    title: str
    key: Callable[[Row], Any]
    cell: Callable[[Row], str]
    is_figure: bool = True


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A table of the screen of `top`, shown as a tab: `row_key` returns a text that identifies a row, `text` the text
    in which a filter searches. `place` is the index of the column by which the table is sorted when the program starts.
    """

    name: str
    columns: Sequence[Column[Row]]
    row_key: Callable[[Row], str]
    text: Callable[[Row], str]
    place: int


def _number(title: str, value: Callable[[Row], float | None], digits: int = 0) -> Column[Row]:
    def cell(row: Row) -> str:
        found = value(row)
        return UNKNOWN if found is None else f"{found:,.{digits}f}"

    return Column(title, value, cell)


def _throughput(title: str, value: Callable[[Row], float | None]) -> Column[Row]:
    def cell(row: Row) -> str:
        found = value(row)
        return UNKNOWN if found is None else format_figure(found, "bytes/s")

    return Column(title, value, cell)


def _name(title: str, value: Callable[[Row], str]) -> Column[Row]:
    return Column(title, value, value, is_figure=False)


ShownDecision: TypeAlias = DecisionRecord | BriefDecision
"""A decision of the cluster's log, or what was seen of a cluster from outside."""

BROKERS: Final[Table[BrokerStatus]] = Table(
    "brokers",
    (
        _name("broker", lambda row: row.broker + (" drained" if row.is_drained else "")),
        _number("bundles", lambda row: row.bundles),
        _number("topics", lambda row: row.topics),
        _number(LOAD_RATE, lambda row: row.load_rate),
        _number("msg/s in", lambda row: row.msg_rate_in),
        _throughput(LOAD_BYTES, lambda row: row.load_bytes),
        _throughput("bytes/s in", lambda row: row.msg_throughput_in),
        _number("max %", lambda row: row.max_usage, 1),
        _number("CPU %", lambda row: row.cpu, 1),
        _number("memory %", lambda row: row.memory, 1),
        _number("direct %", lambda row: row.direct_memory, 1),
        _number("net in %", lambda row: row.bandwidth_in, 1),
        _number("net out %", lambda row: row.bandwidth_out, 1),
        _number("report, s", lambda row: row.reported_s_ago),
    ),
    lambda row: row.broker,
    lambda row: row.broker + (" drained" if row.is_drained else ""),
    7,
)
BUNDLES: Final[Table[BundleRow]] = Table(
    "bundles",
    (
        _name("bundle", lambda row: row.bundle),
        _name("broker", lambda row: row.broker + (f" → {row.going_to}" if row.going_to else "")),
        _number(LOAD_RATE, lambda row: load_rate(row) if row.is_known else None),
        _number("msg/s in", lambda row: row.msg_rate_in if row.is_known else None),
        _throughput(LOAD_BYTES, lambda row: load_bytes(row) if row.is_known else None),
        _throughput("bytes/s in", lambda row: row.msg_throughput_in if row.is_known else None),
        _number(f"{LOAD_RATE}, {LONG}", lambda row: row.long_rate),
        _number("topics", lambda row: row.topics if row.is_known else None),
        _number("producers", lambda row: row.producers if row.is_known else None),
        _number("consumers", lambda row: row.consumers if row.is_known else None),
    ),
    lambda row: f"{row.bundle} {row.broker}",
    lambda row: f"{row.bundle} {row.broker} {row.going_to}",
    2,
)
DECISIONS: Final[Table[ShownDecision]] = Table(
    "decisions",
    (
        Column("at, UTC", lambda row: row.at, lambda row: clock(row.at)),
        _name("what", lambda row: f"refused to {row.refused}" if row.kind == "refuse" else row.kind),
        _name("bundle", lambda row: row.bundle),
        _name("from", lambda row: row.source),
        _name("to", lambda row: row.destination),
        _name("by", lambda row: row.decided_by),
        _name("why", lambda row: row.sentence),
    ),
    lambda row: f"{row.by} {row.number}",
    lambda row: f"{row.kind} {row.refused} {row.bundle} {row.source} {row.destination} {row.decided_by} {row.sentence}",
    0,
)
TOPICS: Final[Table[TopicRow]] = Table(
    "topics",
    (
        _name("topic", lambda row: row.topic),
        _name("broker", lambda row: row.broker),
        _number(LOAD_RATE, lambda row: load_rate(row) if row.is_known else None),
        _number("msg/s in", lambda row: row.msg_rate_in if row.is_known else None),
        _throughput(LOAD_BYTES, lambda row: load_bytes(row) if row.is_known else None),
        _throughput("bytes/s in", lambda row: row.msg_throughput_in if row.is_known else None),
        _number("backlog", lambda row: row.backlog if row.is_known else None),
        _number("stored, KiB", lambda row: row.storage_size / 1024 if row.is_known else None),
        _number("subscriptions", lambda row: row.subscriptions if row.is_known else None),
        _number("producers", lambda row: row.producers if row.is_known else None),
        _number("consumers", lambda row: row.consumers if row.is_known else None),
    ),
    lambda row: row.topic,
    lambda row: f"{row.topic} {row.broker}",
    2,
)
TABLES: Final[tuple[Table[Any], ...]] = (BROKERS, BUNDLES, DECISIONS, TOPICS)


def clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%m-%d %H:%M:%S")
