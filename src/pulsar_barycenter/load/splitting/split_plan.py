"""The answer of a split strategy: the bundles to split, and the bundles that are too large but not split.

It reads no clock and no metadata store: the number of bundles of a namespace is an argument.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, ROUND_KEY, Refusal, Split, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot, MessageColumns
from pulsar_barycenter.load.splitting.request import MEBIBYTE

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """The limits for bundles: a bundle above any of them is too large. `max_sessions` of 0 or less: no limit.
    `max_rate` is in msg/s, `max_bandwidth` in bytes/s, both in + out.

    `max_bundles` is the maximum number of bundles of a namespace, and `most` the maximum number of bundles that are
    split in one run of the strategy.
    """

    max_topics: int = 1000
    max_sessions: int = 1000
    max_rate: float = 30_000
    max_bandwidth: float = 100 * MEBIBYTE
    max_bundles: int = 128
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            max_topics=config.load_balancer_namespace_bundle_max_topics,
            max_sessions=config.load_balancer_namespace_bundle_max_sessions,
            max_rate=config.load_balancer_namespace_bundle_max_msg_rate,
            max_bandwidth=config.load_balancer_namespace_bundle_max_bandwidth_mbytes * MEBIBYTE,
            max_bundles=config.load_balancer_namespace_maximum_bundles,
            most=bundles_of_round(config),
        )


_CRITERIA: Final = (
    ("topics", "loadBalancerNamespaceBundleMaxTopics", "topics"),
    ("producers and consumers", "loadBalancerNamespaceBundleMaxSessions", "sessions"),
    ("rate in + out", "loadBalancerNamespaceBundleMaxMsgRate", "msg/s"),
    ("throughput in + out", "loadBalancerNamespaceBundleMaxBandwidthMbytes", "bytes/s"),
)
_AT_ONCE: Final = 4096
_OF_TRAFFIC: Final = 2
"""The index of the first criterion that is measured over a time, which a plan's `window` names."""


@dataclass(frozen=True, slots=True)
class LargeBundles:
    """Which bundles exceed which of the four limits: topics, sessions (producers and consumers), rate (msg/s) and
    throughput (bytes/s), in this order.

    `figures` has the values and `exceeded` the flags, each as four columns over bundles. `window` names the time over
    which rate and throughput were measured.
    """

    figures: tuple[Integers | Floats, ...]
    limits: tuple[float, float, float, float]
    exceeded: tuple[Flags, ...]
    window: str

    @property
    def any(self) -> Flags:
        """One flag for each bundle, set if the bundle exceeds any of the limits."""
        return reduce(np.logical_or, self.exceeded)

    def compared(self, row: int) -> tuple[Compared, ...]:
        return tuple(self._compared(which, row) for which in self._above(row))

    def settings(self, row: int) -> tuple[str, ...]:
        return tuple(_CRITERIA[which][1] for which in self._above(row))

    def _above(self, row: int) -> list[int]:
        return [which for which in range(len(_CRITERIA)) if self.exceeded[which][row]]

    def _compared(self, which: int, row: int) -> Compared:
        what, _, unit = _CRITERIA[which]
        named = f"{self.window} {what}" if which >= _OF_TRAFFIC else what
        return Compared(named, float(self.figures[which][row]), ">", "limit", self.limits[which], unit)


def large_bundles(
    snapshot: LoadSnapshot, traffic: MessageColumns, settings: BundleLimits, *, window: str
) -> LargeBundles:
    """Return which bundles exceed which limits with this `traffic`; a value that equals a limit does not exceed it."""
    figures = (snapshot.bundles.topics, snapshot.bundles.sessions, traffic.rate, traffic.throughput)
    limits = (float(settings.max_topics), float(settings.max_sessions), settings.max_rate, settings.max_bandwidth)
    topics, sessions, rate, throughput = (column > limit for column, limit in zip(figures, limits, strict=True))
    sessions &= settings.max_sessions > 0
    return LargeBundles(figures, limits, (topics, sessions, rate, throughput), window)


@dataclass(frozen=True, slots=True)
class SplitRefusal:
    """Why the bundle in `row`, which is too large, is not split."""

    row: int
    code: Code
    compared: tuple[Compared, ...] = ()
    settings: tuple[str, ...] = ()
    detail: str = ""


def too_few_topics(row: int, topics: int) -> SplitRefusal:
    compared = Compared("topics", float(topics), "<", "minimum", 2, "topics")
    return SplitRefusal(row, Code.FEWER_THAN_TWO_TOPICS, (compared,))


def namespace_full(row: int, bundles: int, maximum: int) -> SplitRefusal:
    compared = Compared("bundles of the namespace", float(bundles), ">=", "maximum", float(maximum), "bundles")
    return SplitRefusal(row, Code.NAMESPACE_FULL, (compared,), ("loadBalancerNamespaceMaximumBundles",))


def check_full(row: int, splits: int) -> SplitRefusal:
    compared = Compared("splits in this check", float(splits), "=", "maximum", float(splits))
    return SplitRefusal(row, Code.CYCLE_FULL, (compared,), (ROUND_KEY,))


class NamespaceCounts:
    """The number of bundles of each namespace, including the splits chosen so far: the strategy calls `split` for each
    split that it chooses.

    If the caller gave no number for a namespace, it is the number of bundles that are reported.
    """

    def __init__(self, snapshot: LoadSnapshot, counts: Mapping[str, int]) -> None:
        self._snapshot = snapshot
        self._given = counts
        self._counts: dict[int, int] = {}

    def of(self, namespace: int) -> int:
        """Return the number of bundles of a namespace, given by its index in `snapshot.namespaces`."""
        found = self._counts.get(namespace)
        if found is None:
            found = self._given.get(self._snapshot.namespaces[namespace])
            found = self._counts[namespace] = int(self._reported[namespace]) if found is None else found
        return found

    def split(self, namespace: int) -> None:
        self._counts[namespace] = self.of(namespace) + 1

    @cached_property
    def _reported(self) -> Integers:
        return np.bincount(self._snapshot.bundles.namespace, minlength=len(self._snapshot.namespaces))


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The bundles to split, as `rows` of `snapshot.bundles` sorted by name; and `refused`, why the other bundles that
    are too large are not split.

    `refused` may be long, so its items are computed only when it is iterated over. `boundaries` has the hash at which
    to split each of `rows`; it is empty if the owner of a bundle chooses the hash. `causes` maps a row to one more
    comparison for its reason, and to the configuration key of this comparison.
    """

    strategy: str
    snapshot: LoadSnapshot
    large: LargeBundles
    rows: Integers
    refused: Iterable[SplitRefusal]
    boundaries: tuple[int, ...] = ()
    causes: Mapping[int, tuple[Compared, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Split]:
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        for row, boundary in zip_longest(self.rows.tolist(), self.boundaries):
            yield Split(bundles.names[row], brokers.names[bundles.owner[row]], self._reason(row), boundary)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the bundles to split."""
        return frozenset(self.snapshot.namespaces[row] for row in self.snapshot.bundles.namespace[self.rows].tolist())

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each bundle that is too large, but not in the plan, is not split."""
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


def plan_splits(
    snapshot: LoadSnapshot,
    traffic: MessageColumns,
    settings: BundleLimits,
    bundle_counts: Mapping[str, int],
    *,
    strategy: str,
    window: str,
) -> SplitPlan:
    """Return the bundles that must be split because of this `traffic`. `bundle_counts` is the present number of bundles
    by namespace. `strategy` and `window` (the time over which the traffic was measured) are used in reasons.

    A namespace gets at most `max_bundles` bundles, with the splits already chosen counted. When the maximum number of
    splits in one run is reached, all later bundles wait for the next run.
    """
    bundles = snapshot.bundles
    large = large_bundles(snapshot, traffic, settings, window=window)
    rows = np.flatnonzero(large.any & bundles.sampled)
    counts = NamespaceCounts(snapshot, bundle_counts)
    chosen: list[int] = []
    before = ""
    for row, namespace in _with_room(snapshot, rows, counts, settings.max_bundles):
        name = bundles.names[row]
        if name == before or counts.of(namespace) >= settings.max_bundles:
            continue
        if len(chosen) == settings.most:
            break
        chosen.append(row)
        before = name
        counts.split(namespace)
    splits = np.array(chosen, np.int64)
    return SplitPlan(strategy, snapshot, large, splits, _Refused(snapshot, settings, rows, splits, counts))


def _with_room(
    snapshot: LoadSnapshot, rows: Integers, counts: NamespaceCounts, max_bundles: int
) -> Iterator[tuple[int, int]]:
    """Yield (row, namespace) for those bundles in `rows` that have at least two topics and whose namespace has fewer
    than `max_bundles` bundles.
    """
    bundles = snapshot.bundles
    rows = rows[bundles.topics[rows] >= 2]
    concerned = np.flatnonzero(np.bincount(bundles.namespace[rows]))
    room = np.zeros(len(snapshot.namespaces), bool)
    room[concerned] = [counts.of(namespace) < max_bundles for namespace in concerned.tolist()]
    rows = rows[room[bundles.namespace[rows]]]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        yield from zip(some.tolist(), bundles.namespace[some].tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class _Refused:
    """Yields a `SplitRefusal` for each bundle of `rows` that is not in `splits`: why it is not split. `rows` are the
    bundles that are too large, sorted by name.
    """

    snapshot: LoadSnapshot
    settings: BundleLimits
    rows: Integers
    splits: Integers
    counts: NamespaceCounts

    def __iter__(self) -> Iterator[SplitRefusal]:
        bundles, most = self.snapshot.bundles, self.settings.max_bundles
        split, before = set(self.splits.tolist()), ""
        for row in self.rows.tolist():
            if row in split:
                before = bundles.names[row]
            elif bundles.names[row] == before:
                continue
            elif bundles.topics[row] < 2:
                yield too_few_topics(row, int(bundles.topics[row]))
            elif (count := self.counts.of(int(bundles.namespace[row]))) >= most:
                yield namespace_full(row, count, most)
            else:  # after the last bundle of this check
                yield check_full(row, len(split))
