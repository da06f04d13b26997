"""Waiting before the next attempt."""

import random

from barycenter.broker.system_topics.back_off import BackOff


def test_waits_double_up_to_the_longest_and_are_drawn_from_the_upper_half() -> None:
    back_off = BackOff(random.Random(1), 0.1, 1.0)
    for bound in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert bound / 2 <= back_off.next_s() <= bound
    back_off.reset()
    assert back_off.next_s() <= 0.1
