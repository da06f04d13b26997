"""Builds snapshots from load reports, one after the other, and reuses what did not change since the last one.

Needs numpy; only a leader imports it.
Source: Pulsar's `LoadData`, `BrokerData`.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    TimeAverageMessageData,
    resources_of,
)
from pulsar_barycenter.load.snapshot.load_snapshot import (
    LARGEST_COUNT,
    BrokerTable,
    BundleTable,
    Flags,
    Indices,
    Integers,
    LoadSnapshot,
    MessageColumns,
    bounded_count,
    finite,
    raw_percent,
    unloaded_recently,
)
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound

_T = TypeVar("_T")
_LONG: Final = 10_000
"""A number of rows whose merge takes some milliseconds."""
_Item = TypeVar("_Item", bound="np.generic[Any]")


def build_snapshot(
    reports: Mapping[str, LocalBrokerData],
    bundle_data: Mapping[str, BundleData],
    averages: Mapping[str, TimeAverageBrokerData],
    *,
    preallocated: Mapping[str, Mapping[str, BundleData]] | None = None,
    recently_unloaded: Iterable[str] = (),
) -> LoadSnapshot:
    """Return the snapshot of the live brokers, which are the keys (broker ids) of `reports`.

    The averages of a broker that has no entry in `averages` are 0. A bundle that has no entry in `bundle_data` has no
    windows. Entries of `averages` and `preallocated` for brokers without a report are ignored.
    """
    return SnapshotBuilder().build(
        reports, bundle_data, averages, preallocated=preallocated, recently_unloaded=recently_unloaded
    )


class SnapshotBuilder:
    """Builds one snapshot after the other. The result is always equal to that of `build_snapshot`, but the parts that
    did not change are taken from the snapshot before.

    The rows of a broker are reused if its report is the same object and the data of its bundles are equal. The order of
    all rows is reused if every broker has the same bundles. So a snapshot after only one new report costs little, and
    `prepare` spreads the cost of many reports over time.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[LocalBrokerData, list[BundleData | None], _Rows]] = {}
        self._layout: _Layout | None = None

    def prepare(self, broker: str, report: LocalBrokerData, bundle_data: Mapping[str, BundleData]) -> bool:
        """Build the rows of one broker now, so that the next `build` need not do it. Return False if they had been
        built already and did not change.
        """
        before = self._kept.get(broker)
        if before is not None and before[0] is report:
            names = before[2].names
            known = list(map(bundle_data.get, names))
            if known == before[1]:
                return False
        else:
            names = sorted({*report.bundles, *report.last_stats})
            known = list(map(bundle_data.get, names))
        self._kept[broker] = (report, known, _rows_of(report, names, known))
        return True

    def lay_out(self, brokers: Iterable[str]) -> Iterator[None]:
        """Compute the order of the rows of these brokers now, so that the next `build` need not do it; call `prepare`
        for each of them before. Yields so that the caller can pause.
        """
        tables = [self._kept[broker][2] for broker in sorted(brokers)]
        if self._layout is None or self._layout.of != [table.names for table in tables]:
            self._layout = yield from _layout(tables)

    def build(
        self,
        reports: Mapping[str, LocalBrokerData],
        bundle_data: Mapping[str, BundleData],
        averages: Mapping[str, TimeAverageBrokerData],
        *,
        preallocated: Mapping[str, Mapping[str, BundleData]] | None = None,
        recently_unloaded: Iterable[str] = (),
        ready: Collection[str] = (),
    ) -> LoadSnapshot:
        """Return the snapshot, equal to the result of `build_snapshot` for these arguments. Brokers that are not in
        `reports` are forgotten: their rows are not kept for later snapshots.

        For the brokers in `ready` the rows of the last `prepare` are used without a comparison.
        """
        brokers = _broker_table(reports, averages)
        for broker in brokers.names:
            if broker not in ready:
                self.prepare(broker, reports[broker], bundle_data)
        self._kept = {broker: self._kept[broker] for broker in brokers.names}
        deque(self.lay_out(brokers.names), maxlen=0)
        tables = [table for _, _, table in self._kept.values()]
        layout = self._layout
        assert layout is not None
        bundles = unloaded_recently(_bundle_table(tables, layout), recently_unloaded)
        return LoadSnapshot(brokers, bundles, layout.namespaces).with_preallocations(preallocated or {})


def _broker_table(reports: Mapping[str, LocalBrokerData], averages: Mapping[str, TimeAverageBrokerData]) -> BrokerTable:
    names = tuple(sorted(reports))
    rows = [reports[name] for name in names]
    means = [averages.get(name) or TimeAverageBrokerData() for name in names]
    usages = [resources_of(row) for row in rows]
    usage, bad_usage = finite(np.array([[r.usage for r in row] for row in usages], float).reshape(-1, 5).T)
    limit, bad_limit = finite(np.array([[r.limit for r in row] for row in usages], float).reshape(-1, 5).T)
    bad_percent = ~np.isfinite(raw_percent(usage, limit))
    latest, bad_latest = _message_columns(
        rows, lambda r: (r.msg_rate_in, r.msg_rate_out, r.msg_throughput_in, r.msg_throughput_out)
    )
    short, bad_short = _message_columns(means, _short_term)
    long, bad_long = _message_columns(means, _long_term)
    return BrokerTable(
        names=names,
        usage=usage,
        limit=limit,
        latest=latest,
        short=short,
        long=long,
        topics=_integers(rows, lambda r: r.num_topics),
        bundle_count=_integers(rows, lambda r: len(r.bundles)),
        versions=tuple(row.broker_version_string for row in rows),
        class_names=tuple(row.load_manager_class_name for row in rows),
        persistent=np.array([row.persistent_topics_enabled for row in rows], bool),
        non_persistent=np.array([row.non_persistent_topics_enabled for row in rows], bool),
        started_at_ms=_integers(rows, lambda r: r.start_timestamp),
        reported_at_ms=_integers(rows, lambda r: r.last_update),
        suspect=(bad_usage | bad_limit | bad_percent).any(axis=0) | bad_latest | bad_short | bad_long,
    )


def _short_term(mean: TimeAverageBrokerData) -> tuple[float, float, float, float]:
    return (
        mean.short_term_msg_rate_in,
        mean.short_term_msg_rate_out,
        mean.short_term_msg_throughput_in,
        mean.short_term_msg_throughput_out,
    )


def _long_term(mean: TimeAverageBrokerData) -> tuple[float, float, float, float]:
    return (
        mean.long_term_msg_rate_in,
        mean.long_term_msg_rate_out,
        mean.long_term_msg_throughput_in,
        mean.long_term_msg_throughput_out,
    )


def _figures(traffic: NamespaceBundleStats | TimeAverageMessageData) -> tuple[float, float, float, float]:
    return traffic.msg_rate_in, traffic.msg_rate_out, traffic.msg_throughput_in, traffic.msg_throughput_out


_NO_STATS = NamespaceBundleStats()
_NO_WINDOW = TimeAverageMessageData()
_NO_DATA = BundleData(short_term_data=_NO_WINDOW, long_term_data=_NO_WINDOW)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns over the bundles in the report of one broker, sorted by name; `namespace` has indexes of `namespaces`."""

    names: list[str]
    namespaces: tuple[str, ...]
    namespace: Indices
    latest: MessageColumns
    short: MessageColumns
    long: MessageColumns
    topics: Integers
    sessions: Integers
    short_samples: Integers
    long_samples: Integers
    listed: Flags
    sampled: Flags
    has_windows: Flags
    broker_bound: Flags
    suspect: Flags


def _rows_of(report: LocalBrokerData, names: list[str], known: Sequence[BundleData | None]) -> _Rows:
    """Return the rows of the bundles `names` in `report`. `known` are the data (windows) of these bundles, in the same
    order; None for a bundle without data.
    """
    stats = [report.last_stats.get(name) for name in names]
    sampled = [item or _NO_STATS for item in stats]
    data = [item or _NO_DATA for item in known]
    texts = [name.rpartition("/")[0] for name in names]
    namespaces, namespace = _numbered(texts)
    bound = np.array([belongs_to_a_broker(name) for name in namespaces], bool)
    listed = set(report.bundles)
    latest, bad_latest = _message_columns(sampled, _figures)
    short, bad_short = _message_columns([item.short_term_data for item in data], _figures)
    long, bad_long = _message_columns([item.long_term_data for item in data], _figures)
    return _Rows(
        names=names,
        namespaces=namespaces,
        namespace=namespace,
        latest=latest,
        short=short,
        long=long,
        topics=_integers(sampled, lambda s: s.topics),
        sessions=_integers(sampled, lambda s: s.consumer_count + s.producer_count),
        short_samples=_integers(data, lambda d: d.short_term_data.num_samples),
        long_samples=_integers(data, lambda d: d.long_term_data.num_samples),
        listed=np.array([name in listed for name in names], bool),
        sampled=np.array([item is not None for item in stats], bool),
        has_windows=np.array([item is not None for item in known], bool),
        broker_bound=bound[namespace],
        suspect=bad_latest | bad_short | bad_long,
    )


def belongs_to_a_broker(namespace: str) -> bool:
    """Return whether the namespace with this name is bound to one broker (heartbeat, SLA monitor); False if the name is
    invalid.
    """
    try:
        name = NamespaceName.parse(namespace)
    except InvalidNameError:
        return False
    return is_broker_bound(name)


def _numbered(texts: Sequence[str]) -> tuple[tuple[str, ...], Indices]:
    """Return the distinct texts, sorted, and for each of `texts` its index among them."""
    distinct = tuple(sorted(set(texts)))
    place = {text: row for row, text in enumerate(distinct)}
    return distinct, np.fromiter(map(place.__getitem__, texts), np.int32, len(texts))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The order of the rows of several brokers in one table. If the rows of all brokers are numbered through, one
    broker after the other, `order` has these numbers in the order of the table.
    """

    of: list[list[str]]
    names: list[str]
    order: Integers
    owner: Indices
    namespace: Indices
    namespaces: tuple[str, ...]


def _layout(tables: Sequence[_Rows]) -> Generator[None, None, _Layout]:
    """Return the order of all rows of `tables`, one table per broker, each of which is sorted by name. Merges two
    sorted sequences at a time, and yields after each long step, so that the caller can pause.
    """
    starts = np.cumsum([0, *(len(table.names) for table in tables)]).tolist()
    # of equal names that of the first broker precedes, because its numbers are smaller
    runs: list[list[tuple[str, int]]] = [
        list(zip(table.names, range(start, start + len(table.names)), strict=True))
        for start, table in zip(starts, tables, strict=False)
    ]
    yield
    while len(runs) > 1:
        merged = []
        for first in range(0, len(runs), 2):
            # sorting two sorted runs takes linear time
            merged.append(sorted(chain(*runs[first : first + 2])))
            if len(merged[-1]) >= _LONG:
                yield
        runs = merged
        yield
    everything = runs[0] if runs else []
    names = [name for name, _ in everything]
    yield
    picked = np.fromiter((number for _, number in everything), np.int64, len(everything))
    yield
    namespaces, place = _numbered([name for table in tables for name in table.namespaces])
    firsts = np.cumsum([0, *(len(table.namespaces) for table in tables)])
    namespace = [place[start + table.namespace] for start, table in zip(firsts, tables, strict=False)]
    owner = [np.full(len(table.names), row, np.int32) for row, table in enumerate(tables)]
    return _Layout(
        of=[table.names for table in tables],
        names=names,
        order=picked,
        owner=_joined(owner, np.int32)[picked],
        namespace=_joined(namespace, np.int32)[picked],
        namespaces=namespaces,
    )


def _joined(columns: Iterable[NDArray[_Item]], kind: type[_Item]) -> NDArray[_Item]:
    return np.concatenate([np.zeros(0, kind), *columns])


def _bundle_table(tables: Sequence[_Rows], layout: _Layout) -> BundleTable:
    """Return the table of the bundles of all brokers, in which no bundle counts as recently unloaded."""

    def column(of: Callable[[_Rows], NDArray[_Item]], kind: type[_Item]) -> NDArray[_Item]:
        return _joined(map(of, tables), kind)[layout.order]

    def traffic(of: Callable[[_Rows], MessageColumns]) -> MessageColumns:
        return MessageColumns(
            rate_in=column(lambda table: of(table).rate_in, np.float64),
            rate_out=column(lambda table: of(table).rate_out, np.float64),
            throughput_in=column(lambda table: of(table).throughput_in, np.float64),
            throughput_out=column(lambda table: of(table).throughput_out, np.float64),
        )

    return BundleTable(
        names=layout.names,
        owner=layout.owner,
        namespace=layout.namespace,
        latest=traffic(lambda table: table.latest),
        topics=column(lambda table: table.topics, np.int64),
        sessions=column(lambda table: table.sessions, np.int64),
        short=traffic(lambda table: table.short),
        long=traffic(lambda table: table.long),
        short_samples=column(lambda table: table.short_samples, np.int64),
        long_samples=column(lambda table: table.long_samples, np.int64),
        listed=column(lambda table: table.listed, np.bool_),
        sampled=column(lambda table: table.sampled, np.bool_),
        has_windows=column(lambda table: table.has_windows, np.bool_),
        broker_bound=column(lambda table: table.broker_bound, np.bool_),
        recently_unloaded=np.zeros(len(layout.names), bool),
        suspect=column(lambda table: table.suspect, np.bool_),
    )


def _message_columns(
    rows: Sequence[_T], traffic: Callable[[_T], tuple[float, float, float, float]]
) -> tuple[MessageColumns, Flags]:
    """Return the traffic of `rows` (rates and throughputs, in and out), and flags of the rows that have a value which
    is not finite.
    """
    columns, bad = finite(np.array([traffic(row) for row in rows], float).reshape(-1, 4).T)
    return MessageColumns(*np.ascontiguousarray(columns)), np.logical_or.reduce(bad)


def _integers(rows: Sequence[_T], value: Callable[[_T], int]) -> Integers:
    try:
        return np.fromiter(map(value, rows), np.int64, len(rows)).clip(-LARGEST_COUNT, LARGEST_COUNT)
    except OverflowError:  # beyond 64 bits
        return np.array([bounded_count(value(row)) for row in rows], np.int64)
