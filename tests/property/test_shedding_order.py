"""The orders and walks that shedders share agree with plain sorting and looping, on more bundles than a cluster drawn
by hypothesis has."""

import random
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.decisions import NO_LIMIT
from pulsar_barycenter.load.shedding.fitting import LARGEST, take_fitting
from pulsar_barycenter.load.shedding.ordering import by_group, heaviest_first

few = st.sampled_from([0.0, -0.0, 1.0, 2.5, 5e-324, 1e300, -3.0, 7.75])
figures = st.lists(few, max_size=300) | st.lists(st.floats(-1e9, 1e9), max_size=300)


@given(figures)
def test_equal_figures_keep_their_order(values: list[float]) -> None:
    ordered = heaviest_first(np.array(values, float)).tolist()
    assert ordered == sorted(range(len(values)), key=lambda position: -values[position])


@given(figures, st.integers(0, 300))
def test_the_first_few_are_those_of_the_whole_order(values: list[float], most: int) -> None:
    found = np.array(values, float)
    assert heaviest_first(found, most).tolist() == heaviest_first(found).tolist()[:most]


@given(st.integers(0, 2**32), st.integers(2_000, 20_000), st.integers(0, 100), st.sampled_from([1, 2, 3, 64, 65]))
def test_the_first_few_of_many_are_those_of_a_sort(seed: int, count: int, most: int, period: int) -> None:
    """Also of equal figures, and where those at equal distances are not like the others."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, rng.choice([2, 50, 1_000_000]), count).astype(float)
    values[::period] *= rng.choice([0.0, 0.5, 1.0, 7.0])
    expected = np.argsort(-values, kind="stable")[:most]
    assert heaviest_first(values, most).tolist() == expected.tolist()


@given(st.lists(st.integers(0, 9), max_size=200), st.sampled_from([10, 70_000]))
def test_groups_keep_the_order_within(groups: list[int], count: int) -> None:
    order, edges = by_group(np.array(groups, np.int32), count)
    for group in (*range(10), count - 1):
        found = order[edges[group] : edges[group + 1]].tolist()
        assert found == [position for position, other in enumerate(groups) if other == group]


@given(
    st.integers(0, 2**32),
    st.integers(0, 600),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0, 20.0, 1e12]),
    st.sampled_from([1, 5, 100, NO_LIMIT]),
)
def test_the_walk_takes_what_a_loop_takes(seed: int, count: int, whole: bool, budget: float, most: int) -> None:
    """For values of very different sizes, so that it skips, and also takes long runs; in any order."""
    rng = random.Random(seed)
    kinds: tuple[Callable[[], float], ...] = (
        lambda: rng.choice((0.0, -1.0, 1.0, 2.0)),
        rng.random,
        lambda: 10 ** rng.uniform(-6, 12),
    )
    kind = rng.choice(kinds)
    traffic = [kind() for _ in range(count)]
    taken, before = take_fitting(np.array(traffic, float), budget, most, whole=whole)
    expected, left = list[tuple[int, float]](), budget
    for position, figure in sorted(enumerate(traffic), key=lambda each: -each[1]):
        if 0 < figure <= left and len(expected) < most:
            expected.append((position, left))
            left -= min(LARGEST, int(figure)) if whole else figure
    assert list(zip(taken.tolist(), before.tolist(), strict=True)) == expected
