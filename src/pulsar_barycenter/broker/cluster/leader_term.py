"""The states of a broker that takes part in an election: elected is not yet leading. No clock, no I/O.

Whoever is elected takes an epoch before anything else, and leads from then on, until it is elected no more or another
epoch than its own is in the record. Then every write of its own would be refused, so it ends its duties; if it is
still elected, it begins another term.

TRANSITIONS has what is done on the way. What is not there changes nothing.
"""

import enum
from collections.abc import Mapping
from typing import Final


class TermState(enum.Enum):
    FOLLOWS = "follows"
    TAKES = "takes"
    """Elected, and about to take an epoch."""
    LEADS = "leads"


class TermEvent(enum.Enum):
    ELECTED = "elected"
    """The key is this broker's, its session stands, and it has not resigned."""
    NOT_ELECTED = "not elected"
    TAKEN = "taken"
    """The epoch of this term is in the record."""
    SUPERSEDED = "superseded"
    """Another epoch is in the record: a write was refused, or the record was read."""


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
