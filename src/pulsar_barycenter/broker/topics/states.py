"""The states of a loaded topic, and the events that lead from one state to the next.

TRANSITIONS has the next state for each state and event. An event that it does not have is an error of the caller.

| state        | attach  | SENDs            | ACKs, FLOWs      | dispatch      | clients       | ledger              |
|--------------|---------|------------------|------------------|---------------|---------------|---------------------|
| OPEN         | allowed | stored           | accepted         | runs          | attached      | open                |
| TRANSFERRING | refused | dropped, counted | dropped, counted | stopped       | attached      | drains, then closes |
| TRANSFERRED  | refused | dropped, counted | dropped, counted | stopped       | attached      | closed              |
| CLOSING      | refused | dropped          | until drained    | until drained | until drained | drains, then closes |
| CLOSED       | refused | dropped          | dropped          | stopped       | disconnected  | closed              |

A transfer has two phases. The first ends in TRANSFERRED, with a ledger that the next owner can open. The clients are
not notified: they wait, instead of looking for an owner that does not exist yet. In the second phase the clients are
sent to the next owner at once, because nothing has to be drained. The clients send the messages and acknowledgements
that were dropped here again to the next owner. Source: Pulsar's PIP-307.

An ordinary close may end a transfer in any of its states: the broker stops, a later owner fenced the ledger, or this
broker owns the bundle again. The clients then look up the topic.
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
        """Whether the topic is in transfer: it accepts nothing any more, and its clients are still attached until they
        are sent to the next owner.
        """
        return self in (TopicState.TRANSFERRING, TopicState.TRANSFERRED)


class TopicEvent(enum.Enum):
    TRANSFER = "transfer"
    RELEASED = "released"
    """The topic's ledger was closed, or closing it has failed."""
    CLOSE = "close"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[TopicState, TopicEvent], TopicState]] = {
    (TopicState.OPEN, TopicEvent.TRANSFER): TopicState.TRANSFERRING,
    (TopicState.TRANSFERRING, TopicEvent.RELEASED): TopicState.TRANSFERRED,
    (TopicState.OPEN, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.TRANSFERRING, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.TRANSFERRED, TopicEvent.CLOSE): TopicState.CLOSING,
    # The second phase of a transfer began before the ledger was closed.
    (TopicState.CLOSING, TopicEvent.RELEASED): TopicState.CLOSING,
    (TopicState.CLOSED, TopicEvent.RELEASED): TopicState.CLOSED,
    (TopicState.CLOSING, TopicEvent.END): TopicState.CLOSED,
    # Several events may close one topic, independently of each other.
    (TopicState.CLOSING, TopicEvent.CLOSE): TopicState.CLOSING,
    (TopicState.CLOSED, TopicEvent.CLOSE): TopicState.CLOSED,
    (TopicState.CLOSED, TopicEvent.END): TopicState.CLOSED,
}


def after(state: TopicState, event: TopicEvent) -> TopicState:
    """Return the state of a topic that was in `state` when `event` happened.

    Raises:
        AssertionError: TRANSITIONS does not allow this event in this state.
    """
    found = TRANSITIONS.get((state, event))
    assert found is not None, f"{event.value} of a topic that is {state.value}"
    return found
