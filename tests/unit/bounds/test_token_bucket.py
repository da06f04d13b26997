"""Rates as token buckets: over any time, what passed is at most the rate and what one period allows at once."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.bounds.token_bucket import (
    LENT_PART,
    NO_LIMIT,
    UNLIMITED,
    Allotment,
    SharedThrottle,
    Throttle,
    TokenBucket,
)

STEPS = st.lists(
    st.tuples(st.floats(0, 5), st.integers(1, 40), st.integers(0, 2000)),
    max_size=60,
)
"""The seconds until a sender has something to send, how many messages it wants to send, and the bytes of each."""


@given(
    steps=STEPS, messages=st.integers(1, 30), size=st.integers(1, 20_000), period_s=st.sampled_from((0.5, 1.0, 30.0))
)
def test_the_mean_rate_holds_whatever_is_sent(
    steps: list[tuple[float, int, int]], messages: int, size: int, period_s: float
) -> None:
    throttle = Throttle(messages, size, period_s, 0.0)
    now_s = passed = passed_bytes = 0.0
    largest = 0
    for wait_s, wanted, each in steps:
        now_s += wait_s
        now = min(wanted, throttle.allowance(now_s))
        if not now:
            now_s += throttle.wait_s(now_s) + 1e-6
            now = min(wanted, throttle.allowance(now_s))
            assert now, "a message may pass after the wait"
        assert throttle.take(now, now * each, now_s) == (throttle.wait_s(now_s) == 0)
        passed += now
        passed_bytes += now * each
        largest = max(largest, now * each)
    assert passed <= messages * (1 + now_s / period_s) + 1e-3
    assert passed_bytes <= size * (1 + now_s / period_s) + largest + 1e-3, "one step may go into debt"


def test_what_is_left_after_a_pause_is_one_period() -> None:
    bucket = TokenBucket(10, 2.0, 0.0)
    bucket.take(10, 0.0)
    assert bucket.balance(1.0) == 5
    assert bucket.balance(100.0) == 10
    assert bucket.balance(50.0) == 10, "time does not go back"
    bucket.take(35, 100.0)
    assert bucket.wait_s(100.0, 1) == pytest.approx(26 / 5)
    assert bucket.wait_s(105.2, 1) == pytest.approx(0.0)


def test_a_limit_of_nothing_is_no_limit_and_a_lifted_one_neither() -> None:
    open_ended = Throttle(0, -1, 1.0, 0.0)
    open_ended.take(1_000_000, 1 << 40, 0.0)
    assert (open_ended.allowance(0.0), open_ended.wait_s(0.0)) == (NO_LIMIT, 0.0)
    throttle = Throttle(1, 1, 1.0, 0.0)
    assert not throttle.take(100, 100, 0.0)
    assert throttle.allowance(0.0) == 0
    assert throttle.wait_s(0.0) == pytest.approx(100)
    throttle.lift()
    assert throttle.take(100, 100, 0.0)
    assert (throttle.allowance(0.0), throttle.wait_s(0.0)) == (NO_LIMIT, 0.0)


@dataclass
class User:
    """Passes messages by an allotment, as dispatchers and topics do."""

    allotment: Allotment

    def passes(self, wanted: int, each: int, now_s: float) -> int:
        """Return how many of the wanted messages of `each` bytes passed at that time."""
        passed = 0
        while passed < wanted:
            allowed = self.allotment.messages
            if allowed <= 0 and not (allowed := self.allotment.allowance(now_s)):
                break
            step = min(allowed, wanted - passed)
            if not self.allotment.take(step, step * each):
                self.allotment.give_back(now_s)
            passed += step
        return passed


USES = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([0.0, 0.001, 0.3, 2.0, 50.0]), st.integers(1, 3000), st.integers(0, 9)
    ),
    max_size=60,
)
"""The user, the seconds until it has something to send, how many messages it wants to send, and the bytes of each."""


@given(uses=USES, messages=st.integers(1, 5000), size=st.integers(1, 50_000), own=st.integers(1, 5000))
def test_a_rate_holds_over_any_time_for_all_who_take_tokens_in_advance(
    uses: list[tuple[int, float, int, int]], messages: int, size: int, own: int
) -> None:
    """The first user also has a throttle of its own, which the other two do not."""
    throttle, single = Throttle(messages, size, 1.0, 0.0), Throttle(own, 0, 1.0, 0.0)
    users = [User(Allotment((throttle, single))), User(Allotment((throttle,))), User(Allotment((throttle,)))]
    now_s = 0.0
    largest = 0
    history: list[tuple[float, int, int]] = []
    for user, wait_s, wanted, each in uses:
        now_s += wait_s
        passed = users[user].passes(wanted, each, now_s)
        largest = max(largest, passed * each)
        history.append((now_s, passed, passed * each))
        if passed < wanted:
            longest_s = users[user].allotment.wait_s(now_s)
            assert longest_s > 0
            assert users[user].passes(1, 0, now_s + longest_s + 1e-6), "one may pass after the wait"
            now_s += longest_s + 1e-6
            history.append((now_s, 1, 0))
    for start in range(len(history)):
        began_s = history[start][0]
        passed = passed_bytes = 0
        for at_s, of_messages, of_size in history[start:]:
            passed += of_messages
            passed_bytes += of_size
            assert passed <= messages * (1 + at_s - began_s) + 1e-3
            most = size * (1 + at_s - began_s) + len(users) * largest
            assert passed_bytes <= most + 1e-3, "each user may go into debt by one step"


def test_most_of_what_passes_needs_no_time_and_an_allotment_is_a_part_of_a_period() -> None:
    throttle = Throttle(6400, 64_000, 1.0, 0.0)
    allotment = Allotment((throttle,))
    assert allotment.allowance(0.0) == 6400
    assert (allotment.messages, throttle.allowance(0.0)) == (100, 6300)
    assert allotment.take(60, 60)
    assert not allotment.take(60, 60), "20 more than there were"
    allotment.give_back(0.0)
    assert throttle.allowance(0.0) == 6280
    assert allotment.allowance(0.0) == 6280
    assert not allotment.take(1, 1000), "no bytes are left"
    allotment.give_back(100.0)
    assert throttle.allowance(100.0) == 6399, "what is given back did not pass before"


def test_tokens_that_are_out_have_no_substitutes_and_small_limits_lend_none() -> None:
    throttle = Throttle(6400, 0, 1.0, 0.0)
    idle = [Allotment((throttle,)) for _ in range(1000)]
    for allotment in idle:
        allotment.allowance(0.0)
    lent = sum(allotment.messages for allotment in idle)
    assert throttle.allowance(1000.0) == 6400 - lent >= LENT_PART - 1
    small = Allotment((Throttle(LENT_PART - 1, 0, 1.0, 0.0),))
    assert small.allowance(0.0) == LENT_PART - 1
    assert small.messages == 0


def test_a_changed_limit_takes_back_what_was_lent() -> None:
    throttle = SharedThrottle(1_000_000, 0, 1.0, 0.0)
    allotment = Allotment((throttle,))
    allotment.allowance(0.0)
    assert allotment.messages
    throttle.limit_to(1, 0, 1.0, 0.0)
    assert allotment.messages == 0
    assert allotment.allowance(0.0) == 1
    assert not allotment.take(3, 0)
    allotment.give_back(0.0)
    assert allotment.wait_s(0.0) == pytest.approx(3)


def test_without_throttles_everything_passes() -> None:
    assert UNLIMITED.take(1 << 40, 1 << 50)
    UNLIMITED.give_back(0.0)
    assert (UNLIMITED.messages, UNLIMITED.allowance(0.0), UNLIMITED.wait_s(0.0)) == (NO_LIMIT, NO_LIMIT, 0.0)
