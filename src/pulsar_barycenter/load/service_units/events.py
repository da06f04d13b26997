"""The records with which each change of a bundle's ownership begins and goes on.

| change    | records, one after the other                                                        |
|-----------|-------------------------------------------------------------------------------------|
| assign    | Assigning(dst) ▸ Owned(dst)                                                         |
| unload    | Releasing(source) ▸ Free(source)                                                    |
| transfer  | Releasing(source, dst) ▸ Assigning(source, dst) ▸ Owned(source, dst)                |
| split     | Splitting(source, children), Owned(source) of each child ▸ Deleted(source)          |
| claim     | Owned(dst) by force: a broker that lost its term owns the bundle anew               |
| override  | by force, what `repairs` decides                                                    |

Each is made from the record that it replaces, so that its version is the next one, and what ends a change names the
brokers that it began with, or it would be refused. `request_id` is that of the request that a change is for, which all
its records bear. Times are epoch ms. `epoch` is the number of the term that an Owned record begins.

Source: Pulsar's `ServiceUnitStateChannelImpl` (publish…Event, handle…Event). Different: a child's record is forced, as
every claim.
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
    """Hand a bundle that nobody owns to `broker`."""
    return ServiceUnitStateData(
        ServiceUnitState.ASSIGNING,
        dst_broker=broker,
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=request_id or None,
    )


def owned(before: ServiceUnitStateData, now_ms: int, epoch: int) -> ServiceUnitStateData:
    """Take what is being assigned; to be published by the broker that it is assigned to."""
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
    """Own a bundle by force: what the record before says of the brokers counts for nothing."""
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
    """Have the owner give a bundle up, for `destination` or for nobody in particular. The owner itself may name topics
    that producers are attached to, as in `handed_over`: they are still open."""
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
    """The source of a transfer serves no more: it is the destination's turn. Producers wait at `topics`, of which the
    first are named that a record may name."""
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
    """The owner gave it up, and serves no more."""
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
    """Have the owner split a bundle into `children`, which stay with it. They are ranges, without the namespace."""
    return ServiceUnitStateData(
        ServiceUnitState.SPLITTING,
        source_broker=before.dst_broker,
        split_service_unit_to_dest_broker=dict.fromkeys(children),
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=request_id or None,
    )


def deleted(before: ServiceUnitStateData, now_ms: int) -> ServiceUnitStateData:
    """The bundle was split; its children are owned."""
    return ServiceUnitStateData(
        ServiceUnitState.DELETED,
        dst_broker=before.dst_broker,
        source_broker=before.source_broker,
        timestamp=now_ms,
        version_id=next_version(before),
        request_id=before.request_id,
    )
