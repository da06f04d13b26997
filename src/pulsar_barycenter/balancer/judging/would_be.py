"""The reports that brokers would write if bundles were elsewhere: the basis of the score of moves that nobody made.

The load of a bundle moves with it. It takes its share of its broker's CPU and bandwidths along, by its part of the
throughput of all bundles there, or of the rate if there is no throughput. Memory stays: a broker keeps what it has
allocated. All units are absolute (percent of one core, kbit/s), so that brokers of different size can be compared.
"""

from collections.abc import Mapping

import msgspec

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage, with_stats

_MOVING = ("cpu", "bandwidth_in", "bandwidth_out")


def differing(places: Mapping[str, str], owners: Mapping[str, str], brokers: Mapping[str, object]) -> dict[str, str]:
    """Return the entries of `places` (bundle to broker: the owners that the bundles would have) whose broker is not the
    real owner, which `owners` has. Entries whose broker is not among `brokers` are left out: that broker left the
    cluster.
    """
    return {
        bundle: broker
        for bundle, broker in places.items()
        if broker in brokers and bundle in owners and owners[bundle] != broker
    }


def would_be(
    reports: Mapping[str, LocalBrokerData], owners: Mapping[str, str], places: Mapping[str, str]
) -> dict[str, LocalBrokerData]:
    """Return the reports that brokers would send if each bundle in `places` (bundle to broker) were on that broker
    instead of on its owner.
    """
    leaving: dict[str, list[str]] = {}
    arriving: dict[str, list[str]] = {}
    for bundle, broker in differing(places, owners, reports).items():
        leaving.setdefault(owners[bundle], []).append(bundle)
        arriving.setdefault(broker, []).append(bundle)
    found = dict(reports)
    for broker in {*leaving, *arriving}:
        found[broker] = _changed(broker, reports, owners, leaving.get(broker, []), arriving.get(broker, []))
    return found


def _changed(
    broker: str,
    reports: Mapping[str, LocalBrokerData],
    owners: Mapping[str, str],
    leaving: list[str],
    arriving: list[str],
) -> LocalBrokerData:
    before = reports[broker]
    change = dict.fromkeys(_MOVING, 0.0)
    for bundle in leaving:
        for resource, amount in _taken(before, bundle).items():
            change[resource] -= amount
    for bundle in arriving:
        for resource, amount in _taken(reports[owners[bundle]], bundle).items():
            change[resource] += amount
    stats = {name: load for name, load in before.last_stats.items() if name not in leaving}
    listed = set(before.bundles) - set(leaving) | set(arriving)
    for bundle in arriving:
        load = reports[owners[bundle]].last_stats.get(bundle)
        if load is not None:
            stats[bundle] = load
    after = with_stats(before, stats)
    usages = {name: _with(getattr(before, name), amount) for name, amount in change.items()}
    return msgspec.structs.replace(after, bundles=tuple(sorted(listed)), num_bundles=len(listed), **usages)


def _with(usage: ResourceUsage, amount: float) -> ResourceUsage:
    return ResourceUsage(max(0.0, usage.usage + amount) if usage.limit > 0 else usage.usage, usage.limit)


def _taken(report: LocalBrokerData, bundle: str) -> dict[str, float]:
    """Return how much of each resource the bundle uses, a part of the usage of the broker that sent `report`."""
    share = _share(report.last_stats, bundle)
    return {name: max(0.0, getattr(report, name).usage) * share for name in _MOVING}


def _share(stats: Mapping[str, NamespaceBundleStats], bundle: str) -> float:
    if bundle not in stats:
        return 0.0
    for weight in (throughput_of, rate_of):
        whole = sum(map(weight, stats.values()))
        if whole > 0:
            return weight(stats[bundle]) / whole
    return 0.0


def throughput_of(stats: NamespaceBundleStats) -> float:
    """Return the throughput of a bundle in bytes/s, in + out; negative values count as 0."""
    return max(0.0, stats.msg_throughput_in) + max(0.0, stats.msg_throughput_out)


def rate_of(stats: NamespaceBundleStats) -> float:
    """Return the rate of a bundle in msg/s, in + out; negative values count as 0."""
    return max(0.0, stats.msg_rate_in) + max(0.0, stats.msg_rate_out)
