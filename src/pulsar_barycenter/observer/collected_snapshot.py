"""Builds the snapshot of a cluster with the extensible load manager from its published data: `OUT/snapshot.json`.

The snapshot has the owner of every bundle in the ownership channel, also of bundles that no list of top bundles names.
If the channel could not be read, the broker that lists a bundle counts as its owner. `barycenter decide` and `explain`
accept the file. Its policies are those that the collector has read.
"""

from collections.abc import Mapping
from pathlib import Path

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument, encode_snapshot
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.whole_files.appearing import write_whole


def collected_snapshot(
    addresses: Mapping[str, str],
    loads: Mapping[str, BrokerLoadData],
    tops: Mapping[str, TopBundlesLoadData],
    owners: Mapping[str, str] | None,
    *,
    policies: ClusterPolicies = NO_POLICIES,
    taken_at_ms: int,
) -> SnapshotDocument:
    """Return a snapshot of the live brokers, made from the data that brokers with the extensible load manager
    published: `loads` and `tops` (the load of their heaviest bundles), by broker id.

    `addresses` maps the ids of the live brokers to their web addresses. `owners` maps bundles to brokers, None if the
    owners are not known. `policies` are the rules of administrators, `taken_at_ms` is the time of the snapshot (epoch
    ms).
    """
    listed = {broker: top for broker, top in tops.items() if broker in addresses}
    if owners is None:
        owners = {load.bundle_name: broker for broker, top in listed.items() for load in top.top_bundles_load_data}
    return SnapshotDocument(
        taken_at=taken_at_ms,
        brokers={},
        policies=PoliciesDocument.of(policies),
        extensible=ExtensibleDocument(
            loads={broker: load for broker, load in loads.items() if broker in addresses},
            top_bundles=listed,
            lookups={
                broker: BrokerLookupData(
                    web_service_url=address, load_manager_class_name=ManagerKind.EXTENSIBLE.class_name
                )
                for broker, address in addresses.items()
            },
            owners=dict(owners),
        ),
    )


def keep_snapshot(file: Path, document: SnapshotDocument) -> None:
    """Write `document` to `file`. An earlier file is replaced atomically: a reader sees either the old or the new
    snapshot.

    Raises:
        OSError: the file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, encode_snapshot(document))
