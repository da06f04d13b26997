"""A snapshot as one JSON document: everything that a leader knows when it decides, for operators, files and REST.

    {
      "format": "barycenter-snapshot",
      "takenAt": 1763000000000,
      "brokers": {"b1:8080": {…a load report as brokers write it…}},
      "bundleData": {"tenant/namespace/0x00000000_0x80000000": {"shortTermData": …, "longTermData": …, "topics": 2}},
      "brokerData": {"b1:8080": {"shortTermMsgRateIn": …}},
      "preallocated": {"b1:8080": {"tenant/namespace/0x80000000_0xffffffff": {…}}},
      "recentlyUnloaded": {"tenant/namespace/0x00000000_0x80000000": 1762999990000},
      "policies": {"isolation": {…}, "failureDomains": {…}, "antiAffinityGroups": {…}},
      "memory": {"usage": {"b1:8080": 0.61}},
      "configuration": {"loadBalancerLoadSheddingStrategy": "ThresholdShedder"}
    }

With the extensible load manager `brokers` is empty, and `extensible` (see `extensible_document`) has the loads. It has
`bundleData` and `brokerData` if decisions use the pipeline's windows, which its `traffic` says.

Only `format` and `brokers` are required. Without `bundleData` the windows are those of a leader that has just seen
these reports for the first time; without `brokerData` the averages are the sums of the windows. Values that are not
finite are the texts "NaN", "Infinity" and "-Infinity", as Pulsar writes them.

Needs no numpy, because a leader answers requests with it while its broker serves clients.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from pulsar_barycenter.load.policies import (
    NO_POLICIES,
    AutoFailoverData,
    ClusterPolicies,
    IsolationPolicies,
    IsolationPolicy,
    NamespaceIsolationData,
    stored_form,
)
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    encode_report,
)
from pulsar_barycenter.load.reports.windows import LiveFold, broker_averages
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.load.strategy import MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

FORMAT: Final = "barycenter-snapshot"


class PoliciesDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The rules of administrators: isolation policies as they are stored, broker id to failure domain, namespace to
    anti-affinity group."""

    isolation: dict[str, Any] = {}
    failure_domains: dict[str, str] = {}
    anti_affinity_groups: dict[str, str] = {}

    @staticmethod
    def of(policies: ClusterPolicies) -> "PoliciesDocument":
        return PoliciesDocument(
            isolation={policy.name: stored_form(_isolation_data(policy)) for policy in policies.isolation.policies},
            failure_domains=dict(policies.domains),
            anti_affinity_groups=dict(policies.groups),
        )

    def policies(self) -> ClusterPolicies:
        """Return these rules as checked `ClusterPolicies`.

        Raises:
            PolicyError: an isolation policy is invalid.
        """
        isolation, errors = IsolationPolicies.decode(self.isolation)
        if errors:
            raise errors[0]
        if not (isolation or self.failure_domains or self.anti_affinity_groups):
            return NO_POLICIES
        return ClusterPolicies(isolation, self.failure_domains, self.anti_affinity_groups)


def _isolation_data(policy: IsolationPolicy) -> NamespaceIsolationData:
    return NamespaceIsolationData(
        namespaces=policy.namespaces,
        primary=policy.primary,
        secondary=policy.secondary,
        auto_failover_policy=AutoFailoverData(
            "min_available", {"min_limit": str(policy.min_limit), "usage_threshold": "100"}
        ),
        unload_scope=policy.unload_scope,
    )


class SnapshotDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A snapshot of the load as it is stored in a file; times are epoch ms. `recently_unloaded` maps a bundle to the
    time of its unload.

    `bundle_data` and `broker_data` (windows and their sums) are None if they can be computed from the reports. With the
    extensible load manager they are None if brokers are compared by the newest reports, not by windows. `configuration`
    maps keys of broker.conf to their values as text.
    """

    format: Literal["barycenter-snapshot"] = FORMAT
    taken_at: int = 0
    brokers: dict[str, LocalBrokerData]
    bundle_data: dict[str, BundleData] | None = None
    broker_data: dict[str, TimeAverageBrokerData] | None = None
    extensible: ExtensibleDocument | None = None
    preallocated: dict[str, dict[str, BundleData]] = {}
    recently_unloaded: dict[str, int] = {}
    policies: PoliciesDocument = PoliciesDocument()
    memory: MemoryDocument = MemoryDocument()
    configuration: dict[str, str] = {}

    def snapshot(self) -> "LoadSnapshot":
        """Return the load in this document as a `LoadSnapshot`, the input of strategies.

        Raises:
            PolicyError: an isolation policy is invalid.
        """
        from pulsar_barycenter.load.snapshot.builder import build_snapshot  # brings numpy

        if self.extensible is not None:
            from pulsar_barycenter.load.snapshot.extensible_snapshot import Windows, build_extensible_snapshot

            windows = Windows(self.bundle_data or {}, self.broker_data or {})
            return build_extensible_snapshot(
                self.extensible.loads,
                self.extensible.top_bundles,
                self.extensible.lookups,
                self.extensible.owners,
                taken_at_ms=self.taken_at,
                recently_unloaded=self.recently_unloaded,
                policies=self.policies.policies(),
                traffic=self.extensible.traffic,
                windows=windows,
            )
        data = windows_of_reports(self.brokers) if self.bundle_data is None else self.bundle_data
        averages = self.broker_data
        if averages is None:
            averages = {broker: broker_averages(report.last_stats, data) for broker, report in self.brokers.items()}
        built = build_snapshot(
            self.brokers,
            data,
            averages,
            preallocated=self.preallocated,
            recently_unloaded=self.recently_unloaded,
        )
        return replace(built, taken_at_ms=self.taken_at, policies=self.policies.policies())


def loads_of(document: SnapshotDocument) -> Mapping[str, LocalBrokerData | BrokerLoadData]:
    """Return the load of each broker, in the form that the load manager of the cluster uses: a report of the modular
    load manager, or load data of the extensible one.
    """
    return document.brokers if document.extensible is None else document.extensible.loads


def owned_bundles(document: SnapshotDocument) -> Iterator[tuple[str, str, NamespaceBundleStats | None]]:
    """Yield for each bundle its owner, its name and its newest load; None instead of the load if no broker reports
    it.
    """
    if document.extensible is None:
        for broker, report in document.brokers.items():
            for bundle, stats in report.last_stats.items():
                yield broker, bundle, stats
        return
    stats_of = {
        bundle.bundle_name: bundle.stats
        for top in document.extensible.top_bundles.values()
        for bundle in top.top_bundles_load_data
    }
    for name, broker in document.extensible.owners.items():
        yield broker, name, stats_of.get(name)


def windows_of_reports(reports: Mapping[str, LocalBrokerData]) -> dict[str, BundleData]:
    """Return the windows of all bundles, computed from `reports` alone: those of a leader that has received no other
    report.
    """
    fold = LiveFold()
    for broker in sorted(reports):
        fold.accept(broker, reports[broker])
    return fold.bundles


def encode_snapshot(document: SnapshotDocument) -> bytes:
    """Return the JSON of `document`. `decode_snapshot` returns an equal document from it, also if numbers are NaN or
    infinite.
    """
    fields: dict[str, Any] = {
        "format": document.format,
        "takenAt": document.taken_at,
        "brokers": {broker: _raw(encode_report(report), report) for broker, report in document.brokers.items()},
    }
    optional = {
        "bundleData": document.bundle_data,
        "brokerData": document.broker_data,
        "extensible": document.extensible,
        "preallocated": document.preallocated or None,
        "recentlyUnloaded": document.recently_unloaded or None,
        "policies": document.policies if document.policies != PoliciesDocument() else None,
        "memory": document.memory if document.memory != MemoryDocument() else None,
        "configuration": document.configuration or None,
    }
    for name, value in optional.items():
        if value is not None:
            fields[name] = _raw(msgspec.json.encode(value), value)
    return msgspec.json.encode(fields)


def _raw(encoded: bytes, value: Any) -> msgspec.Raw:
    """Return `encoded`, the JSON of `value`, if it has lost nothing. If it contains a null, it may have lost a number
    that is NaN or infinite: then return the JSON of `value` in which such numbers are texts.
    """
    if b":null" not in encoded:
        return msgspec.Raw(encoded)
    return msgspec.Raw(msgspec.json.encode(_worded(msgspec.to_builtins(value))))


def _worded(value: Any) -> Any:
    """Return `value` with texts ("NaN", "Infinity", "-Infinity") instead of numbers that are not finite, and without
    dict entries that are None.
    """
    if isinstance(value, dict):
        return {key: _worded(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_worded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


_DECODER: Final = msgspec.json.Decoder(SnapshotDocument)
_LENIENT: Final = msgspec.json.Decoder(SnapshotDocument, strict=False)


def decode_snapshot(document: bytes) -> SnapshotDocument:
    """Return the snapshot in `document`; unknown fields are ignored.

    Raises:
        msgspec.DecodeError: it is not JSON, or a field is missing or has the wrong type; the text says where.
    """
    try:
        return _DECODER.decode(document)
    except msgspec.ValidationError:
        return _LENIENT.decode(document)  # numbers as texts
