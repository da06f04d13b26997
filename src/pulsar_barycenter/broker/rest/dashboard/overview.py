"""A cluster in one picture: each broker with its heaviest bundles and the sum of the others. Values; nothing is asked.

However many bundles there are, MOST_BUNDLES of them stand in a picture at most, each broker's share of them the same,
so that a page draws it in a moment.
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
    """One bundle: rate in msg/s and throughput in bytes/s are in + out. An array in JSON."""

    bundle: str
    msg_rate: float
    msg_throughput: float
    topics: int


class BrokerShare(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One broker. `usage` has the resources whose usage is known, in percent; figures are in + out.

    `top` are its heaviest bundles, the heaviest first; `others` sums the rest of those whose figures are known, and
    `unknown` counts bundles without: the extensible load manager tells those of the heaviest alone. `arriving` counts
    bundles that the leader sent here and nobody reports yet. `reported_at` is epoch ms, 0 if it never reported.
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
    """Whether decisions go by the pipeline's windows, else the leader's own, and how long its slowest report waits.

    `silent_s` is how long the pipeline has not looked for reports: 0 while it looks, which it does under steady load,
    too, or where that is not known.
    """

    in_use: bool
    lag_s: int
    silent_s: int = 0


class Overview(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A cluster as its leader sees it. `decisions` is how many this leader has made since it started, by which a page
    knows that there are new ones; `epoch` numbers the term of the leader. `drained` brokers are kept
    empty; `drain_change` says who changed which are, when and why (None: nobody is, or nobody noted it), with the texts
    of the setting `before` and after (`value`), and in `earlier` who drained those that were drained before.
    `pipeline` is None where none is decided by, nor late."""

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
    """What is wrong, by `complaints_of`."""


def complaints_of(
    shares: Iterable[BrokerShare], pipeline: PipelineHealth | None, now_ms: int, silent_ms: int
) -> tuple[str, ...]:
    """Return what is wrong with a cluster, a sentence each; nothing if every broker reported its load within
    `silent_ms`, and a pipeline that there is keeps up."""
    found = []
    for each in shares:
        if not each.reported_at:
            found.append(f"{each.broker} has not reported its load yet.")
        elif now_ms - each.reported_at > silent_ms:
            minutes, most = (now_ms - each.reported_at) // 60_000, silent_ms // 60_000
            found.append(f"{each.broker} last reported its load {minutes} min ago; a report is due every {most} min.")
    if pipeline is not None and not pipeline.in_use:
        found.append(f"The pipeline is {pipeline.lag_s} s late, so the leader decides by windows of its own.")
    if pipeline is not None and pipeline.silent_s:
        silent = f"The pipeline has not looked for load reports for {pipeline.silent_s} s"
        found.append(f"{silent}: it was stopped, was killed or hangs.")
    return tuple(found)


class Shares:
    """Makes the rows of brokers; one whose report is still the same is not made again."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, int, BrokerShare]] = {}

    def of(self, document: SnapshotDocument, registered: Iterable[str]) -> tuple[BrokerShare, ...]:
        """Return a row for each broker that is registered or whose load is known, by their names."""
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
                stats = {name: each for name, each in report.last_stats.items() if not is_of_a_broker_itself(name)}
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
    """Return the known stats of each broker's bundles, and how many it owns without."""
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
            _finite(each.msg_rate_in + each.msg_rate_out),
            _finite(each.msg_throughput_in + each.msg_throughput_out),
            each.topics,
        )
        for bundle, each in stats.items()
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
            BundleShare(each.bundle, round(each.msg_rate, 2), round(each.msg_throughput, 1), each.topics)
            for each in top
        ),
        others=len(shares) - len(top),
        others_rate=round(max(0.0, rate - top_rate), 2),
        others_throughput=round(max(0.0, throughput - top_throughput), 1),
        unknown=unknown,
    )


def _sums(shares: Iterable[BundleShare]) -> tuple[float, float]:
    members = list(shares)
    return math.fsum(each.msg_rate for each in members), math.fsum(each.msg_throughput for each in members)


def _finite(value: float) -> float:
    """Return a figure that JSON and pictures can hold: 0 for what is no number or negative."""
    return value if math.isfinite(value) and value > 0 else 0.0
