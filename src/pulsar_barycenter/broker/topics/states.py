"""The states of a topic that is loaded here, and what leads from one to the next.

TRANSITIONS says which event leads where; an event that is not there is a bug of the caller.

| state        | attaching | SENDs            | ACKs, FLOWs      | dispatch | clients          | ledger              |
|--------------|-----------|------------------|------------------|----------|------------------|---------------------|
| OPEN         | accepted  | stored           | taken            | goes on  | attached         | open                |
| TRANSFERRING | refused   | dropped, counted | dropped, counted | none     | attached         | drains, then closes |
| TRANSFERRED  | refused   | dropped, counted | dropped, counted | none     | attached         | closed              |
| CLOSING      | refused   | dropped          | taken until told | till told| told when drained| drains, then closes |
| CLOSED       | refused   | dropped          | dropped          | none     | told             | closed              |

A transfer has two phases. The first, up to TRANSFERRED, ends with a ledger that the next owner can open; the clients
hear of nothing, so they wait where they are instead of looking for an owner that is not there yet. In the second they
are told where the topic is, at once: CLOSING that comes out of a transfer has nothing to drain for them. What was
dropped, they send and acknowledge again there. Source: Pulsar's PIP-307.

A transfer may end in any of its states by an ordinary close (the broker stops, a later owner fenced the ledger, the
bundle came back), after which clients look the topic up.
"""

import enum
from collections.abc import Mapping
from typing import Final


class TopicState(enum.Enum):
    OPEN = "open"
    TRANSFERRING = "transferring"
    TRANSFERRED = "transferred"
    CLOSING = "closing"
    CLOSED = "closed"

    @property
    def is_transfer(self) -> bool:
        """Whether clients are attached that wait to be told of the next owner."""
        return self in (TopicState.TRANSFERRING, TopicState.TRANSFERRED)


class TopicEvent(enum.Enum):
    TRANSFER = "transfer"
    RELEASED = "released"
    """The ledger is closed, or what could be done for that was done."""
    CLOSE = "close"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[TopicState, TopicEvent], TopicState]] = {
    (TopicState.OPEN, TopicEvent.TRANSFER): TopicState.TRANSFERRING,
    (TopicState.TRANSFERRING, TopicEvent.RELEASED): TopicState.TRANSFERRED,
    (TopicState.OPEN, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.TRANSFERRING, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.TRANSFERRED, TopicEvent.CLOSE): TopicState.CLOSING,
    # Clients were told before the ledger was closed.
    (TopicState.CLOSING, TopicEvent.RELEASED): TopicState.CLOSING,
    (TopicState.CLOSED, TopicEvent.RELEASED): TopicState.CLOSED,
    (TopicState.CLOSING, TopicEvent.END): TopicState.CLOSED,
    # Whoever closes does not know of the others who do.
    (TopicState.CLOSING, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.CLOSED, TopicEvent.CLOSE): TopicState.CLOSED,
    (TopicState.CLOSED, TopicEvent.END): TopicState.CLOSED,
}


def after(state: TopicState, event: TopicEvent) -> TopicState:
    """Return the state that TRANSITIONS says.

    Raises:
        AssertionError: the event cannot come in this state.
    """
    found = TRANSITIONS.get((state, event))
    assert found is not None, f"{event.value} of a topic that is {state.value}"
    return found
