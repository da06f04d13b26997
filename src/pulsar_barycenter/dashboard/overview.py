"""Makes the picture of a cluster: each broker with its heaviest bundles and the sum of the others. Pure.

A picture has at most MOST_BUNDLES bundles, an equal number for each broker, so that a page can draw it fast.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, loads_of
from pulsar_barycenter.load.snapshot.reported import Report, reported_load, users_bundles
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself

MOST_BUNDLES: Final = 2_000
_FEWEST_OF_BROKER: Final = 5
_MOST_OF_BROKER: Final = 60
_NO_REPORT: Final = BrokerLoadData()


class BundleShare(msgspec.Struct, frozen=True, array_like=True):
    """The load of a bundle: rate in msg/s and throughput in bytes/s are in + out. It is an array in JSON."""

    bundle: str
    msg_rate: float
    msg_throughput: float
    topics: int


class BrokerShare(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The load of a broker. `usage` has the resources whose usage is known, in percent; rates and throughputs are in +
    out.

    `top` are its heaviest bundles, heaviest first; `others` counts the other bundles with a known load, and
    `others_rate` and `others_throughput` are their sums. `unknown` counts bundles whose load is not known: the
    extensible load manager reports only the heaviest. `arriving` counts bundles that the leader assigned to this broker
    and that no report has yet. `reported_at` is epoch ms, 0 if the broker never reported.
    """

    broker: str
    usage: dict[str, float]
    bundles: int
    topics: int
    msg_rate: float
    msg_throughput: float
    reported_at: int
    arriving: int = 0
    top: tuple[BundleShare, ...] = ()
    others: int = 0
    others_rate: float = 0.0
    others_throughput: float = 0.0
    unknown: int = 0


class PipelineHealth(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The state of the pipeline. `in_use`: decisions use the pipeline's windows; otherwise they use the leader's own.
    `lag_s` is for how long the pipeline's oldest unpublished report has been waiting.

    `silent_s` is the time since the pipeline last looked for reports; 0 while it looks regularly, even if there are no
    reports, or if this is not known.
    """

    in_use: bool
    lag_s: int
    silent_s: int = 0


class WatchedFrom(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How `barycenter watch` knows the cluster; its pages change nothing. `source` is the folder that is read, or the
    addresses; `as_of` is the time of the last look (epoch ms).

    `is_recording` is whether nothing new comes, so that the cluster is shown as of that time. `settings_recorded` is
    whether the settings of the cluster are known; else Pulsar's defaults are assumed.
    """

    source: str
    as_of: int
    is_recording: bool
    settings_recorded: bool


class Overview(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The overview of a cluster that the dashboard shows, as the leader sees the cluster.

    `decisions` is the number of decisions that this leader has taken since it started; a page compares it with the
    number that it read before, to find out whether there are new decisions. `epoch` is the epoch of the leader's term.
    `drained` brokers get no bundles.

    `drain_change` is the last change of the list of drained brokers: the list `before` the change and after it
    (`value`); for each broker that was in the list before and still is, `earlier` has the change that added it. None:
    no broker is drained, or the change was not recorded. `pipeline` is None if it is neither in use nor late.
    """

    cluster: str
    leader: str
    epoch: int
    manager: str
    strategy: str
    decisions: int
    drained: tuple[str, ...] = ()
    drain_change: NotedChange | None = None
    pipeline: PipelineHealth | None = None
    brokers: tuple[BrokerShare, ...]
    complaints: tuple[str, ...] = ()
    """The warnings of `complaints_of`."""
    watched: WatchedFrom | None = None
    """None: a broker serves the pages."""


def complaints_of(
    shares: Iterable[BrokerShare], pipeline: PipelineHealth | None, now_ms: int, silent_ms: int
) -> tuple[str, ...]:
    """Return the warnings about a cluster, a sentence each; empty if every broker reported its load within `silent_ms`
    and the pipeline, if there is one, keeps up."""
    found = []
    for share in shares:
        if not share.reported_at:
            found.append(f"{share.broker} has not reported its load yet.")
        elif now_ms - share.reported_at > silent_ms:
            minutes, most = (now_ms - share.reported_at) // 60_000, silent_ms // 60_000
            found.append(f"{share.broker} last reported its load {minutes} min ago; a report is due every {most} min.")
    if pipeline is not None and not pipeline.in_use:
        found.append(f"The pipeline is {pipeline.lag_s} s late, so the leader decides by windows of its own.")
    if pipeline is not None and pipeline.silent_s:
        silent = f"The pipeline has not looked for load reports for {pipeline.silent_s} s"
        found.append(f"{silent}: it was stopped, was killed or hangs.")
    return tuple(found)


class Shares:
    """Computes the load of each broker for the overview, and reuses the result while the broker's report has not
    changed.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, int, BrokerShare]] = {}

    def of(self, document: SnapshotDocument, registered: Iterable[str]) -> tuple[BrokerShare, ...]:
        """Return a row for each broker that is registered or has reported its load, by name."""
        loads = {**dict.fromkeys(registered, _NO_REPORT), **loads_of(document)}
        most = min(_MOST_OF_BROKER, max(_FEWEST_OF_BROKER, MOST_BUNDLES // max(1, len(loads))))
        stats_by_broker = _extensible_stats(document)
        made = {}
        for broker in sorted(loads):
            report = loads[broker]
            before = self._made.get(broker)
            if isinstance(report, LocalBrokerData) and before is not None and before[0] is report and before[1] == most:
                made[broker] = before
                continue
            if isinstance(report, LocalBrokerData):
                stats = {name: known for name, known in report.last_stats.items() if not is_of_a_broker_itself(name)}
                row = _row(broker, report, stats, 0, most)
            else:
                known, unknown = stats_by_broker.get(broker, ({}, 0))
                row = _row(broker, report, known, unknown, most)
            made[broker] = (report, most, row)
        self._made = made
        arriving = {broker: len(bundles) for broker, bundles in document.preallocated.items()}
        return tuple(
            msgspec.structs.replace(row, arriving=arriving[broker]) if broker in arriving else row
            for broker, (_, _, row) in made.items()
        )


def _extensible_stats(document: SnapshotDocument) -> Mapping[str, tuple[dict[str, NamespaceBundleStats], int]]:
    """Return for each broker the known stats of its bundles, and the number of its bundles without known stats."""
    if document.extensible is None:
        return {}
    known: dict[str, dict[str, NamespaceBundleStats]] = {}
    unknown: Counter[str] = Counter()
    for broker, bundle, stats in users_bundles(document):
        of_broker = known.setdefault(broker, {})
        if stats is None:
            unknown[broker] += 1
        else:
            of_broker[bundle] = stats
    return {broker: (stats, unknown[broker]) for broker, stats in known.items()}


def _row(
    broker: str,
    report: Report,
    stats: Mapping[str, NamespaceBundleStats],
    unknown: int,
    most: int,
) -> BrokerShare:
    load = reported_load(report)
    shares = [
        BundleShare(
            bundle,
            _finite(bundle_stats.msg_rate_in + bundle_stats.msg_rate_out),
            _finite(bundle_stats.msg_throughput_in + bundle_stats.msg_throughput_out),
            bundle_stats.topics,
        )
        for bundle, bundle_stats in stats.items()
    ]
    top = heapq.nsmallest(
        most, shares, key=lambda share: (-share.msg_throughput, -share.msg_rate, -share.topics, share.bundle)
    )
    rate, throughput = _sums(shares)
    top_rate, top_throughput = _sums(top)
    return BrokerShare(
        broker=broker,
        usage={name: round(percent, 1) for name, percent in load.usages.items()},
        bundles=len(stats) + unknown,
        topics=load.topics,
        msg_rate=round(max(rate, _finite(load.msg_rate_in + load.msg_rate_out)), 2),
        msg_throughput=round(max(throughput, _finite(load.msg_throughput_in + load.msg_throughput_out)), 1),
        reported_at=load.reported_at_ms,
        top=tuple(
            BundleShare(share.bundle, round(share.msg_rate, 2), round(share.msg_throughput, 1), share.topics)
            for share in top
        ),
        others=len(shares) - len(top),
        others_rate=round(max(0.0, rate - top_rate), 2),
        others_throughput=round(max(0.0, throughput - top_throughput), 1),
        unknown=unknown,
    )


def _sums(shares: Iterable[BundleShare]) -> tuple[float, float]:
    members = list(shares)
    return math.fsum(share.msg_rate for share in members), math.fsum(share.msg_throughput for share in members)


def _finite(value: float) -> float:
    """Return a value that JSON and pictures can represent: 0 in place of NaN, an infinite or a negative value."""
    return value if math.isfinite(value) and value > 0 else 0.0
