"""The states of a broker in the election of the leader. No clock, no I/O.

A broker that is elected does not lead yet. First it takes an epoch: it writes a number that is higher than all former
ones to a record in the metadata store. It leads from then on, until it is no longer elected, or until the record has
another epoch. In the second case the store would refuse all its writes, so the broker ends its duties as leader; if it
is still elected, it begins a new term.

TRANSITIONS has the next state and the actions. Other events have no effect in a state.
"""

import enum
from collections.abc import Mapping
from typing import Final


class TermState(enum.Enum):
    FOLLOWS = "follows"
    TAKES = "takes"
    """This broker is elected, and is taking an epoch."""
    LEADS = "leads"


class TermEvent(enum.Enum):
    ELECTED = "elected"
    """This broker has the leader's key, its session is valid, and it has not resigned."""
    NOT_ELECTED = "not elected"
    TAKEN = "taken"
    """The epoch of this term was written to the record in the metadata store."""
    SUPERSEDED = "superseded"
    """The record has another epoch, as a refused write or a read of the record showed."""


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
