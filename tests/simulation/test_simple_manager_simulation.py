"""Seeded histories of clusters whose brokers run the simple load manager."""

from collections.abc import Iterator

import pytest

from barycenter.broker.load_manager.context import LoadManagerContext
from barycenter.broker.load_manager.environment import LoadManagerEnvironment
from barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from support.simulation.scenario import run_scenario

pytestmark = pytest.mark.simulation

SEEDS = range(10)


@pytest.fixture(autouse=True)
def _simple_load_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[SimpleLoadManager] = []

    def make(context: LoadManagerContext) -> SimpleLoadManager:
        made.append(SimpleLoadManager(context, LoadManagerEnvironment.in_memory(context)))
        return made[-1]

    monkeypatch.setattr("support.simulation.cluster._balancing_in_memory", make)
    yield
    assert made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_of_the_simple_load_manager_survives_what_befalls_it(seed: int) -> None:
    assert run_scenario(seed).messages > 0


def test_the_same_seed_plays_the_same_history_of_the_simple_load_manager() -> None:
    assert run_scenario(11) == run_scenario(11)
