"""BundleSplitterTask: which bundles are too large.

Worked example (limits 1000 topics, 1000 sessions, 30 000 msg/s, 100 MiB/s): a bundle of two topics with 20 000 msg/s in
and 20 000 out, on its long-term average, is split by its rate.

The average is over 1000 samples, so a split by rate or bandwidth comes slowly, by design; topics and sessions count
as reported last.

When to use it: it is on unless `loadBalancerAutoBundleSplitEnabled` is off; a bundle is the least that can move, so
shedding needs bundles much smaller than a broker. When not: namespaces whose number of bundles was chosen for their
load, and topics that cannot be parted: one hot topic makes its bundle too large however often that is split, until the
namespace has as many bundles as it may.

Source: Pulsar's `BundleSplitterTask` (4.x). Where we differ: bundles are looked at in the order of their names, which
decides who is served while the namespace fills up, and one that two brokers report is chosen once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.decisions import Refusal, Split
from barycenter.load.reasons import Code, Compared, Reason
from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot, MessageColumns
from barycenter.load.splitting.request import MEBIBYTE

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "BundleSplitterTask"


@dataclass(frozen=True, slots=True)
class BundleSplitterSettings:
    """A bundle above one of the limits is too large. `max_sessions` ≤ 0 is no limit; bandwidth is bytes/s."""

    max_topics: int = 1000
    max_sessions: int = 1000
    max_rate: float = 30_000
    max_bandwidth: float = 100 * MEBIBYTE
    max_bundles: int = 128

    @staticmethod
    def of(config: "BrokerConfig") -> "BundleSplitterSettings":
        return BundleSplitterSettings(
            max_topics=config.load_balancer_namespace_bundle_max_topics,
            max_sessions=config.load_balancer_namespace_bundle_max_sessions,
            max_rate=config.load_balancer_namespace_bundle_max_msg_rate,
            max_bandwidth=config.load_balancer_namespace_bundle_max_bandwidth_mbytes * MEBIBYTE,
            max_bundles=config.load_balancer_namespace_maximum_bundles,
        )


_CRITERIA: Final = (
    ("topics", "loadBalancerNamespaceBundleMaxTopics", "topics"),
    ("producers and consumers", "loadBalancerNamespaceBundleMaxSessions", "sessions"),
    ("rate in + out", "loadBalancerNamespaceBundleMaxMsgRate", "msg/s"),
    ("throughput in + out", "loadBalancerNamespaceBundleMaxBandwidthMbytes", "bytes/s"),
)
_OF_TRAFFIC: Final = 2
"""The first of the criteria that are measured over a time, which a plan's `window` names."""


@dataclass(frozen=True, slots=True)
class LargeBundles:
    """Which bundles exceed which limit, and by what: topics, sessions, rate and throughput in this order.

    `figures` and `exceeded` have one row for each of the four and one column a bundle. `window` names the time over
    which rate and throughput were measured.
    """

    figures: Floats
    limits: tuple[float, float, float, float]
    exceeded: Flags
    window: str

    def compared(self, row: int) -> tuple[Compared, ...]:
        return tuple(self._compared(which, row) for which in self._above(row))

    def settings(self, row: int) -> tuple[str, ...]:
        return tuple(_CRITERIA[which][1] for which in self._above(row))

    def _above(self, row: int) -> list[int]:
        return [which for which in range(len(_CRITERIA)) if self.exceeded[which, row]]

    def _compared(self, which: int, row: int) -> Compared:
        what, _, unit = _CRITERIA[which]
        named = f"{self.window} {what}" if which >= _OF_TRAFFIC else what
        return Compared(named, float(self.figures[which, row]), ">", "limit", self.limits[which], unit)


def large_bundles(
    snapshot: LoadSnapshot, traffic: MessageColumns, settings: BundleSplitterSettings, *, window: str
) -> LargeBundles:
    """Hold the bundles against the limits, with these rates and throughputs; all comparisons are strict."""
    bundles = snapshot.bundles
    figures = np.stack([bundles.topics.astype(float), bundles.sessions.astype(float), traffic.rate, traffic.throughput])
    limits = (float(settings.max_topics), float(settings.max_sessions), settings.max_rate, settings.max_bandwidth)
    exceeded = figures > np.array(limits)[:, None]
    exceeded[1] &= settings.max_sessions > 0
    return LargeBundles(figures, limits, exceeded, window)


@dataclass(frozen=True, slots=True)
class SplitRefusal:
    """The bundle in `row` is too large and still not split."""

    row: int
    code: Code
    compared: tuple[Compared, ...] = ()
    settings: tuple[str, ...] = ()
    detail: str = ""


def too_few_topics(row: int, topics: int) -> SplitRefusal:
    compared = Compared("topics", float(topics), "<", "least", 2, "topics")
    return SplitRefusal(row, Code.FEWER_THAN_TWO_TOPICS, (compared,))


def namespace_full(row: int, bundles: int, maximum: int) -> SplitRefusal:
    compared = Compared("bundles of the namespace", float(bundles), ">=", "maximum", float(maximum), "bundles")
    return SplitRefusal(row, Code.NAMESPACE_FULL, (compared,), ("loadBalancerNamespaceMaximumBundles",))


class NamespaceCounts:
    """How many bundles each namespace has, the splits chosen so far counted; mutable inside a strategy.

    A namespace without a count is taken to be as large as the bundles that are reported of it.
    """

    def __init__(self, snapshot: LoadSnapshot, counts: Mapping[str, int]) -> None:
        self._snapshot = snapshot
        self._counts = dict(counts)

    def of(self, row: int) -> int:
        """Return the number of bundles of the namespace that the bundle in that row belongs to."""
        bundles, namespace = self._snapshot.bundles, self._snapshot.namespaces[self._snapshot.bundles.namespace[row]]
        if namespace not in self._counts:
            self._counts[namespace] = int(np.count_nonzero(bundles.namespace == bundles.namespace[row]))
        return self._counts[namespace]

    def split(self, row: int) -> None:
        self._counts[self._snapshot.namespaces[self._snapshot.bundles.namespace[row]]] = self.of(row) + 1


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """`rows` of `snapshot.bundles` to split, in the order of names, and what else was too large.

    `strategy` names who plans. `boundaries` are there if it decides where to cut, one for each of `rows`. `causes` say
    of some of `rows` what else than its size mattered.
    """

    strategy: str
    snapshot: LoadSnapshot
    large: LargeBundles
    rows: Integers
    refused: tuple[SplitRefusal, ...]
    boundaries: tuple[int, ...] = ()
    causes: Mapping[int, tuple[Compared, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Split]:
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        for row, boundary in zip_longest(self.rows.tolist(), self.boundaries):
            yield Split(bundles.names[row], brokers.names[bundles.owner[row]], self._reason(row), boundary)

    def refusals(self) -> Iterator[Refusal]:
        """Tell of the bundles that are too large and still not split."""
        for refusal in self.refused:
            name = self.snapshot.bundles.names[refusal.row]
            reason = Reason(
                code=refusal.code,
                strategy=self.strategy,
                subject=name,
                compared=refusal.compared,
                settings=refusal.settings,
                detail=refusal.detail,
                cause=self._reason(refusal.row),
            )
            yield Refusal("split", name, reason)

    def _reason(self, row: int) -> Reason:
        cause = self.causes.get(row)
        more, keys = ((), ()) if cause is None else ((cause[0],), (cause[1],))
        return Reason(
            code=Code.BUNDLE_TOO_LARGE,
            strategy=self.strategy,
            subject=self.snapshot.bundles.names[row],
            compared=(*self.large.compared(row), *more),
            settings=(*self.large.settings(row), *keys),
        )


def bundle_splitter(
    snapshot: LoadSnapshot, settings: BundleSplitterSettings, bundle_counts: Mapping[str, int]
) -> SplitPlan:
    """Return the bundles to split by their long-term averages, as `plan_splits`."""
    return plan_splits(snapshot, snapshot.bundles.long, settings, bundle_counts, strategy=NAME, window="long-term")


def plan_splits(
    snapshot: LoadSnapshot,
    traffic: MessageColumns,
    settings: BundleSplitterSettings,
    bundle_counts: Mapping[str, int],
    *,
    strategy: str,
    window: str,
) -> SplitPlan:
    """Return the bundles to split, with these rates and throughputs. `bundle_counts`: bundles of each namespace now.

    A namespace never gets more than `max_bundles`, the splits already chosen counted.
    """
    bundles = snapshot.bundles
    large = large_bundles(snapshot, traffic, settings, window=window)
    counts = NamespaceCounts(snapshot, bundle_counts)
    chosen: dict[str, int] = {}
    refused: list[SplitRefusal] = []
    for row in np.flatnonzero(large.exceeded.any(axis=0) & bundles.sampled).tolist():
        name = bundles.names[row]
        if name in chosen:
            continue
        if bundles.topics[row] < 2:
            refused.append(too_few_topics(row, int(bundles.topics[row])))
        elif counts.of(row) >= settings.max_bundles:
            refused.append(namespace_full(row, counts.of(row), settings.max_bundles))
        else:
            chosen[name] = row
            counts.split(row)
    rows = np.array(list(chosen.values()), np.int64)
    return SplitPlan(strategy, snapshot, large, rows, tuple(refused))
