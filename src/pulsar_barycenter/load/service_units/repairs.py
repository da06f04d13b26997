"""What the leader mends: bundles of brokers that are lost, changes that nobody brings to their end, old records.

Source: Pulsar's `ServiceUnitStateChannelImpl.doCleanup`, `overrideOwnership` and `monitorOwnerships` (4.2.4).
Different: of a change whose brokers are both lost, both are named at once; a record that is owned by nobody named is an
orphan, where Pulsar's monitor fails; and a bundle goes back to whoever may serve it still (`successor_of_orphan`),
where Pulsar chooses anybody.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    next_version,
)


def concerns(record: ServiceUnitStateData, broker: str) -> bool:
    """Tell whether a bundle has to be taken from `broker` when that is lost: it owns it, or has to act for it."""
    if record.state.is_active and record.dst_broker == broker:
        return True
    return record.state.is_in_flight and record.source_broker == broker


def override(record: ServiceUnitStateData, successor: str | None, now_ms: int, epoch: int) -> ServiceUnitStateData:
    """Return the record by which `successor` gets a bundle; nobody gets it if there is none.

    It names who had the bundle before as its source, lost or not: a source that lives has to let go. A split that was
    begun is the successor's to go on with. `epoch` is for a record that begins a term.
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
    """What a look at all records found. Bundles are named in the order in which they were looked at."""

    lost_brokers: set[str] = field(default_factory=set)
    orphans: dict[str, ServiceUnitStateData] = field(default_factory=dict)
    """Bundles whose change nobody brought to its end in time, or that are owned by nobody named."""
    outlived: dict[str, ServiceUnitStateData] = field(default_factory=dict)
    """Bundles that nobody owns for so long that their record may go."""


def look_over(
    records: Iterable[tuple[str, ServiceUnitStateData]],
    live: Collection[str],
    now_ms: int,
    *,
    in_flight_ms: int,
    tombstone_ms: int,
) -> Findings:
    """Look at all records, each with its bundle: whose brokers are not `live`, which changes last longer than
    `in_flight_ms`, and which records without owner are older than `tombstone_ms`; both strict."""
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
    """Return who gets a bundle whose change came to no end, if that is clear: who splits it, or who had it to give.

    So too where the change cannot end since its destination is lost: whoever has it to give may serve it still, and
    anybody else would begin beside it. None: somebody has to be chosen, other than `dst_broker`, which did not take it.
    """
    if record.state in (ServiceUnitState.SPLITTING, ServiceUnitState.RELEASING) and record.source_broker in live:
        return record.source_broker
    return None
