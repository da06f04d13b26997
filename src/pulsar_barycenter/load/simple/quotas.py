"""Resource quotas: the expected needs of each bundle, learned from its past load.

A quota has five values: message rates in and out (msg/s), bandwidths in and out (bytes/s), memory (MiB). With every new
report the quota of each bundle moves toward the bundle's present load: quickly up, slowly down.

    smooth(old, new):  new := new bounded to the limits of this value
                       weight := time past / 30 min if new >= old, / 24 h if new < old, at most 1
                       (1 - weight) * old + weight * new

Worked example: a quota is 40 msg/s, and the bundle carries 100 msg/s for 3 minutes. The weight is 0.1, so the quota
becomes 46 msg/s. At 10 msg/s for 3 minutes it becomes 40 - 30 / 480 = 39.9375 msg/s.

CPU and memory of a bundle cannot be measured. They follow from two learned factors: percent of one core per msg/s, and
MiB per memory group; a bundle has 1 group and one more for every 500 topics, producers and consumers.

Source: Pulsar's `SimpleLoadManagerImpl` (4.2). Two oddities are kept, so that brokers of a mixed cluster agree on
quotas: the first update after a start counts as if a very long time had passed, so it replaces quotas completely; and
the check whether a quota must be written compares the new bandwidth *in* with the old bandwidth *out*. Where we differ:
if two brokers report one bundle, the broker with the later name counts, not the order of a hash map.
"""

import itertools
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from pulsar_barycenter.load.reports.load_report import INITIAL_QUOTA, ResourceQuota
from pulsar_barycenter.load.snapshot.load_snapshot import BundleTable, Flags, Floats, Integers, LoadSnapshot

GO_UP_MS: Final = 30 * 60_000
GO_DOWN_MS: Final = 1440 * 60_000
MEMORY_GROUP: Final = 500
INITIAL_CPU_FACTOR: Final = 0.025
INITIAL_MEMORY_FACTOR: Final = 25.0
NEVER_UPDATED: Final = -1

_LEAST: Final = np.array([5.0, 5.0, 10_000.0, 10_000.0, 2.0])
_MOST: Final = np.array([0.0, 0.0, 1_000_000.0, 1_000_000.0, 200.0])
_CPU_LIMITS: Final = (0.01, 0.1)
_MEMORY_LIMITS: Final = (10.0, 50.0)
_FEW_BUNDLES: Final = 30


def figures_of(quota: ResourceQuota) -> Floats:
    """Return the values of a quota in the order of QUOTA_FIGURES."""
    return np.array(
        [quota.msg_rate_in, quota.msg_rate_out, quota.bandwidth_in, quota.bandwidth_out, quota.memory], float
    )


def quota_of(figures: Floats, *, dynamic: bool = True) -> ResourceQuota:
    rate_in, rate_out, bandwidth_in, bandwidth_out, memory = figures.tolist()
    return ResourceQuota(
        msg_rate_in=rate_in,
        msg_rate_out=rate_out,
        bandwidth_in=bandwidth_in,
        bandwidth_out=bandwidth_out,
        memory=memory,
        dynamic=dynamic,
    )


@dataclass(frozen=True)
class QuotaTable:
    """The quotas of bundles: one column per bundle, sorted by name. `figures` has a row for each of QUOTA_FIGURES.
    Reports do not change the quotas of the bundles that are not `dynamic`.
    """

    names: Sequence[str] = ()
    figures: Floats = field(default_factory=lambda: np.zeros((5, 0)))
    dynamic: Flags = field(default_factory=lambda: np.zeros(0, bool))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @staticmethod
    def of(quotas: Mapping[str, ResourceQuota]) -> "QuotaTable":
        names = sorted(quotas)
        columns = [figures_of(quotas[name]) for name in names]
        return QuotaTable(
            names,
            np.array(columns, float).reshape(-1, 5).T,
            np.array([quotas[name].dynamic for name in names], bool),
        )

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._row(name) is not None

    def get(self, name: str) -> ResourceQuota | None:
        row = self._row(name)
        return None if row is None else quota_of(self.figures[:, row], dynamic=bool(self.dynamic[row]))

    def _row(self, name: str) -> int | None:
        row = bisect_left(self.names, name)
        return row if row < len(self.names) and self.names[row] == name else None

    def part(self, start: int, stop: int) -> "QuotaTable":
        """Return the columns from `start` up to `stop` (exclusive)."""
        return QuotaTable(self.names[start:stop], self.figures[:, start:stop], self.dynamic[start:stop])

    def aligned(self, names: Sequence[str], otherwise: ResourceQuota) -> "QuotaTable":
        """Return the quotas of `names`, in their order. A bundle that is not in this table gets the quota
        `otherwise`.
        """
        if self.names == names:
            return self
        where = np.fromiter((self.index.get(name, -1) for name in names), np.int64, len(names))
        figures = np.concatenate([self.figures, figures_of(otherwise)[:, None]], axis=1)
        dynamic = np.append(self.dynamic, otherwise.dynamic)
        return QuotaTable(names, figures[:, where], dynamic[where])  # -1 is the column just appended


@dataclass(frozen=True)
class Quotas:
    """All known quotas. Immutable: an update returns another object.

    `bundles` has the quotas of the bundles in the newest reports; `known` has quotas of other bundles, read from the
    metadata store (see `unknown`). `default` is the quota of a bundle without its own. `average` is the mean that was
    learned from reports; the leader writes it to the store as the next default. `cpu_factor` is percent of one core per
    msg/s, `memory_factor` MiB per memory group (see `memory_groups`). `updated_at_ms` is the time of the newest report
    that was included (epoch ms); NEVER_UPDATED: no report was.
    """

    bundles: QuotaTable = field(default_factory=QuotaTable)
    known: Mapping[str, ResourceQuota] = field(default_factory=dict)
    default: ResourceQuota = INITIAL_QUOTA
    average: ResourceQuota = INITIAL_QUOTA
    cpu_factor: float = INITIAL_CPU_FACTOR
    memory_factor: float = INITIAL_MEMORY_FACTOR
    updated_at_ms: int = NEVER_UPDATED

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` whose quota is neither learned nor read from the metadata store, sorted. The caller
        reads their quotas from the store and passes them to `learning`.
        """
        return sorted({name for name in names if name not in self.known and name not in self.bundles})

    def learning(self, stored: Mapping[str, ResourceQuota]) -> "Quotas":
        """Return these quotas together with `stored`, quotas that were read from the metadata store."""
        return replace(self, known={**self.known, **stored})

    def of(self, bundle: str) -> ResourceQuota:
        """Return a bundle's quota: the learned one, else the stored, else the default."""
        return self.bundles.get(bundle) or self.known.get(bundle) or self.default

    def total(self, names: Iterable[str]) -> ResourceQuota:
        """Return the sum of the quotas of `names`; for a bundle without a quota, the default is added."""
        total = np.zeros(5)
        for name in names:
            total += figures_of(self.of(name))
        return quota_of(total)

    def table(self, names: Sequence[str]) -> QuotaTable:
        """Return the quotas of `names`, in their order; for a bundle without a quota, the default."""
        if self.bundles.names == names or not self.known:
            return self.bundles.aligned(names, self.default)
        others = {name: self.known[name] for name in names if name in self.known and name not in self.bundles}
        if not others:
            return self.bundles.aligned(names, self.default)
        stored = QuotaTable.of(others)
        both = QuotaTable(  # not sorted; `aligned` does not need that
            [*self.bundles.names, *stored.names],
            np.concatenate([self.bundles.figures, stored.figures], axis=1),
            np.concatenate([self.bundles.dynamic, stored.dynamic]),
        )
        return both.aligned(names, self.default)


def smooth(old: Floats, new: Floats, least: Floats, most: Floats, time_past_ms: float) -> Floats:
    """Return `old`, moved toward `new` bounded to at least `least` and at most `most`; the more time has passed, the
    further (the formula is in the docstring of the module). `most` 0: no upper limit. The shapes of the arrays are
    broadcast.

    Source: `SimpleLoadManagerImpl.timeSmoothValue`.
    """
    held = np.maximum(least, new)
    held = np.where(most > 0, np.minimum(most, held), held)
    window = np.where(held >= old, GO_UP_MS, GO_DOWN_MS)
    weight = np.clip(time_past_ms / window, 0.0, 1.0)
    smoothed: Floats = (1 - weight) * old + weight * held
    return smoothed


def _smooth_one(old: float, new: float, limits: tuple[float, float], time_past_ms: float) -> float:
    least, most = (np.array([limit]) for limit in limits)
    return float(smooth(np.array([old]), np.array([new]), least, most, time_past_ms)[0])


def smoothed_quota(old: ResourceQuota, now: Floats, time_past_ms: float) -> ResourceQuota:
    """Return the quota `old`, moved toward the five values of `now` (see `smooth`). A quota that is not dynamic is
    returned unchanged.
    """
    return quota_of(smooth(figures_of(old), now, _LEAST, _MOST, time_past_ms)) if old.dynamic else old


def memory_groups(bundles: BundleTable) -> Integers:
    """Return the number of memory groups of each bundle, the unit of Pulsar's memory quotas: 1, and one more for every
    500 of its topics, producers and consumers together.
    """
    return 1 + (bundles.topics + bundles.sessions) // MEMORY_GROUP


def update_quotas(snapshot: LoadSnapshot, quotas: Quotas) -> Quotas:
    """Return the quotas after the reports in `snapshot` were included; `quotas` unchanged if it has no brokers.

    The factors of CPU and memory are updated only if the cluster has more than 1000 msg/s and more than 30 memory
    groups, the average quota only if it has more than 30 bundles. The learned quotas of bundles that no broker reports
    any more are dropped.

    Source: `SimpleLoadManagerImpl.updateRealtimeResourceQuota`.
    """
    brokers, bundles = snapshot.brokers, snapshot.bundles
    if not len(brokers):
        return quotas
    newest_ms = int(brokers.reported_at_ms.max())
    time_past_ms = newest_ms - quotas.updated_at_ms
    groups, counted = memory_groups(bundles), bundles.sampled
    group_count, bundle_count = int(groups[counted].sum()), int(counted.sum())
    totals = np.array(
        [
            brokers.latest.rate_in.sum(),
            brokers.latest.rate_out.sum(),
            bundles.latest.throughput_in[counted].sum(),
            bundles.latest.throughput_out[counted].sum(),
            brokers.usage[1].sum(),
        ]
    )
    rate = float(totals[0] + totals[1])
    cpu_factor, memory_factor, average = quotas.cpu_factor, quotas.memory_factor, quotas.average
    if rate > 1000 and group_count > 30:
        cpu_factor = _smooth_one(cpu_factor, float(brokers.usage[0].sum()) / rate, _CPU_LIMITS, time_past_ms)
        memory_factor = _smooth_one(memory_factor, float(totals[4]) / group_count, _MEMORY_LIMITS, time_past_ms)
    if bundle_count > _FEW_BUNDLES:
        average = smoothed_quota(average, totals / bundle_count, time_past_ms)
    rows = _last_of_each(bundles)
    names = bundles.names if len(rows) == len(bundles) else [bundles.names[row] for row in rows.tolist()]
    before = quotas.table(names)
    latest = bundles.latest
    now = np.stack([latest.rate_in, latest.rate_out, latest.throughput_in, latest.throughput_out])[:, rows]
    now = np.concatenate([now, (groups[rows] * memory_factor)[None, :]])
    moved = smooth(before.figures, now, _LEAST[:, None], _MOST[:, None], time_past_ms)
    table = QuotaTable(names, np.where(before.dynamic, moved, before.figures), before.dynamic)
    return replace(
        quotas,
        bundles=table,
        known={name: quota for name, quota in quotas.known.items() if name not in table},
        average=average,
        cpu_factor=cpu_factor,
        memory_factor=memory_factor,
        updated_at_ms=newest_ms,
    )


def _last_of_each(bundles: BundleTable) -> Integers:
    """Return for each bundle one of its rows with a reported load: if several brokers report it, the row of the last
    broker by name.
    """
    rows = np.flatnonzero(bundles.sampled)
    if len(rows) < 2:
        return rows
    names = bundles.names if len(rows) == len(bundles) else [bundles.names[row] for row in rows.tolist()]
    last = np.fromiter(map(operator.ne, names, itertools.islice(names, 1, None)), bool, len(rows) - 1)
    kept: Integers = rows[np.append(last, True)]
    return kept


def is_worth_writing(stored: Floats, new: Floats, dynamic: Flags) -> Flags:
    """Return for each column whether the quota `new` differs enough from the quota `stored` to be written. Both have 5
    rows (QUOTA_FIGURES) and a column for each bundle.

    It does if at least one value differs by 5 msg/s, 10 000 bytes/s or 2 MiB, and the quota is `dynamic`. The new
    bandwidth in is compared with the stored bandwidth *out*, as in Pulsar, so a bundle that sends much more than it
    receives is written every time.
    """
    against = stored.copy()
    against[2] = stored[3]
    near = (np.abs(new - against) < _LEAST[:, None]).all(axis=0)
    worth: Flags = dynamic & ~near
    return worth


def average_to_write(quotas: Quotas, stored_default: ResourceQuota | None) -> ResourceQuota | None:
    """Return the learned average if it differs enough from `stored_default` to be written to the metadata store, else
    None. `stored_default` None: the store has no default, and the initial quota is compared.
    """
    table = QuotaTable.of({"": stored_default or INITIAL_QUOTA})
    worth = is_worth_writing(table.figures, figures_of(quotas.average)[:, None], table.dynamic)
    return quotas.average if worth[0] else None


def quotas_to_write(
    bundles: QuotaTable, stored: Callable[[str], ResourceQuota | None], stored_default: ResourceQuota | None
) -> Iterator[tuple[str, ResourceQuota]]:
    """Yield the learned quotas that the leader has to write, sorted by name, because they differ enough from the stored
    ones.

    `stored` is a function that returns the stored quota of a bundle; None: it has none. A bundle without one is
    compared with `stored_default`, or with the initial quota if that is None.
    """
    default = stored_default or INITIAL_QUOTA
    kept = [stored(name) or default for name in bundles.names]
    old = np.array([figures_of(quota) for quota in kept], float).reshape(-1, 5).T
    worth = is_worth_writing(old, bundles.figures, np.array([quota.dynamic for quota in kept], bool))
    for row in np.flatnonzero(worth).tolist():
        yield bundles.names[row], quota_of(bundles.figures[:, row], dynamic=bool(bundles.dynamic[row]))
