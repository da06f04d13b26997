"""LeastResourceUsageWithWeight on numbers worked by hand (names W… are those of the published examples)."""

import random

import numpy as np
import pytest

from pulsar_barycenter.load.placement.least_resource_usage_with_weight import (
    LeastResourceUsageMemory,
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.reasons import Code
from support.load_cases import Cluster, equal_bundles


def at(*usages: float) -> Cluster:
    """Return brokers b0, b1, … of these CPU usages in percent, with messages."""
    cluster = Cluster()
    for number, usage in enumerate(usages):
        cluster.add(f"b{number}", cpu=usage, bundles=equal_bundles(2, throughput=1, rate=10, first=10 * number))
    return cluster


def drawn(cluster: Cluster, difference: float = 0.1) -> set[int | None]:
    snapshot = cluster.snapshot()
    everyone = np.ones(len(snapshot.brokers), bool)
    settings = LeastResourceUsageWithWeight(difference=difference)
    return {
        settings.decide(snapshot, everyone, "", random.Random(seed), LeastResourceUsageMemory())[0].broker
        for seed in range(60)
    }


@pytest.mark.parametrize(
    ("usages", "difference", "candidates"),
    [
        ((10, 30, 80), 0.0999, {0, 1}),
        ((40, 40, 40, 40, 69, 70), 0.1, {0, 1, 2, 3, 4, 5}),
        ((10, 59.999, 70, 80, 80), 0.0, {0, 1}),
        ((20, 51, 52, 80, 80, 80), 0.1, {0}),
        ((10, 50, 70), 0.1, {0}),
    ],
    ids=["w9", "w10", "w11", "w12", "w13"],
)
def test_w9_to_w13_candidates_lie_below_the_mean_by_the_difference(
    usages: tuple[float, ...], difference: float, candidates: set[int]
) -> None:
    """None that far below: all are. W9 and W11 lie on the line, where binary fractions round; here just inside."""
    assert drawn(at(*usages), difference) == candidates


def test_w21_everything_goes_to_the_one_broker_below_the_line() -> None:
    """After three brokers at 50 left, seven at 50 and one at 30 are there; a placement raises no usage."""
    assert drawn(at(*[50.0] * 7, 30)) == {7}


def test_the_history_takes_a_step_with_each_placement_and_restarts_on_an_idle_broker() -> None:
    cluster = at(50, 50).add("b1", cpu=50)
    snapshot, everyone = cluster.snapshot(), np.ones(2, bool)
    memory = LeastResourceUsageMemory(("b0", "b1", "gone"), np.array([0.8, 0.8, 0.1]))
    settings = LeastResourceUsageWithWeight()
    choice, memory = settings.decide(snapshot, everyone, "", random.Random(1), memory)
    assert memory.usage.tolist() == [pytest.approx(0.77), 0.5]
    assert (choice.broker, choice.code) == (1, Code.BELOW_AVERAGE)
    assert [other.code for other in choice.figures().rejected] == [Code.NOT_BELOW_AVERAGE]
    _, memory = settings.decide(snapshot, everyone, "", random.Random(1), memory)
    assert memory.usage.tolist() == [pytest.approx(0.743), 0.5]


def test_without_candidates_nobody_is_chosen_and_nothing_remembered() -> None:
    memory = LeastResourceUsageMemory()
    choice, after = LeastResourceUsageWithWeight().decide(
        at(10).snapshot(), np.zeros(1, bool), "", random.Random(0), memory
    )
    assert (choice.broker, after) == (None, memory)
