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
    """The load of the brokers as columns: one row per broker, sorted by id. With the extensible load manager, a broker
    that has published its load but is no longer registered has a row too (`ExtensibleLoad.live`); otherwise all brokers
    are live.

    `usage` and `limit` have one row for each of `load_report.RESOURCES`, in its units. `latest` is the traffic of the
    whole broker in its newest report; `short` and `long` are the sums of the short-term and the long-term windows of
    its bundles. `suspect` flags brokers that reported values that are not finite.
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
        """Usage in percent of the limit, one row for each of RESOURCES. It is computed with 32-bit floats and converted
        to 64 bits; values that are not finite are replaced by 0.
        """
        return finite(raw_percent(self.usage, self.limit))[0]

    def runs_class(self, name: str) -> Flags:
        """Flag the brokers whose load manager has the class name `name`; both names are compared without their package.
        The result is `everyone` if all brokers have this class.

        Do not change the result.
        """
        found: Flags | None = self.memo.get(("runs class", name))
        if found is None:
            own = (reported is not None and reported.rpartition(".")[2] == name for reported in self.class_names)
            found = np.fromiter(own, bool, len(self))
            found = self.memo["runs class", name] = self.everyone if found.all() else found
        return found

    def flags_of(self, broker: int) -> tuple[str, ...]:
        """Return texts that name problems of the data of the broker in row `broker`, to be used in a reason; empty if
        there are none.
        """
        return (f"{self.names[broker]} reported load values that are not numbers",) if self.suspect.item(broker) else ()

    @cached_property
    def most_topics(self) -> int:
        """The highest number of topics that a broker reports; 0 without brokers."""
        return int(self.topics.max(initial=0))

    def weighted_usage(self, weights: ResourceWeights) -> Floats:
        """Return for each broker the largest product of a usage (CPU, direct memory, one of the two bandwidths; a
        fraction) and its weight. It may be greater than 1.

        The result is cached for each set of weights, because a round needs it for every bundle. It is read-only.
        """
        found: Floats | None = self.memo.get(("weighted usage", weights))
        if found is None:
            found = self.memo["weighted usage", weights] = largest_weighted(self.percent, weights)
            found.flags.writeable = False
        return found

    @cached_property
    def memo(self) -> dict[tuple[str, object], Any]:
        """A cache of values that were computed from this table, by a name and a key. It exists as long as the table."""
        return {}


@dataclass(frozen=True)
class BundleTable:
    """The bundles as columns: one row per reported bundle, sorted by name. A bundle that two brokers report, because it
    is moving, has a row for each of the two.

    `owner` is a row of the brokers, `namespace` an index of `LoadSnapshot.namespaces`. `latest` is the traffic in the
    report; `short` and `long` are the averages in the short-term and the long-term window. `listed`: the report names
    the bundle in `bundles`. `sampled`: the report has the load of the bundle. In reports of Barycenter's brokers both
    are set. `broker_bound`: the bundle's namespace is bound to one broker (heartbeat, SLA monitor); bundles of
    `pulsar/system` may move, as in Pulsar 4.x. `has_windows` False: there are no values for `short` and `long`, which
    are then 0. `suspect`: a value in the report or in the windows was not finite.
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
        """Return the rows of the bundles of a namespace, given by its index in `LoadSnapshot.namespaces`."""
        rows = self._rows_of_namespace(namespace)
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    def _rows_of_namespace(self, namespace: int) -> Integers | slice:
        grouped, order = self._by_namespace
        first, end = grouped.searchsorted(np.array((namespace, namespace + 1), grouped.dtype)).tolist()
        return slice(first, end) if order is None else order[first:end]

    @cached_property
    def _by_namespace(self) -> tuple[Indices, Integers | None]:
        """The column `namespace` in ascending order, and the row of each of its items. The second value is None if the
        column of the table is already in ascending order, so that the rows are 0, 1, 2 and so on.
        """
        if not np.any(self.namespace[1:] < self.namespace[:-1]):
            return self.namespace, None
        order = np.argsort(self.namespace, kind="stable")
        return self.namespace[order], order

    def holders(self, namespace: int, brokers: int) -> Indices | Integers:
        """Return the rows of the brokers that report bundles of a namespace; the same row may occur several times.
        `brokers` is the number of brokers.
        """
        owners = self.owner[self._rows_of_namespace(namespace)]
        return owners if len(owners) <= brokers else self.reported(namespace, brokers).nonzero()[0]

    def holding(self, namespace: int, brokers: int) -> frozenset[int]:
        """Return the rows of the brokers that report bundles of a namespace, as a cached set. `brokers` is the number
        of brokers.
        """
        found: frozenset[int] | None = self.memo.get(("holding", namespace))
        if found is None:
            found = self.memo["holding", namespace] = frozenset(self.holders(namespace, brokers).tolist())
        return found

    def reported(self, namespace: int, brokers: int) -> Integers:
        """Return for each broker how many bundles of a namespace it reports. `brokers` is the number of brokers. Do not
        change the result: it may be cached.
        """
        found: Integers | None = self.memo.get(("reported", namespace))
        if found is None:
            owners = self.owner[self._rows_of_namespace(namespace)]
            found = np.bincount(owners, minlength=brokers)
            if len(owners) > brokers:  # for a small namespace, counting again is as fast as a cache
                self.memo["reported", namespace] = found
        return found

    @cached_property
    def memo(self) -> dict[tuple[str, object], Any]:
        """A cache of values that were computed from this table, by a name and a key. It exists as long as the table."""
        return {}

    def row_with_windows(self, bundle: str) -> int | None:
        """Return the first row of the bundle; None if there is no such row, or if it has no windows (averages over
        time).
        """
        row = bisect_left(self.names, bundle)
        known = row < len(self) and self.names[row] == bundle and self.has_windows.item(row)
        return row if known else None

    def is_reported_by(self, broker: int, bundle: str, known: int = 0) -> bool:
        """Return whether the broker in row `broker` reports `bundle`. `known` is a row in which the caller expects the
        bundle: if the bundle is in this row, no search is needed. Any value gives the right result.
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
    """Bundles that were assigned to a broker and are still on their way to it.

    `long_rate` is for each broker the sum of the long-term rates in + out of these bundles (msg/s), and `topics` the
    sum of their topics. `most_topics` is at least the highest value in `topics`. The keys of `pairs` are (row of the
    broker, bundle). `arriving` maps each namespace to the number of its bundles that are about to arrive at a broker,
    by the row of the broker; bundles that this broker already reports are not counted, and a broker with none has no
    entry.
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
        """Return preallocations with these sums per broker, and with these `pairs` (row of the broker, bundle).
        `bundles` is the table of reported bundles.
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
        """Return these preallocations and one more: `bundle`, assigned to the broker in the row `broker`. This takes
        constant time.

        `rate` is the bundle's long-term rate in + out (msg/s); this function bounds it by `bounded_rate`. `row` is the
        row in which the caller expects the bundle in `bundles`: a right value makes this faster, and any value gives
        the right result.
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

    Columns over brokers: `weighted_max_ema` and `max_usage` are fractions, `throughput_ema` is bytes/s, `updated_at_ms`
    is the time of the measurement (epoch ms). `has_load` False: the broker is registered, but has published no load,
    and its values are 0. `live` False: the broker has published its load, but is no longer registered.

    Columns over bundles: `top` is the position in the list of top bundles of the broker in this row (0 is the least
    loaded of them); -1: the bundle is not in the list. `owned`: by the bundle's ownership record, the broker of this
    row is its owner.

    `traffic` is the source of `short` and `long` in the tables, of `throughput_ema`, and of the order of the lists.
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

    `taken_at_ms` (epoch ms) is the time from which ages are computed. `extensible` is None unless the brokers use the
    extensible load manager. `policies` are the rules of administrators for placement.
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
        """The bundles that are on their way to a broker; there are none if the snapshot was built without such
        bundles.
        """
        return self.preallocations or Preallocations.none(len(self.brokers))

    @property
    def preallocated_long_rate(self) -> Floats:
        """For each broker, the sum of the long-term rates (in + out, msg/s) of the bundles that are on their way to
        it.
        """
        return self.on_their_way.long_rate

    @property
    def preallocated_topics(self) -> Integers:
        """For each broker, the number of topics in the bundles that are on their way to it."""
        return self.on_their_way.topics

    def namespace_row(self, namespace: str) -> int | None:
        """Return the index of `namespace` in `namespaces`; None if the snapshot has no bundles of it."""
        row = bisect_left(self.namespaces, namespace)
        return row if row < len(self.namespaces) and self.namespaces[row] == namespace else None

    def with_preallocations(self, preallocated: Mapping[str, Mapping[str, BundleData]]) -> "LoadSnapshot":
        """Return the snapshot in which only the bundles in `preallocated` are on their way to a broker. `preallocated`
        maps a broker to these bundles and their data; brokers that are not in the snapshot are ignored.
        """
        return replace(self, preallocations=_preallocations(self.brokers, self.bundles, preallocated))

    def adding_preallocation(self, broker: str, bundle: str, data: BundleData) -> "LoadSnapshot":
        """Return the snapshot in which `bundle`, with the load `data`, is also on its way to `broker`. It must not be
        on its way to this broker already. This takes constant time. If `broker` is not in the snapshot, return it
        unchanged.
        """
        row = self.brokers.index.get(broker)
        if row is None:
            return self
        rate = data.long_term_data.msg_rate_in + data.long_term_data.msg_rate_out
        return self._with(self.on_their_way.adding(row, bundle, rate, data.topics, self.bundles))

    def moving(self, bundle: int, broker: str) -> "LoadSnapshot":
        """Return the snapshot in which the bundle in row `bundle` is also on its way to `broker`. It must not be on its
        way to this broker already.
        """
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
        """Return whether both snapshots have the same tables, and so the same reports. The bundles that are on their
        way to a broker may differ.
        """
        return self.bundles is other.bundles and self.brokers is other.brokers

    def is_on_its_way(self, bundle: str, broker: str) -> bool:
        """Return whether `bundle` is on its way to `broker` in this snapshot."""
        return (self.brokers.index[broker], bundle) in self.on_their_way.pairs


def counted(bundles: BundleTable, namespace: int | None, brokers: int, arriving: Mapping[int, int]) -> Integers:
    """Return for each broker the number of bundles of a namespace that it reports or that are on their way to it.
    `namespace` None: no broker reports any. `arriving` has the bundles on their way (see `Preallocations.arriving`).

    Do not change the result.
    """
    counts = np.zeros(brokers, np.int64) if namespace is None else bundles.reported(namespace, brokers)
    if arriving:
        counts = counts.copy()
        counts[list(arriving)] += list(arriving.values())
    return counts


def raw_percent(usage: Floats, limit: Floats) -> Floats:
    """Return 100 × usage / limit, computed with 32-bit floats and converted to 64 bits; 0 where the limit is not
    positive. The result may be infinite.

    This is `pulsar_barycenter.load.reports.load_report.percent_usage` for whole columns.
    """
    with np.errstate(all="ignore"):
        quotient = usage.astype(np.float32) / limit.astype(np.float32)
        percent = quotient * np.float32(100)
    return np.where(limit > 0, percent, np.float32(0)).astype(np.float64)


def largest_weighted(percent: Floats, weights: ResourceWeights) -> Floats:
    """Return for each broker the largest product of a usage (CPU, direct memory, one of the two bandwidths; a fraction)
    and its weight. It may be greater than 1.

    `percent` has a row for each of RESOURCES. This is `load_report.weighted_resource_usage` for whole columns.
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
    """Return the table in which the bundles of these names, and no others, count as recently unloaded. Names that are
    not in the table are ignored.
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
    """Return the preallocations. Their rates are added in the order of broker and bundle names, so the order of the
    input does not matter.
    """
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
    """Return the namespace of the bundle, which is the part of its name before the last slash."""
    return bundle.rpartition("/")[0]


def bounded_count(count: int) -> int:
    """Return `count`, bounded to ±LARGEST_COUNT."""
    return max(-LARGEST_COUNT, min(LARGEST_COUNT, count))


def finite(values: Floats) -> tuple[Floats, Flags]:
    """Return the values, with 0 in place of NaN and infinity, and an array that flags the replaced values."""
    bad = ~np.isfinite(values)
    return np.where(bad, 0.0, values), bad
