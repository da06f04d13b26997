"""What a broker has to do about a bundle: it follows from the bundle's record and from what the broker has (`Held`).

`role_of` returns the role of a broker in a record, and `DUTIES` the next step that a broker in this role has to make,
its *duty*. A completed duty changes the record or what the broker has. Then the table is read again, until it says
`NOTHING`, or `PREPARE`, which changes neither and is done once per record. So it does not matter how a state came
about, which records a broker missed, or how often it looks.

Source: the handlers of Pulsar's `ServiceUnitStateChannelImpl`, which act on each record when it arrives.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData


class Held(enum.Enum):
    """What a broker has of a bundle at the moment: a term (a time in which it serves the bundle), only the connected
    clients of topics that it has closed, or nothing. "The record" is the bundle's ownership record.
    """

    NOTHING = "nothing"
    SERVING = "the term that the record began, in which it still serves"
    OUTDATED = "a term that a record other than the present one began"
    ENDED = "the term that the record began, which ended without notice"
    CLOSED = "clients whose topics were closed for a transfer"


class Role(enum.Enum):
    """The role that a bundle's ownership record gives to the broker that reads the record."""

    OWNER = "owns the bundle"
    OWNER_WITHOUT_NUMBER = "owns the bundle, and the record does not number the term"
    HEIR = "is assigned the bundle"
    EXPECTANT = "gets the bundle when its owner has closed it"
    GIVER = "gives the bundle to a certain broker"
    LEAVER = "gives the bundle up"
    PREDECESSOR = "gave the bundle to a broker that does not own it yet"
    SPLITTER = "splits the bundle"
    NONE = "has no part"


class Duty(enum.Enum):
    NOTHING = "nothing"
    BEGIN = "begin the term that the record numbers, and serve"
    CLAIM = "publish Owned, and open meanwhile the topics that the record names"
    CLAIM_AGAIN = "publish Owned by force, with a new number"
    PREPARE = "take the number of the term that is to come, and make ledgers for the topics that the record names"
    """The number is only for this transfer. It is dropped at any record other than the one that began the transfer and
    the very next one; see `service_unit_state` about epochs."""
    HAND_OVER = "close the topics, keep the clients, publish Assigning"
    GIVE_UP = "close the topics, publish Free"
    SPLIT = "own the children, write the boundaries, publish Deleted"
    LET_GO = "close the topics, and send the clients to the owner if there is one"


DUTIES: Final[Mapping[tuple[Role, Held], Duty]] = {
    (Role.OWNER, Held.NOTHING): Duty.BEGIN,
    (Role.OWNER, Held.SERVING): Duty.NOTHING,
    (Role.OWNER, Held.ENDED): Duty.CLAIM_AGAIN,
    (Role.OWNER_WITHOUT_NUMBER, Held.NOTHING): Duty.CLAIM_AGAIN,
    (Role.EXPECTANT, Held.NOTHING): Duty.PREPARE,
    (Role.HEIR, Held.NOTHING): Duty.CLAIM,
    **{(Role.GIVER, held): Duty.HAND_OVER for held in Held},
    **{(Role.LEAVER, held): Duty.GIVE_UP for held in Held},
    (Role.PREDECESSOR, Held.CLOSED): Duty.NOTHING,
    **{(Role.SPLITTER, held): Duty.SPLIT for held in Held},
}
"""The duty of each role and `Held`. In all other cases the duty is LET_GO, or NOTHING if the broker has nothing."""


def role_of(record: ServiceUnitStateData | None, me: str) -> Role:
    """Return the role of the broker `me` in a bundle's ownership record; a record of None: the bundle has no record."""
    if record is None:
        return Role.NONE
    is_destination, is_source = record.dst_broker == me, record.source_broker == me
    match record.state:
        case ServiceUnitState.OWNED if is_destination:
            return Role.OWNER if record.epoch is not None else Role.OWNER_WITHOUT_NUMBER
        case ServiceUnitState.ASSIGNING if is_destination:
            return Role.HEIR
        case ServiceUnitState.ASSIGNING if is_source:
            return Role.PREDECESSOR
        case ServiceUnitState.RELEASING if is_source:
            return Role.GIVER if record.dst_broker else Role.LEAVER
        case ServiceUnitState.RELEASING if is_destination:
            return Role.EXPECTANT
        case ServiceUnitState.SPLITTING if is_source:
            return Role.SPLITTER
    return Role.NONE


def duty_of(role: Role, held: Held) -> Duty:
    """Return what a broker has to do next because of a bundle's ownership record. `role` is its role in that record,
    `held` is what it has of the bundle at the moment.
    """
    return DUTIES.get((role, held), Duty.NOTHING if held is Held.NOTHING else Duty.LET_GO)
