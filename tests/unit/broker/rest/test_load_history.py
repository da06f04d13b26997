"""The stored loads over time stay within their bounds."""

import pytest

from pulsar_barycenter.dashboard.load_history import APART_MS, MOST_FIGURES, MOST_MOMENTS, LoadHistory
from pulsar_barycenter.dashboard.overview import BrokerShare


def shares(count: int) -> list[BrokerShare]:
    return [
        BrokerShare(
            broker=f"b{number}:8080",
            usage={"cpu": 10.0, "memory": float(number)},
            bundles=number,
            topics=0,
            msg_rate=1.0,
            msg_throughput=2.0,
            reported_at=1,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("brokers", [1, 30, 100, 1_000])
def test_the_newest_moments_are_kept_within_bounds(brokers: int) -> None:
    history, times = LoadHistory(), [number * APART_MS for number in range(MOST_MOMENTS + 50)]
    for at in times:
        history.add(at, shares(brokers))
    kept = [moment.at for moment in history.moments]
    assert kept == times[-len(kept) :]
    assert len(kept) == min(MOST_MOMENTS, MOST_FIGURES // brokers)


def test_moments_are_apart_and_tell_the_worst_resource() -> None:
    history = LoadHistory()
    for at in (0, 1, APART_MS - 1, APART_MS, APART_MS + 1):
        history.add(at, shares(13))
    assert [moment.at for moment in history.moments] == [0, APART_MS]
    assert [load.usage for load in history.moments[0].brokers][-3:] == [10.0, 11.0, 12.0]


def test_one_moment_is_kept_of_any_number_of_brokers() -> None:
    history = LoadHistory()
    for at in (0, APART_MS):
        history.add(at, shares(MOST_FIGURES + 1))
    assert [moment.at for moment in history.moments] == [APART_MS]
