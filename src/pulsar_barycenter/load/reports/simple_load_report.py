"""The load report of the simple load manager: the value at /loadbalance/brokers/<id>.

It has the load of the broker's machine and of each bundle at one moment, and the sums of the quotas of its bundles.
Needs no numpy: every broker reads and writes these. JSON names are Pulsar's; unknown fields are ignored on reading.
Fields that follow from others are written for other readers, and computed again on reading.

| field | computed from |
|---|---|
| `msgRateIn`, `msgRateOut`, `numTopics`, `numConsumers`, `numProducers`, `numBundles` | `bundleStats` |
| `msgThroughputIn`, `msgThroughputOut` | the message rates, as in Pulsar's report; readers expect that |
| `cpu`, `memory`, `directMemory`, `bandwidthIn`, `bandwidthOut` | `systemResourceUsage` |
| `lastUpdate` | `timestamp` |

Source: Pulsar's `LoadReport` and `SimpleLoadManagerImpl.writeLoadReportOnZookeeper` (4.2). Where we differ: the report
also has the broker's advertised listeners, and `incarnation` and `sequence`, like Barycenter's `LocalBrokerData`.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from pulsar_barycenter.load.reports.load_report import (
    UNKNOWN_USAGE,
    AdvertisedListener,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemResourceUsage,
    max_resource_usage,
    sum_stats,
    system_usage,
    with_stats,
)


class LoadReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One load report of the simple load manager. `name` is the broker id, `timestamp` is epoch ms; gains and losses
    are sorted.

    The fields `allocated_…` are the sums of the quotas of the broker's bundles; the fields `pre_allocated_…` are those
    of the bundles that were assigned to the broker but are not loaded yet. CPU is in percent of one core, memory in
    MiB, bandwidths in bytes/s, rates in msg/s. Complete a report with `complete`, which computes the fields that depend
    on other fields.
    """

    name: str | None = None
    broker_version_string: str | None = None
    web_service_url: str | None = None
    web_service_url_tls: str | None = None
    pulsar_service_url: str | None = None
    pulsar_service_url_tls: str | None = None
    persistent_topics_enabled: bool = True
    non_persistent_topics_enabled: bool = True
    timestamp: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    num_topics: int = 0
    num_consumers: int = 0
    num_producers: int = 0
    num_bundles: int = 0
    protocols: dict[str, str] = {}
    load_manager_class_name: str | None = None
    start_timestamp: int = 0
    system_resource_usage: SystemResourceUsage = SystemResourceUsage()
    bundle_stats: dict[str, NamespaceBundleStats] = {}
    bundle_gains: tuple[str, ...] = ()
    bundle_losses: tuple[str, ...] = ()
    allocated_cpu: float = msgspec.field(name="allocatedCPU", default=0.0)
    allocated_memory: float = 0.0
    allocated_bandwidth_in: float = 0.0
    allocated_bandwidth_out: float = 0.0
    allocated_msg_rate_in: float = 0.0
    allocated_msg_rate_out: float = 0.0
    pre_allocated_cpu: float = msgspec.field(name="preAllocatedCPU", default=0.0)
    pre_allocated_memory: float = 0.0
    pre_allocated_bandwidth_in: float = 0.0
    pre_allocated_bandwidth_out: float = 0.0
    pre_allocated_msg_rate_in: float = 0.0
    pre_allocated_msg_rate_out: float = 0.0
    under_loaded: bool = False
    over_loaded: bool = False
    load_report_type: Literal["LoadReport"] = "LoadReport"
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    bandwidth_in: ResourceUsage = UNKNOWN_USAGE
    bandwidth_out: ResourceUsage = UNKNOWN_USAGE
    memory: ResourceUsage = UNKNOWN_USAGE
    cpu: ResourceUsage = UNKNOWN_USAGE
    direct_memory: ResourceUsage = UNKNOWN_USAGE
    last_update: int = 0
    advertised_listeners: dict[str, AdvertisedListener] = {}
    incarnation: str = ""
    sequence: int = 0


def complete(report: LoadReport) -> LoadReport:
    """Return `report` with those fields filled in that depend on other fields, such as sums over bundles."""
    total = sum_stats(report.bundle_stats.values())
    usage = report.system_resource_usage
    return msgspec.structs.replace(
        report,
        msg_rate_in=total.msg_rate_in,
        msg_rate_out=total.msg_rate_out,
        num_topics=total.topics,
        num_consumers=total.consumer_count,
        num_producers=total.producer_count,
        num_bundles=len(report.bundle_stats),
        msg_throughput_in=total.msg_rate_in,
        msg_throughput_out=total.msg_rate_out,
        cpu=usage.cpu,
        memory=usage.memory,
        direct_memory=usage.direct_memory,
        bandwidth_in=usage.bandwidth_in,
        bandwidth_out=usage.bandwidth_out,
        last_update=report.timestamp,
    )


_DECODER: Final = msgspec.json.Decoder(LoadReport)


def decode_load_report(document: bytes) -> LoadReport:
    """Return the report in `document`; the fields that depend on other fields are computed again.

    Raises:
        msgspec.DecodeError: it is not JSON, a field has the wrong type, or it is a report of another load manager.
    """
    return complete(_DECODER.decode(document))


class _ReportedStats(msgspec.Struct, rename="camel"):
    """The stats of the bundles in a report: a report of the simple load manager has them in `bundle_stats`, one of the
    modular load manager in `last_stats`. The other field is empty.
    """

    bundle_stats: dict[str, NamespaceBundleStats] = {}
    last_stats: dict[str, NamespaceBundleStats] = {}


def reported_stats(document: bytes) -> dict[str, NamespaceBundleStats]:
    """Return the load of each bundle in `document`, a report of the simple or the modular load manager.

    Raises:
        msgspec.DecodeError: it is not JSON, or not such a report.
    """
    found = msgspec.json.decode(document, type=_ReportedStats)
    return found.bundle_stats or found.last_stats


def as_local_broker_data(report: LoadReport) -> LocalBrokerData:
    """Return the report as a report of the modular load manager, for all code that reads such reports.

    The throughput of the broker is the sum of the throughputs of its bundles. The field of `report` is not used,
    because Pulsar writes the message rate into it.
    """
    usage = report.system_resource_usage
    plain = LocalBrokerData(
        broker_id=report.name,
        web_service_url=report.web_service_url,
        web_service_url_tls=report.web_service_url_tls,
        pulsar_service_url=report.pulsar_service_url,
        pulsar_service_url_tls=report.pulsar_service_url_tls,
        persistent_topics_enabled=report.persistent_topics_enabled,
        non_persistent_topics_enabled=report.non_persistent_topics_enabled,
        cpu=usage.cpu,
        memory=usage.memory,
        direct_memory=usage.direct_memory,
        bandwidth_in=usage.bandwidth_in,
        bandwidth_out=usage.bandwidth_out,
        last_update=report.timestamp,
        broker_version_string=report.broker_version_string,
        protocols=report.protocols,
        advertised_listeners=report.advertised_listeners,
        load_manager_class_name=report.load_manager_class_name,
        start_timestamp=report.start_timestamp,
        max_resource_usage=max_resource_usage(usage),
        incarnation=report.incarnation,
        sequence=report.sequence,
    )
    return msgspec.structs.replace(
        with_stats(plain, report.bundle_stats),
        last_bundle_gains=report.bundle_gains,
        last_bundle_losses=report.bundle_losses,
    )


def load_report_of(data: LocalBrokerData) -> LoadReport:
    """Return the report of the simple load manager for a broker whose report of the modular load manager is `data`. Its
    quotas are 0, and it counts as neither underloaded nor overloaded.
    """
    return complete(
        LoadReport(
            name=data.broker_id,
            broker_version_string=data.broker_version_string,
            web_service_url=data.web_service_url,
            web_service_url_tls=data.web_service_url_tls,
            pulsar_service_url=data.pulsar_service_url,
            pulsar_service_url_tls=data.pulsar_service_url_tls,
            persistent_topics_enabled=data.persistent_topics_enabled,
            non_persistent_topics_enabled=data.non_persistent_topics_enabled,
            timestamp=data.last_update,
            protocols=data.protocols,
            load_manager_class_name=data.load_manager_class_name,
            start_timestamp=data.start_timestamp,
            system_resource_usage=system_usage(data),
            bundle_stats=data.last_stats,
            bundle_gains=data.last_bundle_gains,
            bundle_losses=data.last_bundle_losses,
            advertised_listeners=data.advertised_listeners,
            incarnation=data.incarnation,
            sequence=data.sequence,
        )
    )


def with_quotas(
    report: LoadReport, allocated: ResourceQuota, preallocated: ResourceQuota, cpu_factor: float
) -> LoadReport:
    """Return `report` with the sums of two sets of quotas: of the bundles that the broker has (`allocated`), and of the
    bundles that are on their way to it (`preallocated`).

    `cpu_factor` is percent of one core per msg/s.
    """
    return msgspec.structs.replace(
        report,
        allocated_cpu=(allocated.msg_rate_in + allocated.msg_rate_out) * cpu_factor,
        allocated_memory=allocated.memory,
        allocated_bandwidth_in=allocated.bandwidth_in,
        allocated_bandwidth_out=allocated.bandwidth_out,
        allocated_msg_rate_in=allocated.msg_rate_in,
        allocated_msg_rate_out=allocated.msg_rate_out,
        pre_allocated_cpu=(preallocated.msg_rate_in + preallocated.msg_rate_out) * cpu_factor,
        pre_allocated_memory=preallocated.memory,
        pre_allocated_bandwidth_in=preallocated.bandwidth_in,
        pre_allocated_bandwidth_out=preallocated.bandwidth_out,
        pre_allocated_msg_rate_in=preallocated.msg_rate_in,
        pre_allocated_msg_rate_out=preallocated.msg_rate_out,
    )


def gains_and_losses(
    before: Mapping[str, object], now: Mapping[str, object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the bundles that are only in `now`, and the bundles that are only in `before`; sorted."""
    return tuple(sorted(now.keys() - before.keys())), tuple(sorted(before.keys() - now.keys()))


def is_above_load_level(usage: SystemResourceUsage, percent: float) -> bool:
    """Return whether CPU, direct memory or a bandwidth uses more than `percent` of its limit; memory never counts.

    Source: `SimpleLoadManagerImpl.isAboveLoadLevel`.
    """
    return any(resource.percent > percent for resource in _compared(usage))


def is_below_load_level(usage: SystemResourceUsage, percent: float) -> bool:
    """Return whether CPU, direct memory and both bandwidths all use less than `percent` of their limits.

    Source: `SimpleLoadManagerImpl.isBelowLoadLevel`.
    """
    return all(resource.percent < percent for resource in _compared(usage))


def _compared(usage: SystemResourceUsage) -> tuple[ResourceUsage, ...]:
    return usage.bandwidth_out, usage.bandwidth_in, usage.cpu, usage.direct_memory
