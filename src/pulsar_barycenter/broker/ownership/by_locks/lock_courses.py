"""The table of what a broker that owns bundles by locks does: by the state of a bundle on this broker, and by the
request.

`holdings.TRANSITIONS` has the next state. The two tables differ in one state: a SERVING bundle counts as STALLED while
the process may have been paused, because another broker may own the bundle by then.

Source: Pulsar's `OwnershipCache` and `OwnedBundle`.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.broker.ownership.holdings import HoldingState


class LockState(enum.Enum):
    """The state of a bundle on this broker, in a cluster with ownership locks."""

    ABSENT = "not owned"
    PREPARED = "prepared"
    SERVING = "serving"
    STALLED = "serving, but the process may have been paused"
    LEAVING = "leaving"
    ENDED = "ended"


class LockRequest(enum.Enum):
    FIND = "a look-up needs the owner"
    ACQUIRE = "this broker shall own the bundle"
    RELEASE = "this broker shall release the bundle"
    SPLIT = "the bundle shall be replaced by its children"
    LOSE = "the term has ended: a ledger was fenced, the lock was lost, or the range is no longer a bundle"
    REGAIN = "the session was re-established, or the process continues"


class LockCourse(enum.Enum):
    NOTHING = "do nothing"
    REFUSE = "the request fails"
    ANSWER_SELF = "this broker is the owner"
    ANSWER_IN_TRANSIT = "the owner does not serve now"
    ASK_LOCK = "the record in the lock names the owner"
    TAKE = "acquire the lock, then serve"
    UNLOAD = "close the topics, then release the lock"
    DIVIDE = "acquire the children's locks, write the boundaries, serve the children instead of the parent"
    CLEAR = "end the term, close the topics, release the lock, report the loss"
    TAKE_AGAIN = "close the topics, release the lock, then own the bundle in a new term"


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
"""What is done for a request if `COURSES` has no row for the state and the request."""

_STATES: Final[Mapping[HoldingState, LockState]] = {
    HoldingState.PREPARED: LockState.PREPARED,
    HoldingState.SERVING: LockState.SERVING,
    HoldingState.LEAVING: LockState.LEAVING,
    HoldingState.ENDED: LockState.ENDED,
}


def lock_state(held: HoldingState | None, *, has_paused: bool) -> LockState:
    """Return the state of a bundle on this broker. `held` is the state of this broker's `Holding` of it, None if there
    is none. `has_paused`: the process may have been paused, so another broker may own the bundle.
    """
    if held is None:
        return LockState.ABSENT
    return LockState.STALLED if held is HoldingState.SERVING and has_paused else _STATES[held]


def course_of(state: LockState, request: LockRequest) -> LockCourse:
    """Return how a `request` about a bundle has to be carried out while the bundle is in `state` on this broker."""
    return COURSES.get((state, request), OTHERWISE[request])
