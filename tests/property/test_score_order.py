"""For any changes of scores, an order of scores equals one that is made again."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.placement.score_order import ScoreOrder

SCORES = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False))


@given(data=st.data(), size=st.integers(1, 60), steps=st.integers(1, 12))
def test_an_order_that_followed_changes_is_that_of_the_last_scores(data: st.DataObject, size: int, steps: int) -> None:
    scores = np.array(data.draw(st.lists(SCORES, min_size=size, max_size=size)))
    order = ScoreOrder(scores)
    for _ in range(steps):
        scores = scores.copy()
        for row in data.draw(st.lists(st.integers(0, size - 1), max_size=5)):
            scores[row] = data.draw(SCORES)
        order.follow(scores)
        among = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        count = data.draw(st.integers(1, 20))
        expected = [row for _, row in sorted((score, row) for row, score in enumerate(scores.tolist()) if among[row])]
        assert order.least(among, int(among.sum()), count) == expected[:count]


@given(size=st.integers(33, 80), row=st.integers(0, 31), score=st.sampled_from([-math.inf, -0.0, 0.0, 7.5, math.inf]))
def test_few_among_many_are_found_as_well(size: int, row: int, score: float) -> None:
    scores = np.zeros(size)
    order = ScoreOrder(scores)
    scores = scores.copy()
    scores[row] = score
    order.follow(scores)
    among = np.zeros(size, bool)
    among[[row, size - 1]] = True
    assert order.least(among, 2, 17) == [row for _, row in sorted({(score, row), (0.0, size - 1)})]
