"""The load of each broker as the simple load manager estimates it, and the order in which brokers are examined.

The usage of a broker is measured. The quotas of its bundles may sum to more, and the quotas of bundles on their way
are added. With usage U, quotas of its bundles A, quotas on their way P and limit L, all in the unit of the limit:

    estimated % = min(100, 100 * (max(U, A) + P) / L)      0 without a limit

for CPU, memory and the two bandwidths; for direct memory only the usage counts. The highest is the broker's load.

Worked example: a broker of 8 cores uses 160 % of one core (20 % of 800). The quotas of its ten bundles are 40 + 120
msg/s each, at 0.025 % per msg/s 40 % together, and one more bundle is on its way (4 %): (160 + 4) / 800 = 20.5 %.

The capacity (`room`) is how many bundles of the default quota the whole broker could take, by its scarcest resource.

Source: Pulsar's `ResourceUnitRanking` and `SimpleLoadManagerImpl.doLoadRanking` (4.2).
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from pulsar_barycenter.load.placement.avg_shedder_pins import Pins
from pulsar_barycenter.load.reports.load_report import ResourceQuota, bundle_data_of_quota
from pulsar_barycenter.load.simple.quotas import Quotas, figures_of
from pulsar_barycenter.load.simple.simple_settings import SimpleStrategy
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

BYTES_PER_KILOBIT: Final = 128
"""Pulsar counts a kilobit as 1024 bits when it compares quotas with bandwidth limits."""
TOLERANCE: Final = 5.0
_COMPARED: Final = (1, 0, 3, 4)
"""The rows that are compared after the load itself: memory, CPU, bandwidth in, bandwidth out."""
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True)
class Ranking:
    """The estimated load of each broker: one column per broker of `snapshot.brokers`.

    Immutable: `preallocating` and `releasing` return another object.

    `allocated` and `preallocated` are sums of quotas, of the bundles that a broker reports and of the bundles on their
    way to it; they have a row for each of QUOTA_FIGURES. `loaded` and `pending` are the numbers of these bundles.
    `rank` is computed once, when reports arrive; candidates are examined in the order of their ranks. The estimates, in
    contrast, change with every placement. `released` are pairs (row of a broker, bundle): the broker reports the
    bundle, but the bundle no longer counts for it, because it was placed again.
    """

    snapshot: LoadSnapshot
    strategy: SimpleStrategy
    cpu_factor: float
    default: ResourceQuota
    allocated: Floats
    preallocated: Floats
    loaded: Integers
    pending: Integers
    rank: Integers
    released: frozenset[tuple[int, str]] = frozenset()

    @cached_property
    def _shares(self) -> tuple[Floats, Floats]:
        return (
            _in_units_of_limits(self.allocated, self.cpu_factor),
            _in_units_of_limits(self.preallocated, self.cpu_factor),
        )

    @cached_property
    def estimated(self) -> Floats:
        """The estimated usage of each broker in percent, at most 100; one row for each of `load_report.RESOURCES`. It
        counts the bundles of the broker and those on their way to it.
        """
        brokers = self.snapshot.brokers
        allotted, coming = self._shares
        used = np.where(np.isnan(allotted), brokers.usage, np.maximum(brokers.usage, allotted))
        return _percent(used + np.nan_to_num(coming), brokers.limit)

    @cached_property
    def allocated_percent(self) -> Floats:
        """The usage in percent that the quotas of a broker's bundles have in total, at most 100; rows as in
        `estimated`, 0 for direct memory.
        """
        return _percent(np.nan_to_num(self._shares[0]), self.snapshot.brokers.limit)

    @cached_property
    def load(self) -> Floats:
        """The load of each broker in percent: the highest of its estimated usages."""
        highest: Floats = self.estimated.max(axis=0)
        return highest

    @cached_property
    def message_rate(self) -> Floats:
        """The message rate of each broker in msg/s, by the quotas of its bundles and of the bundles on their way to
        it.
        """
        rate: Floats = self.allocated[0] + self.allocated[1] + self.preallocated[0] + self.preallocated[1]
        return rate

    @property
    def idle(self) -> Flags:
        idle: Flags = (self.loaded == 0) & (self.pending == 0)
        return idle

    @cached_property
    def room(self) -> Integers:
        """How many bundles with the default quota each broker could have if it had no other load."""
        return room(self.snapshot.brokers.limit, self.default, self.cpu_factor)

    @property
    def free_room(self) -> Integers:
        """How many more bundles with the default quota each broker could take: `room` times the fraction of the broker
        that is free.
        """
        return truncated(self.room.astype(np.float64) * np.maximum(0.0, (100 - self.load) / 100))

    def preallocating(self, broker: int, bundle: str, quota: ResourceQuota) -> "Ranking":
        """Return the ranking with one more bundle on its way to the broker in this row."""
        preallocated, pending = self.preallocated.copy(), self.pending.copy()
        preallocated[:, broker] += figures_of(quota)
        pending[broker] += 1
        name = self.snapshot.brokers.names[broker]
        snapshot = self.snapshot.adding_preallocation(name, bundle, bundle_data_of_quota(quota))
        return replace(self, snapshot=snapshot, preallocated=preallocated, pending=pending)

    def releasing(self, bundle: str, candidates: Flags, quota: ResourceQuota) -> "Ranking":
        """Return the ranking after `bundle` was placed again: it no longer counts for those of `candidates` that report
        it. It still counts for other brokers that report it.
        """
        found = [row for row in self._owners(bundle) if candidates[row] and (row, bundle) not in self.released]
        if not found:
            return self
        allocated, loaded = self.allocated.copy(), self.loaded.copy()
        allocated[:, found] -= figures_of(quota)[:, None]
        loaded[found] -= 1
        released = self.released | {(row, bundle) for row in found}
        return replace(self, allocated=allocated, loaded=loaded, released=released)

    def _owners(self, bundle: str) -> list[int]:
        bundles = self.snapshot.bundles
        start = bisect_left(bundles.names, bundle)
        found = []
        for row in range(start, len(bundles)):
            if bundles.names[row] != bundle:
                break
            found.append(int(bundles.owner[row]))
        return found


def rank_brokers(
    snapshot: LoadSnapshot, quotas: Quotas, preallocated: Mapping[str, str], strategy: SimpleStrategy
) -> Ranking:
    """Return the ranking by the reports of `snapshot`. `preallocated` maps each bundle that is on its way to its new
    broker. Entries whose broker has no report are ignored.
    """
    brokers, bundles = snapshot.brokers, snapshot.bundles
    figures = quotas.table(bundles.names).figures
    count = len(brokers)
    allocated = np.array([np.bincount(bundles.owner, weights=row, minlength=count) for row in figures], float)
    coming, pending = np.zeros((5, count)), np.zeros(count, np.int64)
    data: dict[str, dict[str, ResourceQuota]] = {}
    for bundle, broker in sorted(preallocated.items()):
        row = brokers.index.get(broker)
        if row is not None:
            quota = quotas.of(bundle)
            coming[:, row] += figures_of(quota)
            pending[row] += 1
            data.setdefault(broker, {})[bundle] = quota
    held = {
        broker: {bundle: bundle_data_of_quota(quota) for bundle, quota in found.items()}
        for broker, found in data.items()
    }
    ranking = Ranking(
        snapshot=snapshot.with_preallocations(held),
        strategy=strategy,
        cpu_factor=quotas.cpu_factor,
        default=quotas.default,
        allocated=allocated.reshape(5, count),
        preallocated=coming,
        loaded=np.bincount(bundles.owner, minlength=count).astype(np.int64),
        pending=pending,
        rank=np.zeros(count, np.int64),
    )
    return replace(ranking, rank=ranks(ranking))


def ranks(ranking: Ranking) -> Integers:
    """Return each broker's rank, by strategy: its load (leastLoadedServer), its message rate (leastMsgPerSecond), or
    its weight for the random choice (weightedRandomSelection).

    The weight is `room * r * r`, where r is the fraction of the broker that is free. Ranks are truncated to integers.
    """
    if ranking.strategy is SimpleStrategy.LEAST_LOADED_SERVER:
        return truncated(ranking.load)
    if ranking.strategy is SimpleStrategy.LEAST_MSG_PER_SECOND:
        return truncated(ranking.message_rate)
    free = (100 - ranking.load) / 100
    return truncated(ranking.room.astype(np.float64) * free * free)


def settled(preallocated: Pins, snapshot: LoadSnapshot) -> Pins:
    """Return the entries of `preallocated` for bundles that are still on their way: their new broker has a report, and
    the report does not list them.
    """
    brokers, bundles = snapshot.brokers, snapshot.bundles
    arrived = []
    for bundle, broker in preallocated.items():
        row = brokers.index.get(broker)
        at = bisect_left(bundles.names, bundle)
        while row is not None and at < len(bundles) and bundles.names[at] == bundle:
            if bundles.owner[at] == row:
                row = None
            at += 1
        if row is None:
            arrived.append(bundle)
    return preallocated.without(arrived)


def room(limit: Floats, default: ResourceQuota, cpu_factor: float) -> Integers:
    """Return for each broker how many bundles of the quota `default` it can have. `limit` are the capacities of the
    brokers, with a row for each of RESOURCES. `cpu_factor` is percent of one core per msg/s.
    """
    cpu, memory, _, bandwidth_in, bandwidth_out = limit
    with np.errstate(all="ignore"):
        least = np.minimum(
            cpu / cpu_factor / _number(default.msg_rate_in + default.msg_rate_out), memory / _number(default.memory)
        )
        least = np.minimum(least, bandwidth_out * BYTES_PER_KILOBIT / _number(default.bandwidth_out))
        least = np.minimum(least, bandwidth_in * BYTES_PER_KILOBIT / _number(default.bandwidth_in))
    return truncated(np.maximum(least, 0))


def _number(value: float) -> Floats:
    """Return the value as a numpy number, because dividing by a numpy number of 0 raises no error (as in Java)."""
    return np.array(value, float)


def is_less_loaded(ranking: Ranking, brokers: Integers, than: int) -> Flags:
    """Return for each of `brokers` (rows) whether it is less loaded than the broker in the row `than`.

    The two brokers are compared by load, memory, CPU, bandwidth in and bandwidth out, in this order; the first of these
    that differs by more than 5 percentage points decides. If none does, the load decides. This relation is not
    transitive, so which broker is the least loaded depends on the order of comparisons.
    """
    load = ranking.load
    decided = np.abs(load[brokers] - load[than]) > TOLERANCE
    less: Flags = load[brokers] < load[than]
    for row in _COMPARED:
        mine, other = ranking.estimated[row][brokers], float(ranking.estimated[row][than])
        here = ~decided & (np.abs(mine - other) > TOLERANCE)
        less = np.where(here, mine < other, less)
        decided |= here
    return less


def least_loaded(ranking: Ranking, brokers: Integers) -> int:
    """Return the row of the least loaded broker: compare `brokers` (rows) one after the other, in their order, each
    with the least loaded one so far.
    """
    found, rest = int(brokers[0]), brokers[1:]
    while len(rest):
        better = np.flatnonzero(is_less_loaded(ranking, rest, found))
        if not len(better):
            break
        found, rest = int(rest[better[0]]), rest[better[0] + 1 :]
    return found


def truncated(values: Floats) -> Integers:
    """Return integers, truncated toward zero and bounded to 64 bits, NaN as 0, as a cast does in Java."""
    numbers = np.nan_to_num(np.trunc(values), nan=0.0, posinf=np.inf, neginf=-np.inf)
    high, low = numbers >= 2.0**63, numbers <= -(2.0**63)
    whole = np.where(high | low, 0, numbers).astype(np.int64)
    return np.where(high, _LONG_MAX, np.where(low, -_LONG_MAX - 1, whole))


def _in_units_of_limits(quotas: Floats, cpu_factor: float) -> Floats:
    """Return `quotas` (5 rows, QUOTA_FIGURES, and a column for each broker) in the units of `BrokerTable.limit`, one
    row for each of RESOURCES; NaN for direct memory, which has no quota.
    """
    rate_in, rate_out, bandwidth_in, bandwidth_out, memory = quotas
    return np.stack(
        [
            cpu_factor * (rate_in + rate_out),
            memory,
            np.full_like(memory, np.nan),
            bandwidth_in / BYTES_PER_KILOBIT,
            bandwidth_out / BYTES_PER_KILOBIT,
        ]
    )


def _percent(amount: Floats, limit: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.where(limit <= 0, 0.0, np.minimum(100.0, 100 * amount / limit))
