"""The states of a bundle's ownership, the record that contains a state, and the transitions.

| state     | meaning                                                     | brokers named                   |
|-----------|-------------------------------------------------------------|---------------------------------|
| Init      | there is no record                                          | none                            |
| Free      | no broker owns the bundle                                   | source: the last owner, if any  |
| Assigning | the bundle is assigned to `dst_broker`                      | dst; source in a transfer       |
| Owned     | `dst_broker` owns it                                        | dst; source: the previous owner |
| Releasing | `source_broker` gives it up, for `dst_broker` if named      | source; dst in a transfer       |
| Splitting | `source_broker` splits it                                   | source                          |
| Deleted   | it was split: its children are separate bundles             | source                          |

A bundle is *in flight* while a broker must act to complete a change, and *active* unless no broker owns it or is about
to. `version_id` of a record grows by one with each change; `force` skips the check of transitions. Names in JSON are
Pulsar's.

`epoch` is Barycenter's: the number of the term that begins with an Owned record. The publisher of such a record takes
the number from the cluster's counter *after* it has seen the record that its own replaces. In a transfer it may take
the number after it has seen Releasing, if the record that it replaces is the very next one, since that is not an Owned
record.

Claim: of two terms of a bundle the later one has the higher epoch. Proof: the accepted records of a bundle form a
sequence in which the publisher of each had seen the one before. So the number of a later Owned record was taken after
an earlier one had been accepted, whose number was taken before it was published; and the numbers of the counter rise.
The exceptions are records that are based on one from before a tombstone: versions start again after it, so such a
record may be accepted, across a gap or because the same version exists again. A tombstone is delayed for longer than a
record is on its way. If that fails, the fence of the ledgers refuses the lower epoch.

`topics` is Barycenter's: a broker that hands over a bundle names the topics at which producers wait, and the next owner
opens them while its own record is on its way. An owner that itself starts to give up a bundle names them from the first
record on, and the next owner creates ledgers for them while they are still open. Both may name none, or not all; that
only costs time.

`request_id` is Barycenter's: it identifies the request that caused the change, so that all brokers that take part log
the same id.

Source: Pulsar's `ServiceUnitState` and `ServiceUnitStateData`. Brokers of Apache Pulsar may read our records; they
ignore our fields.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from pulsar_barycenter.load.reports.load_report import encode_without_none

FIRST_VERSION: Final = 1
LEAST_VERSION: Final = -(2**63)
GREATEST_VERSION: Final = 2**63 - 1
NAME_LENGTH: Final = 2048
"""The longest name of a broker in a record."""
MOST_CHILDREN: Final = 1024
"""The most children that a bundle is split into."""
MOST_TOPICS: Final = 64
"""The most topics that a record names; all brokers read every record."""
TOPICS_LENGTH: Final = 8192
"""The most characters of all topics that a new record names."""


class ServiceUnitState(enum.StrEnum):
    INIT = "Init"
    FREE = "Free"
    OWNED = "Owned"
    ASSIGNING = "Assigning"
    RELEASING = "Releasing"
    SPLITTING = "Splitting"
    DELETED = "Deleted"

    @property
    def is_in_flight(self) -> bool:
        """Whether a change of the bundle's owner is under way, which a broker must complete."""
        return self in _IN_FLIGHT

    @property
    def is_active(self) -> bool:
        """Whether a broker owns the bundle, or is about to own it."""
        return self in _IN_FLIGHT or self is ServiceUnitState.OWNED


_IN_FLIGHT: Final = frozenset({ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING})


class StorageType(enum.Enum):
    """Where ownership records are stored. This decides which states of a record may follow each other."""

    SYSTEM_TOPIC = "system topic"
    """A compacted topic: a reader may see a state without the steps that led to it."""
    METADATA_STORE = "metadata store"
    """Keys that are replaced by compare-and-set: a broker that makes a step has seen the one before."""


_LATER: Final[Mapping[ServiceUnitState, frozenset[ServiceUnitState]]] = {
    ServiceUnitState.FREE: frozenset({ServiceUnitState.ASSIGNING}),
    ServiceUnitState.ASSIGNING: frozenset({ServiceUnitState.OWNED}),
    ServiceUnitState.OWNED: frozenset({ServiceUnitState.SPLITTING, ServiceUnitState.RELEASING}),
    ServiceUnitState.RELEASING: frozenset({ServiceUnitState.ASSIGNING, ServiceUnitState.FREE}),
    ServiceUnitState.SPLITTING: frozenset({ServiceUnitState.DELETED}),
    ServiceUnitState.DELETED: frozenset({ServiceUnitState.INIT}),
}

TRANSITIONS: Final[Mapping[StorageType, Mapping[ServiceUnitState, frozenset[ServiceUnitState]]]] = {
    StorageType.SYSTEM_TOPIC: {
        **_LATER,
        ServiceUnitState.INIT: frozenset(ServiceUnitState) - {ServiceUnitState.INIT},
        ServiceUnitState.FREE: _LATER[ServiceUnitState.FREE] | {ServiceUnitState.INIT},
    },
    StorageType.METADATA_STORE: {**_LATER, ServiceUnitState.INIT: frozenset({ServiceUnitState.ASSIGNING})},
}
"""Storage to state to the states that may follow. Init after another state is a tombstone."""

RequestId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}\Z")]
BrokerName = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)]
TopicText = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)]
Long = Annotated[int, msgspec.Meta(ge=LEAST_VERSION, le=GREATEST_VERSION)]


class ServiceUnitStateData(msgspec.Struct, frozen=True, rename="camel"):
    """The ownership record of one bundle. `timestamp` is epoch ms. `split_service_unit_to_dest_broker` maps the hash
    ranges of children to their future owners; None: the broker that splits the bundle.
    """

    state: ServiceUnitState
    dst_broker: BrokerName | None = None
    source_broker: BrokerName | None = None
    split_service_unit_to_dest_broker: (
        Annotated[dict[str, BrokerName | None], msgspec.Meta(max_length=MOST_CHILDREN)] | None
    ) = None
    force: bool = False
    timestamp: Long = 0
    version_id: Long = FIRST_VERSION
    epoch: Long | None = None
    topics: Annotated[tuple[TopicText, ...], msgspec.Meta(max_length=MOST_TOPICS)] | None = None
    request_id: RequestId | None = None

    def __post_init__(self) -> None:
        """Raise a ValueError for a record that names no broker although its state needs one, as Pulsar does."""
        if self.state is not ServiceUnitState.FREE and not (is_named(self.dst_broker) or is_named(self.source_broker)):
            raise ValueError(
                f"state {self.state}: the record must name a broker, but has neither dstBroker nor sourceBroker"
            )

    @property
    def is_transfer(self) -> bool:
        """Whether the bundle moves from one broker to another that is already chosen."""
        return bool(self.dst_broker) and bool(self.source_broker)

    @property
    def owner(self) -> str | None:
        """The broker that owns the bundle or is about to own it. None: the bundle has no owner, or its owner gives it
        up without a destination.
        """
        match self.state:
            case ServiceUnitState.OWNED | ServiceUnitState.ASSIGNING | ServiceUnitState.RELEASING:
                return self.dst_broker or None
            case ServiceUnitState.SPLITTING:
                return self.source_broker or None
        return None


def is_named(broker: str | None) -> bool:
    return bool(broker and broker.strip())


def topics_to_name(topics: Iterable[str]) -> tuple[str, ...] | None:
    """Return the first of the topics, as many as the limits of a record allow; None if there are no topics."""
    named: list[str] = []
    left = TOPICS_LENGTH
    for topic in topics:
        left -= len(topic)
        if left < 0 or len(named) == MOST_TOPICS:
            break
        named.append(topic)
    return tuple(named) or None


def state_of(record: ServiceUnitStateData | None) -> ServiceUnitState:
    return ServiceUnitState.INIT if record is None else record.state


def next_version(record: ServiceUnitStateData | None) -> int:
    """Return the version number of the ownership record that replaces `record`; None: the bundle has no record."""
    if record is None:
        return FIRST_VERSION
    return LEAST_VERSION if record.version_id == GREATEST_VERSION else record.version_id + 1


_DECODER: Final = msgspec.json.Decoder(ServiceUnitStateData)


def decode_record(document: bytes) -> ServiceUnitStateData:
    """Return the ownership record in the JSON `document`; unknown fields are ignored.

    Raises:
        msgspec.DecodeError: it is not JSON, a field has the wrong type or is out of bounds (numbers: 64 bits), the
            state is unknown, or the record names no broker although its state needs one.
    """
    return _DECODER.decode(document)


def encode_record(record: ServiceUnitStateData) -> bytes:
    """Return the JSON of an ownership record, without fields that are None, as Pulsar writes it."""
    return encode_without_none(record)
