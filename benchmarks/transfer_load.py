"""Generates clusters of the extensible load manager from a seed: input of the TransferShedder, ours and Pulsar's.

Each broker lists its ten heaviest bundles, as `loadBalancerMaxNumberOfBundlesInBundleLoadReport` has it, the lightest
first. Nothing here is measured.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from benchmarks.generated_load import generated_snapshot
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.ordering import by_group
from pulsar_barycenter.load.snapshot.load_snapshot import ExtensibleLoad, LoadSnapshot

_NOW_MS: Final = 1_700_000_000_000
_VERSION: Final = "4.2.0"


def transfer_snapshot(brokers: int, bundles: int, shape: str = "hot", listed: int = 10) -> LoadSnapshot:
    """Return a cluster of that shape whose brokers, all registered, own their bundles and list `listed` each."""
    plain = generated_snapshot(brokers, bundles, shape)
    rising = np.argsort(plain.bundles.latest.throughput, kind="stable")
    order, edges = by_group(plain.bundles.owner[rising], brokers)
    rows, owner = rising[order], plain.bundles.owner[rising][order]
    # places count from the lightest that is still listed
    place = np.arange(bundles) - np.maximum(edges[owner + 1] - listed, edges[owner])
    top = np.full(bundles, -1, np.int64)
    top[rows[place >= 0]] = place[place >= 0]
    everyone = np.ones(brokers, bool)
    usage = plain.brokers.percent[0] / 100
    load = ExtensibleLoad(
        weighted_max_ema=usage,
        throughput_ema=plain.brokers.latest.throughput,
        max_usage=usage,
        updated_at_ms=np.full(brokers, _NOW_MS, np.int64),
        has_load=everyone,
        live=everyone,
        top=top,
        owned=np.ones(bundles, bool),
    )
    named = replace(
        plain.brokers,
        short=plain.brokers.latest,
        versions=(_VERSION,) * brokers,
        class_names=(ManagerKind.EXTENSIBLE.class_name,) * brokers,
    )
    listed_figures = replace(plain.bundles, short=plain.bundles.latest)
    return replace(plain, brokers=named, bundles=listed_figures, extensible=load, taken_at_ms=_NOW_MS)


def transfer_document(snapshot: LoadSnapshot) -> dict[str, Any]:
    """Return the same as the JVM reads it (`Transfer.java` of the peer suite), one round."""
    load, brokers, bundles = snapshot.extensible, snapshot.brokers, snapshot.bundles
    assert load is not None
    rows = np.flatnonzero(load.top >= 0)
    rows = rows[np.lexsort((load.top[rows], bundles.owner[rows]))]
    tops: dict[str, list[BundleLoadData]] = {name: [] for name in brokers.names}
    owners = {}
    for row, owner in zip(rows.tolist(), bundles.owner[rows].tolist(), strict=True):
        into, out = float(bundles.latest.throughput_in[row]), float(bundles.latest.throughput_out[row])
        stats = NamespaceBundleStats(msg_throughput_in=into, msg_throughput_out=out)
        tops[brokers.names[owner]].append(BundleLoadData(bundles.names[row], stats))
        owners[bundles.names[row]] = brokers.names[owner]
    loads = {
        name: BrokerLoadData(
            weighted_max_ema=float(load.weighted_max_ema[row]),
            msg_throughput_in=float(brokers.latest.throughput_in[row]),
            msg_throughput_out=float(brokers.latest.throughput_out[row]),
            msg_throughput_ema=float(load.throughput_ema[row]),
            topics=int(brokers.topics[row]),
            updated_at=_NOW_MS,
        )
        for row, name in enumerate(brokers.names)
    }
    lookup = BrokerLookupData(
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        broker_version=_VERSION,
        persistent_topics_enabled=True,
        non_persistent_topics_enabled=True,
    )
    one = {
        "loads": loads,
        "tops": {name: TopBundlesLoadData(tuple(listed)) for name, listed in tops.items()},
        "available": list(brokers.names),
        "lookups": dict.fromkeys(brokers.names, lookup),
        "owners": owners,
        "recentlyUnloadedBundles": [],
        "recentlyUnloadedBrokers": {},
    }
    return {"now": _NOW_MS, "rounds": [msgspec.to_builtins(one)]}
