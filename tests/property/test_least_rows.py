"""The few least of many values are those that sorting all of them finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pulsar_barycenter.load.placement.placer import least_rows

FIGURES = st.sampled_from([0.0, 1.0, -1.0, 2.5, float("nan"), float("inf")]) | st.floats(-1e12, 1e12)


@given(arrays.arrays(np.float64, st.integers(0, 2_000), elements=FIGURES, fill=FIGURES), st.integers(1, 8))
def test_the_least_rows_are_those_of_a_stable_sort(values: np.ndarray, count: int) -> None:
    assert least_rows(values, count).tolist() == np.argsort(values, kind="stable")[:count].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 3_000), st.sampled_from([2, 50, 10**9]))
def test_also_of_many_with_and_without_ties(seed: int, count: int, length: int, kinds: int) -> None:
    values = np.random.default_rng(seed).integers(0, kinds, length).astype(float)
    assert least_rows(values, count).tolist() == np.argsort(values, kind="stable")[:count].tolist()
