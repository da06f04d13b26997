"""The states of a broker in the election of the leader. No clock, no I/O.

A broker that is elected does not lead yet. First it takes an epoch: it writes a number that is higher than all former
ones to a record. It leads from then on, until it is no longer elected, or the record has another epoch. In the second
case the store would refuse all its writes, so it ends its duties; if it is still elected, it begins a new term.

TRANSITIONS has the next state and the actions. An event that a state does not have there changes nothing.
"""

import enum
from collections.abc import Mapping
from typing import Final


class TermState(enum.Enum):
    FOLLOWS = "follows"
    TAKES = "takes"
    """It is elected and takes an epoch."""
    LEADS = "leads"


class TermEvent(enum.Enum):
    ELECTED = "elected"
    """This broker has the leader's key, its session is valid, and it has not resigned."""
    NOT_ELECTED = "not elected"
    TAKEN = "taken"
    """The epoch of this term was written to the record."""
    SUPERSEDED = "superseded"
    """The record has another epoch: a write was refused, or the record was read."""


class TermAction(enum.Enum):
    TAKE = "take an epoch"
    GIVE_UP = "take none any more"
    BEGIN = "begin the duties"
    END = "end the duties"


_FOLLOWS, _TAKES, _LEADS = TermState

TRANSITIONS: Final[Mapping[tuple[TermState, TermEvent], tuple[TermState, tuple[TermAction, ...]]]] = {
    (_FOLLOWS, TermEvent.ELECTED): (_TAKES, (TermAction.TAKE,)),
    (_TAKES, TermEvent.TAKEN): (_LEADS, (TermAction.BEGIN,)),
    (_TAKES, TermEvent.NOT_ELECTED): (_FOLLOWS, (TermAction.GIVE_UP,)),
    (_LEADS, TermEvent.NOT_ELECTED): (_FOLLOWS, (TermAction.END,)),
    (_LEADS, TermEvent.SUPERSEDED): (_TAKES, (TermAction.END, TermAction.TAKE)),
}
