"""Imbalance is max/mean over the present brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.demo.record import LoadSample, imbalance, imbalance_over_time, mean_imbalance


def sample(at_s: float, broker: str, rate: float) -> LoadSample:
    return LoadSample(at_s, broker, rate, 0.0, 0, 0.0)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=20))
def test_imbalance_lies_between_even_and_all_on_one(loads: list[float]) -> None:
    value = imbalance(loads)
    assert value is not None
    assert 1 - 1e-9 <= value <= len(loads) + 1e-9


def test_nothing_to_balance_has_no_imbalance() -> None:
    assert imbalance([]) is None
    assert imbalance([0.0, 0.0]) is None


def test_a_broker_that_is_gone_no_longer_counts() -> None:
    samples = [sample(0.1, "a", 30), sample(0.2, "b", 0), sample(0.9, "b", 10), sample(1.5, "a", 30)]
    assert imbalance_over_time(samples) == [(0.0, 1.5), (1.0, 1.0)]
    assert mean_imbalance(samples, 0.0, 1.0) == pytest.approx(1.5)
    assert mean_imbalance(samples, 5.0, 6.0) is None
