"""BundleSplitterTask: which bundles are too large.

Worked example (limits 1000 topics, 1000 sessions, 30 000 msg/s, 100 MiB/s): a bundle of two topics with 20 000 msg/s in
and 20 000 out, on its long-term average, is split by its rate.

The average is over 1000 samples, so a split by rate or bandwidth comes slowly, by design; topics and sessions count
as reported last.

Source: Pulsar's `BundleSplitterTask` (4.x). Where we differ: bundles are looked at in the order of their names, which
decides who is served while the namespace fills up, and one that two brokers report is chosen once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.decisions import Refusal, Split
from barycenter.load.reasons import Code, Compared, Reason
from barycenter.load.snapshot import Flags, Floats, Integers, LoadSnapshot, MessageColumns
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
class SplitPlan:
    """`rows` of `snapshot.bundles` to split, in the order of names, and what else was too large.

    `figures` and `limits` hold topics, sessions, rate and throughput in this order; `exceeded` the same of flags.
    `strategy` names who plans, `window` the time over which rate and throughput were measured.
    """

    strategy: str
    window: str
    snapshot: LoadSnapshot
    settings: BundleSplitterSettings
    rows: Integers
    refused: tuple[tuple[int, Code, float], ...]
    figures: Floats
    limits: tuple[float, float, float, float]
    exceeded: Flags

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Split]:
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        for row in self.rows.tolist():
            yield Split(bundles.names[row], brokers.names[bundles.owner[row]], self._reason(row, Code.BUNDLE_TOO_LARGE))

    def refusals(self) -> Iterator[Refusal]:
        """Tell of the bundles that are too large and still not split."""
        for row, code, count in self.refused:
            cause = self._reason(row, Code.BUNDLE_TOO_LARGE)
            compared: tuple[Compared, ...] = ()
            settings: tuple[str, ...] = ()
            if code is Code.NAMESPACE_FULL:
                limit = float(self.settings.max_bundles)
                compared = (Compared("bundles of the namespace", count, ">=", "maximum", limit, "bundles"),)
                settings = ("loadBalancerNamespaceMaximumBundles",)
            elif code is Code.FEWER_THAN_TWO_TOPICS:
                compared = (Compared("topics", count, "<", "least", 2, "topics"),)
            name = self.snapshot.bundles.names[row]
            reason = Reason(
                code=code, strategy=self.strategy, subject=name, compared=compared, settings=settings, cause=cause
            )
            yield Refusal("split", name, reason)

    def _reason(self, row: int, code: Code) -> Reason:
        above = [which for which in range(len(_CRITERIA)) if self.exceeded[which, row]]
        return Reason(
            code=code,
            strategy=self.strategy,
            subject=self.snapshot.bundles.names[row],
            compared=tuple(self._compared(which, row) for which in above),
            settings=tuple(_CRITERIA[which][1] for which in above),
        )

    def _compared(self, which: int, row: int) -> Compared:
        what, _, unit = _CRITERIA[which]
        named = f"{self.window} {what}" if which >= _OF_TRAFFIC else what
        return Compared(named, float(self.figures[which, row]), ">", "limit", self.limits[which], unit)


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

    All comparisons are strict. A namespace never gets more than `max_bundles`, the splits already chosen counted.
    A namespace without a count is taken to be as large as the bundles that are reported of it.
    """
    bundles = snapshot.bundles
    figures = np.stack([bundles.topics.astype(float), bundles.sessions.astype(float), traffic.rate, traffic.throughput])
    limits = (float(settings.max_topics), float(settings.max_sessions), settings.max_rate, settings.max_bandwidth)
    exceeded = figures > np.array(limits)[:, None]
    exceeded[1] &= settings.max_sessions > 0
    large = np.flatnonzero(exceeded.any(axis=0) & bundles.sampled).tolist()
    counts = dict(bundle_counts)
    chosen: dict[str, int] = {}
    refused: list[tuple[int, Code, float]] = []
    for row in large:
        name, namespace = bundles.names[row], snapshot.namespaces[bundles.namespace[row]]
        if name in chosen:
            continue
        if namespace not in counts:
            counts[namespace] = int(np.count_nonzero(bundles.namespace == bundles.namespace[row]))
        if bundles.topics[row] < 2:
            refused.append((row, Code.FEWER_THAN_TWO_TOPICS, float(bundles.topics[row])))
        elif counts[namespace] >= settings.max_bundles:
            refused.append((row, Code.NAMESPACE_FULL, float(counts[namespace])))
        else:
            chosen[name] = row
            counts[namespace] += 1
    rows = np.array(list(chosen.values()), np.int64)
    return SplitPlan(strategy, window, snapshot, settings, rows, tuple(refused), figures, limits, exceeded)
