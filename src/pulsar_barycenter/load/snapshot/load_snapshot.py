"""The load of a cluster at one moment, as columns: the input of every strategy.

Brokers and bundles are rows of two tables, sorted by name, so the order of rows is the order of names, and ties are
decided by name, whatever the order of the input was. Arrays never change after they are built; treat them as read-only.

Invalid values are replaced here, once, and flagged: a usage, limit or rate that is NaN or infinite (or whose percentage
is) counts as 0, and `suspect` of the row is set. Pulsar defines what happens with negative values, values above 100 %,
limits of 0 and missing data, so these are not changed.

Needs numpy; only a leader imports it.
Source: Pulsar's `LoadData`, `BrokerData`, `LocalBrokerData.getMaxResourceUsageWithWeight`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.growing_map import GrowingMap
from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reports.load_report import BundleData, ResourceWeights
from pulsar_barycenter.load.reports.windows import bounded_rate
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

LARGEST_COUNT: Final = 2**53
"""Counts are bounded to it, so that their sums are exact both as integers and as floats."""


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The traffic of each row: rates in msg/s, throughputs in bytes/s."""

    rate_in: Floats
    rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats

    @property
    def rate(self) -> Floats:
        """The message rate of each row in msg/s, in + out."""
        return self.rate_in + self.rate_out

    @property
    def throughput(self) -> Floats:
        """The throughput of each row in bytes/s, in + out."""
        return self.throughput_in + self.throughput_out

    @staticmethod
    def zeros(count: int) -> "MessageColumns":
        """Return columns of `count` rows in which all traffic is 0."""
        return MessageColumns(np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count))


@dataclass(frozen=True)
class BrokerTable:
    """The load of the brokers as columns: one row per live broker, sorted by id.

    `usage` and `limit` have one row for each of `load_report.RESOURCES`, in its units. `latest` is the traffic of the
    whole broker in its newest report, `short` and `long` are the sums of the short and the long windows of its bundles.
    `suspect` flags brokers that reported values that are not finite.
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
        """The row of each broker, by its id."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def everyone(self) -> Flags:
        """An array of flags that are set for all brokers; read-only."""
        everyone = np.ones(len(self), bool)
        everyone.flags.writeable = False
        return everyone

    @cached_property
    def percent(self) -> Floats:
        """Usage in percent of the limit, one row for each of RESOURCES; 32-bit arithmetic, widened; always finite."""
        return finite(raw_percent(self.usage, self.limit))[0]

    def runs_class(self, name: str) -> Flags:
        """Flag the brokers whose load manager has the class name `name`, without its package; `everyone` if all have.

        Do not change the result.
        """
        found: Flags | None = self.memo.get(("runs class", name))
        if found is None:
            own = (reported is not None and reported.rpartition(".")[2] == name for reported in self.class_names)
            found = np.fromiter(own, bool, len(self))
            found = self.memo["runs class", name] = self.everyone if found.all() else found
        return found

    def flags_of(self, broker: int) -> tuple[str, ...]:
        """Return the problems of the data of the broker in this row."""
        return (f"{self.names[broker]} reported load values that are not numbers",) if self.suspect.item(broker) else ()

    @cached_property
    def most_topics(self) -> int:
        """The highest number of topics that a broker reports; 0 without brokers."""
        return int(self.topics.max(initial=0))

    def weighted_usage(self, weights: ResourceWeights) -> Floats:
        """Return the largest weighted percentage of CPU, direct memory and bandwidths as a fraction, not clamped.

        Computed once per weights, because a round of decisions needs it for every bundle.
        """
        found: Floats | None = self.memo.get(("weighted usage", weights))
        if found is None:
            found = self.memo["weighted usage", weights] = largest_weighted(self.percent, weights)
            found.flags.writeable = False
        return found

    @cached_property
    def memo(self) -> dict[tuple[str, object], Any]:
        """A cache of values computed from the table, by a name and a key; it lives as long as the table."""
        return {}


@dataclass(frozen=True)
class BundleTable:
    """One row per reported bundle, sorted by name; a bundle that two brokers report (it is moving) has a row for each.

    `owner` is a row of the brokers, `namespace` an index of `LoadSnapshot.namespaces`. `latest` is the traffic in the
    report, `short` and `long` are the windows. `listed`: the report names the bundle in `bundles`. `sampled`: the
    report has the load of the bundle. In reports of Barycenter's brokers both are set. `broker_bound`: the bundle's
    namespace is bound to one broker (heartbeat, SLA monitor); bundles of `pulsar/system` may move, as in Pulsar 4.x.
    `has_windows` false: the bundle has no windows, and `short` and `long` are 0. `suspect`: a value in the report or in
    the windows was not finite.
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
        """One flag for each row, set if a shedder may choose the bundle: it is listed, has windows, is not bound to a
        broker, and was not unloaded recently.
        """
        return self.listed & self.has_windows & ~self.broker_bound & ~self.recently_unloaded

    def rows_of_namespace(self, namespace: int) -> Integers:
        """Return the rows of the bundles of a namespace."""
        rows = self._rows_of_namespace(namespace)
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    def _rows_of_namespace(self, namespace: int) -> Integers | slice:
        grouped, order = self._by_namespace
        first, end = grouped.searchsorted(np.array((namespace, namespace + 1), grouped.dtype)).tolist()
        return slice(first, end) if order is None else order[first:end]

    @cached_property
    def _by_namespace(self) -> tuple[Indices, Integers | None]:
        """The sorted column `namespace`, and the row of each item; None if the column is already sorted."""
        if not np.any(self.namespace[1:] < self.namespace[:-1]):
            return self.namespace, None
        order = np.argsort(self.namespace, kind="stable")
        return self.namespace[order], order

    def holders(self, namespace: int, brokers: int) -> Indices | Integers:
        """Return the rows of the brokers that report bundles of a namespace; a row may occur several times."""
        owners = self.owner[self._rows_of_namespace(namespace)]
        return owners if len(owners) <= brokers else self.reported(namespace, brokers).nonzero()[0]

    def holding(self, namespace: int, brokers: int) -> frozenset[int]:
        """Return the rows of the brokers that report bundles of a namespace, as a set that is computed once per
        namespace.
        """
        found: frozenset[int] | None = self.memo.get(("holding", namespace))
        if found is None:
            found = self.memo["holding", namespace] = frozenset(self.holders(namespace, brokers).tolist())
        return found

    def reported(self, namespace: int, brokers: int) -> Integers:
        """Return for each broker the number of bundles of a namespace that it reports; do not change the result."""
        found: Integers | None = self.memo.get(("reported", namespace))
        if found is None:
            owners = self.owner[self._rows_of_namespace(namespace)]
            found = np.bincount(owners, minlength=brokers)
            if len(owners) > brokers:  # for a small namespace, counting again is as fast as a cache
                self.memo["reported", namespace] = found
        return found

    @cached_property
    def memo(self) -> dict[tuple[str, object], Any]:
        """A cache of values computed from the table, by a name and a key; it lives as long as the table."""
        return {}

    def row_with_windows(self, bundle: str) -> int | None:
        """Return the first row number of the bundle if it has windows (averages over time), else None."""
        row = bisect_left(self.names, bundle)
        known = row < len(self) and self.names[row] == bundle and self.has_windows.item(row)
        return row if known else None

    def is_reported_by(self, broker: int, bundle: str, known: int = 0) -> bool:
        """Return whether the broker in this row reports `bundle`; `known` is a row in which the bundle may be: if it is
        there, no search is needed.
        """
        row = self._first_row(bundle, known)
        while row < len(self) and self.names[row] == bundle:
            if self.owner.item(row) == broker:
                return True
            row += 1
        return False

    def _first_row(self, bundle: str, known: int) -> int:
        if known >= len(self) or self.names[known] != bundle:
            return bisect_left(self.names, bundle)
        while known > 0 and self.names[known - 1] == bundle:
            known -= 1
        return known


class Preallocations(msgspec.Struct, frozen=True, gc=False):
    """Bundles that were assigned to a broker, and that no broker has reported yet.

    `long_rate` is for each broker the sum of their long-term rates in + out (msg/s), and `topics` the sum of their
    topics. `most_topics` is at least the highest value in `topics`. `pairs` has (row of the broker, bundle). `arriving`
    has, by namespace and then by the row of the broker, the number of the namespace's bundles that are about to arrive
    there. A bundle that the broker reports already is not counted, and a broker with 0 has no entry.
    """

    long_rate: Floats
    topics: Integers
    most_topics: int = 0
    pairs: GrowingMap[tuple[int, str], bool] = msgspec.field(default_factory=GrowingMap)
    arriving: GrowingMap[str, Mapping[int, int]] = msgspec.field(default_factory=GrowingMap)

    @staticmethod
    def none(brokers: int) -> "Preallocations":
        return Preallocations(np.zeros(brokers), np.zeros(brokers, np.int64))

    @staticmethod
    def of(
        long_rate: Floats, topics: Integers, pairs: Iterable[tuple[int, str]], bundles: BundleTable
    ) -> "Preallocations":
        """Return preallocations with these sums per broker and these `pairs` of (row of the broker, bundle). `bundles`
        is the table of the bundles that brokers report.
        """
        known: dict[tuple[int, str], bool] = {}
        arriving: dict[str, dict[int, int]] = {}
        for broker, bundle in pairs:
            if (broker, bundle) not in known:
                known[broker, bundle] = True
                if not bundles.is_reported_by(broker, bundle):
                    counts = arriving.setdefault(namespace_of(bundle), {})
                    counts[broker] = counts.get(broker, 0) + 1
        most_topics = int(topics.max(initial=0))
        return Preallocations(long_rate, topics, most_topics, GrowingMap(known), GrowingMap(arriving))

    def adding(
        self, broker: int, bundle: str, rate: float, topic_count: int, bundles: BundleTable, row: int = 0
    ) -> "Preallocations":
        """Return these preallocations and one more: `bundle`, assigned to the broker in the row `broker`. Takes
        constant time.

        `rate` is the bundle's long-term rate in + out (msg/s); this function bounds it by `bounded_rate`. `row` is the
        row of the bundle in `bundles`, if the caller knows it: then the bundle is found faster. The default is correct,
        too.
        """
        long_rate, topics = self.long_rate.copy(), self.topics.copy()
        long_rate[broker] += bounded_rate(rate)
        topics[broker] += bounded_count(topic_count)
        most_topics = max(self.most_topics, topics.item(broker))
        arriving, pairs, pair = self.arriving, self.pairs, (broker, bundle)
        if pair not in pairs:
            pairs = pairs.adding(pair, True)
            if not bundles.is_reported_by(broker, bundle, row):
                namespace = namespace_of(bundle)
                before = arriving.get_or_none(namespace) or {}
                arriving = arriving.adding(namespace, {**before, broker: before.get(broker, 0) + 1})
        return Preallocations(long_rate, topics, most_topics, pairs, arriving)


@dataclass(frozen=True, slots=True)
class ExtensibleLoad:
    """What brokers of the extensible load manager report in addition to the tables.

    One row per broker: `weighted_max_ema` and `max_usage` are fractions, `throughput_ema` is bytes/s, `updated_at_ms`
    is the time of the measurement. `has_load` false: the broker is live but its load is unknown, and its values are 0.
    `live` false: the load is known but the broker is no longer registered.

    One row per bundle: `top` is its position in its broker's list of top bundles (0 is the least loaded of them), -1
    for a bundle outside the list. `owned`: the ownership channel also names the broker of this row as the owner.

    `traffic` is the source of `short` and `long` of the tables, of `throughput_ema` and of the order of the lists.
    """

    weighted_max_ema: Floats
    throughput_ema: Floats
    max_usage: Floats
    updated_at_ms: Integers
    has_load: Flags
    live: Flags
    top: Integers
    owned: Flags
    traffic: TrafficFigures = TrafficFigures.NEWEST


@dataclass(frozen=True)
class LoadSnapshot:
    """The load of a cluster at one moment: everything that a strategy may read. `namespaces` is sorted;
    `BundleTable.namespace` has indexes of it.

    `taken_at_ms` (epoch ms) is the time from which ages are computed. `extensible` is set if brokers of the extensible
    load manager reported. `policies` are the rules of administrators for placement.
    """

    brokers: BrokerTable
    bundles: BundleTable
    namespaces: tuple[str, ...]
    preallocations: Preallocations | None = None
    extensible: ExtensibleLoad | None = None
    taken_at_ms: int = 0
    policies: ClusterPolicies = NO_POLICIES

    @property
    def on_their_way(self) -> Preallocations:
        """The bundles that are on their way to a broker; empty if the snapshot was built without preallocations."""
        return self.preallocations or Preallocations.none(len(self.brokers))

    @property
    def preallocated_long_rate(self) -> Floats:
        """Sum over each broker's preallocated bundles of long-term rate in + out, msg/s."""
        return self.on_their_way.long_rate

    @property
    def preallocated_topics(self) -> Integers:
        """The number of topics in each broker's preallocated bundles."""
        return self.on_their_way.topics

    def namespace_row(self, namespace: str) -> int | None:
        """Return the index of a namespace; None if it has no bundles."""
        row = bisect_left(self.namespaces, namespace)
        return row if row < len(self.namespaces) and self.namespaces[row] == namespace else None

    def with_preallocations(self, preallocated: Mapping[str, Mapping[str, BundleData]]) -> "LoadSnapshot":
        """Return the snapshot with these preallocations instead of its own. `preallocated` maps a broker to its
        preallocated bundles and their data; unknown brokers are ignored.
        """
        return replace(self, preallocations=_preallocations(self.brokers, self.bundles, preallocated))

    def adding_preallocation(self, broker: str, bundle: str, data: BundleData) -> "LoadSnapshot":
        """Return the snapshot with a preallocation of a bundle that has none, in constant time."""
        row = self.brokers.index.get(broker)
        if row is None:
            return self
        rate = data.long_term_data.msg_rate_in + data.long_term_data.msg_rate_out
        return self._with(self.on_their_way.adding(row, bundle, rate, data.topics, self.bundles))

    def moving(self, bundle: int, broker: str) -> "LoadSnapshot":
        """Return the snapshot with the bundle in this row on its way to `broker`, which has no preallocation of it."""
        bundles, row = self.bundles, self.brokers.index[broker]
        rate = bundles.long.rate_in.item(bundle) + bundles.long.rate_out.item(bundle)
        topics = bundles.topics.item(bundle)
        return self._with(self.on_their_way.adding(row, bundles.names[bundle], rate, topics, bundles, bundle))

    def _with(self, preallocations: Preallocations) -> "LoadSnapshot":
        # the same as `replace`, but without visiting all fields
        found = object.__new__(LoadSnapshot)
        found.__dict__.update(self.__dict__, preallocations=preallocations)
        return found

    def has_the_reports_of(self, other: "LoadSnapshot") -> bool:
        """Return whether both snapshots have the same reports; what is on its way to a broker may differ."""
        return self.bundles is other.bundles and self.brokers is other.brokers

    def is_on_its_way(self, bundle: str, broker: str) -> bool:
        """Return whether `bundle` already counts for `broker` as a preallocation."""
        return (self.brokers.index[broker], bundle) in self.on_their_way.pairs


def counted(bundles: BundleTable, namespace: int | None, brokers: int, arriving: Mapping[int, int]) -> Integers:
    """Return for each broker the number of bundles of a namespace that it reports or is about to get.

    Do not change the result.
    """
    counts = np.zeros(brokers, np.int64) if namespace is None else bundles.reported(namespace, brokers)
    if arriving:
        counts = counts.copy()
        counts[list(arriving)] += list(arriving.values())
    return counts


def raw_percent(usage: Floats, limit: Floats) -> Floats:
    """Return 100 × usage / limit in 32-bit arithmetic, widened, 0 where the limit is not positive; may be infinite.

    The column form of `pulsar_barycenter.load.reports.load_report.percent_usage`.
    """
    with np.errstate(all="ignore"):
        quotient = usage.astype(np.float32) / limit.astype(np.float32)
        percent = quotient * np.float32(100)
    return np.where(limit > 0, percent, np.float32(0)).astype(np.float64)


def largest_weighted(percent: Floats, weights: ResourceWeights) -> Floats:
    """Return the largest weighted percentage of CPU, direct memory and bandwidths as a fraction, not clamped.

    `percent` has a row for each of RESOURCES. The column form of `load_report.weighted_resource_usage`.
    """
    cpu, _, direct_memory, bandwidth_in, bandwidth_out = percent
    terms = (
        cpu * weights.cpu,
        direct_memory * weights.direct_memory,
        bandwidth_in * weights.bandwidth_in,
        bandwidth_out * weights.bandwidth_out,
    )
    largest: Floats = terms[0]
    for term in terms[1:]:
        largest = np.where(term > largest, term, largest)  # of 0 and -0 the first, as in Pulsar
    return largest / 100


def unloaded_recently(bundles: BundleTable, names: Iterable[str]) -> BundleTable:
    """Return the table in which exactly the bundles of these names count as recently unloaded; unknown names are
    ignored.
    """
    flags = np.zeros(len(bundles), bool)
    for name in names:
        row = bisect_left(bundles.names, name)
        while row < len(flags) and bundles.names[row] == name:
            flags[row] = True
            row += 1
    return replace(bundles, recently_unloaded=flags)


def _preallocations(
    brokers: BrokerTable, bundles: BundleTable, preallocated: Mapping[str, Mapping[str, BundleData]]
) -> Preallocations:
    """Return the preallocations, summed in the order of (broker, bundle), so that the input's order does not matter."""
    long_rate, topics = np.zeros(len(brokers)), np.zeros(len(brokers), np.int64)
    pairs = []
    for broker in sorted(preallocated):
        row = brokers.index.get(broker)
        if row is None:
            continue
        for bundle in sorted(preallocated[broker]):
            data = preallocated[broker][bundle]
            rate = data.long_term_data.msg_rate_in + data.long_term_data.msg_rate_out
            long_rate[row] += bounded_rate(rate)
            topics[row] += bounded_count(data.topics)
            pairs.append((row, bundle))
    return Preallocations.of(long_rate, topics, pairs, bundles)


def namespace_of(bundle: str) -> str:
    """Return the namespace in the name of a bundle."""
    return bundle.rpartition("/")[0]


def bounded_count(count: int) -> int:
    """Return `count`, bounded to ±LARGEST_COUNT."""
    return max(-LARGEST_COUNT, min(LARGEST_COUNT, count))


def finite(values: Floats) -> tuple[Floats, Flags]:
    """Return the values with 0 in place of NaN and infinity, and flags of where these were."""
    bad = ~np.isfinite(values)
    return np.where(bad, 0.0, values), bad
