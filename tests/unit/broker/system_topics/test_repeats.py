"""Recognizing duplicates: only of our publishers, in any order of their messages, in bounded memory."""

import random

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.system_topics.repeats import (
    MOST_PUBLISHERS,
    PUBLISHER_PREFIX,
    WINDOW,
    Repeats,
    publisher_name,
)
from pulsar_barycenter.broker.system_topics.settings import ClientSettings

OURS = PUBLISHER_PREFIX + "a"


@given(st.lists(st.integers(0, WINDOW - 1)))
def test_within_the_window_exactly_what_was_seen_is_a_repeat(sequence_ids: list[int]) -> None:
    repeats = Repeats()
    seen: set[int] = set()
    for sequence_id in sequence_ids:
        assert repeats.is_repeat(OURS, sequence_id) == (sequence_id in seen)
        seen.add(sequence_id)


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_what_is_new_and_high_is_never_a_repeat_and_what_is_far_behind_always(sequence_ids: list[int]) -> None:
    repeats = Repeats()
    highest = -1
    for sequence_id in sequence_ids:
        told = repeats.is_repeat(OURS, sequence_id)
        assert not told if sequence_id > highest else True
        assert told if sequence_id <= highest - WINDOW else True
        highest = max(highest, sequence_id)


def test_of_other_producers_nothing_is_a_repeat() -> None:
    repeats = Repeats()
    assert [repeats.is_repeat("standalone-0-1", 0) for _ in range(3)] == [False] * 3


def test_publishers_do_not_concern_each_other_and_the_longest_silent_is_forgotten() -> None:
    repeats = Repeats()
    names = [f"{OURS}{number}" for number in range(MOST_PUBLISHERS + 1)]
    assert not any(repeats.is_repeat(name, 0) for name in names[:-1])
    assert repeats.is_repeat(names[0], 0)
    assert not repeats.is_repeat(names[-1], 0)
    assert repeats.is_repeat(names[0], 0)
    assert not repeats.is_repeat(names[1], 0)


def test_names_are_told_by_their_beginning_and_differ() -> None:
    source = random.Random(1)
    one, other = publisher_name(source), publisher_name(source)
    assert one != other
    assert one.startswith(PUBLISHER_PREFIX)


def test_a_publisher_has_less_in_flight_than_the_window() -> None:
    assert ClientSettings().max_in_flight < WINDOW
