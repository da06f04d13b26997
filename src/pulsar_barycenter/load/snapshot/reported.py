"""The read model of a cluster: the values of brokers and bundles from which tables, screens and pages are made.

A `ReportedLoad` has the same fields for reports of the modular and of the extensible load manager. The brokers' own
bundles (heartbeat, SLA monitor) are left out, except that the number of bundles in a report of the extensible load
manager includes them. Values are as reported; the caller rounds them.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import RESOURCES, LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, owned_bundles
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself

Report: TypeAlias = LocalBrokerData | BrokerLoadData
"""The report of a broker with the modular or the extensible load manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLoad:
    """The load of one broker by its newest report: rates in msg/s, throughput in bytes/s.

    `usages` has the resources whose usage is known, in percent. `bundles` is the number of bundles. With the extensible
    load manager, it includes the bundles of the broker's own namespaces (such as the heartbeat); otherwise it does not.
    `reported_at_ms` is epoch ms, 0 if the broker never reported.
    """

    usages: Mapping[str, float]
    bundles: int
    topics: int
    msg_rate_in: float
    msg_rate_out: float
    msg_throughput_in: float
    msg_throughput_out: float
    reported_at_ms: int

    @property
    def max_usage(self) -> float | None:
        """The largest usage of a resource in percent; None if no usage is known."""
        return max(self.usages.values(), default=None)


def reported_load(report: Report) -> ReportedLoad:
    """Return the load of a broker from `report`, a load report of the modular or the extensible load manager."""
    usages = {name: getattr(report, name).percent for name in RESOURCES}
    if isinstance(report, LocalBrokerData):
        own = sum(is_of_a_broker_itself(name) for name in report.last_stats)
        bundles, topics, at_ms = max(0, report.num_bundles - own), report.num_topics, report.last_update
    else:
        bundles, topics, at_ms = report.bundle_count, report.topics, report.reported_at
    return ReportedLoad(
        usages={name: percent for name, percent in usages.items() if math.isfinite(percent) and percent >= 0},
        bundles=bundles,
        topics=topics,
        msg_rate_in=report.msg_rate_in,
        msg_rate_out=report.msg_rate_out,
        msg_throughput_in=report.msg_throughput_in,
        msg_throughput_out=report.msg_throughput_out,
        reported_at_ms=at_ms,
    )


def users_bundles(document: SnapshotDocument) -> Iterator[tuple[str, str, NamespaceBundleStats | None]]:
    """Yield owner, name and newest load of each bundle, without the bundles of the brokers' own namespaces (such as
    heartbeats). The load is None if no broker reports it.
    """
    for broker, bundle, stats in owned_bundles(document):
        if not is_of_a_broker_itself(bundle):
            yield broker, bundle, stats
