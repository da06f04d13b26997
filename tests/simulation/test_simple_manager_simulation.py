"""Seeded histories of clusters whose brokers run the simple load manager."""

import random
from dataclasses import replace

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from support.simulation.cluster import Settings
from support.simulation.scenario import Verdict, run_scenario

pytestmark = pytest.mark.simulation

SEEDS = range(10)


def play(seed: int, faults: tuple[str, ...] | None = None) -> Verdict:
    """Play the history of a seed with its own settings and the simple load manager."""
    settings = Settings.drawn(random.Random(seed))
    config = {**settings.config, "load_manager_class_name": ManagerKind.SIMPLE.class_name}
    return run_scenario(seed, settings=replace(settings, config=config), faults=faults)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_of_the_simple_load_manager_survives_what_befalls_it(seed: int) -> None:
    assert play(seed).messages > 0


def test_the_same_seed_plays_the_same_history_of_the_simple_load_manager() -> None:
    assert play(11) == play(11)


def test_rounds_of_shedding_move_bundles_of_the_simple_load_manager() -> None:
    assert play(0, ("shed", "burst")).shed > 3
