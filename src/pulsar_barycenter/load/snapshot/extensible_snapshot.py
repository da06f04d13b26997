"""The snapshot of brokers that run the extensible load manager.

It has all brokers that are registered or whose load is known: a strategy must see the load of a broker that is not
registered any more, and a broker that has not reported. Its bundles are the bundles in the lists of top bundles, with
their loads, and the bundles in the ownership channel, without a load if no list has them.

By default only the averages of the brokers themselves exist: `latest`, `short` and `long` have the same values, those
of the newest reports, so that code that reads windows uses them.

With the pipeline's windows, `short` and `long` of a bundle are its short and long window, if it has windows. `short`
and `long` of a broker are the sums over the bundles that the broker owns by the ownership channel, so a bundle counts
for its new owner at once. `throughput_ema` is then the sum of the short windows, and the lists of top bundles are
ordered by windows. Usage remains the average of each broker, because the pipeline has no windows of usage.

Source: Pulsar's `LoadManagerContext`: two load-data stores and a registry; and the ownership channel.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    TopBundlesLoadData,
    as_report,
)
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    TimeAverageMessageData,
    stats_rank,
)
from pulsar_barycenter.load.reports.windows import broker_averages
from pulsar_barycenter.load.snapshot.builder import belongs_to_a_broker, build_snapshot
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, TrafficFigures
from pulsar_barycenter.load.snapshot.load_snapshot import (
    BundleTable,
    ExtensibleLoad,
    Flags,
    LoadSnapshot,
    MessageColumns,
    bounded_count,
    finite,
)

_Item = TypeVar("_Item", bound="np.generic[Any]")

_NO_LOAD: Final = BrokerLoadData(max_resource_usage=0.0, weighted_max_ema=0.0)
_NO_LOOKUP: Final = BrokerLookupData()
_NOTHING: Final = NamespaceBundleStats()
_NO_WINDOW: Final = TimeAverageMessageData()


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows (averages over time) of bundles, computed by the pipeline (the Spark jobs that compute averages of load);
    and for each broker the sums of the windows of its bundles.
    """

    bundles: Mapping[str, BundleData] = field(default_factory=dict)
    brokers: Mapping[str, TimeAverageBrokerData] = field(default_factory=dict)


NO_WINDOWS: Final = Windows()


def windows_of_owners(known: ExtensibleDocument, published: Mapping[str, BundleData]) -> Windows:
    """Return the windows in `published` of all bundles that have an owner or that a broker lists as a top bundle, and
    their sums for each owner.

    In these sums, a bundle without windows counts with its newest load if its owner lists it, otherwise with 0.
    """
    listed = {
        (broker, bundle.bundle_name): bundle.stats
        for broker, top in known.top_bundles.items()
        for bundle in top.top_bundles_load_data
    }
    names = chain(known.owners, (bundle for _, bundle in listed))
    bundles = {bundle: data for bundle in names if (data := published.get(bundle)) is not None}
    values = {
        bundle: _as_windows(stats)
        for (broker, bundle), stats in listed.items()
        if bundle not in bundles and known.owners.get(bundle) == broker
    }
    values.update(bundles)
    held: dict[str, list[str]] = {broker: [] for broker in (*known.loads, *known.lookups)}
    for bundle, owner in known.owners.items():
        held.setdefault(owner, []).append(bundle)
    return Windows(
        bundles, {broker: broker_averages(bundles_of, values, _NOTHING) for broker, bundles_of in held.items()}
    )


def _as_windows(stats: NamespaceBundleStats) -> BundleData:
    one = TimeAverageMessageData(
        msg_rate_in=stats.msg_rate_in,
        msg_rate_out=stats.msg_rate_out,
        msg_throughput_in=stats.msg_throughput_in,
        msg_throughput_out=stats.msg_throughput_out,
    )
    return BundleData(short_term_data=one, long_term_data=one, topics=stats.topics)


def build_extensible_snapshot(
    loads: Mapping[str, BrokerLoadData],
    tops: Mapping[str, TopBundlesLoadData],
    lookups: Mapping[str, BrokerLookupData],
    owners: Mapping[str, str],
    *,
    taken_at_ms: int,
    recently_unloaded: Iterable[str] = (),
    policies: ClusterPolicies = NO_POLICIES,
    traffic: TrafficFigures = TrafficFigures.NEWEST,
    windows: Windows = NO_WINDOWS,
) -> LoadSnapshot:
    """Return the snapshot of the brokers in `loads` (the published loads) and in `lookups` (the registered brokers), by
    broker id.

    `owners` maps bundles to their owners. If a broker is in neither `loads` nor `lookups`, its bundles and its list of
    top bundles are ignored. If a bundle occurs twice in a list, its first position counts. A broker without a published
    load has a load of 0; a broker that is not registered has no version and no load manager. `windows` are used only if
    `traffic` is WINDOWS; bundles and brokers without windows then have the values of the newest reports.
    """
    if traffic is not TrafficFigures.WINDOWS:
        windows = NO_WINDOWS
    names = tuple(sorted({*loads, *lookups}))
    known = [loads.get(name, _NO_LOAD) for name in names]
    places = {name: _places(tops[name], windows.bundles) for name in names if name in tops}
    reports = {
        name: as_report(load, lookups.get(name, _NO_LOOKUP), tops.get(name))
        for name, load in zip(names, known, strict=True)
    }
    recently = set(recently_unloaded)
    plain = build_snapshot(reports, windows.bundles, windows.brokers, recently_unloaded=recently)
    top = np.array([places[names[row]][name] for name, row in _keys(plain.bundles)], np.int64)
    owned = np.array([owners.get(name) == names[row] for name, row in _keys(plain.bundles)], bool)
    columns = [(load.weighted_max_ema, load.msg_throughput_ema, load.max_resource_usage) for load in known]
    values = np.array(columns, float).reshape(-1, 3).T
    odd = ~np.isfinite(values)
    ema, throughput_ema, max_usage = np.where(odd, 0.0, values)
    has_load = np.array([name in loads for name in names], bool)
    has_sums = np.array([name in windows.brokers for name in names], bool)
    short = _chosen(has_sums, plain.brokers.short, plain.brokers.latest)
    extensible = ExtensibleLoad(
        weighted_max_ema=ema,
        throughput_ema=np.where(has_sums & has_load, short.throughput, throughput_ema),
        max_usage=max_usage,
        updated_at_ms=np.array([bounded_count(load.updated_at) for load in known], np.int64),
        has_load=has_load,
        live=np.array([name in lookups for name in names], bool),
        top=top,
        owned=owned,
        traffic=traffic,
    )
    brokers = replace(
        plain.brokers,
        bundle_count=np.array([bounded_count(load.bundle_count) for load in known], np.int64),
        short=short,
        long=_chosen(has_sums, plain.brokers.long, plain.brokers.latest),
        suspect=plain.brokers.suspect | odd.any(axis=0),
    )
    latest, has_windows = plain.bundles.latest, plain.bundles.has_windows
    bundles = replace(
        plain.bundles,
        short=_chosen(has_windows, plain.bundles.short, latest),
        long=_chosen(has_windows, plain.bundles.long, latest),
        has_windows=plain.bundles.sampled,
    )
    listed = replace(
        plain, brokers=brokers, bundles=bundles, extensible=extensible, taken_at_ms=taken_at_ms, policies=policies
    )
    nowhere: dict[str, int] = {}
    rest = {name: owner for name, owner in owners.items() if name not in places.get(owner, nowhere)}
    return _with_owned(listed, extensible, rest, recently, windows.bundles)


def _chosen(which: Flags, values: MessageColumns, others: MessageColumns) -> MessageColumns:
    """Return columns that have, for each row, the values of `values` if `which` flags the row, and those of `others` if
    not.
    """
    if not which.any():
        return others
    return MessageColumns(
        np.where(which, values.rate_in, others.rate_in),
        np.where(which, values.rate_out, others.rate_out),
        np.where(which, values.throughput_in, others.throughput_in),
        np.where(which, values.throughput_out, others.throughput_out),
    )


def _keys(bundles: BundleTable) -> Iterator[tuple[str, int]]:
    return zip(bundles.names, bundles.owner.tolist(), strict=True)


def _with_owned(
    snapshot: LoadSnapshot,
    load: ExtensibleLoad,
    owners: Mapping[str, str],
    recently_unloaded: Container[str],
    windows: Mapping[str, BundleData],
) -> LoadSnapshot:
    """Return the snapshot with one more row for each bundle in `owners`, which its owner does not list as a top bundle.
    These rows have no newest load.
    """
    index, bundles = snapshot.brokers.index, snapshot.bundles
    added = {name: row for name, owner in owners.items() if (row := index.get(owner)) is not None}
    if not added:
        return snapshot
    owner = np.concatenate((bundles.owner, np.fromiter(added.values(), np.int32, len(added))))
    names = [*bundles.names, *added]
    # sort by name, then by broker
    by_broker = np.argsort(owner, kind="stable").tolist()
    order = np.array(sorted(by_broker, key=names.__getitem__), np.int64)
    names = [names[row] for row in order.tolist()]
    spaces = [name.rpartition("/")[0] for name in names]
    namespaces = tuple(sorted(set(spaces)))
    row_of_namespace = {name: row for row, name in enumerate(namespaces)}
    namespace = np.array([row_of_namespace[name] for name in spaces], np.int32)
    bound = np.array([belongs_to_a_broker(name) for name in namespaces], bool)
    known = [windows.get(name) for name in added]

    def extended(column: NDArray[_Item], more: "NDArray[Any] | int" = 0) -> NDArray[_Item]:
        rows = np.full(len(added), more, column.dtype) if isinstance(more, int) else more.astype(column.dtype)
        return np.concatenate((column, rows))[order]

    def with_windows(
        columns: MessageColumns, added_ones: Iterable[TimeAverageMessageData]
    ) -> tuple[MessageColumns, Flags]:
        rows = [
            (one.msg_rate_in, one.msg_rate_out, one.msg_throughput_in, one.msg_throughput_out) for one in added_ones
        ]
        values, odd = finite(np.array(rows, float).reshape(-1, 4).T)
        mixed = zip(
            (columns.rate_in, columns.rate_out, columns.throughput_in, columns.throughput_out), values, strict=True
        )
        return MessageColumns(*(extended(column, more) for column, more in mixed)), np.logical_or.reduce(odd)

    latest, _ = with_windows(bundles.latest, [_NO_WINDOW] * len(added))
    short, odd_short = with_windows(
        bundles.short, [_NO_WINDOW if one is None else one.short_term_data for one in known]
    )
    long, odd_long = with_windows(bundles.long, [_NO_WINDOW if one is None else one.long_term_data for one in known])
    short_samples = np.array([0 if one is None else bounded_count(one.short_term_data.num_samples) for one in known])
    long_samples = np.array([0 if one is None else bounded_count(one.long_term_data.num_samples) for one in known])
    table = BundleTable(
        names=names,
        owner=owner[order],
        namespace=namespace,
        latest=latest,
        topics=extended(bundles.topics),
        sessions=extended(bundles.sessions),
        short=short,
        long=long,
        short_samples=extended(bundles.short_samples, short_samples),
        long_samples=extended(bundles.long_samples, long_samples),
        listed=extended(bundles.listed, 1),
        sampled=extended(bundles.sampled),
        has_windows=extended(bundles.has_windows, np.array([one is not None for one in known], bool)),
        broker_bound=bound[namespace],
        recently_unloaded=np.array([name in recently_unloaded for name in names], bool),
        suspect=extended(bundles.suspect, odd_short | odd_long),
    )
    load = replace(load, top=extended(load.top, -1), owned=extended(load.owned, 1))
    return replace(snapshot, bundles=table, namespaces=namespaces, extensible=load)


def _places(top: TopBundlesLoadData, windows: Mapping[str, BundleData]) -> dict[str, int]:
    """Return the position of each bundle in the list `top`. If there are `windows`, the list is sorted again by the
    loads in them, and the positions are those in the new order.
    """
    first: dict[str, NamespaceBundleStats] = {}
    for bundle in top.top_bundles_load_data:
        first.setdefault(bundle.bundle_name, bundle.stats)
    order = list(first)
    if windows:  # the least loaded first, of equal ones the greater name, as in the lists
        order.sort(reverse=True)
        order.sort(key=lambda name: stats_rank(_averaged(first[name], windows.get(name))))
    return {name: place for place, name in enumerate(order)}


def _averaged(stats: NamespaceBundleStats, windows: BundleData | None) -> NamespaceBundleStats:
    """Return `stats` with the traffic of the bundle's short-term window, or `stats` unchanged if `windows` is None."""
    if windows is None:
        return stats
    short = windows.short_term_data
    return msgspec.structs.replace(
        stats,
        msg_rate_in=short.msg_rate_in,
        msg_rate_out=short.msg_rate_out,
        msg_throughput_in=short.msg_throughput_in,
        msg_throughput_out=short.msg_throughput_out,
    )
