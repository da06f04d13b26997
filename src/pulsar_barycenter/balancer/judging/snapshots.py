"""Makes of load reports the snapshot on which the strategy of a load manager decides. Pure.

| load manager | windows of bundles | averages of brokers |
|---|---|---|
| modular | the leader's (`load.reports.windows`) | sums of these |
| simple | none | none |
| extensible | none | moving averages, one step for each report; they begin anew when bundles came or left |

Brokers of the extensible load manager publish such averages themselves. Here they are computed from the reports, so
that TransferShedder can decide for brokers of any load manager, and on a recording. The top bundles of a broker are all
its bundles with a load.

Source: Pulsar's `BrokerLoadDataReporter`, which clears the averages when its broker gets or loses a bundle.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pulsar_barycenter.balancer.judging.load_view import Facts, document_of
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    sum_stats,
    system_usage,
)
from pulsar_barycenter.load.reports.weights import extensible_resource_weights
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument


class MovingAverages:
    """The loads of brokers with their moving averages, from their reports."""

    def __init__(self) -> None:
        self._loads: dict[str, BrokerLoadData] = {}
        self._bundles: dict[str, frozenset[str]] = {}

    def add(self, broker: str, report: LocalBrokerData, config: BrokerConfig) -> None:
        """Count a report as one more measurement of its broker; a report that is not newer than the broker's last one
        is ignored. Rates are those that the report has for the broker as a whole, not sums over its bundles.
        """
        before, bundles = self._loads.get(broker, BrokerLoadData()), frozenset(report.bundles)
        if before.updated_at and report.last_update <= before.updated_at:
            return
        if bundles != self._bundles.get(broker, bundles):
            before = before.cleared()
        total = NamespaceBundleStats(
            msg_rate_in=report.msg_rate_in,
            msg_rate_out=report.msg_rate_out,
            msg_throughput_in=report.msg_throughput_in,
            msg_throughput_out=report.msg_throughput_out,
            topics=report.num_topics or sum_stats(report.last_stats.values()).topics,
        )
        self._bundles[broker] = bundles
        self._loads[broker] = before.updated(
            system_usage(report),
            total,
            bundle_count=max(report.num_bundles, len(report.bundles)),
            weights=extensible_resource_weights(config),
            history_weight=config.load_balancer_history_resource_percentage,
            now_ms=report.last_update,
        )

    def document(
        self, reports: Mapping[str, LocalBrokerData], owners: Mapping[str, str], facts: Facts
    ) -> SnapshotDocument:
        """Return a snapshot of the brokers that are in `facts` and have a report, in the form of the extensible load
        manager. `owners` maps bundle to broker.
        """
        known = {broker: reports[broker] for broker in facts.brokers if broker in reports}
        loads = {
            broker: replace(self._loads[broker], reported_at=report.last_update)
            for broker, report in known.items()
            if broker in self._loads
        }
        return SnapshotDocument(
            taken_at=facts.taken_at_ms,
            brokers={},
            extensible=ExtensibleDocument(
                loads=loads,
                top_bundles={broker: TopBundlesLoadData.of(report.last_stats, -1) for broker, report in known.items()},
                lookups=_lookups(known),
                owners={bundle: broker for bundle, broker in owners.items() if broker in known},
            ),
            recently_unloaded=dict(facts.recently_moved),
            policies=PoliciesDocument.of(facts.policies),
            configuration=dict(facts.configuration),
        )


def _lookups(reports: Mapping[str, LocalBrokerData]) -> dict[str, BrokerLookupData]:
    """Return registrations of brokers, made from their reports. If no broker runs the extensible load manager, each
    registration says that its broker does: a filter of the extensible load manager excludes brokers that run another
    one.
    """
    extensible = ManagerKind.EXTENSIBLE.class_name
    is_mixed = any(report.load_manager_class_name == extensible for report in reports.values())
    return {
        broker: BrokerLookupData(
            load_manager_class_name=(report.load_manager_class_name if is_mixed else None) or extensible,
            broker_version=report.broker_version_string or "",
            start_timestamp=report.start_timestamp,
        )
        for broker, report in reports.items()
    }


def document_for(
    manager: ManagerKind,
    reports: Mapping[str, LocalBrokerData],
    bundles: Mapping[str, BundleData],
    owners: Mapping[str, str],
    averages: MovingAverages,
    facts: Facts,
) -> SnapshotDocument:
    """Return the snapshot on which this load manager decides. `bundles` has the windows of the bundles, `owners` maps
    bundle to broker.
    """
    if manager is ManagerKind.EXTENSIBLE:
        return averages.document(reports, owners, facts)
    found = document_of(reports, bundles, facts)
    return replace(found, bundle_data=None) if manager is ManagerKind.SIMPLE else found
