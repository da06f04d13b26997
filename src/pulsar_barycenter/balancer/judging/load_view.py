"""Folds the collected reports into the load of the cluster, as a leader does, and says how old it is.

The common form of all load managers is the load report of the modular one, in which `observer.collector` records each
of them. So one round decides for every cluster. A broker of the extensible load manager publishes its load, and only
that of its heaviest bundles; its other bundles have no load, and no strategy chooses them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reports.load_report import BundleData, LocalBrokerData
from pulsar_barycenter.load.reports.windows import LiveFold
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.strategy import MemoryDocument

NO_POLICIES: Final = PoliciesDocument()


class LoadView:
    """The load of the brokers, computed from their reports. The collector of reports appends each report to this
    object, as it does to a `ReportLog`. `keep` is called with each report that is newer than the last one of its
    broker.
    """

    def __init__(self, keep: Callable[[LocalBrokerData], None] = lambda _report: None) -> None:
        self._fold = LiveFold()
        self._keep = keep
        self._measured_ms: dict[str, int] = {}
        self._published_ms: dict[str, int] = {}
        self.is_published = False
        """Whether the load is what brokers with the extensible load manager publish at times, not what brokers answer
        to requests."""

    def append(self, report: LocalBrokerData) -> None:
        broker = report.broker_id or ""
        if self._fold.accept(broker, report):
            self._keep(report)
            self._measured_ms[broker] = report.last_update

    def close(self) -> None:
        """Do nothing: this log of reports is in memory and has no file to close."""

    def published(self, document: SnapshotDocument) -> None:
        """Record when brokers with the extensible load manager published their load, from `document`."""
        if document.extensible is not None:
            self.is_published = True
            self._published_ms = {broker: load.reported_at for broker, load in document.extensible.loads.items()}

    def retain(self, live: Collection[str], now_ms: int) -> None:
        """Forget the brokers that are not `live`, and bundles that no broker has reported for an hour."""
        self._fold.retain(live, now_ms)

    @property
    def reports(self) -> Mapping[str, LocalBrokerData]:
        """The newest report of each known broker."""
        return self._fold.reports

    @property
    def bundles(self) -> Mapping[str, BundleData]:
        """The windows (averages over time) of each known bundle."""
        return self._fold.bundles

    def measured_ms(self, broker: str) -> int:
        """Return when the newest load of a broker was measured or published (epoch ms); 0 if it never was."""
        return self._published_ms.get(broker, self._measured_ms.get(broker, 0))

    def current(self, brokers: Collection[str], *, now_ms: int, max_age_ms: int) -> list[str]:
        """Return those of the brokers whose load is at most `max_age_ms` old, sorted."""
        return sorted(broker for broker in brokers if now_ms - self.measured_ms(broker) <= max_age_ms)

    def owners(self) -> dict[str, str]:
        """Return a mapping from bundle to its owner: the broker that lists the bundle in its report. A bundle that
        several brokers list is being moved, and is left out.
        """
        found: dict[str, str] = {}
        twice = set()
        for broker, report in self.reports.items():
            for bundle in {*report.bundles, *report.last_stats}:
                if bundle in found:
                    twice.add(bundle)
                found[bundle] = broker
        return {bundle: broker for bundle, broker in found.items() if bundle not in twice}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a decision needs in addition to the load. `brokers` are the brokers that may give or get bundles;
    `recently_moved` maps a bundle to the time of its last move (epoch ms).
    """

    brokers: Collection[str]
    taken_at_ms: int
    recently_moved: Mapping[str, int] = field(default_factory=dict)
    policies: ClusterPolicies = field(default_factory=ClusterPolicies)
    memory: MemoryDocument = field(default_factory=MemoryDocument)
    configuration: Mapping[str, str] = field(default_factory=dict)


def document_of(
    reports: Mapping[str, LocalBrokerData], bundles: Mapping[str, BundleData], facts: Facts
) -> SnapshotDocument:
    """Return a snapshot of the brokers that are in `facts` and have a report, in the form in which the leader of a
    cluster with the modular load manager keeps its snapshot.
    """
    return SnapshotDocument(
        taken_at=facts.taken_at_ms,
        brokers={broker: report for broker, report in reports.items() if broker in facts.brokers},
        bundle_data=dict(bundles),
        recently_unloaded=dict(facts.recently_moved),
        policies=PoliciesDocument.of(facts.policies),
        memory=facts.memory,
        configuration=dict(facts.configuration),
    )
