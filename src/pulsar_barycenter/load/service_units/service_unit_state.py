"""The states of a bundle's ownership, the record that carries one, and which may follow which.

| state     | says                                                        | brokers named                   |
|-----------|-------------------------------------------------------------|---------------------------------|
| Init      | nothing is known: there is no record                        | none                            |
| Free      | nobody owns it                                              | source: who gave it up, if any  |
| Assigning | it is being handed to `dst_broker`                          | dst; source in a transfer       |
| Owned     | `dst_broker` owns it                                        | dst; source: who had it before  |
| Releasing | `source_broker` is giving it up, for `dst_broker` if named  | source; dst in a transfer       |
| Splitting | `source_broker` is splitting it                             | source                          |
| Deleted   | it was split: its children are bundles of their own         | source                          |

A bundle is *in flight* while somebody has to act for it to go on, and *active* unless nobody owns it. A record's
`version_id` grows by one with each change, `force` skips the check of transitions. Names in JSON are Pulsar's.

`epoch` is ours: the number of the term that begins with an Owned record. Whoever publishes one takes the number from
the cluster's counter *after* he saw the record that his own replaces; in a transfer already after he saw Releasing, if
the record that he replaces is the very next one, since that is no Owned record. Claim: of two terms of a bundle the
later has the higher epoch. Proof: the accepted records of a bundle form a sequence in which each was published by
somebody who had seen the one before. So the number of a later Owned record was taken after an earlier one had been
accepted, and that one's number was taken before it was published; the counter's numbers rise. The exceptions are
records published upon one from before a tombstone: versions begin anew after it, so that such a record may be accepted,
across a gap or because the same version has come again. A tombstone is put off for longer than a record is on its way;
failing that, the fence of the ledgers refuses the lower epoch.

`topics` is ours too: whoever hands a bundle over names those that producers wait at, and the next owner opens them
while its own record is on the way. An owner that gives a bundle up of itself names them from the first record on, and
the next one makes ledgers to write to while they are still open. Either may name none, or not all; that costs time,
and nothing else.

`request_id` is ours as well: on whose behalf the change was begun, so that all who have a part in it log the same id.

Source: Pulsar's `ServiceUnitState` and `ServiceUnitStateData`, which readers of ours may be: they ignore what is ours.
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
"""The most parts that a bundle is split into."""
MOST_TOPICS: Final = 64
"""The most topics that a record names; it is said to all brokers."""
TOPICS_LENGTH: Final = 8192
"""The most characters of the topics that a record is given to name."""


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
        """Whether somebody has to act for the bundle to go on."""
        return self in _IN_FLIGHT

    @property
    def is_active(self) -> bool:
        """Whether somebody owns the bundle, or is about to."""
        return self in _IN_FLIGHT or self is ServiceUnitState.OWNED


_IN_FLIGHT: Final = frozenset({ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING})


class StorageType(enum.Enum):
    """Where the records are kept, which decides what may follow what."""

    SYSTEM_TOPIC = "system topic"
    """A compacted topic: a reader may see a state without the steps that led to it."""
    METADATA_STORE = "metadata store"
    """Keys that are replaced by compare-and-set: every step is seen by whoever makes the next."""


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
"""By storage: the states that may follow a state. Init after another state is a tombstone."""

RequestId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}\Z")]
BrokerName = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)]
TopicText = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH)]
Long = Annotated[int, msgspec.Meta(ge=LEAST_VERSION, le=GREATEST_VERSION)]


class ServiceUnitStateData(msgspec.Struct, frozen=True, rename="camel"):
    """The record of one bundle. Times are epoch ms; `split_service_unit_to_dest_broker` maps the ranges of children
    to their owners-to-be, None for the broker that splits."""

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
        """Refuse what nobody can act upon, as Pulsar does."""
        if self.state is not ServiceUnitState.FREE and not (is_named(self.dst_broker) or is_named(self.source_broker)):
            raise ValueError(f"state {self.state}: neither dstBroker nor sourceBroker is named")

    @property
    def is_transfer(self) -> bool:
        """Whether the bundle goes from one broker to another that was chosen beforehand."""
        return bool(self.dst_broker) and bool(self.source_broker)

    @property
    def owner(self) -> str | None:
        """The broker that owns the bundle or is about to; of one that is given up for nobody in particular, None."""
        match self.state:
            case ServiceUnitState.OWNED | ServiceUnitState.ASSIGNING | ServiceUnitState.RELEASING:
                return self.dst_broker or None
            case ServiceUnitState.SPLITTING:
                return self.source_broker or None
        return None


def is_named(broker: str | None) -> bool:
    return bool(broker and broker.strip())


def topics_to_name(topics: Iterable[str]) -> tuple[str, ...] | None:
    """Return as many of the first topics as a record may name; None if it names none."""
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
    """Return the version of the record that replaces this one."""
    if record is None:
        return FIRST_VERSION
    return LEAST_VERSION if record.version_id == GREATEST_VERSION else record.version_id + 1


_DECODER: Final = msgspec.json.Decoder(ServiceUnitStateData)


def decode_record(document: bytes) -> ServiceUnitStateData:
    """Return the record in `document`; unknown fields are ignored.

    Raises:
        msgspec.DecodeError: it is not JSON, a field has another type or is beyond its bound (numbers: 64 bits), the
            state is not one of those known here, or no broker is named though somebody owns the bundle or did.
    """
    return _DECODER.decode(document)


def encode_record(record: ServiceUnitStateData) -> bytes:
    """Return the JSON of a record, without what is None, as Pulsar writes it."""
    return encode_without_none(record)
