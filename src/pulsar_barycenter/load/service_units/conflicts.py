"""Which of two records of a bundle is kept: the rule that every reader applies to the records in their order.

Brokers publish without asking each other, so a record may be based on a state that another record has ended in the
meantime. Every reader of the records, and compaction, applies this rule to each record in turn, so all keep the same
ones.

A record is refused if the present one has the same or a later version, if its state must not follow (`TRANSITIONS`), or
if its brokers do not match those of the present record. For a record with `force`, and for the first record of a bundle
in the metadata store, only the version is checked. A tombstone is always accepted.

Worked example: A releases a bundle for B (version 5). The leader treats A as lost and gives the bundle to C (6, by
force), while A publishes that B is to own it (6). The record that comes first is kept; the other one has a version that
exists already.

Source: Pulsar's `ServiceUnitStateDataConflictResolver.shouldKeepLeft` (4.2.4).
"""

import enum

from pulsar_barycenter.load.service_units.service_unit_state import (
    FIRST_VERSION,
    GREATEST_VERSION,
    LEAST_VERSION,
    TRANSITIONS,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    is_named,
    state_of,
)


class Conflict(enum.Enum):
    """Why a bundle's ownership record must not replace the record that is stored."""

    STALE = "the present record has this version or a later one"
    GAP = "versions between the present record and this one are missing"
    NOT_FIRST = "the bundle has no record, and this one does not have the first version"
    TRANSITION = "its state may not follow the state of the present record"
    BROKERS = "its brokers do not match those of the present record"


def conflict(
    earlier: ServiceUnitStateData | None, later: ServiceUnitStateData | None, storage: StorageType
) -> Conflict | None:
    """Return why the ownership record `later` must not replace the record `earlier`; None if it may. An argument of
    None means that the bundle has no record.
    """
    if later is None:
        return None
    if earlier is None:
        if storage is StorageType.METADATA_STORE:
            return None if later.version_id == FIRST_VERSION else Conflict.NOT_FIRST
    elif not (earlier.version_id == GREATEST_VERSION and later.version_id == LEAST_VERSION):
        if earlier.version_id >= later.version_id:
            return Conflict.STALE
        if earlier.version_id < later.version_id - 1:
            return None if storage is StorageType.SYSTEM_TOPIC else Conflict.GAP
    if later.force:
        return None
    if later.state not in TRANSITIONS[storage][state_of(earlier)]:
        return Conflict.TRANSITION
    return None if earlier is None or _agree(earlier, later) else Conflict.BROKERS


def _agree(earlier: ServiceUnitStateData, later: ServiceUnitStateData) -> bool:
    """Return whether `later` names the brokers that a record which follows `earlier` must name: for example, the broker
    that releases a bundle must be its owner. The caller has checked that the state of `later` may follow the state of
    `earlier`.
    """
    match earlier.state, later.state:
        case ServiceUnitState.OWNED, ServiceUnitState.SPLITTING:
            return not is_named(later.dst_broker) and earlier.dst_broker == later.source_broker
        case ServiceUnitState.OWNED, ServiceUnitState.RELEASING:
            return (
                is_named(later.source_broker)
                and earlier.dst_broker == later.source_broker
                and earlier.dst_broker != later.dst_broker
            )
        case ServiceUnitState.RELEASING, ServiceUnitState.ASSIGNING:
            return is_named(later.dst_broker) and _same_brokers(earlier, later)
        case ServiceUnitState.FREE, ServiceUnitState.ASSIGNING:
            return not is_named(later.source_broker) and is_named(later.dst_broker)
        case (
            (ServiceUnitState.ASSIGNING, ServiceUnitState.OWNED)
            | (ServiceUnitState.RELEASING, ServiceUnitState.FREE)
            | (ServiceUnitState.SPLITTING, ServiceUnitState.DELETED)
        ):
            return _same_brokers(earlier, later)
    return True


def _same_brokers(one: ServiceUnitStateData, other: ServiceUnitStateData) -> bool:
    return one.dst_broker == other.dst_broker and one.source_broker == other.source_broker
