"""The leader's repairs: it reassigns bundles of lost brokers, ends changes that take too long, removes old records.

Source: Pulsar's `ServiceUnitStateChannelImpl.doCleanup`, `overrideOwnership` and `monitorOwnerships` (4.2.4). Where we
differ: if both brokers of a change are lost, one check finds both; an Owned record without an owner is an orphan, like
a change that does not end (Pulsar's monitor fails); and a bundle whose release or split does not end goes back to its
source, which may still serve it (`successor_of_orphan`), where Pulsar chooses any broker.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    next_version,
)


def concerns(record: ServiceUnitStateData, broker: str) -> bool:
    """Return whether the record needs a repair if `broker` is lost. It does if `broker` owns the bundle or is about to
    own it, or if `broker` has to complete a change of the bundle that is under way.
    """
    if record.state.is_active and record.dst_broker == broker:
        return True
    return record.state.is_in_flight and record.source_broker == broker


def override(record: ServiceUnitStateData, successor: str | None, now_ms: int, epoch: int) -> ServiceUnitStateData:
    """Return the record with which `successor` gets a bundle by force; None: no broker owns it then.

    The record names the previous owner as its source broker, whether or not that broker is lost: if it still runs, it
    must release the bundle. If a split had begun, the successor continues it. `epoch` is the epoch of the term that the
    successor begins; it is used only if the record begins a term.
    """
    before = record.dst_broker if record.state is ServiceUnitState.OWNED else record.source_broker
    if successor is None:
        return ServiceUnitStateData(
            ServiceUnitState.FREE,
            source_broker=before,
            force=True,
            timestamp=now_ms,
            version_id=next_version(record),
        )
    if record.state is ServiceUnitState.SPLITTING:
        return ServiceUnitStateData(
            ServiceUnitState.SPLITTING,
            dst_broker=record.dst_broker,
            source_broker=successor,
            split_service_unit_to_dest_broker=record.split_service_unit_to_dest_broker,
            force=True,
            timestamp=now_ms,
            version_id=next_version(record),
        )
    return ServiceUnitStateData(
        ServiceUnitState.OWNED,
        dst_broker=successor,
        source_broker=None if before == successor else before,
        force=True,
        timestamp=now_ms,
        version_id=next_version(record),
        epoch=epoch,
    )


@dataclass(slots=True)
class Findings:
    """What the leader has to repair, found among all ownership records: the lost brokers that records name, and the
    bundles whose record needs a repair, in the order in which the records were read.
    """

    lost_brokers: set[str] = field(default_factory=set)
    orphans: dict[str, ServiceUnitStateData] = field(default_factory=dict)
    """Bundles whose change did not end in time, or that are in state Owned without an owner."""
    outlived: dict[str, ServiceUnitStateData] = field(default_factory=dict)
    """Bundles without an owner for so long that their record can be removed."""


def look_over(
    records: Iterable[tuple[str, ServiceUnitStateData]],
    live: Collection[str],
    now_ms: int,
    *,
    in_flight_ms: int,
    tombstone_ms: int,
) -> Findings:
    """Return the repairs that ownership records need; `records` are pairs (bundle, record).

    A record needs a repair if it names a broker that is not in `live`, if its change takes longer than `in_flight_ms`,
    or if it has no owner and is older than `tombstone_ms`. Both limits are exclusive.
    """
    found = Findings()
    for bundle, record in records:
        state, age_ms = record.state, now_ms - record.timestamp
        if not state.is_active:
            if age_ms > tombstone_ms:
                found.outlived[bundle] = record
            continue
        concerned = (record.dst_broker, record.source_broker if state.is_in_flight else None)
        gone = [broker for broker in concerned if broker and broker not in live]
        if gone:
            found.lost_brokers.update(gone)
        elif age_ms > in_flight_ms and (state.is_in_flight or not record.dst_broker):
            found.orphans[bundle] = record
    return found


def successor_of_orphan(record: ServiceUnitStateData, live: Collection[str]) -> str | None:
    """Return the broker that gets a bundle whose change of ownership did not end: the broker that splits or releases
    the bundle, if it is live.

    It also gets the bundle back if the destination of a transfer is lost: it may still serve the bundle, so a third
    broker would serve it at the same time. None: the caller must choose a broker, other than `dst_broker`, which did
    not take the bundle.
    """
    if record.state in (ServiceUnitState.SPLITTING, ServiceUnitState.RELEASING) and record.source_broker in live:
        return record.source_broker
    return None
