"""The snapshot of brokers that run the extensible load manager.

Brokers are all that are registered or whose load is known: a strategy has to see the load of one that is gone, and
the one that did not report. Bundles are those of each broker's list of top bundles, with their figures, and those that
the ownership channel names, without figures if no list holds them.

Nothing is averaged over time but what brokers average themselves: `latest`, `short` and `long` hold the same figures,
those of the newest reports, so that whatever reads windows decides upon them.

Source: Pulsar's `LoadManagerContext`: two load-data stores and a registry; and the ownership channel.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from barycenter.load.policies import NO_POLICIES, ClusterPolicies
from barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData
from barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from barycenter.load.snapshot.builder import belongs_to_a_broker, build_snapshot
from barycenter.load.snapshot.load_snapshot import (
    BundleTable,
    ExtensibleLoad,
    LoadSnapshot,
    MessageColumns,
    bounded_count,
)

_Item = TypeVar("_Item", bound="np.generic[Any]")

_NO_LOAD: Final = BrokerLoadData(max_resource_usage=0.0, weighted_max_ema=0.0)
_NO_LOOKUP: Final = BrokerLookupData()


def build_extensible_snapshot(
    loads: Mapping[str, BrokerLoadData],
    tops: Mapping[str, TopBundlesLoadData],
    lookups: Mapping[str, BrokerLookupData],
    owners: Mapping[str, str],
    *,
    taken_at_ms: int,
    recently_unloaded: Iterable[str] = (),
    policies: ClusterPolicies = NO_POLICIES,
) -> LoadSnapshot:
    """Return the snapshot of the brokers of `loads` (their loads) and `lookups` (those registered), by broker id.

    `owners` maps bundles to the brokers that own them. Bundles and lists of top bundles of other brokers are left out;
    of a bundle that stands in a list twice the first place counts. A broker whose load is not known carries nothing,
    one that is not registered has no version and no load manager.
    """
    names = tuple(sorted({*loads, *lookups}))
    known = [loads.get(name, _NO_LOAD) for name in names]
    places = {name: _places(tops[name]) for name in names if name in tops}
    reports = {
        name: as_report(load, lookups.get(name, _NO_LOOKUP), tops.get(name))
        for name, load in zip(names, known, strict=True)
    }
    recently = set(recently_unloaded)
    plain = build_snapshot(reports, {}, {}, recently_unloaded=recently)
    top = np.array([places[names[row]][name] for name, row in _keys(plain.bundles)], np.int64)
    owned = np.array([owners.get(name) == names[row] for name, row in _keys(plain.bundles)], bool)
    columns = [(load.weighted_max_ema, load.msg_throughput_ema, load.max_resource_usage) for load in known]
    figures = np.array(columns, float).reshape(-1, 3).T
    odd = ~np.isfinite(figures)
    ema, throughput_ema, max_usage = np.where(odd, 0.0, figures)
    extensible = ExtensibleLoad(
        weighted_max_ema=ema,
        throughput_ema=throughput_ema,
        max_usage=max_usage,
        updated_at_ms=np.array([bounded_count(load.updated_at) for load in known], np.int64),
        has_load=np.array([name in loads for name in names], bool),
        live=np.array([name in lookups for name in names], bool),
        top=top,
        owned=owned,
    )
    brokers = replace(
        plain.brokers,
        bundle_count=np.array([bounded_count(load.bundle_count) for load in known], np.int64),
        short=plain.brokers.latest,
        long=plain.brokers.latest,
        suspect=plain.brokers.suspect | odd.any(axis=0),
    )
    latest, sampled = plain.bundles.latest, plain.bundles.sampled
    bundles = replace(plain.bundles, short=latest, long=latest, has_windows=sampled)
    listed = replace(
        plain, brokers=brokers, bundles=bundles, extensible=extensible, taken_at_ms=taken_at_ms, policies=policies
    )
    nowhere: dict[str, int] = {}
    rest = {name: owner for name, owner in owners.items() if name not in places.get(owner, nowhere)}
    return _with_owned(listed, extensible, rest, recently)


def _keys(bundles: BundleTable) -> Iterator[tuple[str, int]]:
    return zip(bundles.names, bundles.owner.tolist(), strict=True)


def _with_owned(
    snapshot: LoadSnapshot, load: ExtensibleLoad, owners: Mapping[str, str], recently_unloaded: Container[str]
) -> LoadSnapshot:
    """Return the snapshot with rows without figures for bundles that their owners, if known, do not list."""
    index, bundles = snapshot.brokers.index, snapshot.bundles
    added = {name: row for name, owner in owners.items() if (row := index.get(owner)) is not None}
    if not added:
        return snapshot
    owner = np.concatenate((bundles.owner, np.fromiter(added.values(), np.int32, len(added))))
    names = [*bundles.names, *added]
    # by name, and those that two brokers hold by broker
    by_broker = np.argsort(owner, kind="stable").tolist()
    order = np.array(sorted(by_broker, key=names.__getitem__), np.int64)
    names = [names[row] for row in order.tolist()]
    spaces = [name.rpartition("/")[0] for name in names]
    namespaces = tuple(sorted(set(spaces)))
    row_of_namespace = {name: row for row, name in enumerate(namespaces)}
    namespace = np.array([row_of_namespace[name] for name in spaces], np.int32)
    bound = np.array([belongs_to_a_broker(name) for name in namespaces], bool)

    def extended(column: NDArray[_Item], filler: int = 0) -> NDArray[_Item]:
        more = np.full(len(added), filler, column.dtype)
        return np.concatenate((column, more))[order]

    latest = MessageColumns(
        extended(bundles.latest.rate_in),
        extended(bundles.latest.rate_out),
        extended(bundles.latest.throughput_in),
        extended(bundles.latest.throughput_out),
    )
    sampled = extended(bundles.sampled)
    table = BundleTable(
        names=names,
        owner=owner[order],
        namespace=namespace,
        latest=latest,
        topics=extended(bundles.topics),
        sessions=extended(bundles.sessions),
        short=latest,
        long=latest,
        short_samples=extended(bundles.short_samples),
        long_samples=extended(bundles.long_samples),
        listed=extended(bundles.listed, 1),
        sampled=sampled,
        has_windows=sampled,
        broker_bound=bound[namespace],
        recently_unloaded=np.array([name in recently_unloaded for name in names], bool),
        suspect=extended(bundles.suspect),
    )
    load = replace(load, top=extended(load.top, -1), owned=extended(load.owned, 1))
    return replace(snapshot, bundles=table, namespaces=namespaces, extensible=load)


def _places(top: TopBundlesLoadData) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, bundle in enumerate(top.top_bundles_load_data):
        places.setdefault(bundle.bundle_name, place)
    return places


def as_report(load: BrokerLoadData, lookup: BrokerLookupData, top: TopBundlesLoadData | None) -> LocalBrokerData:
    """Return what a broker of the modular load manager would have said of the same load."""
    stats: dict[str, NamespaceBundleStats] = {}
    for bundle in () if top is None else top.top_bundles_load_data:
        stats.setdefault(bundle.bundle_name, bundle.stats)
    return LocalBrokerData(
        persistent_topics_enabled=lookup.persistent_topics_enabled,
        non_persistent_topics_enabled=lookup.non_persistent_topics_enabled,
        cpu=load.cpu,
        memory=load.memory,
        direct_memory=load.direct_memory,
        bandwidth_in=load.bandwidth_in,
        bandwidth_out=load.bandwidth_out,
        msg_throughput_in=load.msg_throughput_in,
        msg_throughput_out=load.msg_throughput_out,
        msg_rate_in=load.msg_rate_in,
        msg_rate_out=load.msg_rate_out,
        last_update=load.reported_at,
        last_stats=stats,
        num_topics=load.topics,
        num_bundles=load.bundle_count,
        max_resource_usage=load.max_resource_usage,
        bundles=tuple(stats),
        broker_version_string=lookup.broker_version,
        load_manager_class_name=lookup.load_manager_class_name,
        start_timestamp=lookup.start_timestamp,
    )
