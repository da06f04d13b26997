"""The session's state machine: its table, event by event. The timeout is 12 s, so the deadline is 10 s."""

import itertools

import pytest

from pulsar_barycenter.metadata.session import TRANSITIONS, SessionSign, SessionState, SessionWatch
from pulsar_barycenter.metadata.store import SessionEvent

LOST, FOUND = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED
ENDED, RENEWED = SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED


@pytest.fixture
def watch():
    return SessionWatch(12, now_s=100)


def test_answers_keep_it_connected_and_move_the_deadline(watch):
    assert watch.deadline_s == 110
    assert watch.confirmed(105) == []
    assert watch.confirmed(103) == []  # an earlier heartbeat's answer that was overtaken
    assert (watch.state, watch.deadline_s) == (SessionState.CONNECTED, 115)


def test_a_failure_and_an_answer_are_a_disconnection(watch):
    assert watch.failed(104) == [LOST]
    assert watch.failed(106) == []
    assert watch.confirmed(108) == [FOUND]
    assert watch.state is SessionState.CONNECTED


def test_failures_until_the_deadline_lose_the_session(watch):
    assert watch.failed(104) == [LOST]
    assert watch.failed(109.9) == []
    assert watch.failed(110) == [ENDED]
    assert watch.failed(111) == []
    assert watch.state is SessionState.LOST


def test_a_single_failure_after_the_deadline_loses_the_session_at_once(watch):
    assert watch.failed(111) == [LOST, ENDED]


def test_a_lost_session_comes_back_only_by_renewal(watch):
    watch.failed(111)
    assert watch.confirmed(111) == []
    assert watch.state is SessionState.LOST
    assert watch.renewed(112) == [FOUND, RENEWED]
    assert (watch.state, watch.deadline_s) == (SessionState.CONNECTED, 122)


def test_a_session_that_was_renewed_with_another_timeout_has_another_deadline(watch):
    watch.failed(111)
    watch.renewed(112, 6)
    assert watch.deadline_s == 117


@pytest.mark.parametrize(("failed_at", "events"), [(None, [LOST, ENDED]), (104, [ENDED]), (111, [])])
def test_the_stores_word_that_it_ended_counts_in_every_state(watch, failed_at, events):
    if failed_at is not None:
        watch.failed(failed_at)
    assert watch.expired() == events
    assert watch.state is SessionState.LOST


def test_missed_notifications_look_like_a_short_disconnection(watch):
    assert watch.fell_behind() == [LOST, FOUND]
    watch.failed(104)
    assert watch.fell_behind() == []  # the reconnection to come will tell


def test_the_table_says_what_follows_in_every_state():
    """All signs, but for the renewal of a session that is not lost."""
    pairs = set(itertools.product(SessionState, SessionSign))
    unlost = {SessionState.CONNECTED, SessionState.DISCONNECTED}
    assert set(TRANSITIONS) == pairs - {(state, SessionSign.RENEWED) for state in unlost}


def test_whatever_the_signs_the_events_come_in_one_of_two_sequences():
    """CONNECTION_LOST, RECONNECTED or CONNECTION_LOST, SESSION_LOST, RECONNECTED, SESSION_REESTABLISHED: each event
    is reported in the state that the previous ones have led to, as `SessionEvent` guarantees."""
    follows = {None: {LOST}, LOST: {FOUND, ENDED}, ENDED: {FOUND}, FOUND: {LOST, RENEWED}, RENEWED: {LOST}}
    last_told = {
        SessionState.CONNECTED: {None, FOUND, RENEWED},
        SessionState.DISCONNECTED: {LOST},
        SessionState.LOST: {ENDED},
    }
    for (state, _), (after, events) in TRANSITIONS.items():
        for last in last_told[state]:
            for event in events:
                assert event in follows[last]
                last = event
            assert last in last_told[after]
