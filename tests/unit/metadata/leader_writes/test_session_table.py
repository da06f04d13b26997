"""When sessions that a leader grants are over: the rule, which keeps two brokers from serving by one key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.metadata.leader_writes.session_table import (
    TRANSITIONS,
    LeaseEvent,
    LeaseState,
    LeaseTimes,
    SessionTable,
)
from pulsar_barycenter.metadata.session import SessionWatch

TIMES = LeaseTimes(30.0)
ONE, OTHER = "1" * 32, "2" * 32


def table_with(session: str = ONE) -> SessionTable:
    table = SessionTable(TIMES, 0.0)
    table.opened(session, TIMES.lease_ms)
    return table


def pass_time(table: SessionTable, start_s: float, duration_s: float) -> float:
    """Tick as often as a leader does; return the time then."""
    now_s = start_s
    while now_s < start_s + duration_s:
        now_s += TIMES.tick_s
        table.tick(now_s)
    return now_s


def test_a_silent_session_is_marked_and_its_keys_go_a_whole_lease_after_the_mark() -> None:
    table = table_with()
    now_s = pass_time(table, 0.0, TIMES.silence_s)
    now_s = pass_time(table, now_s, TIMES.tick_s)
    assert table.to_mark() == [ONE]
    assert not table.is_open(ONE)
    now_s = pass_time(table, now_s, 100.0)
    assert table.to_clear() == []  # while it is not known that the mark stands, nothing is taken
    table.marked(ONE, now_s)
    table.tick(now_s + TIMES.lease_s - 0.001)
    assert table.to_clear() == []
    table.tick(now_s + TIMES.lease_s)
    assert table.to_clear() == [ONE]
    table.forget(ONE)
    assert ONE not in table


def test_who_is_heard_of_stays_and_who_was_marked_does_not_come_back() -> None:
    table = table_with()
    now_s = 0.0
    for _ in range(10):
        now_s = pass_time(table, now_s, TIMES.silence_s * 0.8)
        assert table.message_received(ONE)
    pass_time(table, now_s, TIMES.silence_s * 1.5)
    assert not table.message_received(ONE)
    assert table.to_mark() == [ONE]
    assert not table.message_received("9" * 32)


def test_a_leader_that_stood_still_takes_nobody_for_silent() -> None:
    table = table_with()
    table.tick(1_000.0)
    assert table.is_open(ONE)
    now_s = pass_time(table, 1_000.0, TIMES.silence_s)
    assert table.to_mark() == [ONE], now_s


def test_a_new_leader_waits_anew_after_a_mark_that_it_finds() -> None:
    table = SessionTable(TIMES, 500.0)
    table.found(ONE, 500.0, is_marked=True, lease_ms=TIMES.lease_ms)
    table.found(OTHER, 500.0, is_marked=False, lease_ms=TIMES.lease_ms)
    table.tick(500.0 + TIMES.lease_s - 0.001)
    assert (table.to_clear(), table.to_mark(), table.is_open(OTHER)) == ([], [], True)
    table.tick(500.0 + TIMES.lease_s)
    assert table.to_clear() == [ONE]


def test_of_two_timeouts_the_longer_counts() -> None:
    """A leader of ten seconds waits for a broker of thirty, one of sixty for its own."""
    for own_s, other_s in ((10.0, 30.0), (60.0, 30.0)):
        table, longer = SessionTable(LeaseTimes(own_s), 0.0), LeaseTimes(max(own_s, other_s))
        table.opened(ONE, LeaseTimes(other_s).lease_ms)
        now_s = pass_time(table, 0.0, longer.silence_s - TIMES.tick_s)
        assert table.is_open(ONE)
        now_s = pass_time(table, now_s, longer.silence_s)
        assert table.to_mark() == [ONE]
        table.marked(ONE, now_s)
        table.tick(now_s + longer.lease_s - 0.001)
        assert table.to_clear() == []
        table.tick(now_s + longer.lease_s)
        assert table.to_clear() == [ONE]


@pytest.mark.parametrize("state", LeaseState)
def test_a_broker_that_says_so_itself_is_waited_for_no_longer(state: LeaseState) -> None:
    assert state is LeaseState.OVER or TRANSITIONS[state, LeaseEvent.RELEASED] is LeaseState.OVER


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12))
def test_what_comes_when_nobody_waits_for_it_any_more_is_not_admitted(requests: list[tuple[int, int]]) -> None:
    table, over_below = table_with(), 0
    for number, told in requests:
        over_below = max(over_below, told)
        assert table.admit(ONE, number, told) == (number >= over_below)


RATE = st.floats(0.95, 1.05)
DELAY_S = st.floats(0.0, 5.0)
TIMEOUT_S = st.sampled_from((10.0, 20.0, 30.0, 60.0))


@given(
    brokers_rate=RATE,
    leaders_rate=RATE,
    mark_s=st.floats(0.0, 40.0),
    answer_s=DELAY_S,
    tick_s=st.floats(0.05, 3.0),
    leaders_timeout_s=TIMEOUT_S,
    brokers_timeout_s=TIMEOUT_S,
    former_ticks=st.integers(0, 20),
    before_s=st.floats(0.0, 12.0),
    reads=st.lists(st.tuples(st.floats(-15.0, 15.0), DELAY_S, DELAY_S), max_size=8),
)
def test_when_keys_are_given_away_their_broker_has_stopped(
    brokers_rate: float,
    leaders_rate: float,
    mark_s: float,
    answer_s: float,
    tick_s: float,
    leaders_timeout_s: float,
    brokers_timeout_s: float,
    former_ticks: int,
    before_s: float,
    reads: list[tuple[float, float, float]],
) -> None:
    """For any duration of reads and of the mark, with two clocks of different rates, with different timeouts of
    leader and broker, and with another leader that comes while the first one waits. One read was sent, and answered,
    `before_s` the mark; for each other read a draw decides when it is sent, by the time of the mark, and how long it
    takes to the store and back."""
    leaders, brokers = LeaseTimes(leaders_timeout_s), LeaseTimes(brokers_timeout_s)
    table = SessionTable(leaders, 0.0)
    table.found(ONE, 0.0, is_marked=False, lease_ms=brokers.lease_ms)
    now_s = 0.0
    while not table.to_mark():
        now_s += leaders.tick_s
        table.tick(now_s)
    marked_at_s = now_s + mark_s
    now_s = marked_at_s + answer_s
    table.marked(ONE, now_s * leaders_rate)
    for _ in range(former_ticks):
        now_s += tick_s
        table.tick(now_s * leaders_rate)
    if former_ticks and not table.to_clear():
        table = SessionTable(leaders, now_s * leaders_rate)
        table.found(ONE, now_s * leaders_rate, is_marked=True, lease_ms=brokers.lease_ms)
    while not table.to_clear():
        now_s += tick_s
        table.tick(now_s * leaders_rate)
    watch = SessionWatch(brokers.lease_s, (marked_at_s - before_s) * brokers_rate)
    arrivals = sorted((marked_at_s + sent + to + back, marked_at_s + sent, sent + to < 0) for sent, to, back in reads)
    for arrives_s, sent_s, is_unmarked in arrivals:
        if arrives_s * brokers_rate >= watch.deadline_s or arrives_s > now_s or not is_unmarked:
            break
        watch.confirmed(sent_s * brokers_rate)
    assert now_s * brokers_rate >= watch.deadline_s
