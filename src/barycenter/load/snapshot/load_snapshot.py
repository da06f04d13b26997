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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from barycenter.load.policies import NO_POLICIES, ClusterPolicies
from barycenter.load.reports.load_report import BundleData, ResourceWeights

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
"""The rows of `BrokerTable.usage`, `.limit` and `.percent`."""

LARGEST_COUNT: Final = 2**53
"""Counts beyond it are bounded: sums of them stay exact in both kinds of numbers."""


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
        return finite(raw_percent(self.usage, self.limit))[0]

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
        topics[broker] += bounded_count(data.topics)
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

    The column form of `barycenter.load.reports.load_report.percent_usage`.
    """
    with np.errstate(all="ignore"):
        quotient = usage.astype(np.float32) / limit.astype(np.float32)
        percent = quotient * np.float32(100)
    return np.where(limit > 0, percent, np.float32(0)).astype(np.float64)


def unloaded_recently(bundles: BundleTable, names: Iterable[str]) -> BundleTable:
    """Return the table in which exactly the bundles of these names were unloaded recently; unknown names are none."""
    flags = np.zeros(len(bundles), bool)
    for name in names:
        row = bisect_left(bundles.names, name)
        while row < len(flags) and bundles.names[row] == name:
            flags[row] = True
            row += 1
    return replace(bundles, recently_unloaded=flags)


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
            found.topics[row] += bounded_count(data.topics)
            held.setdefault(bundle.rpartition("/")[0], set()).add((row, bundle))
    return replace(found, held={namespace: frozenset(pairs) for namespace, pairs in held.items()})


def bounded_count(count: int) -> int:
    """Return `count`, or the nearest that is not beyond LARGEST_COUNT."""
    return max(-LARGEST_COUNT, min(LARGEST_COUNT, count))


def finite(values: Floats) -> tuple[Floats, Flags]:
    """Return the values with 0 in place of what is no number, and where that was."""
    bad = ~np.isfinite(values)
    return np.where(bad, 0.0, values), bad
