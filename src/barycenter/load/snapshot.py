"""The load of a cluster at one moment, as columns: what every strategy decides upon.

Brokers and bundles are rows of two tables, sorted by name, so that an index order is a name order and ties break by
name whatever the input order was. Arrays are never changed after they were built; treat them as read-only.

Data that no rule covers is bounded here, once, and flagged: a usage, limit or rate that is NaN or infinite (or whose
percentage is) counts as 0, and the row's `suspect` is set. Negative and above-100 % figures, zero limits and
missing data have an answer in Pulsar and pass as they are.

Needs numpy; only a leader imports it.
Source: Pulsar's `LoadData`, `BrokerData`, `LocalBrokerData.getMaxResourceUsageWithWeight`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from barycenter.load.policies import NO_POLICIES, ClusterPolicies
from barycenter.load.reports import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceWeights,
    TimeAverageBrokerData,
    TimeAverageMessageData,
)
from barycenter.naming.errors import InvalidNameError
from barycenter.naming.namespace import NamespaceName, is_broker_bound

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
"""The rows of `BrokerTable.usage`, `.limit` and `.percent`."""

_LARGEST_COUNT: Final = 2**53
"""Counts beyond it are bounded: sums of them stay exact in both kinds of numbers."""

_T = TypeVar("_T")
_Item = TypeVar("_Item", bound="np.generic[Any]")


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Four figures of each row: msg/s and bytes/s."""

    rate_in: Floats
    rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats

    @property
    def rate(self) -> Floats:
        return self.rate_in + self.rate_out

    @property
    def throughput(self) -> Floats:
        return self.throughput_in + self.throughput_out

    @staticmethod
    def zeros(count: int) -> "MessageColumns":
        return MessageColumns(np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count))


@dataclass(frozen=True)
class BrokerTable:
    """One row a live broker, sorted by id.

    `usage` and `limit` have one row for each of RESOURCES, in its units. `latest` is what the newest report says of
    the whole broker, `short` and `long` are the time averages (sums of the windows of its bundles).
    """

    names: tuple[str, ...]
    usage: Floats
    limit: Floats
    latest: MessageColumns
    short: MessageColumns
    long: MessageColumns
    topics: Integers
    bundle_count: Integers
    versions: tuple[str | None, ...]
    class_names: tuple[str | None, ...]
    persistent: Flags
    non_persistent: Flags
    started_at_ms: Integers
    reported_at_ms: Integers
    suspect: Flags

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def percent(self) -> Floats:
        """Usage in percent of the limit, one row for each of RESOURCES, in 32-bit arithmetic widened; always finite."""
        return _finite(raw_percent(self.usage, self.limit))[0]

    def weighted_usage(self, weights: ResourceWeights) -> Floats:
        """Return the largest weighted percentage of CPU, direct memory and bandwidths as a fraction, not clamped.

        Computed once for each weights: a round of decisions asks for every bundle.
        """
        found = self._usages.get(weights)
        if found is None:
            found = self._usages[weights] = self._weighted(weights)
            found.flags.writeable = False
        return found

    @cached_property
    def _usages(self) -> dict[ResourceWeights, Floats]:
        return {}

    def _weighted(self, weights: ResourceWeights) -> Floats:
        cpu, _, direct_memory, bandwidth_in, bandwidth_out = self.percent
        terms = (
            cpu * weights.cpu,
            direct_memory * weights.direct_memory,
            bandwidth_in * weights.bandwidth_in,
            bandwidth_out * weights.bandwidth_out,
        )
        largest: Floats = terms[0]
        for term in terms[1:]:
            largest = np.where(term > largest, term, largest)  # of 0 and -0 the first, as Pulsar's maximum
        return largest / 100


@dataclass(frozen=True)
class BundleTable:
    """One row a reported bundle, sorted by name; one that two brokers report (it is moving) stands once for each.

    `owner` is a row of the brokers. `latest` are the figures of the report, `short` and `long` the windows.
    `listed` says that the report names the bundle in `bundles`, `sampled` that it holds figures of it; Barycenter's
    own reports do both. `broker_bound`: its namespace belongs to one broker (heartbeat, SLA monitor); the bundles of
    `pulsar/system` may be moved, as in Pulsar 4.x. `has_windows` false: nothing is known of its past, its windows
    read 0.
    """

    names: Sequence[str]
    owner: Indices
    namespace: Indices
    latest: MessageColumns
    topics: Integers
    sessions: Integers
    short: MessageColumns
    long: MessageColumns
    short_samples: Integers
    long_samples: Integers
    listed: Flags
    sampled: Flags
    has_windows: Flags
    broker_bound: Flags
    recently_unloaded: Flags
    suspect: Flags

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def may_shed(self) -> Flags:
        """Rows that a shedder may choose: listed, with windows, not bound to a broker, not unloaded recently."""
        return self.listed & self.has_windows & ~self.broker_bound & ~self.recently_unloaded

    def holders(self, namespace: int) -> frozenset[tuple[int, str]]:
        """Return the (owner, name) pairs of the rows of a namespace; found once for each."""
        found = self._holders.get(namespace)
        if found is None:
            rows = np.flatnonzero(self.namespace == namespace).tolist()
            found = self._holders[namespace] = frozenset((int(self.owner[row]), self.names[row]) for row in rows)
        return found

    @cached_property
    def _holders(self) -> dict[int, frozenset[tuple[int, str]]]:
        return {}


@dataclass(frozen=True, slots=True)
class Preallocations:
    """Bundles assigned to a broker that no broker reported yet.

    `long_rate` is each broker's sum of their long-term rates in + out (msg/s), `topics` that of their topics.
    `held` maps namespace to the (broker's row, bundle) pairs on their way.
    """

    long_rate: Floats
    topics: Integers
    held: Mapping[str, frozenset[tuple[int, str]]] = field(default_factory=dict)

    @staticmethod
    def none(brokers: int) -> "Preallocations":
        return Preallocations(np.zeros(brokers), np.zeros(brokers, np.int64))

    def adding(self, broker: int, bundle: str, data: BundleData) -> "Preallocations":
        """Return these and one more, `bundle` for the broker in that row; costs as much however many there are."""
        long_rate, topics = self.long_rate.copy(), self.topics.copy()
        rate = data.long_term_data.msg_rate_in + data.long_term_data.msg_rate_out
        long_rate[broker] += rate if np.isfinite(rate) else 0.0
        topics[broker] += _bounded(data.topics)
        namespace = bundle.rpartition("/")[0]
        pairs = self.held.get(namespace, frozenset()) | {(broker, bundle)}
        return Preallocations(long_rate, topics, {**self.held, namespace: pairs})


@dataclass(frozen=True, slots=True)
class ExtensibleLoad:
    """What brokers of the extensible load manager report beyond the tables.

    One row a broker: `weighted_max_ema` and `max_usage` are fractions, `throughput_ema` bytes/s, `updated_at_ms` when
    the figures were measured. `has_load` false: the broker is live but its load is not known, its figures read 0.
    `live` false: the load is known but the broker is not registered any more.

    One row a bundle: `top` is its place in its broker's list of top bundles (0 stands first, and is the least loaded
    of them), -1 for a bundle outside the list; `owned` says that the ownership channel, too, names the broker of that
    row as its owner.
    """

    weighted_max_ema: Floats
    throughput_ema: Floats
    max_usage: Floats
    updated_at_ms: Integers
    has_load: Flags
    live: Flags
    top: Integers
    owned: Flags


@dataclass(frozen=True)
class LoadSnapshot:
    """Everything a strategy may look at. `namespaces` is sorted; `BundleTable.namespace` points into it.

    `taken_at_ms` (epoch ms) is the moment that ages are measured against. `extensible` is there if brokers of the
    extensible load manager reported. `policies` is what administrators demand of placement.
    """

    brokers: BrokerTable
    bundles: BundleTable
    namespaces: tuple[str, ...]
    preallocations: Preallocations | None = None
    extensible: ExtensibleLoad | None = None
    taken_at_ms: int = 0
    policies: ClusterPolicies = NO_POLICIES

    @cached_property
    def on_their_way(self) -> Preallocations:
        """The preallocations; none if the snapshot was made without."""
        return Preallocations.none(len(self.brokers)) if self.preallocations is None else self.preallocations

    @property
    def preallocated_long_rate(self) -> Floats:
        """Sum over each broker's preallocated bundles of long-term rate in + out, msg/s."""
        return self.on_their_way.long_rate

    @property
    def preallocated_topics(self) -> Integers:
        return self.on_their_way.topics

    def bundles_of_namespace(self, namespace: str) -> Integers:
        """Return how many bundles of `namespace` each broker reports or is about to get (each bundle once)."""
        held = self.on_their_way.held.get(namespace, frozenset())
        where = bisect_left(self.namespaces, namespace)
        if where < len(self.namespaces) and self.namespaces[where] == namespace:
            held |= self.bundles.holders(where)
        return np.bincount([broker for broker, _ in held], minlength=len(self.brokers)).astype(np.int64)

    def with_preallocations(self, preallocated: Mapping[str, Mapping[str, BundleData]]) -> "LoadSnapshot":
        """Return the snapshot with other preallocations: broker to bundle to data; unknown brokers are left out."""
        return replace(self, preallocations=_preallocations(self.brokers, preallocated))

    def adding_preallocation(self, broker: str, bundle: str, data: BundleData) -> "LoadSnapshot":
        """Return the snapshot with one more preallocation of a bundle that has none; cheap however many there are."""
        row = self.brokers.index.get(broker)
        return self if row is None else replace(self, preallocations=self.on_their_way.adding(row, bundle, data))

    def flags_of_broker(self, broker: int) -> tuple[str, ...]:
        return (
            (f"{self.brokers.names[broker]} reported figures that are no numbers",)
            if self.brokers.suspect[broker]
            else ()
        )


def raw_percent(usage: Floats, limit: Floats) -> Floats:
    """Return 100 × usage / limit in 32-bit arithmetic, widened, 0 where the limit is not positive; may be infinite.

    The column form of `barycenter.load.reports.percent_usage`.
    """
    with np.errstate(all="ignore"):
        quotient = usage.astype(np.float32) / limit.astype(np.float32)
        percent = quotient * np.float32(100)
    return np.where(limit > 0, percent, np.float32(0)).astype(np.float64)


def build_snapshot(
    reports: Mapping[str, LocalBrokerData],
    bundle_data: Mapping[str, BundleData],
    averages: Mapping[str, TimeAverageBrokerData],
    *,
    preallocated: Mapping[str, Mapping[str, BundleData]] | None = None,
    recently_unloaded: Iterable[str] = (),
) -> LoadSnapshot:
    """Return the snapshot of the live brokers: the keys of `reports`, by broker id.

    A broker without an entry in `averages` has zero averages, a bundle without one in `bundle_data` no windows.
    Brokers of `averages` and `preallocated` that report nothing are left out.
    """
    return SnapshotBuilder().build(
        reports, bundle_data, averages, preallocated=preallocated, recently_unloaded=recently_unloaded
    )


class SnapshotBuilder:
    """Builds one snapshot after the other, each as `build_snapshot` does; what did not change is not built again.

    The rows of a broker are kept while its report is the same object and its bundles' data are the same, the order of
    all rows while every broker has the same bundles. So a snapshot costs little after one broker's report, and
    `prepare` lets the cost of many be paid one broker at a time.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[LocalBrokerData, list[BundleData | None], _Rows]] = {}
        self._layout: _Layout | None = None

    def prepare(self, broker: str, report: LocalBrokerData, bundle_data: Mapping[str, BundleData]) -> bool:
        """Have the rows of one broker ready for `build`; return whether they had to be made."""
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

    def build(
        self,
        reports: Mapping[str, LocalBrokerData],
        bundle_data: Mapping[str, BundleData],
        averages: Mapping[str, TimeAverageBrokerData],
        *,
        preallocated: Mapping[str, Mapping[str, BundleData]] | None = None,
        recently_unloaded: Iterable[str] = (),
    ) -> LoadSnapshot:
        """Return what `build_snapshot` returns for the same arguments; forgets brokers that report nothing."""
        brokers = _broker_table(reports, averages)
        for broker in brokers.names:
            self.prepare(broker, reports[broker], bundle_data)
        self._kept = {broker: self._kept[broker] for broker in brokers.names}
        rows = [each for _, _, each in self._kept.values()]
        layout = self._layout
        if layout is None or layout.of != [each.names for each in rows]:
            layout = self._layout = _layout(rows)
        bundles = unloaded_recently(_bundle_table(rows, layout), recently_unloaded)
        return LoadSnapshot(brokers, bundles, layout.namespaces, _preallocations(brokers, preallocated or {}))


def unloaded_recently(bundles: BundleTable, names: Iterable[str]) -> BundleTable:
    """Return the table in which exactly the bundles of these names were unloaded recently; unknown names are none."""
    flags = np.zeros(len(bundles), bool)
    for name in names:
        row = bisect_left(bundles.names, name)
        while row < len(flags) and bundles.names[row] == name:
            flags[row] = True
            row += 1
    return replace(bundles, recently_unloaded=flags)


def _broker_table(reports: Mapping[str, LocalBrokerData], averages: Mapping[str, TimeAverageBrokerData]) -> BrokerTable:
    names = tuple(sorted(reports))
    rows = [reports[name] for name in names]
    means = [averages.get(name) or TimeAverageBrokerData() for name in names]
    usages = [(row.cpu, row.memory, row.direct_memory, row.bandwidth_in, row.bandwidth_out) for row in rows]
    usage, bad_usage = _finite(np.array([[r.usage for r in row] for row in usages], float).reshape(-1, 5).T)
    limit, bad_limit = _finite(np.array([[r.limit for r in row] for row in usages], float).reshape(-1, 5).T)
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


def _figures(figures: NamespaceBundleStats | TimeAverageMessageData) -> tuple[float, float, float, float]:
    return figures.msg_rate_in, figures.msg_rate_out, figures.msg_throughput_in, figures.msg_throughput_out


_NO_STATS = NamespaceBundleStats()
_NO_WINDOW = TimeAverageMessageData()
_NO_DATA = BundleData(short_term_data=_NO_WINDOW, long_term_data=_NO_WINDOW)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one broker's report says of its bundles, sorted by name; `namespace` points into `namespaces`."""

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
    """Return the rows of the report's bundles `names`, of which `known` is known."""
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


def _numbered(texts: Sequence[str]) -> tuple[tuple[str, ...], Indices]:
    """Return the distinct texts, sorted, and the place among them of each."""
    distinct = tuple(sorted(set(texts)))
    place = {text: row for row, text in enumerate(distinct)}
    return distinct, np.fromiter(map(place.__getitem__, texts), np.int32, len(texts))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the rows of several brokers stand in one table: `order` says which of all rows, one broker after another."""

    of: list[list[str]]
    names: list[str]
    order: Integers
    owner: Indices
    namespace: Indices
    namespaces: tuple[str, ...]


def _layout(rows: Sequence[_Rows]) -> _Layout:
    every = [name for each in rows for name in each.names]
    order = sorted(range(len(every)), key=every.__getitem__)  # of equal names the earlier broker's comes first
    namespaces, place = _numbered([name for each in rows for name in each.namespaces])
    starts = np.cumsum([0, *(len(each.namespaces) for each in rows)])
    namespace = [place[start + each.namespace] for start, each in zip(starts, rows, strict=False)]
    owner = [np.full(len(each.names), row, np.int32) for row, each in enumerate(rows)]
    picked = np.array(order, np.int64)
    return _Layout(
        of=[each.names for each in rows],
        names=[every[row] for row in order],
        order=picked,
        owner=_joined(owner, np.int32)[picked],
        namespace=_joined(namespace, np.int32)[picked],
        namespaces=namespaces,
    )


def _joined(columns: Iterable[NDArray[_Item]], kind: type[_Item]) -> NDArray[_Item]:
    return np.concatenate([np.zeros(0, kind), *columns])


def _bundle_table(rows: Sequence[_Rows], layout: _Layout) -> BundleTable:
    """Return the table of all brokers' rows; none of them is unloaded recently."""

    def column(of: Callable[[_Rows], NDArray[_Item]], kind: type[_Item]) -> NDArray[_Item]:
        return _joined(map(of, rows), kind)[layout.order]

    def figures(of: Callable[[_Rows], MessageColumns]) -> MessageColumns:
        return MessageColumns(
            rate_in=column(lambda each: of(each).rate_in, np.float64),
            rate_out=column(lambda each: of(each).rate_out, np.float64),
            throughput_in=column(lambda each: of(each).throughput_in, np.float64),
            throughput_out=column(lambda each: of(each).throughput_out, np.float64),
        )

    return BundleTable(
        names=layout.names,
        owner=layout.owner,
        namespace=layout.namespace,
        latest=figures(lambda each: each.latest),
        topics=column(lambda each: each.topics, np.int64),
        sessions=column(lambda each: each.sessions, np.int64),
        short=figures(lambda each: each.short),
        long=figures(lambda each: each.long),
        short_samples=column(lambda each: each.short_samples, np.int64),
        long_samples=column(lambda each: each.long_samples, np.int64),
        listed=column(lambda each: each.listed, np.bool_),
        sampled=column(lambda each: each.sampled, np.bool_),
        has_windows=column(lambda each: each.has_windows, np.bool_),
        broker_bound=column(lambda each: each.broker_bound, np.bool_),
        recently_unloaded=np.zeros(len(layout.names), bool),
        suspect=column(lambda each: each.suspect, np.bool_),
    )


def belongs_to_a_broker(namespace: str) -> bool:
    """Tell whether the namespace of that name is bound to one broker; a name that is none is not."""
    try:
        name = NamespaceName.parse(namespace)
    except InvalidNameError:
        return False
    return is_broker_bound(name)


def _preallocations(brokers: BrokerTable, preallocated: Mapping[str, Mapping[str, BundleData]]) -> Preallocations:
    """Return the sums, added in the order of (broker, bundle), so that the input's order does not matter."""
    found = Preallocations.none(len(brokers))
    held: dict[str, set[tuple[int, str]]] = {}
    for broker in sorted(preallocated):
        row = brokers.index.get(broker)
        if row is None:
            continue
        for bundle in sorted(preallocated[broker]):
            data = preallocated[broker][bundle]
            rate = data.long_term_data.msg_rate_in + data.long_term_data.msg_rate_out
            found.long_rate[row] += rate if np.isfinite(rate) else 0.0
            found.topics[row] += _bounded(data.topics)
            held.setdefault(bundle.rpartition("/")[0], set()).add((row, bundle))
    return replace(found, held={namespace: frozenset(pairs) for namespace, pairs in held.items()})


def _message_columns(
    rows: Sequence[_T], figures: Callable[[_T], tuple[float, float, float, float]]
) -> tuple[MessageColumns, Flags]:
    """Return rate in, rate out, throughput in, throughput out of `rows`, and which rows had a figure that is none."""
    columns, bad = _finite(np.array([figures(row) for row in rows], float).reshape(-1, 4).T)
    return MessageColumns(*np.ascontiguousarray(columns)), np.logical_or.reduce(bad)


def _integers(rows: Sequence[_T], figure: Callable[[_T], int]) -> Integers:
    try:
        return np.fromiter(map(figure, rows), np.int64, len(rows)).clip(-_LARGEST_COUNT, _LARGEST_COUNT)
    except OverflowError:  # beyond 64 bits
        return np.array([_bounded(figure(row)) for row in rows], np.int64)


def _bounded(count: int) -> int:
    return max(-_LARGEST_COUNT, min(_LARGEST_COUNT, count))


def _finite(values: Floats) -> tuple[Floats, Flags]:
    bad = ~np.isfinite(values)
    return np.where(bad, 0.0, values), bad
