"""The records of each change of a bundle's ownership.

| change    | records, one after the other                                                        |
|-----------|-------------------------------------------------------------------------------------|
| assign    | Assigning(dst) ▸ Owned(dst)                                                         |
| unload    | Releasing(source) ▸ Free(source)                                                    |
| transfer  | Releasing(source, dst) ▸ Assigning(source, dst) ▸ Owned(source, dst)                |
| split     | Splitting(source, children), Owned(source) of each child ▸ Deleted(source)          |
| claim     | Owned(dst) by force: a broker that lost its term owns the bundle again              |
| override  | by force, what `repairs` decides                                                    |

Each record is built from the one that it replaces, so that it has the next version. The record that ends a change names
the brokers with which the change began, or it would be refused. `request_id` identifies the request that caused a
change; all its records have it. Times are epoch ms. `epoch` is the number of the term that an Owned record begins.

Source: Pulsar's `ServiceUnitStateChannelImpl` (publish…Event, handle…Event). Where we differ: the record of a child is
forced, like every claim.
"""

from collections.abc import Iterable

from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    next_version,
    topics_to_name,
)


def assigning(
    before: ServiceUnitStateData | None, broker: str, now_ms: int, *, request_id: str = ""
) -> ServiceUnitStateData:
    """Return the ownership record that assigns a bundle without owner to `broker`. `before` is the present record of
    the bundle, which the new one replaces; None: the bundle has no record.
    """
    return ServiceUnitStateData(
        ServiceUnitState.ASSIGNING,
        dst_broker=broker,
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=request_id or None,
    )


def owned(before: ServiceUnitStateData, now_ms: int, epoch: int) -> ServiceUnitStateData:
    """Return the ownership record with which a broker takes over a bundle. `before` is the present record, which
    assigns the bundle to this broker; `epoch` is the epoch of the term that begins.
    """
    return ServiceUnitStateData(
        ServiceUnitState.OWNED,
        dst_broker=before.dst_broker,
        source_broker=before.source_broker,
        timestamp=now_ms,
        version_id=next_version(before),
        epoch=epoch,
        request_id=before.request_id,
    )


def claimed(before: ServiceUnitStateData | None, broker: str, now_ms: int, epoch: int) -> ServiceUnitStateData:
    """Return the ownership record with which `broker` makes itself the owner of a bundle by force, even if `before`,
    the present record, names other brokers. `epoch` is the epoch of the term that begins.
    """
    return ServiceUnitStateData(
        ServiceUnitState.OWNED,
        dst_broker=broker,
        force=True,
        timestamp=now_ms,
        version_id=next_version(before),
        epoch=epoch,
    )


def releasing(
    before: ServiceUnitStateData,
    destination: str | None,
    now_ms: int,
    *,
    force: bool = False,
    topics: Iterable[str] = (),
    request_id: str = "",
) -> ServiceUnitStateData:
    """Return the ownership record that asks the owner to give up a bundle. `destination` is the broker that is to own
    it next; None: a broker will be chosen later.

    `topics` are topics with producers, so that the destination can prepare for them (see `handed_over`); only the owner
    knows them, when it publishes the record itself. These topics are still open at that time.
    """
    return ServiceUnitStateData(
        ServiceUnitState.RELEASING,
        dst_broker=destination,
        source_broker=before.dst_broker,
        force=force,
        timestamp=now_ms,
        version_id=next_version(before),
        topics=topics_to_name(topics),
        request_id=request_id or None,
    )


def handed_over(before: ServiceUnitStateData, now_ms: int, topics: Iterable[str] = ()) -> ServiceUnitStateData:
    """Return the ownership record with which the source of a transfer reports that it has stopped serving the bundle,
    so that the destination can start.

    `topics` are the topics whose producers wait for the new owner. The record names the first of them, as many as the
    limits of a record allow.
    """
    return ServiceUnitStateData(
        ServiceUnitState.ASSIGNING,
        dst_broker=before.dst_broker,
        source_broker=before.source_broker,
        timestamp=now_ms,
        version_id=next_version(before),
        topics=topics_to_name(topics),
        request_id=before.request_id,
    )


def freed(before: ServiceUnitStateData, now_ms: int) -> ServiceUnitStateData:
    """Return the ownership record with which the owner reports that it has stopped serving a bundle and given it up.
    `before` is the present record, which the new one replaces.
    """
    return ServiceUnitStateData(
        ServiceUnitState.FREE,
        dst_broker=before.dst_broker,
        source_broker=before.source_broker,
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=before.request_id,
    )


def splitting(
    before: ServiceUnitStateData, children: Iterable[str], now_ms: int, *, request_id: str = ""
) -> ServiceUnitStateData:
    """Return the ownership record that asks the owner to split a bundle into `children` (hash ranges). The same broker
    then owns the children.
    """
    return ServiceUnitStateData(
        ServiceUnitState.SPLITTING,
        source_broker=before.dst_broker,
        split_service_unit_to_dest_broker=dict.fromkeys(children),
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=request_id or None,
    )


def deleted(before: ServiceUnitStateData, now_ms: int) -> ServiceUnitStateData:
    """Return the last ownership record of a bundle that was split and does not exist any more. Publish it only when the
    owner owns all children of the bundle. `before` is the present record, which this one replaces.
    """
    return ServiceUnitStateData(
        ServiceUnitState.DELETED,
        dst_broker=before.dst_broker,
        source_broker=before.source_broker,
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=before.request_id,
    )
