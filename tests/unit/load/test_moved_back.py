"""Moves that came too soon, and moves back to a former broker."""

import pytest

from pulsar_barycenter.load.moved_back import Whereabouts, Window

WINDOW = Window(again=30, back=60)


@pytest.mark.parametrize(
    ("since_last", "since_left", "is_flap"),
    [
        (None, None, False),
        (29, None, True),
        (30, None, False),
        (40, 59, True),
        (40, 60, False),
        (29, 100, True),
    ],
)
def test_the_ends_of_both_windows_are_exclusive(
    since_last: float | None, since_left: float | None, is_flap: bool
) -> None:
    assert WINDOW.is_flap(since_last, since_left) is is_flap


def test_a_bundle_knows_when_it_left_each_broker_and_when_it_moved_last() -> None:
    bundle = Whereabouts()
    assert bundle.since_last(5) is None
    assert bundle.since_left("a", 5) is None
    bundle.moved("a", 10)
    bundle.lost("b", 20)
    assert bundle.since_last(25) == 15, "its broker went: it did not move"
    assert bundle.since_left("a", 25) == 15
    assert bundle.since_left("b", 25) == 5


def test_a_part_has_the_past_of_its_whole_and_a_future_of_its_own() -> None:
    whole = Whereabouts()
    whole.moved("a", 10)
    part = whole.copy()
    part.moved("b", 20)
    assert part.since_left("a", 30) == 20
    assert whole.since_last(30) == 20
    assert whole.since_left("b", 30) is None
