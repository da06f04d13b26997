"""Rates as token buckets: over any time, what passed is at most the rate and what one period allows at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.bounds.token_bucket import NO_LIMIT, Throttle, TokenBucket

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
