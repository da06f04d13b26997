"""The table of a broker that owns by locks: every cell, and that no cell serves without certainty."""

from itertools import product

from pulsar_barycenter.broker.ownership.by_locks.lock_courses import (
    COURSES,
    OTHERWISE,
    LockCourse,
    LockRequest,
    LockState,
    course_of,
    lock_state,
)
from pulsar_barycenter.broker.ownership.holdings import TRANSITIONS, HoldingEvent, HoldingState

TABLE = """
state     find               acquire      release  split   lose     regain
absent    ask_lock           take         nothing  refuse  nothing  nothing
prepared  answer_in_transit  refuse       nothing  refuse  clear    nothing
serving   answer_self        answer_self  unload   divide  clear    nothing
stalled   answer_in_transit  refuse       unload   refuse  clear    nothing
leaving   answer_in_transit  refuse       nothing  refuse  clear    nothing
ended     answer_in_transit  refuse       nothing  refuse  nothing  take_again
"""


def test_every_cell_of_the_table() -> None:
    head, *rows = (line.split() for line in TABLE.upper().strip().splitlines())
    requests, states = [LockRequest[name] for name in head[1:]], [LockState[row[0]] for row in rows]
    assert (requests, states) == (list(LockRequest), list(LockState))
    for state, row in zip(states, rows, strict=True):
        for request, course in zip(requests, row[1:], strict=True):
            assert course_of(state, request) is LockCourse[course], (state, request)


def test_no_row_says_what_goes_without_saying() -> None:
    for (state, request), course in COURSES.items():
        assert course is not OTHERWISE[request], (state, request)


def test_a_bundle_is_answered_with_only_while_its_term_is_certain() -> None:
    """Only SERVING answers with this broker, and a process that may have been paused is not SERVING."""
    for state, request in product(LockState, LockRequest):
        if course_of(state, request) in {LockCourse.ANSWER_SELF, LockCourse.DIVIDE}:
            assert state is LockState.SERVING
    for held in (None, *HoldingState):
        assert lock_state(held, has_paused=True) is not LockState.SERVING


def test_courses_begin_in_states_that_their_events_may_come_in() -> None:
    """UNLOAD and CLEAR send events to the holding, which `holdings.TRANSITIONS` must allow."""
    events = {LockCourse.UNLOAD: HoldingEvent.UNLOAD, LockCourse.DIVIDE: HoldingEvent.UNLOAD}
    events[LockCourse.CLEAR] = HoldingEvent.END
    for held, has_paused, request in product(HoldingState, (False, True), LockRequest):
        event = events.get(course_of(lock_state(held, has_paused=has_paused), request))
        assert event is None or (held, event) in TRANSITIONS
