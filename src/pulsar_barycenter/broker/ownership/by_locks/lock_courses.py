"""What a broker that owns by locks does about a bundle: a table of the bundle's state here and what is asked.

`holdings.TRANSITIONS` says which state follows when a course is taken. The two differ in one state: a bundle that is
SERVING counts as STALLED while the process may have stood still, for another broker may own it by now.

Source: Pulsar's `OwnershipCache` and `OwnedBundle`.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.broker.ownership.holdings import HoldingState


class LockState(enum.Enum):
    """What this broker has of a bundle."""

    ABSENT = "not owned"
    PREPARED = "prepared"
    SERVING = "serving"
    STALLED = "serving, as far as a process knows that stood still"
    LEAVING = "leaving"
    ENDED = "ended"


class LockRequest(enum.Enum):
    FIND = "a lookup asks for the owner"
    ACQUIRE = "this broker shall own it"
    RELEASE = "this broker shall give it up"
    SPLIT = "it shall be replaced by its children"
    LOSE = "the term is over: a ledger was fenced, the lock went, or the range is no bundle any more"
    REGAIN = "the session, or the process, is back"


class LockCourse(enum.Enum):
    NOTHING = "nothing is done"
    REFUSE = "the request fails"
    ANSWER_SELF = "this broker is the owner"
    ANSWER_IN_TRANSIT = "the owner does not serve now"
    ASK_LOCK = "the record in the lock names the owner"
    TAKE = "win the lock, then serve"
    UNLOAD = "close the topics, then free the lock"
    DIVIDE = "win the children's locks, write the boundaries, serve the children in place of the parent"
    CLEAR = "end the term, close the topics, free the lock, report the loss"
    TAKE_AGAIN = "close the topics, free the lock, then own the bundle by a new term"


COURSES: Final[Mapping[tuple[LockState, LockRequest], LockCourse]] = {
    (LockState.ABSENT, LockRequest.FIND): LockCourse.ASK_LOCK,
    (LockState.SERVING, LockRequest.FIND): LockCourse.ANSWER_SELF,
    (LockState.ABSENT, LockRequest.ACQUIRE): LockCourse.TAKE,
    (LockState.SERVING, LockRequest.ACQUIRE): LockCourse.ANSWER_SELF,
    (LockState.SERVING, LockRequest.RELEASE): LockCourse.UNLOAD,
    (LockState.STALLED, LockRequest.RELEASE): LockCourse.UNLOAD,
    (LockState.SERVING, LockRequest.SPLIT): LockCourse.DIVIDE,
    (LockState.ABSENT, LockRequest.LOSE): LockCourse.NOTHING,
    (LockState.ENDED, LockRequest.LOSE): LockCourse.NOTHING,
    (LockState.ENDED, LockRequest.REGAIN): LockCourse.TAKE_AGAIN,
}
OTHERWISE: Final[Mapping[LockRequest, LockCourse]] = {
    LockRequest.FIND: LockCourse.ANSWER_IN_TRANSIT,
    LockRequest.ACQUIRE: LockCourse.REFUSE,
    LockRequest.RELEASE: LockCourse.NOTHING,
    LockRequest.SPLIT: LockCourse.REFUSE,
    LockRequest.LOSE: LockCourse.CLEAR,
    LockRequest.REGAIN: LockCourse.NOTHING,
}
"""What is done in a state that `COURSES` does not name with the request."""

_STATES: Final[Mapping[HoldingState, LockState]] = {
    HoldingState.PREPARED: LockState.PREPARED,
    HoldingState.SERVING: LockState.SERVING,
    HoldingState.LEAVING: LockState.LEAVING,
    HoldingState.ENDED: LockState.ENDED,
}


def lock_state(held: HoldingState | None, *, has_paused: bool) -> LockState:
    """Return the state of a bundle of which `held` is the holding, None without one; `has_paused` tells whether others
    may have taken the place of this process."""
    if held is None:
        return LockState.ABSENT
    return LockState.STALLED if held is HoldingState.SERVING and has_paused else _STATES[held]


def course_of(state: LockState, request: LockRequest) -> LockCourse:
    """Return what is done when `request` comes for a bundle in `state`."""
    return COURSES.get((state, request), OTHERWISE[request])
